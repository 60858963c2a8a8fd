"""Adaptive files (privacy.adaptive = true): the mechanisms listed so far may be followed by others, chosen from what the outputs showed.

So every command promises the cap in [budget], and nothing smaller.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.analysis.account import account, headline
from dpcli.analysis.dataset_sum import account_of_dataset
from dpcli.analysis.meaning import meaning
from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.closed.normal import gaussian_delta, gaussian_epsilon_upper
from tests.answer_cache import remembering
from tests.cases import fresh_random
from tests.command import dpcli
from tests.ledger.adversary import STEP, of_gaussian, of_response, staged
from tests.strategies import entry, pipeline

DELTA = 1e-6
HEAD = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset = "people"
dataset_size = 60_000
delta = 1e-6
releases = "final-model"
adaptive = true
"""
MECHANISM = '[[mechanism]]\nname = "train"\ntype = "gaussian"\nnoise_multiplier = 3.0\n'
CAP = "[budget]\nepsilon = 3.0\ndelta = 1e-6\n"


def adaptive(noise: float, cap: Budget | None, delta: float = DELTA) -> Pipeline:
    found = pipeline(entry("gaussian", noise_multiplier=noise), adaptive=True, delta=delta)
    return replace(found, budget=cap)


def test_the_headline_is_the_cap_whatever_is_listed() -> None:
    """At the cap's delta the headline is the cap. At others, and for groups, it follows from the zCDP that the cap allows."""
    seed = fresh_random().getrandbits(32)
    draw = random.Random(seed)
    for _ in range(20):
        cap, delta, noise = draw.uniform(0.5, 8.0), 10.0 ** draw.uniform(-9.0, -4.0), 10.0 ** draw.uniform(-0.5, 1.5)
        listed = account(
            replace(adaptive(noise, None, delta), privacy=replace(adaptive(noise, None, delta).privacy, adaptive=False)), ["zcdp"]
        )
        subject = adaptive(noise, Budget(epsilon=cap, delta=delta), delta)
        found = account(subject)
        assert found.upper == max(cap, listed.upper), (seed, cap, delta, noise)
        assert found.lower is None and found.listed is not None and found.listed.upper == listed.upper, seed
        assert found.budget is not None and found.budget.verdict in (("fail",) if listed.upper > cap else ("pass", "warn")), seed
        other = headline(subject, delta=delta / 100.0).upper
        assert other > found.upper and headline(subject, delta=delta, group_size=2).upper > found.upper, seed
        assert headline(subject, runs=3).upper > found.upper, seed
        by_rho = account(replace(subject, budget=Budget(rho=0.3)))
        rho = max(0.3, 0.5 / noise**2)
        assert by_rho.upper == pytest.approx(zcdp_epsilon(rho, delta), rel=1e-9), seed
        assert account(subject, epsilon=found.upper).upper >= delta * (1.0 - 1e-9), seed


def test_at_delta_0_epsilons_add_up_to_the_cap() -> None:
    pure = replace(
        pipeline(entry("pure-dp", epsilon=0.5, adjacency=Adjacency.ADD_REMOVE), adaptive=True, delta=0.0),
        budget=Budget(epsilon=2.0, delta=0.0),
    )
    assert account(pure).upper == 2.0 and headline(pure, group_size=3).upper == pytest.approx(6.0)


@pytest.mark.parametrize("cap", [Budget(epsilon=3.0, delta=DELTA), Budget(rho=0.2), Budget(epsilon=3.0, delta=DELTA, rho=0.2)])
def test_a_cap_in_zcdp_says_nothing_at_delta_0(cap: Budget) -> None:
    found = account(adaptive(3.0, cap), delta=0.0)
    assert found.winner is None and math.isinf(found.upper) and found.exit_code == 3


