"""Independent values of deltas, epsilons, CGFs and Renyi divergences, by thirty-digit quadrature, closed sums and enumeration.

Tests compare dpcli's bounds with them. Nothing here uses dpcli's numerics. K(z) = log E_P[(P/Q)^z] is the CGF of the privacy loss of a pair
(P, Q).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from dpcli.mechanisms.mechanism import Mechanism

Array = NDArray[np.float64]
Distribution = Sequence[float]
DIGITS = 30


def _expect(f: Callable[[mp.mpf], mp.mpf], low: float, high: float) -> mp.mpf:
    """Return the integral of f under the standard normal density, in pieces of two standard deviations."""
    pieces = max(2, math.ceil((high - low) / 2.0))
    points = [mp.mpf(low) + (mp.mpf(high) - mp.mpf(low)) * i / pieces for i in range(pieces + 1)]
    return mp.quad(lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) * f(x), points)


def _excess(d: mp.mpf, p: mp.mpf) -> mp.mpf:
    """Return (1+d)^p - 1 - p d, the part of a moment that does not integrate to a known value."""
    return mp.expm1(p * mp.log1p(d)) - p * d


def _digits(rate: float) -> int:
    """Return the digits for `_excess`, which is of the order of rate^2 after terms of the order of rate cancel."""
    return DIGITS + math.ceil(-math.log10(rate))


@cache
def sampled_gaussian_cgf(mu: float, rate: float, z: float, direction: str, records: int = 1) -> mp.mpf:
    """Return K(z) of Gaussian noise on a Poisson sample, for a group of `records`: remove is (mixture, N(0,1)), add the reverse."""
    with mp.workdps(_digits(rate)):
        m, q, order = mp.mpf(mu), mp.mpf(rate), mp.mpf(z)
        weights = [mp.binomial(records, j) * q**j * (1 - q) ** (records - j) for j in range(records + 1)]

        def change(x: mp.mpf) -> mp.mpf:
            return mp.fsum(weights[j] * mp.expm1(j * m * x - (j * m) ** 2 / 2) for j in range(1, records + 1))

        p = order + 1 if direction == "remove" else -order
        reach = (float(max(p, 1)) + 1.0) * mu * records
        low, high = (-14.0, reach + 14.0) if direction == "remove" else (-14.0, 2.0 * mu * records + 14.0)
        return mp.log1p(_expect(lambda x: _excess(change(x), p), low, high))


@cache
def replaced_gaussian_cgf(mu: float, rate: float, z: float) -> mp.mpf:
    """Return K(z) of ((1-q) N(0) + q N(mu), (1-q) N(0) + q N(-mu))."""
    with mp.workdps(_digits(rate)):
        m, q, p = mp.mpf(mu), mp.mpf(rate), mp.mpf(z) + 1

        def mixture(x: mp.mpf) -> mp.mpf:
            return 1 + q * mp.expm1(m * x - m * m / 2)

        reach = (float(p) + 1.0) * mu
        return mp.log1p(_expect(lambda x: mixture(-x) * _excess(mixture(x) / mixture(-x) - 1, p), -2.0 * mu - 14.0, reach + 14.0))


def laplace_cgf(epsilon: float, z: float) -> mp.mpf:
    """Return K(z) of (Lap(e0, 1), Lap(0, 1)), by quadrature of the densities."""
    with mp.workdps(DIGITS):
        e0, order = mp.mpf(epsilon), mp.mpf(z)

        def integrand(x: mp.mpf) -> mp.mpf:
            return mp.exp(-abs(x - e0) + order * (abs(x) - abs(x - e0))) / 2

        ends = [-mp.inf, mp.mpf(0), e0 / 2, e0, mp.inf]
        return mp.log(mp.quad(integrand, ends))


def finite_cgf(p: Distribution, q: Distribution, z: float) -> mp.mpf:
    """Return K(z) = log sum p (p/q)^z of two finite distributions."""
    with mp.workdps(DIGITS):
        order = mp.mpf(z)
        return mp.log(mp.fsum(mp.mpf(a) * (mp.mpf(a) / mp.mpf(b)) ** order for a, b in zip(p, q, strict=True) if a > 0))


def finite_delta(p: Distribution, q: Distribution, epsilon: float) -> mp.mpf:
    """Return the hockey-stick divergence sum (p - e^eps q)+."""
    with mp.workdps(DIGITS):
        e = mp.exp(mp.mpf(epsilon))
        return mp.fsum(max(mp.mpf(a) - e * mp.mpf(b), mp.mpf(0)) for a, b in zip(p, q, strict=True))


def discrete_gaussian_pair(sigma: float, sensitivity: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Return discrete Gaussians centred at `sensitivity` and at 0, on all integers that matter at thirty digits."""
    with mp.workdps(DIGITS):
        reach = math.ceil(14 * sigma) + 4
        norm = mp.fsum(mp.exp(-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) for x in range(-reach, reach + 1))
        window = range(-reach, sensitivity + reach + 1)
        p, q = ([mp.exp(-(mp.mpf(x - c) ** 2) / (2 * mp.mpf(sigma) ** 2)) / norm for x in window] for c in (sensitivity, 0))
        return p, q


