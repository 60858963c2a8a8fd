"""A few steps of finitely many outcomes: bounds by sums of rounded losses against sums over all outcomes in fifty digits."""

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
from dpcli.analysis.inquiry import tightest
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.numerics.contour.certified import log_delta_between
from dpcli.numerics.contour.few_atoms import MOST_STEPS, RELATIVE_ERROR, few_atoms
from dpcli.numerics.contour.outcomes import Outcomes
from tests.cases import by_tier


@dataclass(frozen=True, eq=False)
class Listed:
    """A loss of listed outcomes."""

    listed: Outcomes

    def outcomes(self) -> Outcomes:
        return self.listed


def drawn(random: Random) -> tuple[Any, ...]:
    """Draw two to five steps of a few outcomes; most of the outcomes are of tiny probability and have the larger losses."""
    steps = []
    for _ in range(random.randint(2, 5)):
        log_p = [-random.uniform(0.0, 150.0) for _ in range(random.randint(1, 4))]
        rest = math.log1p(-min(math.fsum(map(math.exp, log_p)), 0.999))
        log_p = [value - 3.0 for value in log_p] + [rest - 0.1]
        ratio = [random.uniform(-0.05, 4.0) * random.choice((1.0, 0.01)) for _ in log_p[:-1]] + [-random.uniform(0.0, 0.1)]
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


@pytest.mark.parametrize("cases", by_tier(20, 30, 150))
def test_bounds_contain_the_sum_over_all_outcomes(cases: int) -> None:
    random, narrow = Random(), 0
    while narrow < cases:
        losses = drawn(random)
        largest = sum(float(loss.outcomes().log_ratio.max()) for loss, _ in losses)
        epsilon = max(largest, 0.01) * random.uniform(0.05, 0.99)
        with mp.workdps(50):
            exact = exact_delta(losses, epsilon)
            if not exact > mp.mpf(10) ** -270:
                continue
            log_delta = float(mp.log(exact))
            bounds = few_atoms(losses, log_delta, epsilon)
            if bounds is None:
                continue
            least, most = bounds.log_delta(epsilon)
            assert least <= log_delta + 1e-14 * abs(log_delta) and log_delta <= most + 1e-14 * abs(log_delta), (losses, epsilon)
            low, high = bounds.epsilon(log_delta)
            assert low <= epsilon * (1.0 + 1e-12) and epsilon <= high * (1.0 + 1e-12), (losses, epsilon, low, high)
            assert low == 0.0 or exact_delta(losses, low) >= mp.e**log_delta, (losses, epsilon, low)
            assert exact_delta(losses, high) <= mp.e**log_delta, (losses, epsilon, high)
        # near a jump of the probability, one of the ends is the jump's
        narrow += high - low <= 4.0 * RELATIVE_ERROR * epsilon + 1e-6 * largest


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


def test_other_losses_have_none() -> None:
    atoms = directions(((PoissonSampled(RandomizedResponse(1.0, 3), 0.1), MOST_STEPS),))[0]
    assert few_atoms(atoms, -20.0, 0.5) is not None
    (loss, _), *_ = atoms
    for losses in (((loss, MOST_STEPS + 1),), ((loss, 1),), ((loss, 1), (Laplace(1.0).losses()[0], 1))):
        assert few_atoms(losses, -20.0, 0.5) is None
    for log_delta, epsilon in ((-20.0, 0.0), (-20.0, math.inf), (-700.0, 0.5), (0.0, 0.5)):
        assert few_atoms(atoms, log_delta, epsilon) is None
