"""Tail probabilities of a privacy loss L, and the privacy curve of one step: delta(eps) = P(L > eps) - e^eps Q(L > eps).

L = log dP/dQ is the loss of a pair (P, Q), and a step is one run of a mechanism whose loss is L. An *atom* is a value of L that has a
positive probability. The accountants and the mechanisms ask for tails at many l, and for delta and epsilon of a single step.

All four tails are kept as logarithms, since differences from 1 would lose every digit where delta is small. Bounds on delta allow for the
rounding of the tails (ROUNDING) and of the losses of atoms (ATOM). A tail that is NaN raises InternalError where bounds or cells are
computed, because it would pass for 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.logspace import log_normal_ends, log_sub
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

# Soundness: errors that the bounds allow for.
ROUNDING = 1e-15  # relative error of a tail probability, per unit of (4 + |its logarithm|)
ATOM = 1e-15  # relative error of the loss at which an atom lies
# Delta is a difference of two tails. Its error, in units of ROUNDING, includes the 4 of each tail: together BOTH. Where the tails are equal
# up to rounding, EQUAL_TAILS covers the rounding of their difference too.
BOTH, EQUAL_TAILS = 8.0, 20.0
# Accuracy: a tail whose logarithm is below this, about log(1/2), is the smaller one. Its differences have more digits, but either would do.
LOG_HALF = -0.7
# Largest epsilon that is tried, far above any useful one. A loss that is larger with too much probability counts as infinite.
LARGEST_EPSILON = 1e15
LARGEST_EXPONENT = 700.0  # e^710 overflows


class Tails(NamedTuple):
    """The logarithms of P(L > l), P(L <= l), Q(L > l) and Q(L <= l) at increasing finite l, each of shape (n,).

    Mass at L = +inf, which Q does not have, belongs to `p_above`, and mass at L = -inf to `q_below`. The values are at most 0, and -inf if
    the probability is 0. The relative error of each probability is at most ROUNDING (4 + |logarithm|). A shift of l that P and Q share does
    not count as an error.
    """

    p_above: Array
    p_below: Array
    q_above: Array
    q_below: Array

    def mirrored(self) -> Tails:
        """Return the tails at -l, in reverse order, of the loss of the pair (Q, P). The loss must have no atoms."""
        return Tails(self.q_below[::-1], self.q_above[::-1], self.p_below[::-1], self.p_above[::-1])


class Cells(NamedTuple):
    """The masses between neighbouring losses, as differences of the tail that is smaller there, each of shape (n - 1,).

    Attributes:
        log_mass: Logarithms of the masses; -inf for a cell between equal tails.
        outer, inner: Logarithms of the larger and the smaller of the two values of the tail at the ends of the cell.
        share: The mass divided by the larger value; 0 for a cell between equal tails.
    """

    log_mass: Array
    outer: Array
    inner: Array
    share: Array


def cells_between(above: Array, below: Array) -> Cells:
    """Return the cells between n losses. above, below: logarithms of the tails of one distribution at these losses, of shape (n,).

    Raises InternalError if a tail is NaN, whose cell would pass for an empty one.
    """
    if np.isnan(above).any() or np.isnan(below).any():
        raise InternalError("a tail of a privacy loss is NaN: this is a bug in dpcli, and no number")
    use_below = below[1:] < LOG_HALF
    outer, inner = np.where(use_below, below[1:], above[:-1]), np.where(use_below, below[:-1], above[1:])
    inner = np.minimum(inner, outer)  # rounding may exchange them
    share = np.where(np.isneginf(outer), 0.0, -np.expm1(inner - outer))
    return Cells(np.where(share > 0.0, outer + np.log(share), -np.inf), outer, inner, share)


def normal_tails(x: Array, p_mean: float, q_mean: float) -> Tails:
    """Return the tails for P = N(p_mean, 1) and Q = N(q_mean, 1), if the loss increases with the outcome and equals l at outcome `x`."""
    return Tails(*log_normal_ends(x - p_mean), *log_normal_ends(x - q_mean))


def mixed(log_weights: list[float], parts: list[Array]) -> Array:
    """Return log sum_j w_j e^{part_j}, cut off at 0, because it is the logarithm of a probability.

    log_weights: the log w_j. parts: log probabilities, arrays of one shape.
    """
    total = parts[0] + log_weights[0]
    for weight, part in zip(log_weights[1:], parts[1:], strict=True):
        total = np.logaddexp(total, part + weight)
    return np.asarray(np.minimum(total, 0.0))


def atom_tails(at: Array, losses: Array, log_p: Array, log_q: Array) -> Tails:
    """Return the tails of a loss with finitely many values.

    at: the l at which the tails are computed, shape (n,).
    losses: the values in increasing order, shape (m,). log_p, log_q: their log probabilities under P and Q, shape (m,).
    """
    spend(0.5 * len(losses) + len(at))
    index = np.searchsorted(losses, at, side="right")  # losses[:index] are at most `at`
    return Tails(*_sums_around(index, log_p), *_sums_around(index, log_q))


def _sums_around(index: IndexArray, log_masses: Array) -> tuple[Array, Array]:
    """Return the logarithms of the total mass from each index on, and of the total mass before it. Both are at most 0."""
    with np.errstate(divide="ignore"):
        from_each = np.append(np.logaddexp.accumulate(log_masses[::-1])[::-1], -np.inf)
        before_each = np.append(-np.inf, np.logaddexp.accumulate(log_masses))
    return np.minimum(from_each[index], 0.0), np.minimum(before_each[index], 0.0)


class HasTails(Protocol):
    """A privacy loss whose tails can be computed."""

    def tails(self, at: Array) -> Tails:
        """Return log P(L > l), log P(L <= l), log Q(L > l) and log Q(L <= l) at increasing l."""
        ...


def single_log_delta(loss: HasTails, epsilon: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on log delta(epsilon) of one step, at any finite epsilon. They differ by rounding only.

    delta is a difference of two probabilities. Its relative error is therefore that of P(L > eps), times the ratio of P(L > eps) to delta.
    Where that error reaches 1, the lower bound is -inf and the upper bound is little more than the absolute error.

    The loss of an atom is rounded too. delta does not increase with epsilon, so the upper bound is computed at an epsilon slightly below,
    and the lower bound at one slightly above.
    """
    at = epsilon + ATOM * abs(epsilon) * np.array([-1.0, 1.0])
    tails = loss.tails(at)
    _, upper = _log_delta_bounds(float(at[0]), float(tails.p_above[0]), float(tails.q_above[0]))
    lower, _ = _log_delta_bounds(float(at[1]), float(tails.p_above[1]), float(tails.q_above[1]))
    return min(lower, upper), upper


