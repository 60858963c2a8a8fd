"""Searches in one dimension: roots, least values, and inverses of many values at once."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.numerics.arrays import Array, np

ITERATIONS = 200
ROUNDS = 200
CLOSE = 1e-14  # a Newton step, or a bracket, of this relative length is the last
EQUAL = 1e-15  # a value that is as close as this to its target differs by rounding


def bracket_root(f: Callable[[float], float], low: float, high: float, rtol: float = 1e-13) -> tuple[float, float]:
    """Shrink [low, high] around the sign change of a decreasing function: Chandrupatla 1997, an inverse parabola through the last three
    points where they lie so that it is monotone, the middle elsewhere.

    Args:
        f: decreasing, with f(low) > 0 >= f(high); may return infinities of the right sign.
        low, high: the bracket, low < high.
        rtol: stop once high - low <= rtol * |high|.

    Returns:
        (low, high) with f(low) > 0 >= f(high): the caller takes the end that is on the private side.
    """
    at_low, at_high, share = (low, f(low)), (high, f(high)), 0.5
    for _ in range(ITERATIONS):
        low, high = at_low[0], at_high[0]
        if high - low <= rtol * abs(high):
            break
        pad = 0.25 * rtol * abs(high)  # beside an end, so that the next point falls on its other side
        middle = min(max(low + share * (high - low), low + pad), high - pad)
        if not low < middle < high:
            break
        new = (middle, f(middle))
        if new[1] > 0.0:
            before, at_low = at_low, new
            share = _between(new, at_high, before)
        else:
            before, at_high = at_high, new
            share = 1.0 - _between(new, at_low, before)
    return at_low[0], at_high[0]


def _between(new: tuple[float, float], opposite: tuple[float, float], before: tuple[float, float]) -> float:
    """Return the share of the way from `new` to `opposite` at which the inverse parabola through three points (x, f(x)) is 0; a half where
    it is no guide."""
    (a, fa), (b, fb), (c, fc) = new, opposite, before
    if not all(map(math.isfinite, (fa, fb, fc))) or len({fa, fb, fc}) < 3:
        return 0.5
    x, y = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (y * y < x and (1.0 - y) ** 2 < 1.0 - x):
        return 0.5
    return fa / (fb - fa) * (fc / (fb - fc)) + (c - a) / (b - a) * (fa / (fc - fa)) * (fb / (fc - fb))


def expand_until(holds: Callable[[float], bool], start: float, factor: float, limit: float) -> float:
    """The first of start, start*factor, start*factor^2, ... at which `holds`; inf when the limit is passed."""
    x = start
    while not holds(x):
        x *= factor
        if not min(limit, 1 / limit) <= x <= max(limit, 1 / limit):
            return math.inf
    return x


def minimise_unimodal(f: Callable[[Array], Array], start: float = 4.0, ratio: float = 4.0, rounds: int = 4) -> tuple[float, float]:
    """Minimise a vectorised function of x > 0: march by factors of `ratio` until the least is inside, then zoom in.

    Args:
        f: maps an array of abscissae to values, inf or NaN where undefined; called a dozen times, with few points each.

    Returns:
        (x, f(x)) of the smallest value seen; `inf` as the value where f is nowhere finite on [1e-12, 1e12]. Any x is sound where f
        bounds at every x, so what the search misses is on the private side.
    """
    seen: dict[float, float] = {}

    def look(points: list[float]) -> None:
        fresh = [x for x in points if x not in seen and 1e-12 <= x <= 1e12]
        if fresh:
            values = np.asarray(f(np.array(fresh)), dtype=float)
            seen.update(zip(fresh, np.where(np.isnan(values), np.inf, values).tolist(), strict=True))

    def least() -> float:
        return min(seen, key=lambda x: (seen[x], abs(math.log(x / start))))

    look([start / ratio, start, start * ratio])
    while True:
        best, count = least(), len(seen)
        look([best / ratio, best * ratio] if math.isfinite(seen[best]) else [min(seen) / ratio, max(seen) * ratio])
        if len(seen) == count:
            break
    for _ in range(rounds):
        best, ordered = least(), sorted(seen)
        at = ordered.index(best)
        low, high = ordered[max(at - 1, 0)], ordered[min(at + 1, len(ordered) - 1)]
        look(np.geomspace(low, best, 5).tolist()[1:-1] + np.geomspace(best, high, 5).tolist()[1:-1])
    look(_vertex(seen))
    best = least()
    return best, seen[best]


def _vertex(seen: dict[float, float]) -> list[float]:
    """Abscissa of the parabola (in log x) through the least point and its neighbours, if it has one."""
    ordered = sorted(seen)
    at = ordered.index(min(seen, key=lambda x: seen[x]))
    if not 0 < at < len(ordered) - 1:
        return []
    (x0, x1, x2), (y0, y1, y2) = (map(math.log, ordered[at - 1 : at + 2]), (seen[x] for x in ordered[at - 1 : at + 2]))
    left, right = (y1 - y0) * (x2 - x1), (y2 - y1) * (x1 - x0)
    if not math.isfinite(left + right) or right - left <= 0.0:
        return []
    return [math.exp(0.5 * ((x0 + x1) * right - (x1 + x2) * left) / (right - left))]


def minimise_scalar(f: Callable[[float], float], start: float, ratio: float = 4.0) -> float:
    """The least value seen of a unimodal function of x > 0: march by factors of `ratio`, then golden section on log x.

    Any x is sound where f is an upper bound everywhere: a least value that was missed costs tightness alone.
    """
    middle, step = math.log(start), math.log(ratio)
    left, right = middle - step, middle + step
    while f(math.exp(left)) < f(math.exp(middle)) and left > -27.0:
        left, middle, right = left - step, left, middle
    while f(math.exp(right)) < f(math.exp(middle)) and right < 27.0:
        left, middle, right = middle, right, right + step
    shrink = 0.5 * (math.sqrt(5.0) - 1.0)
    low, high = right - shrink * (right - left), left + shrink * (right - left)
    f_low, f_high, best = f(math.exp(low)), f(math.exp(high)), f(math.exp(middle))
    while high - low > 1e-9:  # the value is flat there to 1e-18
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


def increasing_root(function: Callable[[Array], tuple[Array, Array]], target: Array, low: Array, high: Array) -> Array:
    """x in [low, high] with f(x) = target, elementwise: Newton's method, and bisection wherever a step leaves its bracket.

    Args:
        function: (f, f') at an array of x; f increases.
        target: shape (n,).
        low, high: finite, f(low) <= target <= f(high) up to rounding; a target outside is answered by the nearer end.
    """
    low, high = np.minimum(low, high), np.maximum(low, high)
    x = high.copy()
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            value, slope = function(x)
            error = value - target
            above = error >= 0.0
            high, low = np.where(above, x, high), np.where(above, low, x)
            step = x - error / slope
            width = CLOSE * (1.0 + np.abs(x))
            done = (np.abs(step - x) <= width) | (high - low <= width) | (np.abs(error) <= EQUAL * (1.0 + np.abs(target)))
            if done.all():
                break
            x = np.where(done, x, np.where((step > low) & (step < high), step, 0.5 * (low + high)))
    return np.asarray(x)
