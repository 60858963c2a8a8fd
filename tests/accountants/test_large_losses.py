"""Grids that take large losses apart: against sums over all outcomes, and against the contour."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import AIM, PldProfile, curve_with_jumps
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.mechanism import TailsOnly
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.numerics.arrays import Array
from dpcli.numerics.tails import Tails, atom_tails
from tests.cases import by_tier

pytestmark = pytest.mark.skip(
    reason="the grid does not take large losses apart: an upper end of three weak steps at delta 3e-22 lay 6e-4 below the truth"
)


@dataclass(frozen=True)
class Atoms(TailsOnly):
    """A loss with these values, increasing, and log probabilities under P."""

    reason = "atoms"

    losses: tuple[float, ...]
    log_p: tuple[float, ...]

    def tails(self, at: Array) -> Tails:
        losses, log_p = np.array(self.losses), np.array(self.log_p)
        return atom_tails(at, losses, log_p, log_p - losses)


def drawn(random: Random) -> Atoms:
    """Two small losses of equal probability, one of which lets Q add up to 1, and two rare large ones."""
    small = random.uniform(1e-4, 1e-2)
    large = (random.uniform(0.05, 0.3), random.uniform(0.3, 0.6))
    log_rare = (-random.uniform(12.0, 20.0), -random.uniform(20.0, 30.0))
    half = 0.5 * (1.0 - sum(map(math.exp, log_rare)))
    rest = 1.0 - half * math.exp(small) - sum(math.exp(log_p - loss) for log_p, loss in zip(log_rare, large, strict=True))
    return Atoms((-small, math.log(half / rest), *large), (math.log(half), math.log(half), *log_rare))


def exact_delta(parts: list[tuple[Atoms, int]], epsilon: float) -> float:
    """delta(epsilon), by counting how often each outcome occurs."""
    totals: list[tuple[float, float]] = [(0.0, 0.0)]
    for atoms, count in parts:
        ways = []
        for counts in itertools.product(range(count + 1), repeat=len(atoms.losses)):
            if sum(counts) == count:
                log_ways = math.lgamma(count + 1) - sum(math.lgamma(c + 1) for c in counts)
                ways.append(
                    (sum(map(math.prod, zip(counts, atoms.losses, strict=True))), log_ways + float(np.dot(counts, atoms.log_p)))
                )
        totals = [(loss + more, log_mass + log_more) for loss, log_mass in totals for more, log_more in ways]
    return math.fsum(math.exp(log_mass) * -math.expm1(epsilon - loss) for loss, log_mass in totals if loss > epsilon)


@pytest.mark.parametrize("number", by_tier(12, 100, 400))
def test_few_outcomes_counted_one_by_one(number: int) -> None:
    random, answered = Random(f"{SEED}/{number}"), 0
    for _ in range(number):
        parts = [(drawn(random), random.randint(1, 3)) for _ in range(random.randint(1, 2))]
        epsilon = random.uniform(0.02, 0.5)
        delta = exact_delta(parts, epsilon)
        if not delta > 0.0:
            continue
        with suppress(NotRepresentable):
            effort = PldProfile((), tolerance=1e-3).effort._replace(log_negligible=-40.0)
            curve, _ = curve_with_jumps(tuple(parts), epsilon, math.log(delta), 1e-4, effort)
            lower, upper = curve.delta(epsilon)
            assert lower <= delta * (1.0 + 1e-9) and delta <= upper * (1.0 + 1e-9), (SEED, parts, epsilon)
            assert upper <= delta * 1.2, (SEED, parts, epsilon)
            answered += 1
    assert answered >= number // 2


@pytest.mark.parametrize("number", by_tier(4, 30, 100))
def test_weak_sampled_gaussians_agree_with_the_contour(number: int) -> None:
    random, answered = Random(f"{SEED}/{number}"), 0
    for _ in range(number):
        steps = (
            (
                SampledGaussian(random.uniform(0.5, 1.5), 10.0 ** random.uniform(-6.0, -4.0)),
                round(10.0 ** random.uniform(0.5, 3.5)),
            ),
        )
        delta = 10.0 ** random.uniform(-24.0, -12.0)
        with suppress(NotRepresentable):
            exact = ExactProfile(steps).epsilon(delta)
            losses, log_delta = directions(steps)[0], math.log(delta)
            effort = PldProfile(steps).effort._replace(log_negligible=-50.0)
            curve, _ = curve_with_jumps(losses, exact.upper, log_delta, AIM * 1e-3, effort)
            lower, upper = curve.epsilon(log_delta)
            assert exact.lower is not None
            assert lower <= exact.upper * (1.0 + 1e-9) and exact.lower <= upper * (1.0 + 1e-9), (SEED, steps, delta)
            answered += upper - lower <= 5e-3 * upper
    assert answered >= number // 2


def test_a_long_tail_at_a_tiny_delta_is_narrow() -> None:
    """Seventy-six weak Gaussian and eleven weak Laplace steps."""
    bound = PldProfile(
        ((SampledGaussian(1 / 2.27, 1.594e-4), 76), (PoissonSampled(Laplace(1 / 2.99), 2.7e-7), 11)), seconds=1.0
    ).epsilon(1e-30)
    assert bound.lower is not None and bound.upper - bound.lower <= 1e-3 * bound.upper