def discrete_laplace_pair(scale: float, sensitivity: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Return two-sided geometric distributions centred at `sensitivity` and at 0."""
    with mp.workdps(DIGITS):
        reach, r = math.ceil(80 * scale) + 4, mp.exp(-1 / mp.mpf(scale))
        window = range(-reach, sensitivity + reach + 1)
        p, q = ([(1 - r) / (1 + r) * r ** abs(x - c) for x in window] for c in (sensitivity, 0))
        return p, q


def response_pair(epsilon: float, categories: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Return the distributions of k-ary randomised response to two different categories."""
    with mp.workdps(DIGITS):
        other = 1 / (mp.exp(mp.mpf(epsilon)) + categories - 1)
        kept = 1 - (categories - 1) * other
        rest = [other] * (categories - 2)
        return [kept, other, *rest], [other, kept, *rest]


def bounded_range_pair(epsilon: float, t: float) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Return the pair of two outcomes whose losses are t and t - epsilon."""
    with mp.workdps(DIGITS):
        e0, high = mp.mpf(epsilon), mp.mpf(t)
        p = (mp.exp(e0) - mp.exp(high)) / mp.expm1(e0)
        return [p, 1 - p], [p * mp.exp(-high), (1 - p) * mp.exp(e0 - high)]


def gaussian_delta(mu: float, epsilon: float) -> mp.mpf:
    """Return Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), with enough digits for the subtraction."""
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def gaussian_epsilon(mu: float, delta: float) -> mp.mpf:
    """Return the epsilon at which `gaussian_delta` is delta, by bisection; 0 if delta is at least the total variation."""
    with mp.workdps(40):
        if gaussian_delta(mu, 0.0) <= delta:
            return mp.mpf(0)
        m = mp.mpf(mu)
        low, high = mp.mpf(0), m * m / 2 + m * mp.sqrt(-2 * mp.log(mp.mpf(delta)))
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
        return (low + high) / 2


def sampled_gaussian_delta(mu: float, rate: float, epsilon: float, direction: str) -> mp.mpf:
    """Return delta of one Poisson-sampled Gaussian, from the point at which the ratio 1-q+q e^u crosses e^(+-eps)."""
    with mp.workdps(40):
        m, q, e = mp.mpf(mu), mp.mpf(rate), mp.exp(mp.mpf(epsilon))
        level = (e - 1 + q) / q if direction == "remove" else (1 / e - 1 + q) / q
        if level <= 0:
            return mp.mpf(0)
        x = mp.log(level) / m + m / 2
        if direction == "remove":
            return (1 - q - e) * mp.ncdf(-x) + q * mp.ncdf(m - x)
        return (1 - e * (1 - q)) * mp.ncdf(x) - e * q * mp.ncdf(x - m)


def two_point_delta(epsilons: Sequence[float], epsilon: float) -> float:
    """Return delta of composed randomised responses at `epsilon`, by enumerating every subset (Murtagh, Vadhan)."""
    total = 0.0
    for signs in itertools.product((1.0, -1.0), repeat=len(epsilons)):
        loss = math.fsum(s * e for s, e in zip(signs, epsilons, strict=True))
        if loss > epsilon:
            log_mass = math.fsum((e if s > 0 else 0.0) - math.log1p(math.exp(e)) for s, e in zip(signs, epsilons, strict=True))
            total += math.exp(log_mass) * -math.expm1(epsilon - loss)
    return total


def decreasing_root(f: Callable[[float], float], target: float, high: float) -> float:
    """Return the point of [0, high] at which the decreasing f falls to `target`, by bisection."""
    low = 0.0
    if f(low) <= target:
        return 0.0
    for _ in range(55):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if f(middle) > target else (low, middle)
    return high


def binomial_delta(epsilon: float, count: int, at: float) -> mp.mpf:
    """Return delta at epsilon = `at` of `count` equal randomised responses, as a full sum."""
    with mp.workdps(DIGITS):
        e = mp.mpf(epsilon)
        p = 1 / (1 + mp.exp(-e))
        terms = ((mp.binomial(count, j) * p**j * (1 - p) ** (count - j), (2 * j - count) * e) for j in range(count + 1))
        return mp.fsum(mass * -mp.expm1(mp.mpf(at) - loss) for mass, loss in terms if loss > at)


def renyi_curve(p: Array, q: Array, orders: Array) -> Array:
    """Return D_a(p || q) of two finite distributions with full support, at each order."""
    terms = np.log(p)[None, :] + (orders[:, None] - 1.0) * (np.log(p) - np.log(q))[None, :]
    top = terms.max(axis=1)
    curve: Array = (top + np.log(np.exp(terms - top[:, None]).sum(axis=1))) / (orders - 1.0)
    return curve


def renyi(p: Array, q: Array, order: float) -> float:
    """Return `renyi_curve` at one order."""
    return float(renyi_curve(p, q, np.array([order]))[0])


def hockey_stick(p: Array, q: Array, epsilon: float) -> float:
    """Return sum (p - e^eps q)+ in floats."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@dataclass(frozen=True, slots=True)
