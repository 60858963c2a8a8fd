"""Horizons: the composition of all planned runs, and how many would fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.gate.requirements import horizon_condition, runs_that_fit
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.samples import GATE, conditions, judged, named
from tests.strategies import entry, pipeline, pipelines

ONE = pipeline(entry("gaussian", noise_multiplier=100.0))


@of_each(
    "every, years, runs",
    [
        ("day", 1.0, 366),
        ("week", 1.0, 53),
        ("week", 0.5, 27),
        ("week", 5.0, 261),
        ("month", 1.0, 12),
        ("month", 0.1, 2),
        ("quarter", 2.0, 8),
        ("year", 1.0, 1),
        ("year", 0.01, 1),
    ],
)
def test_a_rhythm_in_runs_rounded_up(every: str, years: float, runs: int) -> None:
    assert Horizon(1.0, every=every, years=years).count == runs  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.long
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines(most=2), st.integers(2, 5))
def test_runs_cost_what_so_many_copies_cost(found: Pipeline, runs: int) -> None:
    """The same mechanisms written out `runs` times: the same composition, by another way to the counts."""
    copies = tuple(replace(e, name=f"{e.name}-{i}") for i in range(runs) for e in found.mechanisms)
    assert account(found, runs=runs).upper == pytest.approx(account(replace(found, mechanisms=copies)).upper, rel=2e-3)
    assert account(found, runs=runs).upper >= account(found).upper * (1.0 - 1e-9)


def test_repeated_gaussians_are_one_gaussian() -> None:
    """k runs at sigma are one at sigma / sqrt k: 10 000 at 100 are one at 1, whose epsilon at 1e-5 is 4.377178."""
    assert 4.377178 <= account(ONE, runs=10_000).upper <= 4.37718


def test_the_delta_is_that_of_all_runs() -> None:
    result = account(pipeline(entry("approx-dp", epsilon=0.1, delta=1e-6)), delta=1e-5)
    assert horizon_condition(result, Horizon(50.0, runs=10)).verdict == "pass"
    assert horizon_condition(result, Horizon(50.0, runs=11)).verdict == "unknown"  # 11e-6 of delta in 1e-5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cap", [0.5, 1.0, 4.377178, 4.3772, 20.0])
def test_the_most_runs_fit_and_one_more_does_not(cap: float) -> None:
    result = account(ONE)
    fit = runs_that_fit(result, Horizon(cap, runs=10**9))
    assert account(ONE, runs=fit).upper <= cap < account(ONE, runs=fit + 1).upper


def test_not_even_one_run() -> None:
    condition = horizon_condition(account(ONE), Horizon(1e-6, runs=10))
    assert condition.verdict == "fail"
    assert "; not even one run would fit" in condition.message


def test_too_many_runs_are_refused() -> None:
    with pytest.raises(InputError, match=r"nothing runs more than 10\^18 times, found 1000000000000000000"):
        account(pipeline(entry("gaussian", noise_multiplier=1e9, steps=2)), runs=10**18)
    with pytest.raises(InputError, match="found 0"):
        account(ONE, runs=0)
    result = account(pipeline(entry("gaussian", noise_multiplier=1e12, steps=2)))
    assert horizon_condition(result, Horizon(1.0, runs=10**18)).verdict == "invalid"


def test_an_adaptive_pipeline_is_held_to_filters() -> None:
    """Runs of a pipeline that says it is adaptive are added up by no accountant that needs fixed parameters."""
    adaptive = replace(ONE, privacy=replace(ONE.privacy, adaptive=True))
    fixed, filtered = account(ONE, runs=100).upper, account(adaptive, runs=100).upper
    assert filtered >= fixed


def held(text: str, horizon: str) -> str:
    return text.replace("[gate]\n", f"[gate]\nhorizon = {horizon}\n")


@pytest.mark.long
def test_the_file_states_a_horizon(tmp_path: Path) -> None:
    path = tmp_path / "train.toml"
    path.write_text(held(GATE, '{ every = "week", years = 1, epsilon = 12.0 }'))
    found = named("horizon", path)
    total = account(parse(GATE.encode(), "x"), delta=1e-8, runs=53).upper
    assert found["verdict"] == ("pass" if total <= 12.0 else "fail")
    path.write_text(held(GATE, '{ every = "week", years = 1, epsilon = 3.0 }'))
    found = named("horizon", path)
    assert found["verdict"] == "fail"
    assert found["message"].startswith("53 runs (every week, years: 1): epsilon ")
    assert "for all together, cap 3.0; at most " in found["message"]
    assert "belong in a ledger" in found["message"]
    assert found["line"] == 18


def test_every_horizon_holds_that_no_other_one_makes_needless(tmp_path: Path) -> None:
    path, held_to = tmp_path / "train.toml", tmp_path / "policy.toml"
    path.write_text(held(GATE, "{ runs = 3, epsilon = 100.0 }"))
    held_to.write_text("format = 1\nhorizon = { runs = 4, epsilon = 100.0 }\n")
    assert named("horizon", path)["message"].startswith("3 runs: ")
    assert named("horizon", path, "--policy", held_to)["message"].startswith("4 runs: ")
    flags = ("--horizon", "5", "--horizon-epsilon", "100")
    assert named("horizon", path, "--policy", held_to, *flags)["message"].startswith("5 runs: ")
    for own, policys, verdicts in (("0.1", "100.0", ["pass", "fail"]), ("100.0", "0.1", ["fail"])):
        path.write_text(held(GATE, f"{{ runs = 3, epsilon = {own} }}"))
        held_to.write_text(f"format = 1\nhorizon = {{ runs = 4, epsilon = {policys} }}\n")
        found = [one for one in conditions(path, "--policy", held_to) if one["name"] == "horizon"]
        assert [one["verdict"] for one in found] == verdicts


@of_each(
    "arguments, message",
    [
        (("--horizon", "5"), "expected both of --horizon and --horizon-epsilon, found one"),
        (("--horizon-epsilon", "5"), "expected both of --horizon and --horizon-epsilon, found one"),
        (("--horizon", "0", "--horizon-epsilon", "5"), "--horizon: expected a whole number from 1 to 10^18, found 0"),
        (("--horizon", "5", "--horizon-epsilon", "nan"), "--horizon-epsilon: expected a number > 0, found nan"),
    ],
)
def test_flags_are_checked(arguments: tuple[str, ...], message: str) -> None:
    result = dpcli("gate", "examples/gate.toml", *arguments)
    assert (result.code, result.err) == (2, f"dpcli: {message}\n")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("{ runs = 4, epsilon = 50.0 }", "gate.horizon 5 runs within 50 -> 4 runs within 50"),
        ("{ runs = 5, epsilon = 60.0 }", "gate.horizon 5 runs within 50 -> 5 runs within 60"),
        ("", "gate.horizon 5 runs within 50 -> none"),
        ("{ runs = 6, epsilon = 40.0 }", ""),
    ],
)
def test_a_file_may_not_loosen_its_own_horizon(repository: Path, after: str, words: str) -> None:
    from tests.gate.repositories import git

    path = repository / "train.toml"
    path.write_text(held(GATE, "{ runs = 5, epsilon = 50.0 }"))
    git(repository, "commit", "-qam", "horizon")
    path.write_text(held(GATE, after) if after else GATE)
    found = [c["message"] for c in judged(path, "--base-ref", "main")["files"][0]["conditions"] if c["name"] == "statement"]
    assert found == ([f"{words} (--allow-statement-change lets it pass)"] if words else [])
