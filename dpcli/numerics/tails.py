"""Tail probabilities of a privacy loss, under both distributions of its pair and from both ends."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_normal_ends
from dpcli.numerics.work import spend

ROUNDING = 1e-15  # relative error of a tail probability, per unit of (4 + |its logarithm|)


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
    """A privacy loss that can be put on a grid."""

    def tails(self, at: Array) -> Tails:
        """log P(L > l), log P(L <= l), log Q(L > l), log Q(L <= l) at increasing l."""
        ...
