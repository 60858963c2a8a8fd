"""Random allocation, where a record takes part in one step of each pass, chosen at random (balls in bins): claimed pairs and Renyi curves
against enumeration, quadrature in two bins, and fine sums over the plane for two steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.sampling.random_allocation import (
    FiniteOutcomes,
    RandomAllocation,
    ReplacedAllocation,
    SymmetricAllocation,
)
from dpcli.mechanisms.sampling.schemes import BallsInBins
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from tests.cases import fresh_random
from tests.strategies import entry, pipeline

TOLERANCE = 2e-3  # the lattice's own error, of second order in its spacing


def curves(mechanism: RandomAllocation) -> tuple[FiniteOutcomes, FiniteOutcomes]:
    remove, add = (loss.outcomes() for loss in mechanism.losses())
    assert remove is not None and add is not None
    return remove, add


def two_bins(mu: float, gamma: float) -> tuple[float, float]:
    """Return E[(R - gamma)+] and E[(1 - gamma R)+] for R = (Y + Y')/2, log-normal of mean 1: Black-Scholes inside an integral."""

    def call(strike: float) -> float:
        if strike <= 0.0:
            return 1.0 - strike
        d = (-math.log(strike) - 0.5 * mu * mu) / mu
        return float(ndtr(d + mu) - strike * ndtr(d))

    def over(f: Callable[[float], float]) -> float:
        density = lambda x: math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)  # noqa: E731
        return float(quad(lambda x: density(x) * f(math.exp(mu * x - 0.5 * mu * mu)), -12, 12, limit=400, epsabs=1e-14)[0])

    remove = over(lambda y: 0.5 * call(2 * gamma - y))
    shortfall = over(lambda y: 0.5 * (call(2 / gamma - y) - 1.0 + (2 / gamma - y)))  # put from call, E[Y'] = 1
    return remove, gamma * shortfall


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.5])
def test_two_bins_by_quadrature(mu: float, epsilon: float) -> None:
    for pair, exact in zip(curves(SymmetricAllocation(Gaussian(mu), 2)), two_bins(mu, math.exp(epsilon)), strict=True):
        if exact > 1e-9:  # what the quadrature resolves
            assert exact * (1 - 1e-6) <= math.exp(pair.log_delta(epsilon)) <= exact * (1 + TOLERANCE)


def gained(mu: float, gamma: float, before: np.ndarray) -> np.ndarray:
    """E(before + F)+ for F = dN(mu, 1)/dN(0, 1) - gamma dN(-mu, 1)/dN(0, 1), which rises with the outcome."""
    half = 0.5 * math.log(gamma)
    edge = (np.arcsinh(-before * math.exp(0.5 * mu * mu - half) / 2.0) + half) / mu
    return np.asarray(before * ndtr(-edge) + ndtr(mu - edge) - gamma * ndtr(-mu - edge))


def ratio_difference(x: np.ndarray, mu: float, gamma: float) -> np.ndarray:
    return np.exp(mu * x - 0.5 * mu * mu) - gamma * np.exp(-mu * x - 0.5 * mu * mu)


def replaced(mu: float, gamma: float, bins: int) -> float:
    """The hockey-stick curve of two or three bins in which a record moves from mu to -mu, by quadrature over all bins but one."""
    x = np.linspace(-12.0, 12.0 + mu, 600)
    weight = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * (x[1] - x[0])
    difference, before, weights = ratio_difference(x, mu, gamma), np.zeros(1), np.ones(1)
    for _ in range(bins - 1):
        before, weights = (before[:, None] + difference).ravel(), (weights[:, None] * weight).ravel()
    return float((weights * gained(mu, gamma, before)).sum()) / bins


