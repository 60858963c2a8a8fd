"""Replays: each wrong program, and each wrong noise, fails the check that is about it; right ones fail as seldom as promised."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpcli.audit.audit_result import ReplayCheck
from dpcli.audit.noise_draws import Draws, Step, noise_draws
from dpcli.audit.noise_statistics import chi_square_cdf, detectable_factor, statistics
from dpcli.audit.replay import Declared, Pair, checks, steps_of
from dpcli.base.errors import InputError
from tests.audit import learners
from tests.audit.noises import OWN, RIGHT, WRONG, refuted, table
from tests.audit.sums import FILE
from tests.cases import fresh_random, require_each
from tests.command import dpcli

BUGS = {
    "no_noise": "size of the noise",
    "half_noise": "size of the noise",
    "no_clip": "sensitivity of the sums",
    "clip_per_batch": "sensitivity of the sums",
    "noise_over_batch": "size of the noise",
    "fixed_seed": "new noise in every run",
    "noise_once": "new noise in every step",
    "empty_skipped": "members of the batches",
    "drawn_twice_as_often": "records drawn as often as declared",
    "shuffled": "batches drawn by Poisson sampling",
    "noise_follows_data": "noise does not depend on the record",
}


def replay(tmp_path: Path, program: str, *flags: str) -> tuple[int, dict[str, bool]]:
    """Exit code, and which checks passed."""
    path = tmp_path / "p.toml"
    path.write_text(FILE)
    result = dpcli("audit", str(path), "--function", f"tests.audit.sums:{program}", *flags, "-f", "json")
    assert bool(result.err) == (result.code != 0)
    return result.code, {check["name"]: check["passed"] for check in json.loads(result.out)["checks"]}


def test_right_program_passes_every_check(tmp_path: Path) -> None:
    code, found = replay(tmp_path, "right")
    assert code == 0
    assert len(found) == 19
    assert all(found.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("program", "check"), BUGS.items())
def test_planted_bug_is_caught_by_its_check(tmp_path: Path, program: str, check: str) -> None:
    code, found = replay(tmp_path, program)
    assert code == 1
    assert not found[check]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [*learners.RIGHT, *learners.WRONG])
def test_what_follows_from_other_releases_is_not_blamed(tmp_path: Path, program: str) -> None:
    """After the first step with the record two right trainings go apart; a wrong one shows itself in that step."""
    path = tmp_path / "p.toml"
    path.write_text(FILE)
    given = ("--function", f"tests.audit.learners:{program}", "--data", "tests.audit.learners:pair")
    result = dpcli("audit", str(path), *given, "-f", "json")
    exact = {one["name"]: one["passed"] for one in json.loads(result.out)["checks"] if not one["statistical"]}
    assert {"number of steps", "members of the batches", "sensitivity of the sums"} <= exact.keys()
    assert {name for name, passed in exact.items() if not passed} == (
        {"sensitivity of the sums"} if program in learners.WRONG else set()
    )
    assert "whose effects look like a leak, and were not compared" in result.out


def test_nan_that_is_passed_through_is_caught(tmp_path: Path) -> None:
    code, found = replay(tmp_path, "nan_passed", "--data", "tests.audit.sums:broken_pair")
    assert code == 1
    assert not found["finite sums"]
    code, found = replay(tmp_path, "right", "--data", "tests.audit.sums:broken_pair")
    assert code == 0


@pytest.mark.nightly
@pytest.mark.long
def test_false_alarms_of_the_statistical_checks(tmp_path: Path) -> None:
    """40 replays of the right program with other seeds: at 5 % each, eight or more failures have a chance below 0.1 %."""
    from dpcli.audit.replay import Pair
    from tests.audit.sums import pair, right

    declared = Declared(1.0, 1.0, rate=0.05, records=20)
    failures = 0
    for seed in range(40):
        pairs = [
            Pair(*(tuple(right(world, np.random.default_rng([seed, i]))) for world in pair(np.random.default_rng([seed, i, 1]))))
            for i in range(2)
        ]
        failures += any(not check.passed for check in checks(pairs, declared))
    assert failures < 8


def test_shapes_and_members_are_compared() -> None:
    one, wide = Step({"w": np.zeros(2)}, (1, 2)), Step({"w": np.zeros(3)}, (1, 2))
    found = {check.name: check.passed for check in checks([Pair((one,), (wide,))], Declared(1.0, None))}
    assert not found["names and shapes of the sums"]
    assert not found["sensitivity of the sums"]
    others = Step({"w": np.zeros(2)}, (3,))
    found = {check.name: check.passed for check in checks([Pair((one,), (others,))], Declared(1.0, None))}
    assert not found["members of the batches"]


def test_the_record_is_the_same_in_all_steps() -> None:
    """Each step differs by one record, but not by the same one."""
    left = tuple(Step({"w": np.zeros(1)}, (i, 9)) for i in range(2))
    right = tuple(Step({"w": np.zeros(1)}, (9,)) for _ in range(2))
    found = {check.name: check.passed for check in checks([Pair(left, right)], Declared(1.0, None))}
    assert not found["members of the batches"]


def test_sensitivity_is_exact_up_to_single_precision() -> None:
    def passed(distance: float) -> bool:
        pair = Pair((Step({"a": np.full(4, distance / 2.0)}),), (Step({"a": np.zeros(4)}),))
        return all(check.passed for check in checks([pair], Declared(1.0, None)))

    assert passed(1.0)
    assert not passed(1.00001)


def test_a_program_may_write_into_its_arrays() -> None:
    def program() -> object:
        sums = np.zeros(1)
        for i in range(3):
            sums[:] = i
            yield Step({"w": sums})

    assert [float(step.sums["w"][0]) for step in steps_of("p", program())] == [0.0, 1.0, 2.0]


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(InputError, match="expected steps with sums"):
        steps_of("m:f", [1.0])
    with pytest.raises(InputError, match="at least one step"):
        steps_of("m:f", [])


def test_noise_that_is_not_reported_fails() -> None:
    pair = Pair((Step({"w": np.zeros(1)}),), (Step({"w": np.zeros(1)}),))
    assert not all(check.passed for check in checks([pair], Declared(1.0, 1.0)))


def test_sensitivity_must_be_stated(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(FILE.replace("sensitivity = 1.0\n", ""))
    result = dpcli("audit", str(path), "--function", "tests.audit.sums:right")
    assert result.code == 2
    assert "audit.sensitivity" in result.err


@pytest.mark.long
def test_records_drawn_too_often_are_found_as_often_as_said() -> None:
    """At the factor that is said in 90 % of audits, of which 150 of 200 are fewer by chance once in 10^9; right ones in at most 5 %."""
    rate, records, steps = 0.05, 400, 100

    def drawn(times: float, seed: int) -> ReplayCheck:
        sizes = np.random.default_rng([seed, 1]).binomial(records, times * rate, steps)
        world = tuple(Step({"w": np.zeros(1)}, range(size)) for size in sizes)
        found = checks([Pair(world, world)], Declared(1.0, None, rate=rate, records=records))
        return next(check for check in found if check.name == "records drawn as often as declared")

    start = int(np.random.default_rng(fresh_random().getrandbits(32)).integers(10**6))
    least = float(drawn(1.0, start).power.split()[2])
    assert 1.0 < least < 1.2
    assert sum(not drawn(least, start + k).passed for k in range(200)) >= 150
    assert sum(not drawn(1.0, start + k).passed for k in range(200)) <= 20


@pytest.mark.long
def test_wrong_noise_fails_the_check_that_is_about_it() -> None:
    def tried(name: str) -> None:
        noise, check = WRONG[name]
        assert all(check in refuted(table(noise, seed)) for seed in range(3))

    require_each(WRONG, tried)


@pytest.mark.long
def test_right_noise_fails_as_seldom_as_stated() -> None:
    """60 audits of each at 5 %: more than 9 have a chance below 0.2 %."""

    def check(shape: tuple[int, int, int]) -> None:
        alarms = sum(bool(refuted(table(RIGHT["as declared"], seed, *shape))) for seed in range(60))
        assert alarms <= 9

    require_each([(5, 20, 606), (5, 20, 1), (5, 1, 606), (1, 1, 606), (1, 1, 1), (2, 60, 18)], check)


@pytest.mark.long
def test_noise_that_is_at_least_as_declared_passes() -> None:
    def check(name: str) -> None:
        assert sum(bool(refuted(table(RIGHT[name], seed))) for seed in range(20)) <= 4

    require_each(RIGHT, check)


def test_a_size_is_found_as_often_as_said() -> None:
    """Nine times in ten, by simulation."""

    def check(case: tuple[int, float]) -> None:
        count, level = case
        chance, divisor = np.random.default_rng(count), detectable_factor(count, level)
        squares = chance.chisquare(count, 20_000) / divisor**2
        assert np.mean(chi_square_cdf(squares, count) <= level) == pytest.approx(0.9, abs=0.01)

    require_each([(1, 0.05), (6, 1e-3), (120, 1e-4), (10_000, 1e-6)], check)


@pytest.mark.long
def test_what_would_have_been_found_is_found() -> None:
    """The size of any tensor, of all and of a coordinate, as the check itself states them."""
    said = {one.name: one.power(0.05 / 9) for one in statistics(table(RIGHT["as declared"], 0))}
    least, every = (float(x) for x in re.findall(r"noise / ([0-9.]+)", said["size of the noise"]))
    one = float(re.findall(r"noise / ([0-9.]+)", said["size of the noise by coordinate"])[0])
    divisors = {
        "size of the noise": np.where(np.arange(606) >= 600, least, 1.0),
        "size of the noise by coordinate": np.where(np.arange(606) == 3, one, 1.0),
    }
    assert every < least
    for name, divisor in divisors.items():
        found = sum(name in refuted(table(lambda z, by=divisor: z / by, seed)) for seed in range(40))
        assert found >= 30, name


def test_the_first_step_alone_is_taken_of_correlated_noise() -> None:
    step = Step({"w": np.zeros(3)}, noise={"w": np.ones(3)})
    assert noise_draws([[step, step]] * 4, 1.0, fresh=False).count == 4  # type: ignore[union-attr]
    assert noise_draws([[step, step]] * 4, 1.0, fresh=True).count == 8  # type: ignore[union-attr]


def test_noise_whose_shape_changes_is_no_table() -> None:
    steps = [Step({"w": np.zeros(3)}, noise={"w": np.ones(size)}) for size in (3, 4)]
    assert noise_draws([steps], 1.0, fresh=True) is None


def test_repeats_and_correlations_of_coordinates_share_the_level_equally() -> None:
    """Of three coordinates, one pair of neighbours is correlated, and the p-value by Student's t is counted twice, not four times."""
    seed = random.randrange(2**32)
    values = np.random.default_rng(seed).standard_normal((50, 3))
    values[:, 1] += values[:, 0]
    draws = Draws({"w": values}, np.zeros(50, dtype=np.intp), 1e-7)
    (result,) = (one for one in statistics(draws) if one.name == OWN)
    a, b = values[:, 0], values[:, 1]
    cosine = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    p = 2.0 * float(stats.t.sf(abs(cosine) * math.sqrt(49 / (1.0 - cosine**2)), 49))
    assert result.p == pytest.approx(2.0 * p, rel=1e-6), seed


def test_a_single_coordinate_has_no_other_to_repeat_or_to_follow() -> None:
    draws = Draws({"w": np.random.default_rng(1).standard_normal((50, 1))}, np.zeros(50, dtype=np.intp), 1e-7)
    (result,) = (one for one in statistics(draws) if one.name == OWN)
    assert (result.p, result.power(0.01)) == (1.0, "no correlation")
