"""Noise distributions on the integers: tails, half widths at a confidence, and the scale that a cost allows.

Tails are upper bounds, so that intervals made of them are never too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from dpcli.base.errors import InputError
from dpcli.base.stated import stated
from dpcli.numerics.arrays import Array, np

LARGEST_SUMMED = 2000.0  # sigma up to which tails are summed exactly, in a table of 80,000 numbers
LARGEST = 2.0**50  # scale: at it a draw beyond 64 bits has a probability of at most e^-8000


class NoiseLaw(Protocol):
    """A symmetric law on the integers, decreasing on both sides of 0. Laws of one scale are equal."""

    def __hash__(self) -> int: ...

    @property
    def spread(self) -> float:
        """The scale that a mechanism type prices, in units of the integers."""
        ...

    @property
    def variance(self) -> float:
        """E[X^2]; an upper bound."""
        ...

    def at_least(self, x: Array) -> Array:
        """P(X >= x), of whole numbers; an upper bound, above the truth by at most 1e-8."""
        ...

    def exceeds(self, half_width: int) -> float:
        """P(|X| > half_width), half_width >= 0; an upper bound."""
        ...


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceLaw:
    """P(X = x) = (1 - r) / (1 + r) r^|x|, r = e^{-1/scale}: what the mechanism type discrete-laplace prices at this scale.

    Source: Ghosh, Roughgarden, Sundararajan 2009, arXiv:0811.2841.
    """

    scale: float

    def __post_init__(self) -> None:
        check_spread("scale", self.scale)

    @property
    def spread(self) -> float:
        return self.scale

    @property
    def variance(self) -> float:
        """2 r / (1 - r)^2 = 1 / (2 sinh^2(1 / (2 scale))); never 0, not even where the exact value underflows."""
        half = min(0.5 / self.scale, 350.0)
        return 0.5 / math.sinh(half) ** 2 * (1.0 + 1e-15)

    def log_probability(self, x: Array) -> Array:
        """Return log P(X = x)."""
        a = 1.0 / self.scale
        return math.log(-math.expm1(-a)) - math.log1p(math.exp(-a)) - abs(x) * a

    def at_least(self, x: Array) -> Array:
        """Return r^x / (1 + r) for x > 0, and 1 minus that of 1 - x elsewhere."""
        a = 1.0 / self.scale
        tail = np.exp(-np.where(x > 0, x, 1.0 - x) * a - math.log1p(math.exp(-a)))
        return np.asarray(np.where(x > 0, tail * (1.0 + 1e-13), 1.0 - tail * (1.0 - 1e-13)))

    def exceeds(self, half_width: int) -> float:
        a = 1.0 / self.scale
        return math.exp(math.log(2.0) - math.log1p(math.exp(-a)) - (half_width + 1) * a) * (1.0 + 1e-12)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLaw:
    """P(X = x) proportional to e^{-x^2 / (2 sigma^2)}: what the mechanism type discrete-gaussian prices at this sigma.

    sigma is not quite the standard deviation, which is smaller (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 9).
    """

    sigma: float

    def __post_init__(self) -> None:
        check_spread("sigma", self.sigma)

    @property
    def spread(self) -> float:
        return self.sigma

    @property
    def variance(self) -> float:
        return self.sigma * self.sigma

    def at_least(self, x: Array) -> Array:
        positive = np.where(x > 0, x, 1.0 - x)
        upper, error = self._upper_tail(positive)
        return np.asarray(np.minimum(np.where(x > 0, upper + error, 1.0 - upper + error), 1.0))

    def _upper_tail(self, x: Array) -> tuple[Array, float]:
        """Return P(X >= x) for whole x >= 1, and a bound on its error."""
        if self.sigma <= LARGEST_SUMMED:
            table = _tails(self.sigma)
            return np.asarray(table[np.minimum(x, len(table) - 1).astype(np.int64)]), 1e-13
        from scipy.special import erfc

        return np.asarray(0.5 * erfc((x - 0.5) / (self.sigma * math.sqrt(2.0)))), _midpoint_error(self.sigma)

    def exceeds(self, half_width: int) -> float:
        """Return P(|X| > half_width) by summation; for a large sigma, by twice the integral from half_width + 1/2.

        The density is convex beyond sigma, where a cell's middle lies below its mean: that is an upper bound by itself. Nearer to 0 it can
        be below by the error of the midpoint rule. The total is at least sigma sqrt(2 pi), by Poisson summation.
        """
        if self.sigma <= LARGEST_SUMMED:
            table = _tails(self.sigma)
            return 2.0 * float(table[min(half_width + 1, len(table) - 1)]) * (1.0 + 1e-12)
        error = 0.0 if half_width + 0.5 >= self.sigma else 2.0 * _midpoint_error(self.sigma)
        return math.erfc((half_width + 0.5) / (self.sigma * math.sqrt(2.0))) * (1.0 + 1e-14) + error


def half_width(law: NoiseLaw, confidence: float) -> int:
    """Return the smallest whole h with P(|X| <= h) >= confidence; never less than that, as tails are upper bounds."""
    return half_width_beyond(law, failure_of(confidence))


def failure_of(confidence: float) -> float:
    """Return 1 - confidence. Raises InputError unless the confidence is in (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"expected a confidence in (0, 1), found {confidence!r}")
    return 1.0 - confidence