@pytest.mark.parametrize("bins", [2, 3])
def test_a_replaced_record_by_quadrature(bins: int) -> None:
    """Its pair lies between the curve of the worst case, which it dominates, and a curve a few percent above."""
    seed = fresh_random().getrandbits(32)
    mu = 10.0 ** Random(seed).uniform(-1.0, 0.5)
    (loss,) = ReplacedAllocation(Gaussian(2.0 * mu), bins).losses()
    pair = loss.outcomes()
    assert pair is not None
    for share in (0.0, 0.1, 0.3, 0.6, 1.0):
        epsilon = share * (2.0 * mu * mu + 8.0 * mu)
        exact = replaced(mu, math.exp(epsilon), bins)
        assert exact < 1e-12 or exact * (1.0 - 1e-9) <= math.exp(pair.log_delta(epsilon)) <= exact * 1.15, (
            seed,
            mu,
            epsilon,
            exact,
        )


def test_no_vectors_are_worse_than_opposite_ones() -> None:
    """E(F - s)+ for a record u and its replacement v in the plane, by quadrature, and the largest one, in closed form."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    x = np.linspace(-9.0, 9.0, 250)
    plane = np.exp(-0.5 * (x[:, None] ** 2 + x * x)) / (2.0 * math.pi) * (x[1] - x[0]) ** 2
    for case in range(40):
        mu, gamma = random.uniform(0.2, 2.0), math.exp(random.uniform(-1.0, 2.0))
        s = random.choice((-1.0, 1.0)) * math.exp(random.uniform(-3.0, 2.0))
        values = np.zeros_like(plane)
        for factor in (1.0, -gamma):
            length, angle = mu * random.choice((1.0, random.random())), random.uniform(0.0, 2.0 * math.pi) if case % 2 else 0.0
            a, b = length * math.cos(angle), length * math.sin(angle)
            values += factor * np.exp(a * x[:, None] + b * x - 0.5 * length * length)
        value = float((plane * np.maximum(values - s, 0.0)).sum())
        assert value <= float(gained(mu, gamma, np.array([-s]))[0]) + 1e-3 * (value + 1e-3), (seed, case, mu, gamma, s)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bins", [3, 5, 8])
@pytest.mark.parametrize("e0", [0.2, 1.0, 2.5])
def test_two_point_steps_by_enumeration(bins: int, e0: float) -> None:
    """R depends on how many of the t steps show the record's likelier outcome."""
    high = 1.0 / (1.0 + math.exp(e0))  # Q's probability of the outcome of ratio e^e0
    for epsilon in (0.01, 0.3, 0.9):
        remove = add = 0.0
        for n in range(bins + 1):
            mass = math.comb(bins, n) * high**n * (1 - high) ** (bins - n)
            ratio = (n * math.exp(e0) + (bins - n) * math.exp(-e0)) / bins
            remove += mass * max(ratio - math.exp(epsilon), 0.0)
            add += mass * max(1.0 - math.exp(epsilon) * ratio, 0.0)
        for pair, exact in zip(curves(RandomAllocation(Pure(e0), bins)), (remove, add), strict=True):
            # Few outcomes, at and near which the curve bends: the lattice rounds each corner off.
            assert exact * (1 - 1e-9) <= math.exp(pair.log_delta(epsilon)) <= exact * (1 + TOLERANCE) + 1e-4


@dataclass(frozen=True, slots=True)
class Lopsided(Mechanism):
    """A step whose pair is not its own mirror image: ratios 2, 4/9 and 1."""

    def approx_dp(self, delta: float) -> float:
        return math.log(9 / 4)

    def losses(self) -> tuple[AtomicLoss]:
        return (AtomicLoss((math.log(0.25), math.log(0.45)), (math.log(2.0), math.log(4 / 9))),)


def test_a_lopsided_step_by_enumeration() -> None:
    """The pair bounds the record's coming and its going: P with it and Q without, and P without it and Q with."""
    p, q, bins = (0.5, 0.2, 0.3), (0.25, 0.45, 0.3), 4
    remove = add = 0.0
    epsilon = 0.2
    for x in itertools.product(range(3), repeat=bins):
        up, down = (sum(a[i] / b[i] for i in x) / bins for a, b in ((p, q), (q, p)))
        remove += math.prod(q[i] for i in x) * max(up - math.exp(epsilon), 0.0)
        add += math.prod(p[i] for i in x) * max(1.0 - math.exp(epsilon) * down, 0.0)
    for pair, exact in zip(curves(RandomAllocation(Lopsided(), bins)), (remove, add), strict=True):
        assert exact * (1 - 1e-9) <= math.exp(pair.log_delta(epsilon)) <= exact * (1 + TOLERANCE) + 1e-4