def _log_delta_bounds(epsilon: float, p_above: float, q_above: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on log delta from log P(L > epsilon) and log Q(L > epsilon)."""
    if math.isnan(p_above + q_above):
        raise _nan_error(epsilon)
    weighted = min(epsilon + q_above, p_above)  # log of e^epsilon Q(L > epsilon); more than P(L > epsilon) is rounding
    value = log_sub(p_above, weighted)
    if value == -math.inf:  # the two are equal up to rounding, so delta is at most the rounding error of both
        if p_above == -math.inf:
            return -math.inf, -math.inf
        return -math.inf, p_above + math.log(ROUNDING * (EQUAL_TAILS + 2.0 * abs(p_above) + abs(epsilon)))
    subtracted = 0.0 if weighted == -math.inf else abs(weighted)  # nothing is subtracted above all losses that are finite
    error = ROUNDING * (BOTH + abs(p_above) + subtracted + abs(epsilon)) * math.exp(min(p_above - value, LARGEST_EXPONENT))
    most = p_above + ROUNDING * (BOTH + abs(p_above))  # delta is at most P(L > eps), whatever the error of the subtraction
    lower = value + math.log1p(-error) if error < 1.0 else -math.inf
    return lower, min(value + math.log1p(error), most)


def _nan_error(epsilon: float) -> InternalError:
    """Return the error for tails that are NaN, which would pass for small ones, because every comparison with NaN is false."""
    return InternalError(f"the tails of a privacy loss at {epsilon!r} are NaN: this is a bug in dpcli, and no number")


def log_deltas(loss: HasTails, epsilons: Array) -> Array:
    """Return the upper bounds of `single_log_delta` at increasing finite epsilons, with the same formulas in array functions.

    epsilons and the result have shape (n,). The last digits may differ from those of `single_log_delta`.
    """
    at = epsilons - ATOM * np.abs(epsilons)
    tails = loss.tails(at)
    is_nan = np.isnan(tails.p_above + tails.q_above)
    if is_nan.any():
        raise _nan_error(float(at[is_nan][0]))
    p_above, weighted = tails.p_above, np.minimum(at + tails.q_above, tails.p_above)
    with np.errstate(all="ignore"):
        value = p_above + np.log(-np.expm1(weighted - p_above))
        size = BOTH + np.abs(p_above) + np.abs(weighted) + np.abs(at)
        with_error = value + np.log1p(ROUNDING * size * np.exp(np.minimum(p_above - value, LARGEST_EXPONENT)))
        upper = np.minimum(with_error, p_above + ROUNDING * (BOTH + np.abs(p_above)))
        rounding_only = p_above + np.log(ROUNDING * (EQUAL_TAILS + 2.0 * np.abs(p_above) + np.abs(at)))
    return np.where(p_above == -np.inf, -np.inf, np.where(np.isfinite(value), upper, rounding_only))


def single_epsilon(loss: HasTails, log_delta: float) -> tuple[float, float]:
    """Return (lower, upper) bounds on the epsilon >= 0 from which on delta(epsilon) of one step is at most e^log_delta.

    delta does not increase with epsilon. So a point where the lower bound on delta is above the target is below the true epsilon, and a
    point where the upper bound is at or below the target is at or above it. A bound is 0 if its bound on delta(0) is at or below the
    target. It is inf if its bound on delta is still above the target at the largest epsilon that is tried (LARGEST_EPSILON). This is the
    case if the loss is infinite with a probability above the target.
    """

    def lower_excess(epsilon: float) -> float:
        return single_log_delta(loss, epsilon)[0] - log_delta

    def upper_excess(epsilon: float) -> float:
        return single_log_delta(loss, epsilon)[1] - log_delta

    return _crossing(lower_excess)[0], _crossing(upper_excess)[1]


def single_epsilon_upper(loss: HasTails, log_delta: float, near: float) -> float:
    """Return the upper bound of `single_epsilon` alone, for half the work.

    near: a positive guess, best slightly above the result. The last digits of the result depend on it.
    """
    return _crossing(lambda epsilon: single_log_delta(loss, epsilon)[1] - log_delta, near)[1]


def _crossing(excess: Callable[[float], float], first_high: float = 1e-6) -> tuple[float, float]:
    """Return (low, high) with excess(low) > 0 >= excess(high), of a decreasing function on [0, inf).

    The bracket is (0, 0) if the function is not positive at 0. Its upper end is first tried at `first_high` > 0, and then at four times
    the previous value; the bracket is (inf, inf) once that exceeds LARGEST_EPSILON.
    """
    if excess(0.0) <= 0.0:
        return 0.0, 0.0
    low, high = 0.0, first_high
    while excess(high) > 0.0:
        low, high = high, 4.0 * high
        if high > LARGEST_EPSILON:
            return math.inf, math.inf
    return bracket_root(excess, low, high, rtol=1e-14)  # the tails allow about 1e-15; a narrower bracket would show rounding only


def total_variation(loss: HasTails) -> float:
    """Return an upper bound on delta(0) of one step, the total variation distance of P and Q. It is 0 only if P(L > 0) is 0, so P = Q.

    The total variation distance of a composition is at most the sum over its steps.
    """
    log_upper = min(single_log_delta(loss, 0.0)[1], 0.0)
    return 0.0 if log_upper == -math.inf else math.nextafter(math.exp(log_upper), math.inf)
