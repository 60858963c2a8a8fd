"""Laplace noise on a Poisson sample with several records of one unit: tails and CGF of the claimed pair against quadrature, and other
contributions of the records, in two dimensions and of any signs, which must not cost more.
"""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom

from dpcli.accountants.base import Bound
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.analysis.inquiry import tightest
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.noise.laplace_mixture import LaplaceMixture, LaplaceMixtureLoss, LaplaceMixtureReplaced
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.numerics.mixture import EXACT, binomial_mixture
from dpcli.numerics.tails import single_log_delta
from dpcli.numerics.work import TooMuchWork
from tests.cases import by_tier


class Group(NamedTuple):
    """Records of one unit: the contribution of each, over the scale; the rate; and how many there are."""

    epsilon: float
    rate: float
    records: int

    @property
    def sampled(self) -> LaplaceMixture:
        return LaplaceMixture(binomial_mixture(self.epsilon, self.rate, self.records))

    @property
    def replaced(self) -> LaplaceMixtureReplaced:
        return LaplaceMixtureReplaced(binomial_mixture(self.epsilon, self.rate, self.records))


def drawn(random: Random) -> Group:
    return Group(10.0 ** random.uniform(-1.5, 0.7), 10.0 ** random.uniform(-3.0, -0.1), random.randint(2, 6))


def binomial(records: int, rate: float, j: int) -> float:
    return math.comb(records, j) * rate**j * (1.0 - rate) ** (records - j)


def ratio(group: Group, y: float) -> float:
    """Return the density of the mixture over that of the noise."""
    k, e0 = group.records, group.epsilon
    return math.fsum(binomial(k, group.rate, j) * math.exp(abs(y) - abs(y - j * e0)) for j in range(k + 1))


def integral(group: Group, function: object, *places: float) -> float:
    """Return the integral of a function of the ratio times the density of the noise."""
    k, e0 = group.records, group.epsilon
    ends = sorted({-45.0, *(j * e0 for j in range(k + 1)), k * e0 + 45.0, *places})

    def at(y: float) -> float:
        return float(function(ratio(group, y))) * 0.5 * math.exp(-abs(y))  # type: ignore[operator]

    return math.fsum(quad(at, low, high, epsabs=0.0, epsrel=1e-11)[0] for low, high in itertools.pairwise(ends))


def crossing(group: Group, level: float) -> tuple[float, ...]:
    last = group.records * group.epsilon
    inside = ratio(group, 0.0) < level < ratio(group, last)
    return (brentq(lambda y: ratio(group, y) - level, 0.0, last, xtol=1e-15),) if inside else ()


@pytest.mark.parametrize("cases", by_tier(3, 30, 200))
def test_tails_and_cgf_by_quadrature(cases: int) -> None:
    random = Random(f"{SEED} group {cases}")
    for _ in range(cases):
        group = drawn(random)
        remove, add = group.sampled.losses()
        for epsilon in (0.0, random.uniform(0.0, 1.0), -random.uniform(0.0, 0.1)):
            level = math.exp(epsilon)
            exact = integral(group, lambda r, level=level: max(r - level, 0.0), *crossing(group, level))
            backwards = integral(group, lambda r, level=level: max(1.0 - level * r, 0.0), *crossing(group, 1.0 / level))
            for loss, truth in ((remove, exact), (add, backwards)):
                low, high = single_log_delta(loss, epsilon)
                assert math.exp(low) - 1e-13 <= truth * (1.0 + 1e-9) + 1e-13, (group, epsilon)
                assert truth * (1.0 - 1e-9) - 1e-13 <= math.exp(high) + 1e-13, (group, epsilon)
        for z in (0.1, 1.0, random.uniform(1.0, 20.0)):
            moments = (integral(group, lambda r, z=z: r ** (z + 1.0)), integral(group, lambda r, z=z: r**-z))
            for loss, moment in zip((remove, add), moments, strict=True):
                assert (
                    abs(math.expm1(float(loss.cgf(np.array([z]))[0])) - (moment - 1.0)) <= 1e-9 * abs(moment - 1.0) + 1e-12 * moment
                )


