"""One step's trade-off from the tails of its loss: delta(eps) = P(L > eps) - e^eps Q(L > eps), with its rounding on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_sub
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import ROUNDING, Tails


class Tailed(Protocol):
    """A privacy loss that knows its tails."""

    def tails(self, at: Array) -> Tails:
        """As in `dpcli.mechanisms.mechanism.PrivacyLoss`."""
        ...


def single_log_delta(loss: Tailed, epsilon: float) -> tuple[float, float]:
    """(lower, upper) bounds on log delta(epsilon) of one step, any epsilon; they differ by rounding alone.

    The subtraction is of logarithms; it magnifies the relative error of P(L > eps) by its ratio to delta.
    """
    found = loss.tails(np.array([epsilon]))
    above = float(found.p_above[0])
    weighted = min(epsilon + float(found.q_above[0]), above)
    value = log_sub(above, weighted)
    if value == -math.inf:
        return -math.inf, above + math.log(ROUNDING * (20.0 + 2.0 * abs(above) + abs(epsilon))) if above > -math.inf else -math.inf
    error = ROUNDING * (8.0 + abs(above) + abs(weighted) + abs(epsilon)) * math.exp(min(above - value, 700.0))
    most = above + ROUNDING * (8.0 + abs(above))  # delta is at most P(L > eps), however little the subtraction leaves
    return value + math.log1p(-error) if error < 1.0 else -math.inf, min(value + math.log1p(error), most)


def log_deltas(loss: Tailed, epsilons: Array) -> Array:
    """Upper bounds on log delta of one step at increasing epsilons, as `single_log_delta` has them one by one; shape as given."""
    found = loss.tails(epsilons)
    above, weighted = found.p_above, np.minimum(epsilons + found.q_above, found.p_above)
    with np.errstate(all="ignore"):
        value = above + np.log(-np.expm1(weighted - above))
        size = 8.0 + np.abs(above) + np.abs(weighted) + np.abs(epsilons)
        upper = value + np.log1p(ROUNDING * size * np.exp(np.minimum(above - value, 700.0)))
        nothing = above + np.log(ROUNDING * (20.0 + 2.0 * np.abs(above) + np.abs(epsilons)))
        most = np.minimum(upper, above + ROUNDING * (8.0 + np.abs(above)))
    return np.where(above == -np.inf, -np.inf, np.where(np.isfinite(value), most, nothing))


def single_epsilon(loss: Tailed, log_delta: float) -> tuple[float, float]:
    """(lower, upper) bounds on the epsilon >= 0 at which delta(eps) of one step falls to e^log_delta.

    delta falls in epsilon, so a point where the lower bound of delta is above the target is below epsilon, and conversely. (inf, inf)
    where the loss is infinite with at least that probability.
    """

    def excess(side: int) -> Callable[[float], float]:
        return lambda epsilon: single_log_delta(loss, epsilon)[side] - log_delta

    return _crossing(excess(0))[0], _crossing(excess(1))[1]


def single_epsilon_upper(loss: Tailed, log_delta: float, near: float) -> float:
    """The upper end of `single_epsilon` alone, for half the work, sooner where `near` is not much more."""
    return _crossing(lambda epsilon: single_log_delta(loss, epsilon)[1] - log_delta, near)[1]


def _crossing(excess: Callable[[float], float], high: float = 1e-6) -> tuple[float, float]:
    """The bracket of the sign change on [0, inf); (0, 0) where the excess is nowhere positive, (inf, inf) where everywhere."""
    if excess(0.0) <= 0.0:
        return 0.0, 0.0
    low = 0.0
    while excess(high) > 0.0:
        low, high = high, 4.0 * high
        if high > 1e15:
            return math.inf, math.inf
    return bracket_root(excess, low, high, rtol=1e-14)


def total_variation(loss: Tailed) -> float:
    """An upper bound on delta(0) of one step; composed, these add up; 0 only where nothing is lost.

    Raises NotRepresentable where the loss has no tails.
    """
    log_upper = min(single_log_delta(loss, 0.0)[1], 0.0)
    return 0.0 if log_upper == -math.inf else math.nextafter(math.exp(log_upper), math.inf)
