"""The statistics of a replay's noise: each wrong noise fails the check that is about it, right noise fails as seldom as promised."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpcli.audit.noise_statistics import chi_square, draws_of, factor, statistics
from tests.audit.noises import RIGHT, WRONG, refuted, table
from tests.cases import require_each


@pytest.mark.long
def test_wrong_noise_fails_the_check_that_is_about_it() -> None:
    def tried(name: str) -> None:
        noise, check = WRONG[name]
        assert all(check in refuted(table(noise, seed)) for seed in range(3))

    require_each(WRONG, tried)


@pytest.mark.long
def test_right_noise_fails_as_seldom_as_stated() -> None:
    """60 audits of each at 5 %: more than 9 have a chance below 0.2 %. tests.benchmarks.replay_alarms counts many more."""

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
        chance, divisor = np.random.default_rng(count), factor(count, level)
        squares = chance.chisquare(count, 20_000) / divisor**2
        assert np.mean(chi_square(squares, count) <= level) == pytest.approx(0.9, abs=0.01)

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
    step = ({"w": np.zeros(3)}, {"w": np.ones(3)})
    assert draws_of([[step, step]] * 4, 1.0, fresh=False).count == 4  # type: ignore[union-attr]
    assert draws_of([[step, step]] * 4, 1.0, fresh=True).count == 8  # type: ignore[union-attr]


def test_noise_whose_shape_changes_is_no_table() -> None:
    steps = [({"w": np.zeros(3)}, {"w": np.ones(size)}) for size in (3, 4)]
    assert draws_of([steps], 1.0, fresh=True) is None