@pytest.mark.parametrize("cases", by_tier(3, 30, 200))
def test_replaced_records_by_quadrature(cases: int) -> None:
    random = Random(f"{SEED} replaced {cases}")
    for _ in range(cases):
        group = drawn(random)
        (loss,) = group.replaced.losses()
        k, e0 = group.records, group.epsilon

        def density(y: float, group: Group = group) -> float:
            return ratio(group, y) * 0.5 * math.exp(-abs(y))

        def log_ratio(y: float) -> float:
            return math.log(density(y)) - math.log(density(-y))

        ends = [j * e0 for j in range(-k, k + 1)]
        for epsilon in (0.0, random.uniform(0.0, 0.9) * loss.largest, -random.random()):
            inside = log_ratio(ends[0]) < epsilon < log_ratio(ends[-1])
            start = brentq(lambda y: log_ratio(y) - epsilon, ends[0], ends[-1], xtol=1e-15) if inside else ends[0] - 45.0  # noqa: B023
            places = [start, *(end for end in ends if end > start), ends[-1] + 45.0]
            excess = lambda y: density(y) - math.exp(epsilon) * density(-y)  # noqa: B023, E731
            truth = math.fsum(quad(excess, low, high, epsabs=0.0, epsrel=1e-11)[0] for low, high in itertools.pairwise(places))
            low, high = single_log_delta(loss, epsilon)
            assert math.exp(low) - 1e-13 <= truth * (1.0 + 1e-9) + 1e-13, (group, epsilon)
            assert truth * (1.0 - 1e-9) - 1e-13 <= math.exp(high) + 1e-13, (group, epsilon)
        places = [ends[0] - 45.0, *ends, ends[-1] + 45.0]
        for z in (0.1, 1.0, random.uniform(1.0, 20.0)):
            power = lambda y: math.exp((z + 1.0) * log_ratio(y)) * density(-y)  # noqa: B023, E731
            moment = math.fsum(quad(power, low, high, epsabs=0.0, epsrel=1e-11)[0] for low, high in itertools.pairwise(places))
            own = math.expm1(float(loss.cgf(np.array([z]))[0]))
            assert abs(own - (moment - 1.0)) <= 1e-9 * abs(moment - 1.0) + 1e-12 * moment, (group, z)


@pytest.mark.long
@pytest.mark.parametrize("cases", by_tier(1, 2, 100))
def test_two_accountants_agree_and_one_record_is_the_known_pair(cases: int) -> None:
    random = Random(f"{SEED} group steps {cases}")
    for _ in range(cases):
        group, steps, delta = drawn(random), round(10.0 ** random.uniform(0.0, 4.0)), 10.0 ** random.uniform(-9.0, -2.0)
        for mechanism in (group.sampled, group.replaced):
            try:
                contour, grid = (profile(((mechanism, steps),)).epsilon(delta) for profile in (ExactProfile, PldProfile))
            except TooMuchWork:  # refused, rarely: none of 252 draws
                continue
            assert contour.lower is not None
            assert contour.lower <= grid.upper * (1.0 + 1e-12), (mechanism, steps, delta)
            assert (grid.lower or 0.0) <= contour.upper * (1.0 + 1e-12), (mechanism, steps, delta)
        loss = LaplaceMixtureLoss(binomial_mixture(group.epsilon, group.rate, 1))
        known = PoissonSampled(Laplace(group.epsilon), group.rate).losses()[0]
        at = np.sort(np.array([random.uniform(-1.0, 1.0) * group.epsilon for _ in range(9)]))
        for own, other in zip(loss.tails(at), known.tails(at), strict=True):
            assert np.allclose(own, other, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("cases", by_tier(4, 40, 300))
def test_no_other_contributions_cost_more(cases: int) -> None:
    """Vectors of two coordinates, of any signs and at most the bound, each record sampled on its own: sums over a fine mesh."""
    random = Random(f"{SEED} other contributions {cases}")
    axis = np.arange(-14.0, 14.0, 0.05)
    for _ in range(cases):
        group = Group(random.uniform(0.1, 1.5), random.uniform(0.01, 0.9), random.randint(2, 3))
        before, after = (released(group, axis, random) for _ in range(2))
        noise = np.outer(cells(axis), cells(axis))
        for epsilon in (0.0, random.uniform(0.0, 2.0)):
            losses, pairs = (*group.sampled.losses(), *group.replaced.losses()), ((before, noise), (noise, before), (before, after))
            for loss, (p, q) in zip(losses, pairs, strict=True):
                least = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())  # merged outcomes: from below
                assert least <= math.exp(single_log_delta(loss, epsilon)[1]) + 1e-9, (group, epsilon)


