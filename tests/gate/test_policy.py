"""Tests of the policy file, and of horizons: the composition of all planned runs, and the number of runs that would fit."""

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
from dpcli.gate.path_patterns import matches
from dpcli.gate.requirements import horizon_condition, runs_that_fit
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.repositories import git, policy
from tests.gate.samples import GATE, OVER, SAMPLED, conditions, judged, named, waiver
from tests.strategies import entry, pipeline, pipelines

DAY = ("--as-of", "2030-06-01")


def test_the_policy_gives_a_cap_to_a_file_without_budget(repository: Path) -> None:
    file = repository / "train.toml"
    file.write_text(GATE.replace("[budget]\nepsilon = 3.0\nwarn_at = 0.9\n", ""))
    assert judged(file)["exit_code"] == 2
    assert judged(file, "--policy", policy(repository, "epsilon = 1.4\n"))["exit_code"] == 0


def test_of_several_rules_the_smallest_cap_holds(repository: Path) -> None:
    rules = ('files = "train.toml"\nepsilon = 2.0', 'unit = "user"\nepsilon = 1.5', 'adjacency = "replace-one"\nepsilon = 0.1')
    for order in (rules, rules[::-1]):
        text = "epsilon = 9.0\n" + "".join(f"[[rule]]\n{rule}\n" for rule in order)
        assert "cap 1.5" in named("budget", repository / "train.toml", "--policy", policy(repository, text))["message"]


def test_a_rule_may_be_looser_than_the_general_cap(repository: Path) -> None:
    text = 'epsilon = 1.0\n[[rule]]\nfiles = "*.toml"\nepsilon = 2.0\n'
    assert judged(repository / "train.toml", "--policy", policy(repository, text))["exit_code"] == 0


def test_increase_and_delta_come_from_the_policy(repository: Path) -> None:
    file = repository / "train.toml"
    file.write_text(GATE.replace("steps = 5_000", "steps = 5_100"))
    assert judged(file, "--base-ref", "main")["exit_code"] == 0
    tight = policy(repository, "max_increase = 0.001\ndelta = 1e-9\n")
    found = judged(file, "--base-ref", "main", "--policy", tight)
    assert found["exit_code"] == 1
    assert found["files"][0]["delta"] == 1e-9


def test_the_policy_may_allow_statement_changes(repository: Path) -> None:
    file = repository / "train.toml"
    file.write_text(GATE.replace("epsilon = 3.0", "epsilon = 4.0"))
    assert named("statement", file, "--base-ref", "main")["verdict"] == "fail"
    assert (
        named("statement", file, "--base-ref", "main", "--policy", policy(repository, "allow_statement_change = true\n"))["verdict"]
        == "pass"
    )


@of_each(
    "text, message, line",
    [
        ('require_unit = ["household"]', "privacy.unit: the policy expects household, found user", 6),
        ('require_unit = ["household", "user"]', "", 0),
        ('require_adjacency = ["replace-one"]', "privacy.adjacency: the policy expects replace-one, found add-remove", 7),
        ('forbid_sampling = ["poisson"]', "train: the policy forbids sampling scheme poisson", 31),
        ('forbid_sampling = ["none"]', "vocabulary: the policy forbids sampling scheme none", 20),
        ('forbid_sampling = ["shuffle", "cyclic"]', "", 0),
    ],
)
def test_what_a_policy_requires(repository: Path, text: str, message: str, line: int) -> None:
    (repository / "train.toml").write_text(SAMPLED)
    found = [c for c in conditions(repository / "train.toml", "--policy", policy(repository, text)) if c["name"] == "policy"]
    assert [(c["message"], c["line"], c["verdict"]) for c in found] == ([(message, line, "fail")] if message else [])


def test_waivers_of_the_policy(repository: Path) -> None:
    file = repository / "train.toml"
    file.write_text(OVER)
    own = waiver("budget", epsilon="7.0").replace("[[gate.waiver]]", "[[waiver]]")
    found = named("budget", file, "--policy", policy(repository, own + 'file = "train.toml"\n'), *DAY)
    assert (found["verdict"], found["waiver"]["in_policy"]) == ("waived", True)
    for elsewhere in ("other.toml", "sub/train.toml", "ads/**"):
        missed = named("budget", file, "--policy", policy(repository, own + f'file = "{elsewhere}"\n'), *DAY)
        assert missed["verdict"] == "fail"


def test_waivers_of_files_may_be_refused(repository: Path) -> None:
    file = repository / "train.toml"
    file.write_text(OVER + waiver("budget", epsilon="7.0"))
    assert judged(file, *DAY)["exit_code"] == 0
    held = policy(repository, 'waivers = "policy"\n')
    assert judged(file, "--policy", held, *DAY)["exit_code"] == 1
    assert (
        "is not valid: the policy accepts no waivers in pipeline files" in named("waiver", file, "--policy", held, *DAY)["message"]
    )


