"""Two to nineteen steps, and few that matter among many: against quadrature of thirty digits, a contour of thirty digits, and the grid.

Quadrature: delta of two steps is the mean of one's delta, which is closed, over the other's loss; Gauss and Legendre's rule between points
that crowd where that loss is epsilon. Nothing of dpcli's numerics is in it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpcli.accountants.base import Bound
from dpcli.accountants.exact import ExactProfile
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian
from dpcli.mechanisms.noise.normal_mixture import MixtureReplaceLoss
from dpcli.numerics.contour.few_steps import few_steps
from dpcli.numerics.contour.integral import build
from dpcli.numerics.contour.tilt_search import tilt_for
from dpcli.numerics.logspace import log1p_complex, scaled_mills_ratio
from dpcli.numerics.mixture import binomial_mixture
from tests.cases import by_tier, fresh_random, tiered

ADD_REMOVE, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
NODES, WEIGHTS = (part.tolist() for part in np.polynomial.legendre.leggauss(24))

# Two steps: adjacency, (rate, noise multiplier) of each, delta, epsilon by the quadrature above with 28 and 34 nodes between points.
REFERENCES = (
    (ADD_REMOVE, ((1e-5, 0.92),), 9.3e-27, 0.38258534050179),
    (ADD_REMOVE, ((1.4e-6, 0.885),), 6.5e-21, 0.013683339670291),
    (ADD_REMOVE, ((0.0058, 0.94),), 2.8e-14, 2.5398693821906),
    (ADD_REMOVE, ((1e-3, 1.0), (3e-5, 0.6)), 1e-18, 3.131287744534),
    (ADD_REMOVE, ((4.4e-4, 35.7),), 6e-23, 0.00015882617250749),
    (REPLACE_ONE, ((1.7e-8, 1.14),), 1.9e-19, 7.2928590410069e-6),
    (REPLACE_ONE, ((7.6e-3, 1.09),), 2.4e-17, 2.5978412768771),
    (REPLACE_ONE, ((1e-3, 0.7), (1e-6, 2.5)), 1e-12, 2.3867507914998),
)


def mechanism(adjacency: Adjacency, rate: float, noise: float) -> Mechanism:
    return GaussianSpec(noise_multiplier=noise).poisson(rate, Neighbours(adjacency))


def interval(adjacency: Adjacency, parts: tuple[tuple[float, float], ...], steps: int, delta: float) -> Bound:
    return ExactProfile(tuple((mechanism(adjacency, *part), steps) for part in parts)).epsilon(delta)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("adjacency", "parts", "delta", "epsilon"), REFERENCES)
def test_two_steps_hold_the_reference(
    adjacency: Adjacency, parts: tuple[tuple[float, float], ...], delta: float, epsilon: float
) -> None:
    found = interval(adjacency, parts, 2 // len(parts), delta)
    assert found.lower is not None
    assert found.lower <= epsilon * (1.0 + 2e-14)
    assert found.upper >= epsilon * (1.0 - 2e-14)
    assert found.upper - found.lower <= 1e-9 * found.upper


class Step(NamedTuple):
    """One step's density under P, its loss, the outcome of a loss, its delta, and the infimum of its loss."""

    density: Callable[[mp.mpf], mp.mpf]
    loss: Callable[[mp.mpf], mp.mpf]
    outcome: Callable[[mp.mpf], mp.mpf]
    delta: Callable[[mp.mpf], mp.mpf]
    least: mp.mpf


def step(adjacency: Adjacency, rate: float, noise: float) -> Step:
    q, mu = mp.mpf(rate), 1 / mp.mpf(noise)

    def m(x: mp.mpf) -> mp.mpf:
        return 1 - q + q * mp.exp(mu * x - mu * mu / 2)

    def above(x: mp.mpf, shift: mp.mpf) -> mp.mpf:
        return (1 - q) * mp.ncdf(-x) + q * mp.ncdf(shift - x)

    if adjacency is ADD_REMOVE:

        def outcome(loss: mp.mpf) -> mp.mpf:
            odds = (mp.expm1(loss) + q) / q
            return mp.log(odds) / mu + mu / 2 if odds > 0 else -mp.inf

        def delta(epsilon: mp.mpf) -> mp.mpf:
            x = outcome(epsilon)
            return -mp.expm1(epsilon) if x == -mp.inf else above(x, mu) - mp.exp(epsilon) * mp.ncdf(-x)

        return Step(lambda x: mp.npdf(x) * m(x), lambda x: mp.log(m(x)), outcome, delta, mp.log1p(-q))

    def turned(loss: mp.mpf) -> mp.mpf:
        return (loss / 2 + mp.asinh((1 - q) * mp.sinh(loss / 2) / (q * mp.exp(-mu * mu / 2)))) / mu

    def opposed(epsilon: mp.mpf) -> mp.mpf:
        x = turned(epsilon)
        return above(x, mu) - mp.exp(epsilon) * above(x, -mu)

    return Step(lambda x: mp.npdf(x) * m(x), lambda x: mp.log(m(x)) - mp.log(m(-x)), turned, opposed, -mp.inf)


