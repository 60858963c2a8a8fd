"""Discrete Gaussian noise on integers and on vectors of them.

Vectors: the claimed pairs against sums over all outcomes in two and three dimensions, for every shift that the stated norms allow, also if
shifts change from release to release. Noise with too many outcomes for sums (`NearlyGaussian`): it is bounded by one Gaussian from above
and by another from below, and a sum over all outcomes in extended precision must lie between.
"""

from __future__ import annotations

import itertools
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
from dpcli.mechanisms.noise.discrete_gaussian import (
    MOST_SUMMED_SIGMA,
    DiscreteGaussianSpec,
    DiscreteGaussianVector,
    Norms,
    vector_of,
)
from dpcli.mechanisms.noise.nearly_gaussian import NearlyGaussian
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.integer_vectors import is_discrete_gaussian, largest_shifts, log_masses
from tests.cases import fresh_random
from tests.oracles import Array

ALONE = Neighbours(Adjacency.ADD_REMOVE)
Outcomes = tuple[Array, Array]  # masses under P, losses


def outcomes(sigma: float, shift: tuple[int, ...]) -> Outcomes:
    """Return the masses and losses of every point of a box around the noise, coordinate by coordinate."""
    mass, loss = np.ones(1), np.zeros(1)
    x = np.arange(-math.ceil(11.0 * sigma) - 1, math.ceil(11.0 * sigma) + 2)
    one = np.exp(-(x**2) / (2.0 * sigma**2))
    for moved in shift:
        mass = np.outer(mass, one / one.sum()).ravel()
        loss = np.add.outer(loss, (2.0 * x * moved + moved**2) / (2.0 * sigma**2)).ravel()
    return mass, loss


def delta(found: Outcomes, epsilon: float) -> float:
    mass, loss = found
    above = loss > epsilon
    return math.fsum(mass[above] * -np.expm1(epsilon - loss[above]))


def allowed(norms: Norms) -> list[tuple[int, ...]]:
    sides = range(min(norms.most, math.isqrt(norms.squared)) + 1)
    return [
        v
        for v in itertools.product(sides, repeat=norms.dimension)
        if any(v) and sum(x * x for x in v) <= norms.squared and sum(v) <= norms.total and list(v) == sorted(v, reverse=True)
    ]


def drawn(random: Random) -> tuple[float, Norms]:
    dimension = random.choice((2, 2, 3))
    squared = random.randint(2, 18)
    linf, l1 = random.choice((None, 1, 2, 3)), random.choice((None, None, 3, 4))
    sigma = math.exp(random.uniform(math.log(max(0.3, 0.06 * squared**0.5)), math.log(2.2 if dimension == 2 else 1.1)))
    return sigma, Norms.stated(math.sqrt(squared), linf, l1, dimension)


@pytest.mark.parametrize("case", range(12))
def test_one_release_is_the_largest_over_all_shifts(case: int) -> None:
    random = Random(f"{SEED}/vector/{case}")
    sigma, norms = drawn(random)
    mechanism = vector_of(sigma, norms)
    each = [outcomes(sigma, shift) for shift in allowed(norms)]
    shift = random.choice(largest_shifts(norms.squared, norms.most, norms.total, norms.dimension))
    moved, step = sum(x * x for x in shift), 2 * math.gcd(*shift)
    whole = (0, *(abs(moved + step * random.randint(-moved, moved)) for _ in range(3)))  # losses of one shift, in units
    for at in (*whole, random.uniform(0.0, norms.squared)):
        epsilon = at / (2.0 * sigma**2)
        most = max(delta(one, epsilon * (1.0 + 1e-14)) for one in each)  # at an atom, an epsilon that is rounded down asks for more
        if most < 1e-20:
            continue
        found = ExactProfile(((mechanism, 1),)).delta(epsilon)
        said = (SEED, sigma, norms, mechanism, epsilon)
        assert found.upper >= most * (1.0 - 1e-10), said
        # In one draw of some 10,000 an atom of another shift, which is not the largest there, lies on the same loss.
        assert found.upper <= most * (1.0 + (1e-2 if at in whole else 1.0)), said
        if mechanism.attained():
            assert found.lower is not None and found.lower <= most * (1.0 + 1e-4), said
    orders = np.array([1.3, 2.0, 7.5])
    renyi = [max(math.fsum(_renyi(sigma, x, a) for x in shift) for shift in allowed(norms)) for a in orders]
    assert mechanism.rdp(orders) == pytest.approx(renyi, rel=1e-9), (SEED, sigma, norms)
    assert mechanism.zcdp() * 2.0 >= renyi[1] * (1.0 - 1e-12)


