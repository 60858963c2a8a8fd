"""Neighbouring settings: a little more noise, a lower rate, fewer steps or a larger delta never cost more, but for an interval's width."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from dpcli.accountants.base import Bound, Steps
from dpcli.analysis.inquiry import tightest
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Pure
from tests.cases import by_tier

MORE = 1.001
# Below it, sampled Gaussian steps beside other noise may have no certified interval: `exact` refuses some, and the grid then gives up. What
# is printed then is an upper bound of moments, which may be far above its neighbour's.
LEAST_DELTA = 1e-100


def discrete_gaussian(noise: float, rate: float) -> Mechanism:
    return PoissonSampled(DiscreteGaussian(2.0 * noise, 2), rate)


# a mechanism of this noise over the sensitivity, and of this rate
KINDS: tuple[Callable[[float, float], Mechanism], ...] = (
    lambda noise, rate: SampledGaussian(1.0 / noise, rate),
    lambda noise, rate: SampledGaussianReplaced(1.0 / noise, rate),
    lambda noise, rate: PoissonSampled(Laplace(1.0 / noise), rate),
    lambda noise, rate: PoissonReplaced(Laplace(2.0 / noise), rate),
    lambda noise, rate: PoissonSampled(Pure(1.0 / noise), rate),
    lambda noise, rate: PoissonReplaced(Pure(2.0 / noise), rate),
    lambda noise, rate: PoissonSampled(RandomizedResponse(1.0 / noise, 5), rate),
    lambda noise, rate: PoissonSampled(DiscreteLaplace(2.0 * noise, 2), rate),
    discrete_gaussian,
)


def drawn(random: Random) -> tuple[str, tuple[Steps, float], tuple[Steps, float]]:
    """What is changed, a setting of one to three parts, and its neighbour, which costs no more."""
    parts = [
        (
            random.choice(KINDS),
            10.0 ** random.uniform(-0.3, 1.0),
            10.0 ** random.uniform(-4.0, -0.1),
            round(10.0 ** random.uniform(0.1, 4.0)),
        )
        for _ in range(random.choice((1, 1, 2, 3)))
    ]
    delta = 10.0 ** random.choice((random.uniform(-12.0, -1.0), random.uniform(-30.0, -12.0), random.uniform(-300.0, -30.0)))
    (kind, noise, rate, steps), *others = parts
    # More noise is less of it, randomised further, in every kind but one. A discrete Gaussian of more noise may cost more: nine steps of
    # rate .0378 at delta 2.3e-300 cost 51.1571 at sigma 2.76926 and 51.1672 at 2.77202, as an independent lattice says too.
    change = random.choice(("rate", "steps", "delta") if kind is discrete_gaussian else ("noise", "rate", "steps", "delta"))
    less = {
        "noise": (kind, noise * MORE, rate, steps),
        "rate": (kind, noise, rate / MORE, steps),
        "steps": (kind, noise, rate, steps - math.ceil(steps * (1.0 - 1.0 / MORE))),
        "delta": (kind, noise, rate, steps),
    }[change]

    def made(chosen: list[tuple[Callable[[float, float], Mechanism], float, float, int]]) -> Steps:
        return tuple((kind(noise, rate), count) for kind, noise, rate, count in chosen if count)

    return change, (made(parts), delta), (made([less, *others]), delta * (MORE if change == "delta" else 1.0))


def asked(steps: Steps, delta: float) -> Bound:
    if not steps:
        return Bound(0.0, 0.0)
    row = tightest(steps, delta)
    assert row is not None and row.bound is not None
    return row.bound


def width(bound: Bound) -> float:
    return bound.upper - bound.lower if bound.lower is not None else 0.0


@pytest.mark.parametrize("pairs", by_tier(3, 5, 300))
def test_more_private_settings_cost_no_more(pairs: int) -> None:
    random, wrong, without = Random(f"{SEED}/{pairs}"), [], 0
    for _ in range(pairs):
        change, setting, neighbour = drawn(random)
        more, less = asked(*setting), asked(*neighbour)
        if less.lower is None and setting[1] < LEAST_DELTA:
            without += 1
        elif less.upper > more.upper * (1.0 + 1e-9) + max(width(more), width(less)):
            wrong.append((change, setting, neighbour[1], more, less))
    assert not wrong, (SEED, wrong)
    assert 12 * (without - 1) <= pairs, (SEED, without)  # of 300 pairs 7 to 17 in a dozen of runs