def two(first: Step, second: Step, epsilon: float) -> mp.mpf:
    """Return delta of both steps together."""
    # Where the first loss leaves the second its infimum, the second's delta is not smooth.
    centres = [float(first.outcome(mp.mpf(epsilon) - least)) for least in (0, second.least) if least > -mp.inf]
    near = [centre + sign * 3.0**k for centre in centres for k in range(-14, 4) for sign in (1.0, -1.0)]
    points = sorted({-14.0, -3.0, 0.0, 3.0, 6.0, 9.0, 12.0, 25.0, *(x for x in near if -14.0 < x < 25.0)})
    total = mp.mpf(0)
    for low, high in itertools.pairwise(points):
        middle, half = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            x = middle + half * node
            total += half * weight * first.density(x) * second.delta(epsilon - first.loss(x))
    return total


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize(("rate", "noise"), [(1e-6, 1.0), (0.004, 1.1), (0.3, 2.0)])
def test_the_total_variation_of_two_steps_agrees_with_quadrature(adjacency: Adjacency, rate: float, noise: float) -> None:
    found = ExactProfile(((mechanism(adjacency, rate, noise), 2),)).delta(0.0)
    assert found.lower is not None
    assert found.upper - found.lower <= 1e-9 * found.upper
    with mp.workdps(30):
        one = step(adjacency, rate, noise)
        assert found.lower * (1.0 - 1e-8) <= two(one, one, 0.0) <= found.upper * (1.0 + 1e-8)


TINY_RATES = [1e-9, 1e-12, 1e-20, 1e-50, 1e-160, 1e-300, 5e-324]


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("rate", TINY_RATES)
@pytest.mark.parametrize("counts", [(2, 4, 1000), pytest.param((10**18,), marks=pytest.mark.nightly)], ids=["few", "many"])
def test_gaussian_noise_is_never_pure_however_small_the_rate(adjacency: Adjacency, rate: float, counts: tuple[int, ...]) -> None:
    """delta is positive, though it may be below all doubles, and a bound of 0 is none. No rate is an internal error."""
    for steps, epsilon in itertools.product(counts, (0.0, 1.0, 20.0, 700.0)):
        with suppress(NotRepresentable):
            found = ExactProfile(((mechanism(adjacency, rate, 1.0), steps),)).delta(epsilon)
            assert 0.0 < found.upper <= 1.0, (steps, epsilon)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"), [(1.489705615411376e-07, 11.7289, 2, 0.5231464081356498), (0.01, 1.0, 100, 300.0)]
)
def test_a_delta_below_all_doubles_is_not_0(rate: float, noise: float, steps: int, epsilon: float) -> None:
    """The first is 8.16e-7044, by ball arithmetic."""
    with suppress(NotRepresentable):
        assert ExactProfile(((mechanism(REPLACE_ONE, rate, noise), steps),)).delta(epsilon).upper > 0.0


RATES, NOISES, DELTAS = st.floats(-8.0, -0.5), st.floats(-0.45, 1.5), st.floats(-30.0, -4.0)


