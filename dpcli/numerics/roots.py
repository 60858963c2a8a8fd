"""Searches in one dimension: roots, minima, and inverses of increasing functions at many values at once.

The functions return where a search ended, and no certified bound: a caller that needs a sound answer takes the end of the bracket on the
safe side, or computes its bound at the point that was returned. A minimum need not be global: where these are used, every point gives a
valid bound, and a better one only a tighter bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.numerics.arrays import Array, np

# Accuracy and speed.
ITERATIONS = 200  # most evaluations of `bracket_root`; it returns the bracket that it has by then
ROUNDS = 200  # most evaluations of `increasing_root`; bisection alone shrinks a bracket by 2^-200
CLOSE = 1e-14  # relative length of a Newton step, or of a bracket, at which the search stops
EQUAL = 1e-15  # relative distance from the target at which a value counts as equal to it, because that is rounding
LEAST_X, LARGEST_X = 1e-12, 1e12  # range of x of `minimise_unimodal`
LARGEST_LOG = 27.0  # largest |log x| from which `minimise_scalar` moves on to bracket a minimum; about log LARGEST_X
GOLDEN_WIDTH = 1e-9  # width in log x at which golden sections end; a smooth f is flat to 1e-18 within this distance of its minimum


def bracket_root(f: Callable[[float], float], low: float, high: float, rtol: float = 1e-13) -> tuple[float, float]:
    """Shrink the bracket [low, high] around the sign change of a decreasing function, by the method of Chandrupatla 1997.

    The next point is the root of the inverse parabola through the last three points if this parabola is monotone, and the middle of the
    bracket otherwise.

    Args:
        f: decreasing, with f(low) > 0 >= f(high); may return infinities of the right sign.
        low, high: the bracket, low < high.
        rtol: stop once high - low <= rtol * |high|.

    Returns:
        (low, high) with f(low) > 0 >= f(high). The caller takes the end at which its result is a sound bound.
    """
    at_low, at_high, share = (low, f(low)), (high, f(high)), 0.5
    for _ in range(ITERATIONS):
        low, high = at_low[0], at_high[0]
        if high - low <= rtol * abs(high):
            break
        pad = 0.25 * rtol * abs(high)  # least distance from an end, so that a root near the end lies between it and the new point
        middle = min(max(low + share * (high - low), low + pad), high - pad)
        if not low < middle < high:
            break
        value = f(middle)
        new = (middle, value)
        if value > 0.0:
            previous, at_low = at_low, new
            share = _share_of_root(new, at_high, previous)
        else:  # the share is measured from the lower end, but the new point is the upper one
            previous, at_high = at_high, new
            share = 1.0 - _share_of_root(new, at_low, previous)
    return at_low[0], at_high[0]


def _share_of_root(new: tuple[float, float], opposite: tuple[float, float], previous: tuple[float, float]) -> float:
    """Return the share of the way from `new` to `opposite` at which the inverse parabola through the three points is 0.

    The points are pairs (x, f(x)). The share is 0.5, for a step of bisection, if the parabola is not monotone, or if a value is infinite or
    occurs twice. The notation and the test of monotony are those of Chandrupatla 1997.
    """
    (a, fa), (b, fb), (c, fc) = new, opposite, previous
    if not all(map(math.isfinite, (fa, fb, fc))) or len({fa, fb, fc}) < 3:
        return 0.5
    x, y = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (y * y < x and (1.0 - y) ** 2 < 1.0 - x):
        return 0.5
    return fa / (fb - fa) * (fc / (fb - fc)) + (c - a) / (b - a) * (fa / (fc - fa)) * (fb / (fc - fb))


def expand_until(holds: Callable[[float], bool], start: float, factor: float, limit: float) -> float:
    """Return the first of start, start*factor, start*factor^2, ... at which `holds` is true; inf if that is beyond limit or 1/limit.

    limit: the range is from the smaller to the larger one of limit and 1/limit.
    """
    x = start
    while not holds(x):
        x *= factor
        if not min(limit, 1 / limit) <= x <= max(limit, 1 / limit):
            return math.inf
    return x


def minimise_unimodal(f: Callable[[Array], Array], start: float = 4.0, ratio: float = 4.0, rounds: int = 4) -> tuple[float, float]:
    """Minimise a vectorised function of x > 0: move by factors of `ratio` until the minimum is bracketed, then refine.

    While no value is finite, points on both sides are tried.

    Args:
        f: maps an array of x to values, inf or NaN if undefined; called a dozen times, with few points each.
        start: the x from which the search begins.
        ratio: the factor between neighbouring points of the first part.
        rounds: how often the interval around the minimum is refined.

    Returns:
        (x, f(x)) of the smallest value found; the value is `inf` if no value is finite at the points tried, between LEAST_X and LARGEST_X.
    """
    f_at: dict[float, float] = {}

    def evaluate(points: list[float]) -> None:
        """Store the values of f at the points in range that are new, with inf in place of NaN."""
        new_points = [x for x in points if x not in f_at and LEAST_X <= x <= LARGEST_X]
        if new_points:
            values = np.asarray(f(np.array(new_points)), dtype=float)
            f_at.update(zip(new_points, np.where(np.isnan(values), np.inf, values).tolist(), strict=True))

    def least() -> float:
        """Return the x with the least value; of several, the one nearest to `start`."""
        return min(f_at, key=lambda x: (f_at[x], abs(math.log(x / start))))

    evaluate([start / ratio, start, start * ratio])
    while True:
        best, count = least(), len(f_at)
        evaluate([best / ratio, best * ratio] if math.isfinite(f_at[best]) else [min(f_at) / ratio, max(f_at) * ratio])
        if len(f_at) == count:
            break
    for _ in range(rounds):
        best, ordered = least(), sorted(f_at)
        at = ordered.index(best)
        low, high = ordered[max(at - 1, 0)], ordered[min(at + 1, len(ordered) - 1)]
        evaluate(np.geomspace(low, best, 5).tolist()[1:-1] + np.geomspace(best, high, 5).tolist()[1:-1])
    evaluate(_vertex(f_at))
    best = least()
    return best, f_at[best]


def _vertex(values: dict[float, float]) -> list[float]:
    """Return the x at the minimum of the parabola, in log x, through the least point and its neighbours; nothing if it has no minimum.

    values: the function's values by x.
    """
    ordered = sorted(values)
    at = ordered.index(min(values, key=lambda x: values[x]))
    if not 0 < at < len(ordered) - 1:
        return []
    (x0, x1, x2), (y0, y1, y2) = (map(math.log, ordered[at - 1 : at + 2]), (values[x] for x in ordered[at - 1 : at + 2]))
    left, right = (y1 - y0) * (x2 - x1), (y2 - y1) * (x1 - x0)
    if not math.isfinite(left + right) or right - left <= 0.0:
        return []
    return [math.exp(0.5 * ((x0 + x1) * right - (x1 + x2) * left) / (right - left))]


def minimise_scalar(f: Callable[[float], float], start: float, ratio: float = 4.0) -> float:
    """Return the smallest value found of a unimodal function of x > 0.

    The search moves by factors of `ratio` until the minimum is bracketed, and then uses golden sections on log x.
    """
    middle, step = math.log(start), math.log(ratio)
    left, right = middle - step, middle + step
    while f(math.exp(left)) < f(math.exp(middle)) and left > -LARGEST_LOG:
        left, middle, right = left - step, left, middle
    while f(math.exp(right)) < f(math.exp(middle)) and right < LARGEST_LOG:
        left, middle, right = middle, right, right + step
    shrink = 0.5 * (math.sqrt(5.0) - 1.0)
    low, high = right - shrink * (right - left), left + shrink * (right - left)
    f_low, f_high, best = f(math.exp(low)), f(math.exp(high)), f(math.exp(middle))
    while high - low > GOLDEN_WIDTH:
        if f_low <= f_high:
            right, high, f_high = high, low, f_low
            low = right - shrink * (right - left)
            f_low = f(math.exp(low))
        else:
            left, low, f_low = low, high, f_high
            high = left + shrink * (right - left)
            f_high = f(math.exp(high))
        best = min(best, f_low, f_high)
    return best


def increasing_root(
    function: Callable[[Array], tuple[Array, Array]], target: Array, low: Array, high: Array, start: Array | None = None
) -> Array:
    """Return x in [low, high] with f(x) = target, element by element.

    The method is Newton's, with bisection wherever a step would leave its bracket.

    Args:
        function: returns f, which increases, and its derivative at an array of x.
        target: shape (n,).
        low, high: finite brackets of shape (n,), with f(low) <= target <= f(high) up to rounding. A target that is outside gives the
            nearer end.
        start: the first x; `high` if None.
    """
    low, high = np.minimum(low, high), np.maximum(low, high)
    x = high.copy() if start is None else np.clip(start, low, high)
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            value, slope = function(x)
            error = value - target
            is_above = error >= 0.0
            high, low = np.where(is_above, x, high), np.where(is_above, low, x)
            newton = x - error / slope
            width = CLOSE * (1.0 + np.abs(x))
            is_done = (np.abs(newton - x) <= width) | (high - low <= width) | (np.abs(error) <= EQUAL * (1.0 + np.abs(target)))
            if is_done.all():
                break
            x = np.where(is_done, x, np.where((newton > low) & (newton < high), newton, 0.5 * (low + high)))
    return np.asarray(x)
