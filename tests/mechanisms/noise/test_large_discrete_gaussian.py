"""Discrete Gaussian noise with too many outcomes for sums (`NearlyGaussian`): it is bounded by one Gaussian from above and by another from
below, and a sum over all outcomes in extended precision must lie between.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from dpcli.accountants.exact import ACCOUNTANT as EXACT
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import MAX_SUM, DiscreteGaussianSpec, NearlyGaussian, Norms, vector_of

ALONE = Neighbours(Adjacency.ADD_REMOVE)


def delta_of(sigma: float, move: int, epsilon: float, rate: float = 1.0, removed: bool = True) -> float:
    """Return the sum of (P - e^eps Q)+ over all outcomes that matter, in extended precision, with or without a sample."""
    x = np.arange(-math.ceil(12.0 * sigma), math.ceil(12.0 * sigma) + move + 1, dtype=np.longdouble)
    present, absent = (np.exp(-((x - c) ** 2) / np.longdouble(2.0) / np.longdouble(sigma) ** 2) for c in (move, 0))
    present, absent = present / present.sum(), absent / absent.sum()
    mixed = np.longdouble(rate) * present + (1 - np.longdouble(rate)) * absent
    p, q = (mixed, absent) if removed else (absent, mixed)
    return float(np.maximum(p - np.exp(np.longdouble(epsilon)) * q, 0).sum())


def check(mechanism: Mechanism, epsilon: float, truth: float, said: tuple[object, ...]) -> None:
    """Assert that the true delta lies between the bounds, and that these are close. said: the setting for messages, with sigma third."""
    for profile in (ExactProfile, PldProfile):
        bound = profile(((mechanism, 1),)).delta(epsilon)
        close = 1.0 + 1e-9 if profile is ExactProfile else 1.01
        sigma = said[2]
        assert isinstance(sigma, float)
        assert truth * (1.0 - 1e-12) <= bound.upper <= truth * (close + 200.0 / sigma**2), (said, bound, truth)
    witness = mechanism.witness(2.0)
    if witness is not None:
        lower = ExactProfile(((witness, 1),)).delta(epsilon).lower
        assert lower is not None and truth * (1.0 - 1e-9 - 200.0 / sigma**2) <= lower <= truth, (said, lower, truth)


@pytest.mark.nightly
def test_one_integer_between_two_gaussians() -> None:
    """The smallest sigmas, where the two Gaussians are farthest apart, and larger ones up to 20,000."""
    random = Random(f"{SEED}/nearly")
    for sigma in (10.0, 12.3, 31.7, MAX_SUM + 0.5, 2001.0, random.uniform(2e3, 2e4), 2e4):
        ratio = math.exp(random.uniform(math.log(max(0.01, 1.0 / sigma)), math.log(3.0)))
        move = max(round(ratio * sigma), 1)
        mechanism, mu = NearlyGaussian(sigma, Fraction(move) ** 2, True), move / sigma
        for epsilon in (0.0, mu * random.uniform(0.0, 1.0), mu * (0.5 * mu + random.uniform(1.0, 5.0))):
            check(mechanism, epsilon, delta_of(sigma, move, epsilon), (SEED, "one", sigma, move, epsilon))
        sampled = DiscreteGaussianSpec(sigma=max(sigma, MAX_SUM + 0.5), sensitivity=move, dimension=1)
        rate = random.choice((0.01, 0.3))
        epsilon = rate * move / sampled.sigma * random.uniform(0.0, 1.0)
        truth = max(delta_of(sampled.sigma, move, epsilon, rate, removed) for removed in (True, False))
        check(sampled.poisson(rate, ALONE), epsilon, truth, (SEED, "sampled", sampled.sigma, move, epsilon, rate))


def test_vectors_of_every_norm_and_steps() -> None:
    """Shifts (m, ..., m) and n equal steps of noise are one integer of n times the variance that moves by n m."""
    random = Random(f"{SEED}/nearly vectors")
    sigma, move = random.uniform(MAX_SUM, 800.0), random.randint(1, 300)
    epsilon = move / sigma * random.uniform(0.2, 2.0)
    truth = delta_of(2.0 * sigma, 4 * move, epsilon)
    for mechanism in (
        vector_of(sigma, Norms(4 * move**2, 2 * move, 4 * move, 4)),
        NearlyGaussian(sigma, Fraction(4 * move**2), True),
    ):
        check(mechanism, epsilon, truth, (SEED, "vector", sigma, move, epsilon))
    one = DiscreteGaussianSpec(sigma=sigma, sensitivity=move, dimension=1).resolve(ALONE)
    bound = ExactProfile(((one, 4),)).delta(epsilon)
    assert truth * (1.0 - 1e-12) <= bound.upper <= truth * (1.0 + 200.0 / sigma**2), (SEED, sigma, move, epsilon, bound, truth)


@pytest.mark.nightly
def test_epsilon_does_not_jump_with_sigma() -> None:
    """At one ratio, over every change of the method; no bound is above the next by more than both intervals allow."""
    for steps in (1, 100):
        ends = []
        for sigma in (300.0, 600.0, MAX_SUM, MAX_SUM + 10.0, 1e3, 2e3, 2010.0, 1e4, 1e7):
            one = DiscreteGaussianSpec(sigma=sigma, sensitivity=round(sigma / 10.0), dimension=1).resolve(ALONE)
            with EXACT.within_allowance():
                ends.append(ExactProfile(((one, steps),)).epsilon(1e-6).upper)
        assert max(ends) <= min(ends) * (1.0 + 2e-5), (steps, ends)


@pytest.mark.long
def test_a_norm_just_below_a_whole_square_counts_as_it_in_large_groups() -> None:
    """1.41 is the shift (1, 1); above a norm of 300, shifts are not enumerated."""
    spec = DiscreteGaussianSpec(sigma=5000.0, l2_sensitivity=1.41)
    for group in (2, 212, 213, 1000):
        mechanism = spec.resolve(Neighbours(Adjacency.ADD_REMOVE, group=group))
        assert mechanism.zcdp() == pytest.approx(group**2 / 5000.0**2, rel=1e-15), group


def test_only_a_shift_of_the_norm_is_claimed() -> None:
    """No two squares of integers add up to 163, and 81 + 81 = 162."""
    mechanism = DiscreteGaussianSpec(sigma=4000.0, l2_sensitivity=math.sqrt(163.0), dimension=2).resolve(ALONE)
    assert isinstance(mechanism, NearlyGaussian) and mechanism.norm_squared == 162 and mechanism.reached, mechanism
    many = DiscreteGaussianSpec(sigma=4000.0, l2_sensitivity=1e5).resolve(ALONE)
    assert isinstance(many, NearlyGaussian) and not many.reached and many.witness(2.0) is None, many
    tiny = DiscreteGaussianSpec(sigma=1e200, sensitivity=1).resolve(ALONE)
    assert tiny.witness(2.0) is None and 0.0 < tiny.gdp() <= 1.1e-150 and tiny.zcdp() > 0.0