@pytest.mark.sampled(0, 2)
@pytest.mark.long
@pytest.mark.parametrize("seed", tiered(range(24), 1, 6))
def test_two_random_steps_agree_with_quadrature(seed: int) -> None:
    """The oracle is a quadrature, which has 1e-8 of delta."""
    source = np.random.default_rng(seed)
    adjacency = (ADD_REMOVE, REPLACE_ONE)[seed % 2]
    parts = tuple((10.0 ** source.uniform(-8.0, -0.5), 10.0 ** source.uniform(-0.4, 1.3)) for _ in range(1 + seed // 2 % 2))
    delta = 10.0 ** source.uniform(-30.0, -4.0)
    found = interval(adjacency, parts, 2 // len(parts), delta)
    assert found.lower is not None
    if found.upper > 0.0:
        assert found.upper - found.lower <= 1e-7 * found.upper
        with mp.workdps(30):
            first, second = step(adjacency, *parts[0]), step(adjacency, *parts[-1])
            assert two(first, second, found.upper) <= delta * (1.0 + 1e-8)
            assert found.lower == 0.0 or two(first, second, found.lower) >= delta * (1.0 - 1e-8)


@pytest.mark.long
@pytest.mark.parametrize("seeds", by_tier(range(8), range(8, 50), range(50, 160)))
def test_few_steps_are_certified(seeds: range) -> None:
    """2 to 19 steps, to 1e-6 or better, and none is refused."""
    for seed in seeds:
        source = np.random.default_rng(1000 + seed)
        parts = ((10.0 ** source.uniform(-8.0, 0.0), 10.0 ** source.uniform(-0.52, 2.0)),)
        delta = 10.0 ** source.uniform(-30.0, -1.0)
        found = interval((ADD_REMOVE, REPLACE_ONE)[seed % 2], parts, int(source.integers(2, 20)), delta)
        assert found.lower is not None, seed
        assert found.upper - found.lower <= 1e-6 * found.upper, seed


def test_many_steps_whose_bulk_is_taken_off_hold_the_reference() -> None:
    """30,000 steps: phi - 1 may not be rounded at phi. The reference is an inversion integral with 34 digits."""
    parts = (
        (0.01692775026696234, 39.249910513004515, 3),
        (1.1186199547911993e-05, 19.519564801342646, 1687),
        (3.0925902226526015e-08, 52.42850599612527, 28836),
        (1.3565897118189888e-08, 21.177166741121038, 1),
    )
    found = ExactProfile(tuple((SampledGaussian(1.0 / noise, rate), steps) for rate, noise, steps in parts)).epsilon(
        5.3860176663638966e-09
    )
    assert found.lower is not None
    assert found.lower <= 0.0030817446701034649 <= found.upper
    assert found.upper - found.lower <= 1e-10 * found.upper


@given(RATES, NOISES, st.floats(-2.0, 1.0), st.floats(0.3, 30.0))
def test_moments_without_the_left_tail(rate: float, noise: float, level: float, power: float) -> None:
    """E_Q[d r^-power] and E_Q[b d r^-power] on nodes of their own, three times as dense; the former from above."""
    loss = MixtureReplaceLoss(binomial_mixture(10.0**-noise, 10.0**rate, 1))
    scale = 10.0 ** (level + rate)
    part = loss.cut(scale, -60.0)
    assume(part is not None and part.big_mass > 1e-200)
    assert part is not None
    k, c = part.sharpness, part.edge
    h = 2.0 ** math.floor(math.log2(0.04 / k))  # nodes at multiples of a power of two: no distance is rounded
    x = h * np.arange(math.floor((-c - 8.0 / k) / h), math.ceil((c + loss.mixture.reach + 12.0) / h))
    base, ratio = loss.line(x)
    kept = base - np.exp(np.minimum(-k * (x + c), 40.0)) - power / scale * ratio
    big = kept + np.log(np.maximum(-np.expm1(-np.exp(np.minimum(k * (x - c), 40.0))), 1e-300))
    whole, beyond = (float(found[0]) for found in part.log_inverse_moment_parts(np.array([power / scale])))
    assert whole >= float(np.logaddexp.reduce(kept)) + math.log(h) - 1e-12
    assert beyond == pytest.approx(float(np.logaddexp.reduce(big)) + math.log(h), abs=1e-9)
    assert part.left_tail_mass() == pytest.approx(part.big_mass + part.mass_difference)


def test_the_logarithm_of_next_to_nothing_keeps_its_digits() -> None:
    z = np.array([-1.0 + 1e-9j, -1.0 - 3e-14 + 4e-14j, -0.4 + 0.1j, 1e-17 + 1e-18j])
    with mp.workdps(40):
        expected = np.array([complex(mp.log(1 + mp.mpc(complex(value)))) for value in z])
    assert np.allclose(log1p_complex(z), expected, rtol=1e-12, atol=0.0)
    seed = random.getrandbits(32)
    rng = np.random.default_rng(seed)
    modulus, angle, part = (
        10.0 ** rng.uniform(-18.0, 1.0, 50),
        rng.uniform(-math.pi, math.pi, 50),
        10.0 ** rng.uniform(-12.0, -0.5, 50),
    )
    hardly = -0.5 * part * part * (1.0 + 10.0 ** rng.uniform(-16.0, -1.0, 50)) + 1j * part  # |1 + z| is nearly 1
    for value in np.concatenate((modulus * np.exp(1j * angle), hardly)).tolist():
        with mp.workdps(60):
            exact = mp.log(1 + mp.mpc(value))
            error = mp.mpc(complex(log1p_complex(np.array([value]))[0])) - exact
            assert abs(error) <= 1e-15 * abs(exact), (seed, value)
            assert abs(value) > 0.5 or abs(error.real) <= 1e-15 * (abs(value.real) + abs(value) ** 2), (seed, value)


@pytest.mark.parametrize("spread", [1.0, 2.5, 4.0, 6.0])
@pytest.mark.parametrize(("adjacency", "parts", "delta", "epsilon"), REFERENCES)
def test_few_nodes_widen_the_interval_and_no_more(
    adjacency: Adjacency, parts: tuple[tuple[float, float], ...], delta: float, epsilon: float, spread: float
) -> None:
    """The error of the rule grows with the node distance to a share of delta, and stays within its bound."""
    losses = tuple((mechanism(adjacency, *part).losses()[0], 2 // len(parts)) for part in parts)
    bounds, narrow = few_steps(losses, math.log(delta), spread), few_steps(losses, math.log(delta))
    assert bounds is not None and narrow is not None
    low, high = bounds.log_delta(epsilon)
    digits = 1e-13 * epsilon * narrow.epsilon()[2]  # those of the reference
    assert low - digits <= math.log(delta) <= high + digits
    assert spread > 1.0 or high - low <= 1e-8


@pytest.mark.parametrize("cases", by_tier(2, 3, 100))
def test_two_and_three_steps_agree_with_contours(cases: int) -> None:
    """The certified bounds on delta of two algorithms overlap, in both directions and for different steps."""
    source, compared, wide = fresh_random(), 0, []
    seed = source.getrandbits(32)
    source.seed(seed)
    while compared < cases:
        adjacency, side = source.choice(((ADD_REMOVE, 0), (ADD_REMOVE, 1), (REPLACE_ONE, 0)))
        counts = source.choice(((2,), (3,), (1, 1), (2, 1), (1, 1, 1)))
        parts = tuple((10.0 ** source.uniform(-5.0, -0.3), 10.0 ** source.uniform(-0.1, 1.3)) for _ in counts)
        log_delta = source.uniform(-40.0, -3.0)
        losses = tuple((mechanism(adjacency, *part).losses()[side], count) for part, count in zip(parts, counts, strict=True))
        bounds = few_steps(losses, log_delta)
        low, high, slope = (0.0, math.inf, math.nan) if bounds is None else bounds.epsilon()
        if bounds is None or not 0.0 < low <= high < math.inf:
            continue
        least, most = -math.inf, math.inf
        with np.errstate(all="ignore"), suppress(NotRepresentable):
            contour = build(losses, log_delta, tilt_for(losses, log_delta), epsilon=high)
            least, most = (-math.inf, math.inf) if contour is None else contour.log_delta(high)
        if most - least > 1e-3:
            continue
        compared += 1
        assert bounds.log_delta(high)[0] <= most + 1e-12 and bounds.log_delta(high)[1] >= least - 1e-12, (
            seed,
            parts,
            counts,
            log_delta,
        )
        assert (high - low) * slope <= 1e-3, (seed, parts, counts, log_delta)
        if (high - low) * slope > 1e-7:
            wide.append((parts, counts, log_delta, (high - low) * slope))
    assert len(wide) <= max(1, cases // 50), (seed, wide)  # one of some thousands was wider, by 4e-5


def test_mills_ratio_in_thirty_digits() -> None:
    x = np.concatenate((np.linspace(-30.0, 45.0, 301), [3.0 - 1e-12, 3.0 + 1e-12, 1e3]))
    ratios = scaled_mills_ratio(x, np.minimum(x, 0.0))
    with mp.workdps(30):
        exact = [
            mp.ncdf(-mp.mpf(at)) / mp.npdf(mp.mpf(at)) * (mp.exp(-(mp.mpf(at) ** 2) / 2) if at < 0.0 else 1) for at in x.tolist()
        ]
        assert all(abs(mp.mpf(value) / right - 1) <= 3e-15 for value, right in zip(ratios.tolist(), exact, strict=True))


def test_mills_ratio_beside_a_smaller_argument() -> None:
    """The relative error grows with the square of `least`. Beside the value at `least` it does not, on which `rounding` rests."""
    seed = random.getrandbits(32)
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(100) < 0.5, rng.uniform(-37.0, 8.0, 100), rng.uniform(2.0, 7.0, 100))
    least = np.minimum(x, 0.0) - (37.0 + np.minimum(x, 0.0)) * 10.0 ** rng.uniform(-4.0, 0.0, 100)
    ratios, largest = scaled_mills_ratio(x, least), scaled_mills_ratio(least, least)
    for value, at, low, high in zip(ratios.tolist(), x.tolist(), least.tolist(), largest.tolist(), strict=True):
        with mp.workdps(50):
            exact = mp.exp(-(mp.mpf(low) ** 2) / 2) * mp.ncdf(-mp.mpf(at)) / mp.npdf(mp.mpf(at))
            error = abs(mp.mpf(value) - exact)
        assert error <= (3e-15 + 3e-16 * low * low) * exact and error <= 4e-15 * (value + high), (seed, at, low)