def _renyi(sigma: float, moved: int, order: float) -> float:
    x = np.arange(-200.0, 201.0)
    log_p, log_q = -((x - moved) ** 2) / (2.0 * sigma**2), -(x**2) / (2.0 * sigma**2)
    return float(np.logaddexp.reduce(order * log_p + (1.0 - order) * log_q) - np.logaddexp.reduce(log_q)) / (order - 1.0)


@pytest.mark.parametrize("case", range(4))
def test_shifts_may_change_from_one_release_to_the_next(case: int) -> None:
    """Every pair of shifts, one after the other, is within two copies of what stands for both."""
    random = Random(f"{SEED}/vectors/{case}")
    squared = random.choice((4, 5, 8, 9))
    sigma = random.uniform(0.5, 0.9)
    norms = Norms.stated(math.sqrt(squared), None, None, 2)
    mechanism = vector_of(sigma, norms)
    each = [_merged(outcomes(sigma, shift), sigma) for shift in allowed(norms)]
    for epsilon in (random.uniform(0.0, 4.0 * squared / sigma**2) for _ in range(3)):
        both = max(
            delta((np.outer(a[0], b[0]).ravel(), np.add.outer(a[1], b[1]).ravel()), epsilon)
            for a, b in itertools.combinations_with_replacement(each, 2)
        )
        if both > 1e-15:
            assert PldProfile(((mechanism, 2),)).delta(epsilon).upper >= both * (1.0 - 1e-9), (SEED, sigma, squared, epsilon)


def _merged(found: Outcomes, sigma: float) -> Outcomes:
    """Return the outcomes with equal losses merged, and without those that are too rare to matter."""
    units = np.round(found[1] * 2.0 * sigma**2).astype(int)
    losses, place = np.unique(units, return_inverse=True)
    mass = np.bincount(place, weights=found[0])
    kept = mass > 1e-22
    return mass[kept], losses[kept] / (2.0 * sigma**2)


def test_coordinates_that_grow_never_lose_less() -> None:
    random = Random(f"{SEED}/grow")
    for _ in range(30):
        norms = drawn(random)[1]
        for shift in random.sample(allowed(norms), min(3, len(allowed(norms)))):
            assert any(_under(shift, other) for other in largest_shifts(norms.squared, norms.most, norms.total, norms.dimension))


