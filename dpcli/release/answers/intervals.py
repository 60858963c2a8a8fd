"""Confidence intervals of noisy answers, and the noise that meets a target error.

The measures (measures/) call it for the intervals of their answers and for expected errors, vectors.py for the noise of a query that states
an error. A *law* is the distribution of integer noise (noise/laws.py). A *step* is the declared unit of rounding of a column: noisy numbers
are whole numbers of steps, and become units of the answer at the end (`on_grid`), so that 1234 steps of 0.01 are 12.34.

An interval covers the noise alone, and not the effect of values that were clamped or rows that were left out. It follows from upper bounds
on tails, so it is never too narrow; ends that are not whole steps are rounded outward. Noise for a target error is rounded to more
accuracy, which costs more privacy and is charged as such. Privacy does not depend on an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import LARGEST, NoiseLaw, failure_of, half_width, rounded_up

# The search for the ends of an interval whose values pass a test, such as a large enough p-value (`accepted_range`). It returns the outer
# end of its last bracket.
HALVINGS = 200  # largest number of halvings. CLOSE ends the search earlier, unless the end is next to the start
CLOSE = 1e-4  # how far the returned end may be beyond the true end, relative to its distance from the start: accuracy against time
PROBES = 16  # parts into which the values beyond an end are divided, to look for accepted values there; arbitrary
FIFTY_DIGITS = Context(prec=50)  # the error of a root is far below the last bit of a double

# The search for the noise of an error target (`spread_within`). Its result is tested, so these values affect accuracy alone.
LEAST_SPREAD = 1e-3  # smallest scale or sigma that dpcli chooses; noise of this scale is almost always 0
DIGITS = 6  # significant digits of a scale or sigma that dpcli chooses, so that it can be read
NEAR_ONE = 1.0 + 1e-9  # ratio of the ends at which the search stops, well below the last of DIGITS
FARTHEST = 2**62  # larger error targets are reduced to this; the widest noise exceeds it with a probability below e^-4000


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """An interval with low <= truth <= high with probability at least `confidence`, over the noise alone.

    The truth is the exact answer to which the noise was added. It is computed from clamped values, and from the rows that count. Errors
    due to clamping and to excluded rows are not covered.
    """

    low: float
    high: float
    confidence: float


def accepted_range(accepts: Callable[[float], bool], start: float, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an interval within [low, high] that contains the values which a test accepts, if these are a range.

    The search begins at `start`, and each end is rounded outwards. An end of [low, high] itself is returned if the test accepts it, or one
    of PROBES - 1 values between it and the computed end: the accepted values are then no single range. Both ends are returned if the test
    rejects `start`: the accepted values may then lie anywhere.
    """
    if not accepts(start):
        return low, high
    return _end(accepts, start, low), _end(accepts, start, high)


def _end(accepts: Callable[[float], bool], start: float, limit: float) -> float:
    """Return the end of the interval between `start`, which is accepted, and `limit`, by bisection."""
    if accepts(limit):
        return limit
    inside, outside = start, limit
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        # The end is known well enough, or no double lies between the two.
        if abs(outside - inside) <= CLOSE * abs(inside - start) or middle in (inside, outside):
            break
        if accepts(middle):
            inside = middle
        else:
            outside = middle
    probes = (outside + (limit - outside) * part / PROBES for part in range(1, PROBES))
    return limit if any(accepts(probe) for probe in probes) else outside


def on_grid(steps: int, step: float) -> float:
    """Return the double nearest to the product of `steps` and the decimal `step`: 1234 steps of 0.01 are 12.34.

    Noisy sums and the ends of their intervals are computed by this function, so that they are printed with the digits of the step.
    """
    return float(steps * Fraction(repr(step)))


def steps_value(steps: int, step: float) -> int | float:
    """Return the value of a whole number of steps as it is shown: an integer if the step is 1, and `on_grid` otherwise."""
    return steps if step == 1.0 else on_grid(steps, step)


def additive_interval(noisy: int, law: NoiseLaw, confidence: float, step: float = 1.0) -> ConfidenceInterval:
    """Return the confidence interval of a noisy count or sum: the shortest one with integer ends that the law of the noise permits.

    The number and the law are in steps of this size.
    """
    half = half_width(law, confidence)
    return ConfidenceInterval(on_grid(noisy - half, step), on_grid(noisy + half, step), confidence)


def joint_confidence(confidence: float, count: int, independent: bool = True) -> float:
    """Return the confidence that each of `count` intervals needs so that all hold together with `confidence`, rounded up.

    If the noises of the intervals are independent, the probability that all hold is the product of their own probabilities. So each needs
    the root confidence^(1/count). Otherwise the probability that any fails is at most the sum of their probabilities of failure, and each
    may fail with the probability (1 - confidence) / count (union bound).
    """
    if independent:
        logarithm = FIFTY_DIGITS.divide(FIFTY_DIGITS.ln(Decimal(confidence)), Decimal(count))
        return rounded_up(Fraction(FIFTY_DIGITS.exp(logarithm)))
    return rounded_up(1 - (1 - Fraction(confidence)) / count)


def expected_error(law: NoiseLaw, confidence: float, step: float = 1.0) -> float:
    """Return the half width of the confidence interval in units of the answer. It does not depend on data."""
    return on_grid(half_width(law, confidence), step)


def public_mean_interval(noisy: int, law: NoiseLaw, confidence: float, count: int, step: float = 1.0) -> ConfidenceInterval:
    """Return the confidence interval of a mean over a public count: the interval of the sum, divided by the count.

    Each end is moved outwards by one ulp, to cover the rounding of the division.
    """
    of_sum = additive_interval(noisy, law, confidence, step)
    low, high = of_sum.low / count, of_sum.high / count
    return ConfidenceInterval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf), confidence)


def spread_within(law: Callable[[float], NoiseLaw], steps: int, confidence: float) -> float:
    """Return the largest scale or sigma with P(|noise| <= steps) >= confidence, rounded down to DIGITS. It gives the cheapest noise.

    law: DiscreteLaplaceLaw or DiscreteGaussianLaw, whose tails grow with the scale.
    steps: largest allowed error, in whole steps.

    Raises InputError if noise of scale LEAST_SPREAD already exceeds the error too often, or the confidence is not in (0, 1).
    """
    failure, steps = failure_of(confidence), min(steps, FARTHEST)

    def is_within(spread: float) -> bool:
        return law(spread).exceeds(steps) <= failure

    low, high = LEAST_SPREAD, LARGEST
    if steps < 0 or not is_within(low):
        raise InputError(f"no noise stays within {steps} steps with confidence {confidence!r}")
    if is_within(high):
        return high
    while high / low > NEAR_ONE:
        middle = math.sqrt(low * high)  # the geometric mean, because the ends differ by many powers of ten
        low, high = (middle, high) if is_within(middle) else (low, middle)
    rounded = float(Context(prec=DIGITS, rounding=ROUND_FLOOR).plus(Decimal(low)))
    return rounded if is_within(rounded) else low  # less noise should be within too, but only what was tested is certain


def whole_steps(within: float, step: float) -> int:
    """Return within / step, rounded down. Both arguments are read as the decimals that Python prints for them."""
    return math.floor(Fraction(repr(within)) / Fraction(repr(step)))