@pytest.mark.long
@remembering()
def test_without_a_cap_nothing_is_promised_anywhere(tmp_path: Path) -> None:
    """Every command that prints the number of a file, in every form that has one."""
    (tmp_path / "free.toml").write_text(HEAD + MECHANISM)
    (tmp_path / "held.toml").write_text(HEAD + MECHANISM + CAP)
    (tmp_path / "other.toml").write_text((HEAD + MECHANISM).replace("adaptive = true", "adaptive = false"))
    for command in ("account", "report"):
        free, held = (dpcli(command, f"{name}.toml", "-f", "total", folder=tmp_path) for name in ("free", "held"))
        assert free.code == 3 and free.out.strip() == "inf", free
        assert held.code == 0 and float(held.out) == 3.0, held
    free = dpcli("account", "free.toml", folder=tmp_path)
    assert "no finite guarantee can be certified" in free.out and "state one in [budget]" in " ".join(free.out.split())
    assert "epsilon <= 3.0000" in dpcli("account", "held.toml", folder=tmp_path).out
    found = json.loads(dpcli("account", "held.toml", "-f", "json", folder=tmp_path).out)
    assert found["result"]["epsilon_upper"] == 3.0 and found["budget"]["spent"] < 2.0
    summed = dpcli("account", "free.toml", "other.toml", folder=tmp_path)
    assert summed.code == 2 and "free.toml: budget: a cap is missing" in summed.err
    judged = dpcli("gate", "free.toml", "--max-epsilon", "3", "-f", "json", folder=tmp_path)
    assert json.loads(judged.out)["files"][0]["result"]["epsilon_upper"] == 3.0


@pytest.mark.long
def test_what_a_report_says_of_an_attacker_follows_from_the_cap() -> None:
    low, high = (meaning(adaptive(3.0, Budget(epsilon=cap, delta=DELTA)))[1] for cap in (2.0, 4.0))
    fixed = meaning(replace(adaptive(3.0, None), privacy=replace(adaptive(3.0, None).privacy, adaptive=False)))[1]
    assert low is not None and high is not None and fixed is not None
    assert fixed.advantage < low.advantage < high.advantage


def test_in_a_sum_an_adaptive_file_counts_with_its_cap() -> None:
    def named(one: Pipeline) -> Pipeline:
        return replace(one, privacy=replace(one.privacy, dataset="people"))

    other = named(pipeline(entry("gaussian", noise_multiplier=4.0), delta=DELTA))
    sums = [
        account_of_dataset([(named(adaptive(noise, Budget(epsilon=3.0, delta=DELTA))), 1), (other, 1)], ["zcdp"]).upper
        for noise in (3.0, 9.0)
    ]
    assert sums[0] == sums[1] > 3.0
    with pytest.raises(InputError, match="a cap is missing"):
        account_of_dataset([(named(adaptive(3.0, None)), 1), (other, 1)])


def test_the_smallest_of_several_accountants_for_each_file_is_no_filter() -> None:
    """B where the first answer is rare, else A: each is within (6, 1e-6) by an accountant of its own, and the choice is at 1.8 delta, or
    1.97 on a finer grid.

    The one filter that adds up now refuses one of the two: their choice is within its cap.
    """
    cap, first = 6.0, 0.325
    widest = next(mu / 1e4 for mu in range(20_000, 0, -1) if gaussian_delta(mu / 1e4, cap)[1] <= DELTA)
    second = math.sqrt(widest**2 - first**2)
    pure = math.floor((cap - gaussian_epsilon_upper(first, DELTA)) / STEP)
    start, a, b = of_gaussian(first, {}), of_gaussian(second, {}), of_response(pure, {})
    assert staged([[start], [a, b]], (cap, cap), 24.0) > 1.8 * DELTA
    for then in (a, b):
        assert staged([[start], [then]], (math.inf, cap), 24.0) <= 1.02 * DELTA

    def file(*entries: dict[str, object]) -> Pipeline:
        return replace(pipeline(*entries, adaptive=True, delta=DELTA), budget=Budget(epsilon=cap, delta=DELTA))

    one = entry("gaussian", noise_multiplier=1.0 / first)
    verdicts = {
        account(file(one, then)).exit_code
        for then in (
            entry("gaussian", noise_multiplier=1.0 / second),
            entry("pure-dp", epsilon=pure * STEP, adjacency=Adjacency.ADD_REMOVE),
        )
    }
    assert 1 in verdicts


def test_noise_that_is_solved_for_promises_nothing_without_a_cap(tmp_path: Path) -> None:
    for cap in ("", CAP):
        (tmp_path / "a.toml").write_text(HEAD + MECHANISM + cap)
        found = dpcli("calibrate", "a.toml", "--solve", "noise", "--target-epsilon", "3", folder=tmp_path)
        assert found.code == 0 and (
            "only a cap fixed before the first output is guaranteed: state one" in " ".join(found.out.split())
        ) == (cap == "")