def _under(shift: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(x <= y for x, y in itertools.zip_longest((x for x in shift if x), other, fillvalue=0))


@pytest.mark.parametrize("direction", [(1, 1), (3, 1), (2, 1, 1), (3, 2)])
def test_sums_are_distributed_as_convolutions_are(direction: tuple[int, ...]) -> None:
    random = Random(f"{SEED}/{direction}")
    norm = sum(u * u for u in direction)
    least = next(s / 20.0 for s in range(1, 2000) if is_discrete_gaussian(s / 20.0, norm, len(direction)))
    for sigma in (random.uniform(0.3, 2.0), least * 0.99, least * 1.01):
        x = np.arange(-math.ceil(9.0 * sigma), math.ceil(9.0 * sigma) + 1)
        one = np.exp(-(x**2) / (2.0 * sigma**2))
        mass = np.ones(1)
        for u in direction:
            spread = np.zeros(2 * u * x[-1] + 1)
            spread[::u] = one / one.sum()
            mass = np.convolve(mass, spread)
        reach = math.ceil(4.0 * sigma)
        middle = len(mass) // 2
        assert np.exp(log_masses(sigma, direction, 40 * reach)[39 * reach : 41 * reach + 1]) == pytest.approx(
            mass[middle - reach : middle + reach + 1], rel=1e-11
        ), (SEED, sigma)


@pytest.mark.parametrize(
    ("stated", "squared", "claimed"),
    [(1.4142135623730951, 2, True), (1.41422, 2, True), (1.4142, 2, False), (1.41, 2, False), (1.5, 2, True), (3.16, 10, False)],
)
def test_squared_norms_are_whole(stated: float, squared: int, claimed: bool) -> None:
    """A root that was rounded down is the root; what the keys do not quite allow is not claimed as a lower bound."""
    mechanism = DiscreteGaussianSpec(sigma=20.0, l2_sensitivity=stated).resolve(ALONE)
    assert mechanism.zcdp() == pytest.approx(squared / 800.0, rel=1e-12)
    assert mechanism.attained() is claimed


def test_what_is_too_much_is_priced_by_its_norm() -> None:
    for sigma, norm in ((30.0, 299.5), (5000.0, 1.41422), (100.0, 400.0), (9.0, 301.0)):
        mechanism = DiscreteGaussianSpec(sigma=sigma, l2_sensitivity=norm).resolve(ALONE)
        assert isinstance(mechanism, Zcdp if sigma < 10.0 else NearlyGaussian), mechanism
        assert mechanism.zcdp() == pytest.approx(0.5 * (norm / sigma) ** 2, rel=1e-4)
        assert mechanism.rdp(np.array([3.0])) == pytest.approx([3.0 * mechanism.zcdp()], rel=1e-15)


def test_several_shifts_have_one_of_them_below() -> None:
    mechanism: Mechanism = vector_of(0.6, Norms.stated(2.0, None, None, None))
    assert isinstance(mechanism, DiscreteGaussianVector) and len(mechanism.shifts) == 2 and not mechanism.attained()
    one = mechanism.witness(2.0)
    assert one is not None and one.attained()
    assert ExactProfile(((one, 1),)).delta(3.0).upper <= ExactProfile(((mechanism, 1),)).delta(3.0).upper * (1.0 + 1e-9)


@pytest.mark.parametrize("sigma", [1e15, 1e160, 1e300, 1.7e308])
@pytest.mark.parametrize(
    "keys",
    [
        {"sensitivity": 70},
        {"sensitivity": 3},
        {"l2_sensitivity": 1.5},
        {"l2_sensitivity": 70.0, "dimension": 4},
        {"sensitivity": 1, "dimension": 1},
    ],
)
def test_enormous_noise_is_next_to_nothing_and_not_nothing(sigma: float, keys: dict[str, float]) -> None:
    mechanism = DiscreteGaussianSpec(sigma=sigma, **keys).resolve(ALONE)
    assert 0.0 < mechanism.zcdp() < 1e-20


def test_a_norm_whose_square_no_double_holds_is_priced_by_zcdp() -> None:
    norm, sigma = 10.0 ** fresh_random().uniform(155.0, 300.0), 1e306
    mechanism = DiscreteGaussianSpec(sigma=sigma, l2_sensitivity=norm).resolve(Neighbours(Adjacency.REPLACE_ONE))
    assert mechanism.zcdp() >= 0.5 * (norm / sigma) ** 2 * (1.0 - 1e-15)


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
    for sigma in (10.0, 12.3, 31.7, MOST_SUMMED_SIGMA + 0.5, 2001.0, random.uniform(2e3, 2e4), 2e4):
        ratio = math.exp(random.uniform(math.log(max(0.01, 1.0 / sigma)), math.log(3.0)))
        move = max(round(ratio * sigma), 1)
        mechanism, mu = NearlyGaussian(sigma, Fraction(move) ** 2, True), move / sigma
        for epsilon in (0.0, mu * random.uniform(0.0, 1.0), mu * (0.5 * mu + random.uniform(1.0, 5.0))):
            check(mechanism, epsilon, delta_of(sigma, move, epsilon), (SEED, "one", sigma, move, epsilon))
        sampled = DiscreteGaussianSpec(sigma=max(sigma, MOST_SUMMED_SIGMA + 0.5), sensitivity=move, dimension=1)
        rate = random.choice((0.01, 0.3))
        epsilon = rate * move / sampled.sigma * random.uniform(0.0, 1.0)
        truth = max(delta_of(sampled.sigma, move, epsilon, rate, removed) for removed in (True, False))
        check(sampled.poisson(rate, ALONE), epsilon, truth, (SEED, "sampled", sampled.sigma, move, epsilon, rate))


def test_vectors_of_every_norm_and_steps() -> None:
    """Shifts (m, ..., m) and n equal steps of noise are one integer of n times the variance that moves by n m."""
    random = Random(f"{SEED}/nearly vectors")
    sigma, move = random.uniform(MOST_SUMMED_SIGMA, 800.0), random.randint(1, 300)
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
    """At one ratio of sensitivity to sigma, bounds agree across every sigma at which the method changes."""
    for steps in (1, 100):
        ends = []
        for sigma in (300.0, 600.0, MOST_SUMMED_SIGMA, MOST_SUMMED_SIGMA + 10.0, 1e3, 2e3, 2010.0, 1e4, 1e7):
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
    assert isinstance(mechanism, NearlyGaussian) and mechanism.norm_squared == 162 and mechanism.is_possible, mechanism
    many = DiscreteGaussianSpec(sigma=4000.0, l2_sensitivity=1e5).resolve(ALONE)
    assert isinstance(many, NearlyGaussian) and not many.is_possible and many.witness(2.0) is None, many
    tiny = DiscreteGaussianSpec(sigma=1e200, sensitivity=1).resolve(ALONE)
    assert tiny.witness(2.0) is None and 0.0 < tiny.gdp() <= 1.1e-150 and tiny.zcdp() > 0.0