def test_a_stated_delta_stays() -> None:
    """What reveals the record with probability d in its step does so in the pass; that it is absent, only where all steps show it."""
    remove, add = curves(RandomAllocation(approx(1.0, 1e-6), 10))
    assert math.exp(remove.log_delta(1.2)) == pytest.approx(1e-6, rel=1e-9, abs=0.0)
    assert math.exp(add.log_delta(2.0)) < 1e-20
    assert math.isinf(RandomAllocation(approx(1.0, 1e-6), 10).approx_dp(5e-7))


@pytest.mark.sampled(1, 5)
@pytest.mark.parametrize("inner", [Gaussian(1.0), Laplace(0.7), Pure(2.0)])
@pytest.mark.parametrize("bins", [2, 50, 5000])
def test_the_pair_is_a_pair(inner: Mechanism, bins: int) -> None:
    """Both distributions add up to 1, however many sums were taken."""
    for pair in curves(RandomAllocation(inner, bins)):
        assert np.exp(pair.log_p).sum() == pytest.approx(1.0, abs=1e-13)
        assert np.exp(pair.log_q).sum() == pytest.approx(1.0, abs=1e-13)


@pytest.mark.nightly
@pytest.mark.parametrize("inner", [Gaussian(1.0), Laplace(0.7)])
def test_more_bins_never_cost_more(inner: Mechanism) -> None:
    """Nor does a pass ever cost more than one unsampled step; what the lattice adds is above both."""
    costs = [RandomAllocation(inner, bins).approx_dp(1e-6) for bins in (2, 3, 10, 1000, 10**6)]
    assert costs[0] <= inner.approx_dp(1e-6)
    assert costs == sorted(costs, reverse=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e-3, 15.0, 33.0, 1e3])
def test_extreme_noise(mu: float) -> None:
    """With too much or too little noise for a lattice, the cost is at most one unsampled step's. 37 = 100101 bins make unequal sums."""
    for delta in (1e-9, 1e-5, 0.1):
        found, whole = SymmetricAllocation(Gaussian(mu), 37).approx_dp(delta), Gaussian(mu).approx_dp(delta)
        assert 0.0 <= found <= whole
        if mu >= 15.0:  # one in 37: at least what is left at 37 times the delta
            assert found >= 0.9 * Gaussian(mu).approx_dp(min(37 * delta, 0.9)) - math.log(37.0)


def test_only_upper_bounds_are_claimed() -> None:
    """The lattice's pair lies above the worst case, so an interval around it is none around epsilon."""
    single = replace(entry("gaussian", noise_multiplier=1.0), epochs=2.0, sampling=BallsInBins("balls-in-bins", 0.1))
    for adjacency in ("add-remove", "replace-one"):
        result = account(pipeline(single, adjacency=adjacency))
        assert result.lower is None and 0.0 < result.upper < math.inf


@pytest.mark.long
def test_a_symmetric_step_needs_one_lattice() -> None:
    for delta in (1e-3, 1e-9, 1e-15):
        one, other = (kind(Gaussian(0.8), 60).approx_dp(delta) for kind in (SymmetricAllocation, RandomAllocation))
        assert one == pytest.approx(other, rel=1e-9)


def test_integer_orders_by_enumeration() -> None:
    """E[R^a] over all ways in which a factors fall into t bins: e^{mu^2 sum c (c-1) / 2}."""
    mu, bins = 0.9, 4
    loss = SymmetricAllocation(Gaussian(mu), bins).losses()[0]
    for order in range(2, 8):
        total = 0.0
        for choice in itertools.product(range(bins), repeat=order):
            counts = np.bincount(choice, minlength=bins)
            total += math.exp(mu * mu * float((counts * (counts - 1)).sum()) / 2.0) / bins**order
        assert loss.cgf(np.array([order - 1.0]))[0] == pytest.approx(math.log(total), rel=1e-10)