def test_an_unused_waiver_of_the_policy_warns(repository: Path) -> None:
    own = waiver("budget", epsilon="7.0").replace("[[gate.waiver]]", "[[waiver]]")
    held = policy(repository, own)
    found = judged(repository / "train.toml", "--policy", held, *DAY)
    assert found["policy"]["warnings"] == ["waiver[1]: the waiver of budget is not needed: remove it"]
    assert found["exit_code"] == 0
    assert not judged(repository / "train.toml", "--policy", policy(repository, own + 'file = "no.toml"'), *DAY)["policy"][
        "warnings"
    ]


def test_a_policy_at_a_revision_is_out_of_reach_of_the_change(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = policy(repository, "epsilon = 1.3\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "policy")
    policy(repository, "epsilon = 100.0\n")
    from dpcli.gate.policy import read_policy

    monkeypatch.chdir(repository)
    assert read_policy("main:policy.toml").epsilon == 1.3
    assert read_policy(str(held)).epsilon == 100.0


@of_each(
    "text, message",
    [
        ("epsilom = 1", "2:1: error DP002: epsilom: expected a known key, found 'epsilom'; did you mean 'epsilon'"),
        ("epsilon = 0", "2:1: error DP004: epsilon: expected a number > 0, found 0"),
        ("epsilon = true", "2:1: error DP003: epsilon: expected a number > 0, found true"),
        ("epsilon = nan", "2:1: error DP004"),
        ("steps = 3", "2:1: error DP002: steps: expected one of format, epsilon, delta"),
        ("[[rule]]\nepsilon = 1.0", "2:3: error DP005: rule[1]: expected files, unit or adjacency"),
        ('[[rule]]\nfiles = "x"', "2:3: error DP005: rule[1]: expected a cap in every rule, found none"),
        ('forbid_sampling = ["posson"]', "2:20: error DP005: forbid_sampling[1]: expected one of poisson"),
        ('waivers = "none"', "2:1: error DP004: waivers: expected one of 'files', 'policy'"),
        ("horizon = { epsilon = 1.0 }", "horizon.every: expected every and years, or runs, found nothing"),
        ("horizon = { epsilon = 1.0, runs = 3, years = 1 }", "horizon.runs: expected either runs, or every and years, found both"),
        ('horizon = { epsilon = 1.0, every = "day", years = 1e18 }', "horizon.years: expected at most 10^18 runs, found more"),
        (
            waiver("DP103").replace("[[gate.waiver]]", "[[waiver]]"),
            "waiver[1].rule: expected a rule that can be waived, found DP103",
        ),
        (waiver("bugdet").replace("[[gate.waiver]]", "[[waiver]]"), "found 'bugdet'; did you mean 'budget'"),
        ("x = ", "2:5: error DP001"),
    ],
)
def test_a_policy_is_read_strictly(tmp_path: Path, text: str, message: str) -> None:
    result = dpcli("gate", "examples/gate.toml", "--policy", str(policy(tmp_path, text)))
    assert result.code == 2
    assert f"{tmp_path}/policy.toml" in result.err
    assert message in result.err
    assert result.out == ""


def test_a_policy_without_format_or_file() -> None:
    assert "expected a policy file or REVISION:PATH, found" in dpcli("gate", "examples/gate.toml", "--policy", "no:such").err
    result = dpcli("gate", "examples/gate.toml", "--policy", "-", stdin=b"epsilon = 3.0\n")
    assert result.code == 2
    assert "<stdin>:1:1: error DP005: format: expected 1 (the format that this dpcli reads), found nothing" in result.err


@of_each(
    "pattern, path, expected",
    [
        ("ads/*.toml", "ads/x.toml", True),
        ("./ads/*.toml", "ads/x.toml", True),
        ("ads/*.toml", "ads/sub/x.toml", False),
        ("ads/*.toml", "old/ads/x.toml", False),
        ("ads/**/*.toml", "ads/x.toml", True),
        ("ads/**/*.toml", "ads/a/b/x.toml", True),
        ("ads/**", "ads/a/b/x.toml", True),
        ("**/x.toml", "x.toml", True),
        ("**/x.toml", "ax.toml", False),
        ("?.toml", "x.toml", True),
        ("?.toml", "xy.toml", False),
        ("a.toml", "aStoml", False),
        ("[x].toml", "x.toml", False),
    ],
)
def test_patterns(repository: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, path: str, expected: bool) -> None:
    """From wherever the gate is run, and however the path is spelled."""
    (repository / "ads" / "deep").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(repository)
    assert matches(pattern, path) is expected
    assert matches(pattern, str(repository / path)) is expected
    monkeypatch.chdir(repository / "ads")
    assert matches(pattern, f"../{path}") is expected
    assert matches(pattern, f"deep/../../{path}") is expected


def test_standard_input_has_no_place() -> None:
    assert not matches("*", "-")
    assert matches("**", "-")


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
    with pytest.raises(InputError, match=r"no mechanism runs more than 10\^18 times, found 1000000000000000000"):
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
    assert "for all runs together, cap 3.0; at most " in found["message"]
    assert "to a ledger" in found["message"]
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
        (("--horizon", "5"), "--horizon, --horizon-epsilon: expected both, found one"),
        (("--horizon-epsilon", "5"), "--horizon, --horizon-epsilon: expected both, found one"),
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
    assert found == (
        [f'{words} (allowed with a waiver of "statement", which names its approver, or --allow-statement-change)'] if words else []
    )