def half_width_beyond(law: NoiseLaw, failure: float) -> int:
    """Return the smallest whole h with P(|X| > h) <= failure, for failures from 1e-300 on, which tails can resolve."""
    if not 1e-300 <= failure < 1.0:
        raise InputError(f"expected a probability of failure in [1e-300, 1), found {failure!r}")
    return smallest_whole(lambda h: law.exceeds(h) <= failure)


def smallest_whole(holds: Callable[[int], bool], least: int = 0) -> int:
    """Return the smallest whole number from `least` on that holds, as all larger ones do."""
    low, high = least - 1, least
    while not holds(high):
        low, high = high, high + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def check_spread(name: str, value: float) -> None:
    """Raise InputError for a scale that no law has."""
    if not 0.0 < value <= LARGEST:
        raise InputError(
            f"expected a {name} of the noise above 0 and at most 2^50 steps, found {value!r}: where it is too large, make the step larger"
        )


def _midpoint_error(sigma: float) -> float:
    """Bound what the midpoint rule can miss of the density between 0 and sigma: sigma max|f''| / 24, f'' <= f(0) / sigma^2."""
    return 1.0 / (24.0 * math.sqrt(2.0 * math.pi) * sigma * sigma) + 1e-15


@lru_cache(maxsize=64)
def _total(sigma: float) -> float:
    """Return the sum of e^{-x^2 / (2 sigma^2)}; from sigma = 3 on it equals its integral up to e^-170."""
    if sigma >= 3.0:
        return sigma * math.sqrt(2.0 * math.pi)
    return 1.0 + 2.0 * math.fsum(math.exp(-0.5 * (x / sigma) ** 2) for x in range(1, math.ceil(40.0 * sigma) + 2))


@lru_cache(maxsize=16)
def _tails(sigma: float) -> Array:
    """Return P(X >= x) for x = 0, 1, ... to 38 sigma; the last bounds all larger x."""
    x = np.arange(math.ceil(38.0 * sigma) + 3, dtype=float)
    mass = np.exp(-0.5 * (x / sigma) ** 2) / _total(sigma)
    return np.asarray(np.maximum(np.cumsum(mass[::-1])[::-1], math.ulp(0.0)))


def scale_of(sensitivity: int | Fraction, epsilon: float) -> float:
    """Return the smallest double with sensitivity / scale <= epsilon, as stated.

    The scale of discrete Laplace noise, or of a choice whose scores have this range.
    """
    return rounded_up(Fraction(sensitivity) / stated(epsilon))


def sigma_of(squared_sensitivity: int | Fraction, rho: float) -> float:
    """Return the smallest double with squared_sensitivity / (2 sigma^2) <= rho; the square is exact where the L2 sensitivity is not."""
    wanted = Fraction(squared_sensitivity) / (2 * stated(rho))
    sigma = math.sqrt(_double(wanted)) * (1.0 - 1e-15)
    while Fraction(sigma) ** 2 < wanted:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def rounded_up(exact: Fraction) -> float:
    """Return the smallest double that is no less than `exact`."""
    nearest = _double(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _double(exact: Fraction) -> float:
    """Return the nearest double. Raises InputError if none is large enough."""
    try:
        return float(exact)
    except OverflowError:
        raise InputError(
            "expected noise of at most 2^50 steps, found more than a double holds: it costs too little, or a unit adds too much"
        ) from None