def released(group: Group, axis: np.ndarray, random: Random) -> np.ndarray:
    """Return the release's law on the mesh, for random contributions of the records."""
    moves = []
    for _ in range(group.records):
        share, size = random.random(), group.epsilon * random.choice((1.0, 1.0, random.random()))
        moves.append((size * share * random.choice((-1.0, 1.0)), size * (1.0 - share) * random.choice((-1.0, 1.0))))
    mass = np.zeros((len(axis) - 1, len(axis) - 1))
    for chosen in itertools.product((0, 1), repeat=group.records):
        weight = math.prod(group.rate if one else 1.0 - group.rate for one in chosen)
        shift = [sum(move[side] for one, move in zip(chosen, moves, strict=True) if one) for side in (0, 1)]
        mass += weight * np.outer(*(cells(axis - by) for by in shift))
    return mass


def cells(x: np.ndarray) -> np.ndarray:
    return np.diff(np.where(x < 0.0, 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(x))))


def cost(mechanism: Mechanism, steps: int, delta: float) -> Bound:
    row = tightest(((mechanism, steps),), delta)
    assert row is not None and row.bound is not None
    return row.bound


def test_a_unit_by_the_pair_of_its_sum_costs_less_than_one_record_of_its_size() -> None:
    three = LaplaceSpec(noise_multiplier=1.0).poisson(0.01, Neighbours(Adjacency.ADD_REMOVE, contributions=3))
    assert cost(three, 1000, 1e-8).upper == pytest.approx(5.104087365, rel=1e-9)
    one = PoissonSampled(Laplace(3.0), 1.0 - 0.99**3)
    assert 4.0 * cost(three, 1000, 1e-8).upper < (cost(one, 1000, 1e-8).lower or 0.0)


@pytest.mark.long
@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("spec", [GaussianSpec(noise_multiplier=20.0), LaplaceSpec(noise_multiplier=20.0)])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE])
def test_one_record_more_costs_about_as_much(spec: LaplaceSpec | GaussianSpec, adjacency: Adjacency) -> None:
    """Above 64 records, numbers of records are rounded up. 65 records once cost 440 times as much as 64."""
    costs = [cost(spec.poisson(0.01, Neighbours(adjacency, contributions=k)), 1000, 1e-8) for k in (64, 65, 80)]
    assert costs[0].upper < costs[1].upper < 1.05 * costs[0].upper
    assert costs[1].upper < costs[2].upper < 1.5 * costs[0].upper


@pytest.mark.parametrize("cases", by_tier(3, 30, 300))
def test_numbers_of_records_are_rounded_up(cases: int) -> None:
    """No tail of the mixture of fewer shifts is lighter than the binomial one's, and its masses add up to 1."""
    random = Random(f"{SEED} rounded {cases}")
    for _ in range(cases):
        records, rate = round(10.0 ** random.uniform(math.log10(EXACT + 1), 4.0)), 10.0 ** random.uniform(-6.0, -0.01)
        mixture = binomial_mixture(1.0, rate, records)
        assert len(mixture.shifts) <= EXACT + 1 and mixture.reach <= records
        assert math.exp(mixture.log_rest) + math.fsum(map(math.exp, mixture.log_weights)) == pytest.approx(1.0, abs=1e-14)
        for number in {1, EXACT, records, *(random.randint(1, records) for _ in range(9))}:
            tail = np.logaddexp.reduce([w for w, s in zip(mixture.log_weights, mixture.shifts, strict=True) if s >= number])
            exact = np.logaddexp.reduce(binom.logpmf(np.arange(number, records + 1), records, rate))
            assert tail >= exact - 1e-9 * (1.0 + abs(exact)), (records, rate, number)


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("rate", [1e-9, 1e-4, 0.5, 0.999])
@pytest.mark.parametrize("records", [2, 60, 1000])
def test_extreme_rates_and_numbers_have_a_cost(rate: float, records: int) -> None:
    """The chance of all records together may underflow. More records do not cost less then, and larger records do not either."""
    costs = [
        cost(LaplaceSpec(noise_multiplier=noise).poisson(rate, Neighbours(Adjacency.ADD_REMOVE, contributions=k)), 3, 1e-7)
        for noise, k in ((40.0, records), (40.0, records + 1), (0.05, records + 1))
    ]
    for less, more in itertools.pairwise(costs):
        assert (less.lower or 0.0) <= more.upper < math.inf
