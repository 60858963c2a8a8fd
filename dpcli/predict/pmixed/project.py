"""A model's probabilities, brought within a radius of a public model's: |log(projected / public)| <= radius for every token.

All arrays are (vocabulary,), float64. Work stays in a few arrays of that size, which fit a core's cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np

MARGIN = 8.0 * 2.0**-52  # the product with the public probability, and exp, lose less
LEAST = 1e-290  # a public probability below this counts as 0: quotients by it would not be accurate
CLOSE = 1e-14  # of the sum of probabilities to 1
ATTEMPTS = 200
FARTHEST = 690.0  # of the logarithm of a scale: ratios beyond its range count as 0
WIDEST = 600.0  # of a radius: e^WIDEST is a number with room above it, and a smaller radius keeps a larger one


@dataclass(frozen=True, slots=True)
class Ball:
    """All distributions within `radius` of a public one.

    public: its probabilities. inverse: 1 / public, 0 where public is 0. low, high: e^-radius and e^radius, rounded inwards, not beyond 1:
    the public model itself is within every radius.
    """

    public: Array
    inverse: Array
    radius: float
    low: float
    high: float

    def ratios(self, private: Array) -> Array:
        """A model's probabilities over the public ones, 0 where the public one is 0.

        1 everywhere where they are no probabilities (NaN, negative, or none where the public model has some): an error, or a message,
        would tell of the private data, so such a model counts as the public one.
        """
        with np.errstate(all="ignore"):  # a warning would tell as much
            found: Array = np.multiply(private, self.inverse)
            total = np.dot(self.public, found)
        if not (0.0 < total < math.inf and found.min() >= 0.0):
            return np.ones_like(found)
        if abs(total - 1.0) > CLOSE:  # some of it lies where the public model has nothing
            found /= total
        return found


class Projection(Protocol):
    """A way into the ball: (ball, probabilities) -> probabilities of the ball, which add up to 1 within 1e-12."""

    def __call__(self, ball: Ball, private: Array) -> Array: ...


def ball(public: Array, radius: float) -> Ball:
    """The ball around a public model's probabilities, (vocabulary,).

    Raises InputError where they are no probabilities: they are public, so that may be told.
    """
    there = public >= LEAST
    if not (radius > 0.0 and math.isfinite(radius)):
        raise InputError(f"expected a radius > 0, found {radius!r}")
    if not np.all(public >= 0.0) or not math.isclose(public.sum(), 1.0, abs_tol=1e-6):
        raise InputError("the public model: expected probabilities that add up to 1, found others")
    kept = np.where(there, public, 0.0)
    kept /= kept.sum()
    with np.errstate(divide="ignore"):
        inverse = np.where(there, 1.0 / kept, 0.0)
    reach = min(radius, WIDEST)
    low, high = math.exp(-reach) * (1.0 + MARGIN), math.exp(reach) * (1.0 - MARGIN)
    return Ball(kept, inverse, radius, min(low, 1.0), max(high, 1.0))


def clip(ball: Ball, private: Array) -> Array:
    """public * clip(s private / public, e^-radius, e^radius), with the s at which that adds up to 1.

    Of all distributions in the ball it is the one with the least Kullback-Leibler divergence from the model's. The bound holds for the
    numbers that are returned, as real numbers: they are products of the public ones with ratios that are rounded inwards.

    Edge cases: a token without public probability gets none. A model without probability where much of the public one lies, so that even
    e^radius times the rest adds up to less than 1: what is missing goes to the tokens that it calls impossible, in the public proportion.
    """
    ratios = ball.ratios(private)
    clipped = np.empty_like(ratios)

    def total(scale: float) -> float:
        with np.errstate(over="ignore"):
            np.multiply(ratios, scale, out=clipped)
        np.clip(clipped, ball.low, ball.high, out=clipped)
        return float(np.dot(ball.public, clipped))

    if not _solved(total):
        possible = clipped >= ball.high
        reached = float(ball.public[possible].sum())
        level = (1.0 - ball.high * reached) / float(ball.public[~possible].sum())
        clipped = np.where(possible, ball.high, min(max(level, ball.low), ball.high))
    clipped *= ball.public
    return clipped


def mix(ball: Ball, private: Array) -> Array:
    """share private + (1 - share) public, with the largest share that stays in the ball: a closed form."""
    ratios = ball.ratios(private)
    there = ball.inverse > 0.0
    most = float(ratios.max())
    least = float(ratios.min() if there.all() else ratios[there].min())
    share = 1.0
    if most > ball.high:
        share = (ball.high - 1.0) / (most - 1.0)
    if least < ball.low:
        share = min(share, (1.0 - ball.low) / (1.0 - least))
    ratios *= share
    ratios += 1.0 - share
    np.clip(ratios, ball.low, ball.high, out=ratios)
    ratios *= ball.public
    return ratios


class _Total(Protocol):
    def __call__(self, scale: float) -> float: ...


def _solved(total: _Total) -> bool:
    """Whether `total` was left at a scale at which it is 1 within CLOSE, or as near as its rounding lets it be; False where it stays below.

    It rises with the scale, from e^-radius on. Secants in logarithms, kept in a bracket.
    """
    low, high, at = -math.inf, math.inf, 0.0  # of the logarithm of the scale
    before: tuple[float, float] | None = None
    for attempt in range(ATTEMPTS):
        value = math.log(total(math.exp(at)))
        if abs(value) <= CLOSE:
            return True
        if value < 0.0 and at >= FARTHEST:
            return False
        low, high = (at, high) if value < 0.0 else (low, at)
        reach = 2.0**attempt  # an early secant may be nearly flat
        step = -value if before is None else min(max(_secant(before, (at, value)), -reach), reach)
        following = min(max(at + step, -FARTHEST), FARTHEST)
        if not low < following < high or attempt % 8 == 7:
            following = 0.5 * (max(low, -FARTHEST) + min(high, FARTHEST))
        if following in (low, high):
            return True
        before, at = (at, value), following
    return True


def _secant(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The step from `other` to where the line through both is 0, infinite where that is flat."""
    slope = (other[1] - one[1]) / (other[0] - one[0])
    return -other[1] / slope if slope > 0.0 else math.copysign(math.inf, -other[1])
