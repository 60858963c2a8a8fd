"""Discrete Gaussian noise on vectors of integers: the claimed pairs against sums over all outcomes in two and three dimensions, for every
shift that the stated norms allow, also if shifts change from release to release.
"""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import (
    DiscreteGaussianSpec,
    DiscreteGaussianVector,
    NearlyGaussian,
    Norms,
    vector_of,
)
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.integer_vectors import is_discrete_gaussian, largest_shifts, log_masses
from tests.oracles import Array

ALONE = Neighbours(Adjacency.ADD_REMOVE)
Outcomes = tuple[Array, Array]  # masses under P, losses


def outcomes(sigma: float, shift: tuple[int, ...]) -> Outcomes:
    """Every point of a box around the noise, coordinate by coordinate; sums of what is not negative, so that digits are kept."""
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
    """Outcomes of one loss joined; those that are too rare to matter left out."""
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
    norm, sigma = 10.0 ** Random().uniform(155.0, 300.0), 1e306
    mechanism = DiscreteGaussianSpec(sigma=sigma, l2_sensitivity=norm).resolve(Neighbours(Adjacency.REPLACE_ONE))
    assert mechanism.zcdp() >= 0.5 * (norm / sigma) ** 2 * (1.0 - 1e-15)
