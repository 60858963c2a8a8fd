"""A score by which a private selection costs nearly as much as its bound.

The score orders the outcomes of a run so that both inequalities of selection_profile.py nearly hold with equality:

1. Rank the outcomes of a run by P/Q, where P and Q are its laws on neighbouring data, and call the smallest ratio the best. Then the best
   outcomes up to any rank have the most extreme pair of probabilities that a run allows.
2. Move each outcome of a large ratio to the place at which it adds most to delta. Only few outcomes are moved if delta is small.

This order is not monotone in the ratio, and can cost much more than either order that is. For one Gaussian of noise 1, a geometric number
of mean 10, and delta 1e-5, it costs 6.424, and the best monotone order 4.886.

An outcome of the pair below is a cell of losses of a run, or the failure of the release, of probability INFLATED. The score depends on the
cell alone. So the pair follows from the selection by post-processing, and gives a lower bound.
"""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.selection_profile import LOG_LEAST, REACHES, TrialCounts
from dpcli.mechanisms.mechanism import CurveLoss, Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.grid.hockey_stick import FURTHEST, INFLATED, ChordPair
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.tails import cells_between
from dpcli.numerics.work import shared

CELLS = 1200  # cells of equal width in which losses are counted together
LARGEST_MASS = 2e-3  # largest mass of a cell; a larger cell is split at random into equal ones
CUTS = 400  # places to which an outcome may be moved
NODES = 4  # number of nodes of the Gauss-Legendre rule for the mean of f' over a cell


@dataclass(frozen=True, slots=True)
class CostlySelection(Mechanism):
    """The selection from runs that attain the pair of `run`, by the score of the module's docstring.

    epsilon: the epsilon for which the outcomes are placed. reversed: whether `run` is the pair of the second direction.
    """

    run: PrivacyLoss
    trials: TrialCounts
    epsilon: float
    reversed: bool

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[CostlyLoss, CostlyLoss]:
        return CostlyLoss(self, self.reversed), CostlyLoss(self, not self.reversed)


@dataclass(frozen=True, slots=True)
class CostlyLoss(CurveLoss):
    """The loss of the selection's pair, or of the mirrored one."""

    selection: CostlySelection
    mirrored: bool

    def pair(self) -> ChordPair:
        return _pair(self)


@shared(32)
def _pair(loss: CostlyLoss) -> ChordPair:
    """Return the pair, cached."""
    selection, trials = loss.selection, loss.selection.trials
    log_p, log_q = _cells(selection.run)
    p, q = np.exp(log_p), np.exp(log_q)
    order = _order(p, q, log_p - log_q, trials, selection.epsilon)
    # The masses of the best of K outcomes, of which each run has the masses p and q.
    log_best_p = log_p[order] + _log_rate(p[order], trials)
    log_best_q = log_q[order] + _log_rate(q[order], trials)
    total = max(float(np.exp(log_sum(log_best_p[None, :]))[0]), float(np.exp(log_sum(log_best_q[None, :]))[0]), 1.0)
    losses = log_best_p - log_best_q
    log_best_q = log_best_q - math.log(total) - INFLATED
    # Without a trial, or after a failure, the loss is 0.
    failed = max(1.0 - math.fsum(np.exp(log_best_q).tolist()), 0.5 * INFLATED)
    losses, log_best_q = np.append(losses, 0.0), np.append(log_best_q, math.log(failed))
    log_best_p = log_best_q + losses
    if loss.mirrored:
        losses, log_best_p = -losses, log_best_q
    increasing = np.argsort(losses, kind="stable")
    return ChordPair(losses[increasing], log_best_p[increasing], -math.inf)


def _cells(run: PrivacyLoss) -> tuple[Array, Array]:
    """Return the log masses of P and of Q in cells of increasing loss, split so that none is large."""
    reaches = np.geomspace(1e-6, FURTHEST, REACHES)
    high = float(reaches[np.argmax(np.append(run.tails(reaches).p_above[:-1] <= LOG_LEAST, True))])
    log_below = run.tails(-reaches[::-1]).q_below[::-1]
    low = float(reaches[np.argmax(np.append(log_below[:-1] <= LOG_LEAST, True))])
    edges = np.unique(np.concatenate((np.linspace(-low, high, CELLS), -reaches[reaches < low], reaches[reaches < high])))
    tails = run.tails(edges)
    inside = np.logical_and.reduce([tail > -math.inf for tail in tails])
    p_above, p_below, q_above, q_below = (tail[inside] for tail in tails)
    log_p, log_q = _cell_masses(p_above, p_below), _cell_masses(q_above, q_below)
    kept = (log_p > -math.inf) & (log_q > -math.inf)
    log_p, log_q = log_p[kept], log_q[kept]
    pieces = np.ceil(np.exp(np.maximum(log_p, log_q)) / LARGEST_MASS).astype(int).clip(min=1)
    log_p, log_q = (np.repeat(log_masses - np.log(pieces), pieces) for log_masses in (log_p, log_q))
    by_loss = np.argsort(log_p - log_q, kind="stable")
    return log_p[by_loss], log_q[by_loss]


def _cell_masses(above: Array, below: Array) -> Array:
    """Return the log masses of the cells between the losses of these log tails, and of the cells beyond the first and the last loss."""
    never, always = np.full(1, -math.inf), np.zeros(1)
    with np.errstate(divide="ignore"):  # of cells without mass
        return cells_between(np.concatenate((always, above, never)), np.concatenate((never, below, always))).log_mass


def _order(p: Array, q: Array, losses: Array, trials: TrialCounts, epsilon: float) -> IndexArray:
    """Return the indices of the cells from the best to the worst. p, q: masses of the cells; their losses increase."""
    cuts = np.unique(np.linspace(0, len(p) - 1, CUTS).astype(int))
    rates = [np.exp(-trials.depth(np.minimum(np.cumsum(masses)[cuts], 1.0))) for masses in (p, q)]
    gains = rates[0][None, :] - np.exp(np.clip(epsilon - losses, -600.0, 600.0))[:, None] * rates[1][None, :]
    moved = gains.max(axis=1) > 0.0
    place = np.where(moved, cuts[gains.argmax(axis=1)] + 0.5, np.arange(len(p), dtype=float))
    return np.argsort(place, kind="stable")


def _log_rate(masses: Array, trials: TrialCounts) -> Array:
    """Return the logarithm of the mean of f' over each cell, of cells from the best to the worst."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    begins = np.cumsum(masses) - masses
    places = np.clip(begins[:, None] + 0.5 * (1.0 + nodes) * masses[:, None], 0.0, 1.0)
    depths = trials.depth(places.ravel()).reshape(places.shape)
    return np.asarray(math.log(trials.mean) + log_sum(np.log(0.5 * weights) - depths))
