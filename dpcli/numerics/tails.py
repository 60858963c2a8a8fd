"""Tail probabilities of a privacy loss L, and the privacy curve of one step: delta(eps) = P(L > eps) - e^eps Q(L > eps)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_normal_ends, log_sub
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import spend

ROUNDING = 1e-15  # relative error of a tail probability, per unit of (4 + |its logarithm|)
ATOM = 1e-15  # relative error of the loss at which an atom lies


class Tails(NamedTuple):
    """The logarithms of P(L > l), P(L <= l), Q(L > l) and Q(L <= l) at increasing finite l, each of shape (n,).

    Both tails are stored, because one minus a probability loses digits in floating point. Mass at L = +inf, which Q does not have, belongs
    to `p_above`, and mass at L = -inf to `q_below`. The values are at most 0, and -inf if the probability is 0. The relative error of each
    probability is at most ROUNDING (4 + |logarithm|). A shift of l that P and Q share does not count as an error.
    """

    p_above: Array
    p_below: Array
    q_above: Array
    q_below: Array

    def mirrored(self) -> Tails:
        """Return the tails at -l, in reverse order, of the loss of the pair (Q, P). The loss must have no atoms."""
        return Tails(self.q_below[::-1], self.q_above[::-1], self.p_below[::-1], self.p_above[::-1])


def normal_tails(x: Array, p_mean: float, q_mean: float) -> Tails:
    """Return the tails for P = N(p_mean, 1) and Q = N(q_mean, 1), if the loss increases with the outcome and equals l at outcome `x`."""
    return Tails(*log_normal_ends(x - p_mean), *log_normal_ends(x - q_mean))


def mixed(log_weights: list[float], parts: list[Array]) -> Array:
    """Return log sum_j w_j e^{part_j}, cut off at 0, because it is the logarithm of a probability."""
    total = parts[0] + log_weights[0]
    for weight, part in zip(log_weights[1:], parts[1:], strict=True):
        total = np.logaddexp(total, part + weight)
    return np.asarray(np.minimum(total, 0.0))


def atom_tails(at: Array, losses: Array, log_p: Array, log_q: Array) -> Tails:
    """Return the tails at `at` of a loss with finitely many values.

    losses: the values, increasing. log_p, log_q: their log probabilities under P and Q.
    """
    spend(0.5 * len(losses) + len(at))
    index = np.searchsorted(losses, at, side="right")
    with np.errstate(divide="ignore"):
        above, below = [], []
        for log_mass in (log_p, log_q):
            above.append(np.append(np.logaddexp.accumulate(log_mass[::-1])[::-1], -np.inf)[index])
            below.append(np.concatenate(([-np.inf], np.logaddexp.accumulate(log_mass)))[index])
    capped = [np.minimum(values, 0.0) for values in (above[0], below[0], above[1], below[1])]
    return Tails(*capped)


class HasTails(Protocol):
    """A privacy loss whose tails can be computed."""

    def tails(self, at: Array) -> Tails:
        """Return log P(L > l), log P(L <= l), log Q(L > l) and log Q(L <= l) at increasing l."""
        ...


def single_log_delta(loss: HasTails, epsilon: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on log delta(epsilon) of one step, at any epsilon. They differ by rounding only.

    The subtraction is done on logarithms, and magnifies the relative error of P(L > eps) by the ratio of P(L > eps) to delta. The loss of
    an atom is rounded too. So the bounds are computed at an epsilon slightly above and slightly below, as delta does not increase.
    """
    at = epsilon + ATOM * abs(epsilon) * np.array([-1.0, 1.0])
    tails = loss.tails(at)
    upper = _ends(float(at[0]), float(tails.p_above[0]), float(tails.q_above[0]))[1]
    return min(_ends(float(at[1]), float(tails.p_above[1]), float(tails.q_above[1]))[0], upper), upper