@pytest.mark.long
def test_vanishing_moments_keep_their_digits() -> None:
    """t = 10^12: E[R^2] - 1 = (e^{mu^2} - 1) / t."""
    found = SymmetricAllocation(Gaussian(1.0), 10**12).losses()[0].cgf(np.array([1.0]))[0]
    assert found == pytest.approx(math.expm1(1.0) / 1e12, rel=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_negative_powers_by_quadrature(mu: float) -> None:
    rule, weight = np.polynomial.hermite_e.hermegauss(180)
    mass = np.outer(weight, weight) / (2 * math.pi)
    y = np.exp(mu * rule - 0.5 * mu * mu)
    ratio = 0.5 * (y[:, None] + y[None, :])
    z = np.array([0.1, 1.0, 2.5, 7.0])
    exact = np.array([math.log((mass * ratio ** -float(x)).sum()) for x in z])
    found = SymmetricAllocation(Gaussian(mu), 2).losses()[1].cgf(z)
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found <= exact * 1.03 + 1e-6).all()


@pytest.mark.parametrize("kind", [SymmetricAllocation, RandomAllocation])
def test_the_renyi_curve_covers_the_pair(kind: type[RandomAllocation]) -> None:
    """The lattice's own moment is at most a little above the bound, at orders where the moment is finite in practice."""
    for loss in kind(Gaussian(0.7), 40).losses():
        pair = loss.outcomes()
        assert pair is not None
        for z in (0.5, 1.0, 2.0, 4.0):
            finite = np.isfinite(pair.losses)
            moment = math.log(np.exp(pair.log_p[finite] + z * pair.losses[finite]).sum())
            assert moment <= loss.cgf(np.array([z]))[0] * (1.0 + TOLERANCE)


def hockey_stick(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float], epsilon: float) -> float:
    return sum(max(p[x] - math.exp(epsilon) * q[x], 0.0) for x in q)


def allocation_of(high: float, low: float, subsets: list[tuple[int, ...]], steps: int) -> dict[tuple[int, ...], float]:
    """Return the law of binary outcomes: the steps of a random subset show 1 with probability `high`, and the others with `low`."""
    table = {}
    for x in itertools.product((0, 1), repeat=steps):
        total = 0.0
        for chosen in subsets:
            rates = [high if i in chosen else low for i in range(steps)]
            total += math.prod(r if bit else 1 - r for r, bit in zip(rates, x, strict=True))
        table[x] = total / len(subsets)
    return table


