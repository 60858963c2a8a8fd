"""Noise distributions on the integers: their tails, the half widths of confidence intervals, and the scale that a cost requires.

A `NoiseLaw` is one noise in three roles: its *spread* is the scale or sigma that is priced, samplers.py draws from it, and intervals
(answers/) follow from its tails. Tails are upper bounds, so confidence intervals that are computed from them are never too narrow.
`scale_of` and `sigma_of` give the noise for a cost, rounded up, so that the noise costs no more. The integers of a column are *steps*, its
declared unit of rounding.
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

# Largest sigma for which Gaussian tails are summed, in a table of about 80,000 numbers. A larger one would cost time and memory; beyond, an
# integral with a bound on its error takes the place of the sum.
LARGEST_SUMMED = 2000.0
LARGEST = 2.0**50  # largest scale or sigma; with it, a draw exceeds 64 bits with a probability of at most e^-8000


class NoiseLaw(Protocol):
    """A symmetric law on the integers whose probabilities decrease on both sides of 0. Two laws with the same type and scale are equal."""

    def __hash__(self) -> int: ...  # needed, because laws are arguments of cached functions

    @property
    def spread(self) -> float:
        """The scale or sigma by which the law's mechanism type is priced, in units of the integers."""
        ...

    @property
    def variance(self) -> float:
        """An upper bound on E[X^2]."""
        ...

    def at_least(self, x: Array) -> Array:
        """Return an upper bound on P(X >= x) for integers x. It exceeds the exact value by at most 1e-8."""
        ...

    def exceeds(self, half_width: int) -> float:
        """Return an upper bound on P(|X| > half_width) for half_width >= 0."""
        ...


# The factors 1 + 1e-12 to 1 + 1e-15 below round results up, to allow for the rounding errors of doubles.


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceLaw:
    """The discrete Laplace law: P(X = x) = (1 - r) / (1 + r) r^|x| with r = e^{-1/scale}.

    Priced by: discrete-laplace with this scale.

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
        """2 r / (1 - r)^2 = 1 / (2 sinh^2(1 / (2 scale))), rounded up. It is positive even if the exact value underflows."""
        half = min(0.5 / self.scale, 350.0)  # sinh^2 overflows soon after 350; a smaller argument only gives a larger variance
        return 0.5 / math.sinh(half) ** 2 * (1.0 + 1e-15)

    def log_probability(self, x: Array) -> Array:
        """Return log P(X = x)."""
        a = 1.0 / self.scale
        return math.log(-math.expm1(-a)) - math.log1p(math.exp(-a)) - abs(x) * a

    def at_least(self, x: Array) -> Array:
        """Return r^x / (1 + r) for x > 0, and 1 - P(X >= 1 - x) for other x, both rounded up."""
        a = 1.0 / self.scale
        tail = np.exp(-np.where(x > 0, x, 1.0 - x) * a - math.log1p(math.exp(-a)))
        return np.asarray(np.where(x > 0, tail * (1.0 + 1e-13), 1.0 - tail * (1.0 - 1e-13)))

    def exceeds(self, half_width: int) -> float:
        a = 1.0 / self.scale
        return math.exp(math.log(2.0) - math.log1p(math.exp(-a)) - (half_width + 1) * a) * (1.0 + 1e-12)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLaw:
    """The discrete Gaussian law: P(X = x) is proportional to e^{-x^2 / (2 sigma^2)}.

    The standard deviation is slightly smaller than sigma (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 9).

    Priced by: discrete-gaussian with this sigma.
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
        """Return P(X >= x) for integers x >= 1, and a bound on the errors."""
        if self.sigma <= LARGEST_SUMMED:
            table = _gaussian_tails(self.sigma)
            return np.asarray(table[np.minimum(x, len(table) - 1).astype(np.int64)]), 1e-13
        from scipy.special import erfc

        return np.asarray(0.5 * erfc((x - 0.5) / (self.sigma * math.sqrt(2.0)))), _midpoint_error(self.sigma)

    def exceeds(self, half_width: int) -> float:
        """Return an upper bound on P(|X| > half_width).

        For sigma up to LARGEST_SUMMED, the bound is a sum. For a larger sigma, it is twice the integral of the density from
        half_width + 1/2. Beyond sigma the density is convex, so its value at the middle of a cell is at most its mean over the cell, and
        the integral is an upper bound. Closer to 0 the integral may be too small by the error of the midpoint rule, which is added. The
        normalising sum is at least sigma sqrt(2 pi), by Poisson summation.
        """
        if self.sigma <= LARGEST_SUMMED:
            table = _gaussian_tails(self.sigma)
            return 2.0 * float(table[min(half_width + 1, len(table) - 1)]) * (1.0 + 1e-12)
        error = 0.0 if half_width + 0.5 >= self.sigma else 2.0 * _midpoint_error(self.sigma)
        return math.erfc((half_width + 0.5) / (self.sigma * math.sqrt(2.0))) * (1.0 + 1e-14) + error


