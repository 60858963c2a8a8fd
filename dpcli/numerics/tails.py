"""Tail probabilities of a privacy loss, and one step's trade-off: delta(eps) = P(L > eps) - e^eps Q(L > eps)."""

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
ATOM = 1e-15  # relative error of the place of an atom


class Tails(NamedTuple):
    """Logarithms of P(L > l), P(L <= l), Q(L > l) and Q(L <= l) at increasing finite l, shape (n,) each.

    Both ends, because neither is one minus the other in floating point. Mass at L = +inf (which has none under Q) belongs to
    `p_above`, mass at L = -inf to `q_below`. Values at most 0, -inf where nothing is left; relative error of each probability at
    most ROUNDING (4 + |logarithm|), and none where P and Q are off by the same shift of l.
    """

    p_above: Array
    p_below: Array
    q_above: Array
    q_below: Array

    def mirrored(self) -> Tails:
        """The tails at -l, in reverse order, of the loss of the pair (Q, P), for a loss without atoms."""
        return Tails(self.q_below[::-1], self.q_above[::-1], self.p_below[::-1], self.p_above[::-1])


def normal_tails(x: Array, p_mean: float, q_mean: float) -> Tails:
    """P = N(p_mean, 1), Q = N(q_mean, 1), for a loss that increases in the outcome and equals l at the outcome `x`."""
    return Tails(*log_normal_ends(x - p_mean), *log_normal_ends(x - q_mean))


def mixed(log_weights: list[float], parts: list[Array]) -> Array:
    """log sum_j w_j e^{part_j}; at most 0."""
    total = parts[0] + log_weights[0]
    for weight, part in zip(log_weights[1:], parts[1:], strict=True):
        total = np.logaddexp(total, part + weight)
    return np.asarray(np.minimum(total, 0.0))


def atom_tails(at: Array, losses: Array, log_p: Array, log_q: Array) -> Tails:
    """Tails of finitely many outcomes: their losses (increasing), and log probabilities under P and Q."""
    spend(0.5 * len(losses) + len(at))
    index = np.searchsorted(losses, at, side="right")
    with np.errstate(divide="ignore"):
        above, below = [], []
        for log_mass in (log_p, log_q):
            above.append(np.append(np.logaddexp.accumulate(log_mass[::-1])[::-1], -np.inf)[index])
            below.append(np.concatenate(([-np.inf], np.logaddexp.accumulate(log_mass)))[index])
    cap = [np.minimum(values, 0.0) for values in (above[0], below[0], above[1], below[1])]
    return Tails(*cap)


class HasTails(Protocol):
    """A privacy loss that knows its tails."""

    def tails(self, at: Array) -> Tails:
        """log P(L > l), log P(L <= l), log Q(L > l), log Q(L <= l) at increasing l."""
        ...


def single_log_delta(loss: HasTails, epsilon: float) -> tuple[float, float]:
    """(lower, upper) bounds on log delta(epsilon) of one step, any epsilon; they differ by rounding alone.

    The subtraction is of logarithms; it magnifies the relative error of P(L > eps) by its ratio to delta. An atom of the loss lies where
    it was rounded to, so that the bounds are those at an epsilon some digits above and below: delta does not rise.
    """
    at = epsilon + ATOM * abs(epsilon) * np.array([-1.0, 1.0])
    tails = loss.tails(at)
    upper = _ends(float(at[0]), float(tails.p_above[0]), float(tails.q_above[0]))[1]
    return min(_ends(float(at[1]), float(tails.p_above[1]), float(tails.q_above[1]))[0], upper), upper


def _ends(epsilon: float, above: float, reference_above: float) -> tuple[float, float]:
    """Bounds on log delta, from the logarithms of P(L > epsilon) and Q(L > epsilon). Raises InternalError if one is NaN."""
    if math.isnan(above + reference_above):
        raise _no_number(epsilon)
    weighted = min(epsilon + reference_above, above)
    value = log_sub(above, weighted)
    if value == -math.inf:
        return -math.inf, above + math.log(ROUNDING * (20.0 + 2.0 * abs(above) + abs(epsilon))) if above > -math.inf else -math.inf
    error = ROUNDING * (8.0 + abs(above) + abs(weighted) + abs(epsilon)) * math.exp(min(above - value, 700.0))
    most = above + ROUNDING * (8.0 + abs(above))  # delta is at most P(L > eps), however little the subtraction leaves
    return value + math.log1p(-error) if error < 1.0 else -math.inf, min(value + math.log1p(error), most)


def _no_number(epsilon: float) -> InternalError:
    """The error for tails that are NaN: every comparison would take them for small ones."""
    return InternalError(f"the tails of a privacy loss at {epsilon!r} are NaN: this is a bug in dpcli, and no number")


def log_deltas(loss: HasTails, epsilons: Array) -> Array:
    """Upper bounds on log delta of one step at increasing epsilons, as `single_log_delta` has them one by one; shape as given.

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
    """(lower, upper) bounds on the epsilon >= 0 at which delta(eps) of one step falls to e^log_delta.

    delta falls in epsilon, so a point where the lower bound of delta is above the target is below epsilon, and conversely. (inf, inf)
    where the loss is infinite with at least that probability.
    """

    def excess(side: int) -> Callable[[float], float]:
        return lambda epsilon: single_log_delta(loss, epsilon)[side] - log_delta

    return _crossing(excess(0))[0], _crossing(excess(1))[1]


def single_epsilon_upper(loss: HasTails, log_delta: float, near: float) -> float:
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


def total_variation(loss: HasTails) -> float:
    """An upper bound on delta(0) of one step; composed, these add up; 0 only where nothing is lost.

    Raises NotRepresentable where the loss has no tails.
    """
    log_upper = min(single_log_delta(loss, 0.0)[1], 0.0)
    return 0.0 if log_upper == -math.inf else math.nextafter(math.exp(log_upper), math.inf)