@pytest.mark.parametrize(("steps", "k"), [(4, 2), (5, 2), (6, 3)])
def test_k_of_t_is_bounded_by_k_blocks(steps: int, k: int) -> None:
    """The theorem itself, by enumeration of randomised response: any uniform choice of k against one from each block."""
    high, low = 0.7, 0.3
    sizes = [steps // k + (i < steps % k) for i in range(k)]
    starts = np.cumsum([0, *sizes])
    blocks = [range(starts[i], starts[i + 1]) for i in range(k)]
    whole = allocation_of(high, low, list(itertools.combinations(range(steps), k)), steps)
    split = allocation_of(high, low, list(itertools.product(*blocks)), steps)
    absent = allocation_of(high, low, [()], steps)
    for epsilon in np.linspace(0.0, 2.0, 21):
        assert hockey_stick(whole, absent, epsilon) <= hockey_stick(split, absent, epsilon) + 1e-15
        assert hockey_stick(absent, whole, epsilon) <= hockey_stick(absent, split, epsilon) + 1e-15


def renyi(p: list[np.ndarray], q: list[np.ndarray], order: float) -> float:
    """Return the Renyi divergence of two uniform mixtures of unit Gaussians in the plane, by a fine sum."""
    axis = np.arange(-14.0, 14.0, 0.05)
    x, y = np.meshgrid(axis, axis)

    def density(means: list[np.ndarray]) -> np.ndarray:
        return sum(np.exp(-0.5 * ((x - m[0]) ** 2 + (y - m[1]) ** 2)) for m in means) / (len(means) * 2 * math.pi)

    return math.log(float((density(p) ** order * density(q) ** (1 - order)).sum()) * 0.05**2) / (order - 1.0)


def charge(
    spec: Spec, rate: float, steps: int = 2, k: int = 1, epochs: float | None = None, **privacy: object
) -> tuple[Mechanism, int]:
    scheme = BallsInBins("balls-in-bins", rate, None, k)
    single = replace(entry("gaussian", noise_multiplier=1.0), spec=spec, steps=steps, epochs=epochs, sampling=scheme)
    found = resolve(pipeline(single, **privacy))[0]
    return found.mechanism, found.count


@pytest.mark.parametrize("order", [1.5, 2.0, 3.0])
def test_two_records_and_replacements_are_covered(order: float) -> None:
    """Two bins: two records that come or go together, one replaced in its place or elsewhere, and two replaced."""
    unit, zero = (np.array([1.0, 0.0]), np.array([0.0, 1.0])), [np.zeros(2)]
    pairs = [unit[i] + unit[j] for i in range(2) for j in range(2)]
    a = np.array([order])

    def cost(**privacy: object) -> float:
        mechanism, count = charge(GaussianSpec(noise_multiplier=1.0), 0.5, **privacy)
        return count * float(mechanism.rdp(a)[0])

    two = cost(max_contributions=2, unit="user")
    assert max(renyi(pairs, zero, order), renyi(zero, pairs, order)) <= two
    assert renyi(list(unit), [-m for m in unit], order) <= cost(adjacency="replace-one")
    assert renyi(pairs, [-m for m in pairs], order) <= cost(adjacency="replace-one", max_contributions=2, unit="user")


def test_charges() -> None:
    spec = GaussianSpec(noise_multiplier=2.0)
    once = SymmetricAllocation(Gaussian(0.5), 10)
    assert charge(spec, 0.1, steps=25) == (once, 3)
    assert charge(spec, 0.099, steps=25) == (once, 3)
    assert charge(spec, 0.1, epochs=2.5) == (once, 3)
    assert charge(spec, 0.25, steps=25, k=5) == (SymmetricAllocation(Gaussian(0.5), 4), 10)
    assert charge(spec, 0.4, steps=5, k=2) == (
        Composed(((SymmetricAllocation(Gaussian(0.5), 2), 1), (SymmetricAllocation(Gaussian(0.5), 3), 1))),
        1,
    )
    assert charge(spec, 0.6, steps=5) == (Dominated(Gaussian(0.5)), 5)
    assert charge(LaplaceSpec(noise_multiplier=2.0), 0.1, steps=10) == (RandomAllocation(Laplace(0.5), 10), 1)
    for privacy in ({"adjacency": "replace-one"}, {"adjacency": "zero-out"}, {"max_contributions": 2}):
        with pytest.raises(InputError, match="amplification by balls in bins is proven for Gaussian noise"):
            charge(LaplaceSpec(noise_multiplier=2.0), 0.1, **privacy)


def test_one_bin_of_a_group_is_the_whole_group() -> None:
    neighbours = Neighbours(Adjacency.REPLACE_ONE, 3)
    assert GaussianSpec(noise_multiplier=2.0).resolve(neighbours).gdp() == pytest.approx(3.0)
    assert charge(GaussianSpec(noise_multiplier=2.0), 1.0, adjacency="replace-one", max_contributions=3)[0] == Gaussian(3.0)


@pytest.mark.long
def test_a_pass_of_mnist() -> None:
    """n = 60,000, batches of 256: 234 whole batches, 60 passes. Poisson sampling at that rate: 2.3817."""
    single = replace(entry("gaussian", noise_multiplier=1.1), epochs=60.0, sampling=BallsInBins("balls-in-bins", None, 256))
    subject = pipeline(single, dataset_size=60_000)
    assert resolve(subject)[0].mechanism.approx_dp(1e-5) == pytest.approx(0.27173, rel=5e-4)
    assert 2.33 <= account(subject).upper <= 2.3425
