"""Neighbouring settings: a little more noise, a lower rate, fewer steps or a larger delta never cost more, except by the width of an
interval. Users compare such settings in sweeps, where a jump of the method would look like an effect of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from dpcli.accountants.base import Bound, Steps
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.analysis.inquiry import GRID_SECONDS_ALONE, tightest
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.choice.noisy_max import noisy_maximum
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.work import QUESTION, allowance
from tests.cases import by_tier

MORE = 1.001
GROUP = Neighbours(Adjacency.ADD_REMOVE, group=3)


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
    lambda noise, rate: PoissonSampled(ExponentialChoice(1.0 / noise), rate),
    lambda noise, rate: PoissonSampled(noisy_maximum(1.0 / noise), rate),
    lambda noise, rate: GaussianSpec(noise_multiplier=noise).poisson(rate, GROUP),
    lambda noise, rate: LaplaceSpec(noise_multiplier=noise).poisson(rate, GROUP),
    discrete_gaussian,
)


def drawn(random: Random) -> tuple[str, tuple[Steps, float], tuple[Steps, float]]:
    """Draw (the name of what changes, a setting of one to three parts, its neighbour, which costs no more)."""
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
    """Return the headline, with the largest lower end of the accountants that certify intervals for the dominating pairs."""
    if not steps:
        return Bound(0.0, 0.0)
    row = tightest(steps, delta)
    assert row is not None and row.bound is not None, (steps, delta)
    lowers = [row.bound.lower] if row.bound.lower is not None else []
    for profile in () if lowers else (ExactProfile(steps), PldProfile(steps, seconds=GRID_SECONDS_ALONE)):
        with suppress(NotRepresentable), allowance(QUESTION):
            lowers.append(profile.epsilon(delta).lower)
    lower = max((lower for lower in lowers if lower is not None), default=None)
    return Bound(row.bound.upper, lower)


def width(bound: Bound) -> float:
    return max(bound.upper - bound.lower, 0.0) if bound.lower is not None else 0.0


@pytest.mark.parametrize("pairs", by_tier(3, 5, 300))
def test_more_private_settings_cost_no_more(pairs: int) -> None:
    random, wrong, without = Random(f"{SEED}/{pairs}"), [], []
    for _ in range(pairs):
        change, setting, neighbour = drawn(random)
        more, less = asked(*setting), asked(*neighbour)
        if less.upper > more.upper * (1.0 + 1e-9) + max(width(more), width(less)):
            wrong.append((change, setting, neighbour, more, less))
        if more.lower is None or less.lower is None:
            without.append(setting)
    assert not wrong, (SEED, wrong)
    assert len(without) <= 1 + pairs // 100, (
        SEED,
        without,
    )  # none in most runs of 300 pairs: discrete Gaussian noise at tiny deltas