class FinitePairs(Mechanism):
    """A mechanism given by all pairs of output distributions that one change can produce; exact by enumeration of both directions."""

    pairs: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]

    def _all(self) -> list[tuple[Array, Array]]:
        found = [(np.array(p), np.array(q)) for p, q in self.pairs]
        return found + [(q, p) for p, q in found]

    def approx_dp(self, delta: float) -> float:
        pure = max(float(np.log(p / q).max()) for p, q in self._all())
        if delta == 0.0:
            return pure * (1.0 + 1e-12)
        return decreasing_root(lambda e: max(hockey_stick(p, q, e) for p, q in self._all()), delta, pure) * (1.0 + 1e-12)

    def rdp(self, orders: Array) -> Array:
        curves: Array = np.array([renyi_curve(p, q, orders) for p, q in self._all()])
        return curves.max(axis=0) * (1.0 + 1e-13)


def composed_delta(mu: float, rate: float, count: int, epsilons: tuple[float, ...], tilt: float) -> list[mp.mpf]:
    """Return delta(eps) of a Poisson-sampled Gaussian composed `count` times (remove), by inversion of exp(K) on Re z = tilt."""
    with mp.workdps(30):
        step, q, m = mp.mpf(1) / 20, mp.mpf(rate), mp.mpf(mu)
        nodes = [step * k for k in range(-240, int(20 * ((tilt + 1) * mu + 13)))]
        ratios = [1 - q + q * mp.exp(m * x - m * m / 2) for x in nodes]
        logs = [mp.log(r) for r in ratios]
        masses = [mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) * step * r for x, r in zip(nodes, ratios, strict=True)]
        totals, h = [mp.mpf(0)] * len(epsilons), mp.mpf(tilt) / 20
        for k in range(4000):
            z = mp.mpc(tilt, h * k)
            base = mp.exp(count * mp.log(mp.fsum(w * mp.exp(z * loss) for w, loss in zip(masses, logs, strict=True)))) / (
                z * (z + 1)
            )
            terms = [base * mp.exp(-z * mp.mpf(eps)) for eps in epsilons]
            totals = [total + (1 if k == 0 else 2) * term.real for total, term in zip(totals, terms, strict=True)]
            if k and max(abs(term) for term in terms) < mp.mpf(10) ** -18 * abs(totals[0]):
                break
        return [total * h / (2 * mp.pi) for total in totals]
