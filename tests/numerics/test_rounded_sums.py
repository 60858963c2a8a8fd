"""Bounds on delta by sums of rounded losses (numerics/contour/rounded_sums.py), which answer where contours are too wide: against sums over
all outcomes in fifty digits, and against contours where these are narrow.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from random import Random
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.analysis.inquiry import tightest
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import StatedPure
from dpcli.numerics.contour import rounded_sums as module
from dpcli.numerics.contour.certified import log_delta_between
from dpcli.numerics.contour.outcomes import Outcomes
from dpcli.numerics.contour.rounded_sums import rounded_sums
from dpcli.numerics.tails import Tails, atom_tails
from tests.cases import by_tier, fresh_random


@dataclass(frozen=True, eq=False)
class Listed:
    """A loss of listed outcomes."""

    listed: Outcomes

    def outcomes(self) -> Outcomes:
        return self.listed

    def tails(self, at: Any) -> Tails:
        order = np.argsort(self.listed.log_ratio)
        ratio, log_q = self.listed.log_ratio[order], self.listed.log_reference[order]
        return atom_tails(at, ratio, log_q + ratio, log_q)


def drawn(random: Random) -> tuple[Any, ...]:
    """Draw two to five steps of a few outcomes; most of the outcomes are of tiny probability and have the larger losses."""
    steps = []
    for _ in range(random.randint(2, 5)):
        log_p = [-random.uniform(3.0, 150.0) for _ in range(random.randint(1, 4))]
        ratio = [random.uniform(-0.05, 4.0) * random.choice((1.0, 0.01)) for _ in log_p]
        rest_p = math.log1p(-math.fsum(map(math.exp, log_p)))  # both laws add up to 1
        rest_q = math.log1p(-math.fsum(math.exp(log - loss) for log, loss in zip(log_p, ratio, strict=True)))
        log_p, ratio = [*log_p, rest_p], [*ratio, rest_p - rest_q]
        steps.append((Listed(Outcomes(np.array(log_p) - np.array(ratio), np.array(ratio))), 1))
    return tuple(steps)


def exact_delta(losses: Any, epsilon: float) -> mp.mpf:
    """Return delta by the sum over all outcomes."""
    each = []
    for loss, count in losses:
        outcomes = loss.outcomes()
        pairs = zip((outcomes.log_reference + outcomes.log_ratio).tolist(), outcomes.log_ratio.tolist(), strict=True)
        each += [list(pairs)] * count
    total = mp.mpf(0)
    for outcome in itertools.product(*each):
        loss = mp.fsum(mp.mpf(ratio) for _, ratio in outcome)
        if loss > epsilon:
            total += mp.e ** mp.fsum(mp.mpf(log_p) for log_p, _ in outcome) * -mp.expm1(epsilon - loss)
    return total


@pytest.mark.parametrize("cases", by_tier(5, 30, 150))
def test_bounds_contain_the_sum_over_all_outcomes(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCTS", 2e6)
    random, narrow = fresh_random(), 0
    while narrow < cases:
        losses = drawn(random)
        largest = sum(float(loss.outcomes().log_ratio.max()) for loss, _ in losses)
        epsilon = max(largest, 0.01) * random.uniform(0.05, 0.99)
        with mp.workdps(50):
            exact = exact_delta(losses, epsilon)
            if not exact > mp.mpf(10) ** -270:
                continue
            log_delta = float(mp.log(exact))
            try:
                bounds = rounded_sums(losses, log_delta, epsilon)
            except NotRepresentable:
                continue
            assert bounds is not None
            least, most = bounds.log_delta(epsilon)
            assert least <= log_delta + 1e-14 * abs(log_delta) and log_delta <= most + 1e-14 * abs(log_delta), (losses, epsilon)
            low, high = bounds.epsilon(log_delta)
            assert low <= epsilon * (1.0 + 1e-12) and epsilon <= high * (1.0 + 1e-12), (losses, epsilon, low, high)
            assert low == 0.0 or exact_delta(losses, low) >= mp.e**log_delta, (losses, epsilon, low)
            assert high == math.inf or exact_delta(losses, high) <= mp.e**log_delta, (losses, epsilon, high)
        narrow += high - low <= 0.03 * largest


@pytest.mark.long
def test_a_rare_sample_of_discrete_noise_at_a_tiny_delta_has_a_narrow_interval() -> None:
    """The contours gave [.0122, .0760], and a lower end of 0 at 1e-100."""
    steps = ((PoissonSampled(DiscreteGaussian(17.68802254996177, 2), 0.0027207766908718205), 4),)
    for delta in (1e-100, 3.5e-200):
        row = tightest(steps, delta)
        assert row is not None and row.bound is not None and row.bound.lower is not None
        assert row.bound.upper * (1.0 - 1e-3) <= row.bound.lower <= row.bound.upper
        losses = directions(steps)[0]
        assert log_delta_between(losses, row.bound.upper, math.log(delta))[0] <= math.log(delta)
        assert log_delta_between(losses, row.bound.lower, math.log(delta))[1] >= math.log(delta)


def test_bounds_agree_with_contours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smooth and discrete losses together, where contours are narrow: neither bound is on the wrong side."""
    monkeypatch.setattr(module, "PRODUCTS", 2e7)
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(3):
        steps: tuple[tuple[Mechanism, int], ...] = (
            (SampledGaussian(random.uniform(0.3, 1.0), random.uniform(0.1, 0.9)), random.randint(2, 9)),
            (Laplace(random.uniform(0.1, 1.0)), random.randint(1, 9)),
            (StatedPure(random.uniform(0.1, 1.0)), random.randint(1, 9)),
        )
        log_delta = -(10.0 ** random.uniform(1.0, 2.0))
        bound = ExactProfile(steps).epsilon(math.exp(log_delta))
        assert bound.lower is not None
        ends = []
        for losses in directions(steps):
            sums = rounded_sums(losses, log_delta, bound.upper)
            assert sums is not None
            ends.append(sums.epsilon(log_delta))
        low, high = max(low for low, _ in ends), max(high for _, high in ends)
        assert low <= bound.upper and bound.lower <= high <= low * 1.02, (seed, steps, log_delta, bound, ends)


