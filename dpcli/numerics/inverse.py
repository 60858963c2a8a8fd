"""Inverse of an increasing function, many values at once."""

from __future__ import annotations

from collections.abc import Callable

from dpcli.numerics.arrays import Array, np

ROUNDS = 200
CLOSE = 1e-14  # a Newton step, or a bracket, of this relative length is the last
EQUAL = 1e-15  # a value that is as close as this to its target differs by rounding


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