def _ends(epsilon: float, above: float, reference_above: float) -> tuple[float, float]:
    """Return bounds on log delta from the logarithms of P(L > epsilon) and Q(L > epsilon). Raises InternalError if one is NaN."""
    if math.isnan(above + reference_above):
        raise _no_number(epsilon)
    weighted = min(epsilon + reference_above, above)
    value = log_sub(above, weighted)
    if value == -math.inf:
        return -math.inf, above + math.log(ROUNDING * (20.0 + 2.0 * abs(above) + abs(epsilon))) if above > -math.inf else -math.inf
    error = ROUNDING * (8.0 + abs(above) + abs(weighted) + abs(epsilon)) * math.exp(min(above - value, 700.0))
    most = above + ROUNDING * (8.0 + abs(above))  # delta is at most P(L > eps), whatever the error of the subtraction
    return value + math.log1p(-error) if error < 1.0 else -math.inf, min(value + math.log1p(error), most)


def _no_number(epsilon: float) -> InternalError:
    """Return the error for tails that are NaN. It is raised because every comparison with NaN is false, as if the tails were small."""
    return InternalError(f"the tails of a privacy loss at {epsilon!r} are NaN: this is a bug in dpcli, and no number")


def log_deltas(loss: HasTails, epsilons: Array) -> Array:
    """Return upper bounds on log delta of one step at increasing epsilons, as `single_log_delta` does for one; shape as given.

    Raises InternalError if a tail is NaN.
    """
    epsilons = epsilons - ATOM * np.abs(epsilons)
    tails = loss.tails(epsilons)
    unknown = np.isnan(tails.p_above + tails.q_above)
    if unknown.any():
        raise _no_number(float(epsilons[unknown][0]))
    above, weighted = tails.p_above, np.minimum(epsilons + tails.q_above, tails.p_above)
    with np.errstate(all="ignore"):
        value = above + np.log(-np.expm1(weighted - above))
        size = 8.0 + np.abs(above) + np.abs(weighted) + np.abs(epsilons)
        upper = value + np.log1p(ROUNDING * size * np.exp(np.minimum(above - value, 700.0)))
        nothing = above + np.log(ROUNDING * (20.0 + 2.0 * np.abs(above) + np.abs(epsilons)))
        most = np.minimum(upper, above + ROUNDING * (8.0 + np.abs(above)))
    return np.where(above == -np.inf, -np.inf, np.where(np.isfinite(value), most, nothing))


def single_epsilon(loss: HasTails, log_delta: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on the epsilon >= 0 at which delta(eps) of one step falls to e^log_delta.

    delta decreases with epsilon. So a point where the lower bound on delta is above the target is below the true epsilon, and a point where
    the upper bound is below the target is above it. The bounds are (inf, inf) if the loss is infinite with that probability or more.
    """

    def excess(side: int) -> Callable[[float], float]:
        return lambda epsilon: single_log_delta(loss, epsilon)[side] - log_delta

    return _crossing(excess(0))[0], _crossing(excess(1))[1]


def single_epsilon_upper(loss: HasTails, log_delta: float, near: float) -> float:
    """Return the upper bound of `single_epsilon` alone, for half the work. near: a guess, best slightly above the result."""
    return _crossing(lambda epsilon: single_log_delta(loss, epsilon)[1] - log_delta, near)[1]


def _crossing(excess: Callable[[float], float], high: float = 1e-6) -> tuple[float, float]:
    """Return a bracket of the sign change of a decreasing function on [0, inf). high: the first guess of its upper end.

    The bracket is (0, 0) if the function is nowhere positive, and (inf, inf) if it is positive up to 1e15.
    """
    if excess(0.0) <= 0.0:
        return 0.0, 0.0
    low = 0.0
    while excess(high) > 0.0:
        low, high = high, 4.0 * high
        if high > 1e15:
            return math.inf, math.inf
    return bracket_root(excess, low, high, rtol=1e-14)


def total_variation(loss: HasTails) -> float:
    """Return an upper bound on delta(0) of one step, which is 0 only if P = Q. For a composition, the bounds of the steps add up.

    Raises NotRepresentable if the tails of the loss are unknown.
    """
    log_upper = min(single_log_delta(loss, 0.0)[1], 0.0)
    return 0.0 if log_upper == -math.inf else math.nextafter(math.exp(log_upper), math.inf)