def half_width(law: NoiseLaw, confidence: float) -> int:
    """Return the smallest integer h for which `law.exceeds` certifies P(|X| <= h) >= confidence.

    Raises InputError unless the confidence is in (0, 1).
    """
    return half_width_beyond(law, failure_of(confidence))


def failure_of(confidence: float) -> float:
    """Return 1 - confidence. Raises InputError unless the confidence is in (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"expected a confidence in (0, 1), found {confidence!r}")
    return 1.0 - confidence


def half_width_beyond(law: NoiseLaw, failure: float) -> int:
    """Return the smallest integer h for which `law.exceeds` certifies P(|X| > h) <= failure.

    Raises InputError if the probability of failure is not in [1e-300, 1), the range that tails can resolve.
    """
    if not 1e-300 <= failure < 1.0:
        raise InputError(f"expected a probability of failure in [1e-300, 1), found {failure!r}")
    return smallest_whole(lambda h: law.exceeds(h) <= failure)


def smallest_whole(holds: Callable[[int], bool], least: int = 0) -> int:
    """Return the smallest integer >= `least` for which `holds` is true. It must then be true for all larger integers too."""
    low, high = least - 1, least
    while not holds(high):
        low, high = high, high + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def check_spread(name: str, value: float) -> None:
    """Raise InputError for a scale or sigma that is not positive, or larger than LARGEST."""
    if not 0.0 < value <= LARGEST:
        raise InputError(
            f"expected a {name} of the noise above 0 and at most 2^50 steps, found {value!r}; state a larger step if it is too large"
        )


def _midpoint_error(sigma: float) -> float:
    """Return a bound on the error of the midpoint rule for the density f between 0 and sigma.

    The bound is sigma max|f''| / 24, where |f''| <= f(0) / sigma^2.
    """
    return 1.0 / (24.0 * math.sqrt(2.0 * math.pi) * sigma * sigma) + 1e-15


@lru_cache(maxsize=64)
def _gaussian_sum(sigma: float) -> float:
    """Return the sum of e^{-x^2 / (2 sigma^2)} over all integers. For sigma >= 3, sum / integral differs from 1 by at most e^-170."""
    if sigma >= 3.0:
        return sigma * math.sqrt(2.0 * math.pi)
    # Terms beyond 40 sigma are below e^-800, which underflows to 0.
    return 1.0 + 2.0 * math.fsum(math.exp(-0.5 * (x / sigma) ** 2) for x in range(1, math.ceil(40.0 * sigma) + 2))


@lru_cache(maxsize=16)
def _gaussian_tails(sigma: float) -> Array:
    """Return P(X >= x) for x = 0, 1, ... up to 38 sigma. Beyond, e^{-x^2 / (2 sigma^2)} soon underflows.

    The last number bounds the tail of all larger x.
    """
    x = np.arange(math.ceil(38.0 * sigma) + 3, dtype=float)
    mass = np.exp(-0.5 * (x / sigma) ** 2) / _gaussian_sum(sigma)
    return np.asarray(np.maximum(np.cumsum(mass[::-1])[::-1], math.ulp(0.0)))  # no tail is 0: a bound on it must not be either


def scale_of(sensitivity: int | Fraction, epsilon: float) -> float:
    """Return the smallest double with sensitivity / scale <= epsilon, where epsilon is the decimal as the user stated it.

    It is the scale of discrete Laplace noise. It is also the scale of a choice, if `sensitivity` is the range of the scores. Raises
    InputError if the scale is larger than every double.
    """
    return rounded_up(Fraction(sensitivity) / stated(epsilon))


def sigma_of(squared_sensitivity: int | Fraction, rho: float) -> float:
    """Return the smallest double with squared_sensitivity / (2 sigma^2) <= rho.

    The argument is the square of the L2 sensitivity, since the square is exact and the sensitivity itself may not be. Raises InputError if
    sigma^2 is larger than every double.
    """
    squared_sigma = Fraction(squared_sensitivity) / (2 * stated(rho))
    sigma = math.sqrt(_double(squared_sigma)) * (1.0 - 1e-15)  # surely below the result
    while Fraction(sigma) ** 2 < squared_sigma:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def rounded_up(exact: Fraction) -> float:
    """Return the smallest double that is at least `exact`. Raises InputError if there is none."""
    nearest = _double(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _double(exact: Fraction) -> float:
    """Return the nearest double. Raises InputError if the number is larger than every double."""
    try:
        return float(exact)
    except OverflowError:
        raise InputError(
            "expected noise of at most 2^50 steps, found more than the largest double: raise the cost, or lower the contribution of a unit"
        ) from None