@pytest.mark.long
def test_one_far_loss_or_several_at_a_tiny_delta_have_a_narrow_interval() -> None:
    """No contour and no grid at one tilt gave a bound here, and the Renyi curve's was 4.56."""
    steps: tuple[tuple[Mechanism, int], ...] = ((StatedPure(1.0 / 14.0), 14), (SampledGaussian(1.0 / 2.58, 1.9e-6), 12))
    row = tightest(steps, 5.4e-279)
    assert row is not None and row.bound is not None and row.bound.lower is not None
    assert row.bound.upper * (1.0 - 4e-3) <= row.bound.lower <= row.bound.upper


def test_settings_out_of_range_have_none() -> None:
    ((loss, _), *_) = directions(((PoissonSampled(RandomizedResponse(1.0, 3), 0.1), 2),))[0]
    assert rounded_sums(((loss, 1),), -20.0, 0.5) is None
    for log_delta, epsilon in ((-20.0, 0.0), (-20.0, math.inf), (-700.0, 0.5), (0.0, 0.5)):
        assert rounded_sums(((loss, 2),), log_delta, epsilon) is None


def test_epsilon_far_from_every_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses that all exceed 1.25 epsilon had a grid of no cells, and e^epsilon overflowed at an epsilon of over 709."""
    monkeypatch.setattr(module, "PRODUCTS", 2e6)
    for pure, count, epsilon in ((100.0, 2, 1.0), (300.0, 3, 880.0)):
        bounds = rounded_sums(directions(((StatedPure(pure), count),))[0], -20.0, epsilon)
        assert bounds is not None
        least, most = bounds.log_delta(epsilon)
        log_top = -count * math.log1p(math.exp(-pure))  # with any smaller loss, delta is below e^-99
        exact = log_top + math.log(-math.expm1(epsilon - count * pure))
        assert least <= exact + 1e-12 and exact - 1e-12 <= most <= least + 1e-5, (pure, count, epsilon, least, exact, most)
        assert bounds.epsilon(-20.0)[0] <= count * pure
