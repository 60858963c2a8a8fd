"""Intervals of counts, sums and weighted sums, over draws and all outcomes, and the noise that a target error asks for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import InputError
from dpcli.release.answers.choice_error import threshold_slack
from dpcli.release.answers.intervals import (
    additive_interval,
    expected_error,
    on_grid,
    public_mean_interval,
    spread_within,
    whole_steps,
)
from dpcli.release.answers.noise_tails import sum_half_width
from dpcli.release.answers.ratios import NoisyMean
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw, half_width
from dpcli.release.noise.samplers import noisy
from dpcli.release.noise.selection import SparseVectorLaws
from tests.cases import fresh_random, of_each
from tests.release.privacy.chances import LAWS, covered


@pytest.mark.needs("opendp")
@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("repetitions", [1000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_a_sum_and_a_mean_over_a_public_count_are_covered(make: Callable[[float], NoiseLaw], repetitions: int) -> None:
    law, steps, step = make(2e7), 8_123_456_789, 0.01
    drawn = noisy([steps] * repetitions, law)
    covered([(each := additive_interval(k, law, 0.9, step)).low <= on_grid(steps, step) <= each.high for k in drawn], 0.9)
    mean = float(Fraction(steps, 100 * 1000))
    ends = [public_mean_interval(k, law, 0.9, 1000, step) for k in drawn]
    covered([each.low <= mean <= each.high for each in ends], 0.9)


def off_grid(released: list[float], step: float) -> list[float]:
    """Numbers that are no double nearest to a whole number of steps: their low bits tell more than the step."""
    return [value for value in released if value != on_grid(round(Fraction(value) / Fraction(repr(step))), step)]


@pytest.mark.needs("opendp")
@of_each("step", [1.0, 0.01, 0.1, 1e-5, 2.5, 3.0])
def test_low_bits_tell_the_step_alone(step: float) -> None:
    """Every released number is on the declared grid; one that floats were added to is not, however it is scaled (Mironov 2012)."""
    law = DiscreteLaplaceLaw(1000.25)
    answers = noisy([k * 977 for k in range(500)], law)
    ends = [additive_interval(k, law, 0.95, step) for k in answers]
    assert off_grid([on_grid(k, step) for k in answers], step) == []
    assert off_grid([end for each in ends for end in (each.low, each.high)], step) == []
    rng = np.random.default_rng(fresh_random().getrandbits(32))
    planted = [on_grid(k * 977, step) + step * rng.laplace(0.0, law.scale) for k in range(500)]
    assert len(off_grid(planted, step)) > 450
    rounded = [step * round(value / step) for value in planted]
    assert step in (1.0, 2.5, 3.0) or len(off_grid(rounded, step)) > 0


@given(st.integers(-(2**100), 2**100), st.sampled_from([1.0, 0.01, 0.1, 1e-7, 3.0]))
def test_a_number_of_steps_is_the_nearest_double(steps: int, step: float) -> None:
    value, exact = on_grid(steps, step), steps * Fraction(repr(step))
    assert all(
        abs(Fraction(value) - exact) <= abs(Fraction(other) - exact)
        for other in (math.nextafter(value, s) for s in (math.inf, -math.inf))
    )


def test_what_was_written_is_what_is_released() -> None:
    assert on_grid(1234, 0.01) == 12.34 and on_grid(3, 0.1) == 0.3
    assert expected_error(DiscreteLaplaceLaw(200.0), 0.95, 0.01) == 5.99
    assert whole_steps(0.3, 0.1) == 3 and whole_steps(100.0, 3.0) == 33


@of_each("make", LAWS)
@of_each("steps", [0, 1, 5, 100, 10_000, 10**9])
@of_each("confidence", [0.5, 0.95, 0.999999])
def test_a_target_is_kept_and_little_is_wasted(make: Callable[[float], NoiseLaw], steps: int, confidence: float) -> None:
    spread = spread_within(make, steps, confidence)
    assert half_width(make(spread), confidence) <= steps
    assert half_width(make(spread * 1.0001), confidence) > steps


@of_each("confidence", [0.0, 1.0, 1.5, math.nan])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    law = DiscreteLaplaceLaw(2.0)
    for asked in (
        lambda: additive_interval(3, law, confidence),
        lambda: spread_within(DiscreteLaplaceLaw, 3, confidence),
        lambda: NoisyMean(3, 9, law, law, -1.0, 1.0).interval(confidence),
        lambda: threshold_slack(SparseVectorLaws(epsilon=1.0, sensitivity=1), 4, confidence),
    ):
        with pytest.raises(InputError, match=r"expected a confidence in \(0, 1\)"):
            asked()


@of_each("steps, confidence", [(-1, 0.95), (1, 1.0), (1, 0.0), (1, math.nan)])
def test_a_target_that_cannot_be_kept_is_refused(steps: int, confidence: float) -> None:
    with pytest.raises(InputError):
        spread_within(DiscreteLaplaceLaw, steps, confidence)


SMALL_LAWS: tuple[NoiseLaw, ...] = (DiscreteLaplaceLaw(0.8), DiscreteGaussianLaw(1.7))


@pytest.mark.long
@of_each("law", SMALL_LAWS)
@of_each("weights", [(1,), (1, 1), (2, -1), (3, 0, 5), (1, -1, 2)])
def test_the_half_width_is_the_least_that_holds(law: NoiseLaw, weights: tuple[int, ...]) -> None:
    used = [weight for weight in weights if weight]
    x = np.arange(-30.0, 31.0)
    chance = dict(zip(range(-30, 31), (law.at_least(x) - law.at_least(x + 1.0)).tolist(), strict=True))
    total: dict[int, float] = {}
    for drawn in itertools.product(chance, repeat=len(used)):
        place = abs(sum(weight * x for weight, x in zip(used, drawn, strict=True)))
        total[place] = total.get(place, 0.0) + math.prod(chance[x] for x in drawn)
    for confidence in (0.5, 0.95, 0.999):
        width = sum_half_width(law, weights, confidence)
        inside = sum(chance for place, chance in total.items() if place <= width)
        assert inside >= confidence - 1e-12, confidence
        assert width == 0 or inside - total.get(width, 0.0) < confidence + 1e-6, confidence


def test_no_weight_needs_no_width() -> None:
    assert sum_half_width(SMALL_LAWS[0], (0, 0), 0.95) == 0
