"""A concrete private selection that costs nearly as much as the upper bound on selections, so that it gives a lower bound.

A selection makes a random number K of runs of one mechanism, and releases only the best outcome by some score. The keys of a pipeline file
do not fix the score, so the cost under any score is a lower bound on every epsilon that can be proved from the keys.
`RepeatAndSelect.witness` (repeat_and_select.py) makes a `CostlySelection`, which nearly attains the upper bound of selection_profile.py at
one epsilon.

Let P and Q be the laws of one run on neighbouring data, with the loss log P/Q, and f the generating function of K. If the better outcomes
have mass w under P, an outcome of small mass p is the best of all with probability p f'(1 - w). `TrialCounts.depth` is
log(f'(1) / f'(1 - w)), where f'(1) = E[K]. The same holds under Q. The score is an order of the outcomes, from best to worst:

1. Rank the outcomes by increasing P/Q. Then the best outcomes up to any rank have the most extreme pair of probabilities (w under P and
   under Q) that one event can have.
2. Move each outcome with a large ratio to the place at which it adds most to delta. Only few outcomes are moved if delta is small.

This order is not monotone in the ratio, and can cost much more than either order that is: with one Gaussian of noise 1 as the run, a
geometric K of mean 10, and delta 1e-5, it costs 6.424, and the best monotone order 4.886.

In the computation, outcomes are *cells*: all outcomes whose loss is in one interval count as one. The score depends on the cell alone, so
the pair of the cells follows from the selection by post-processing, and still gives a lower bound. One more outcome, of loss 0, stands for
no trial and for a release that fails at random with a probability of about INFLATED, which takes the mass that rounding makes uncertain.
"""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.selection_profile import LOG_LEAST, REACHES, TrialCounts
from dpcli.mechanisms.mechanism import CurveLoss, Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.grid.hockey_stick import FURTHEST, INFLATED, ChordPair  # FURTHEST: the largest loss on a grid
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.tails import cells_between
from dpcli.numerics.work import shared  # a cache

# Every order of the cells is some score, so these three affect only how costly the chosen score is, and the time. In the example above,
# half or twice as many cells or cuts, and half or four times the largest mass, change epsilon by at most 0.002.
CELLS = 1200  # number of equally spaced ends of cells; ends in geometric progression are added, which resolve small losses
LARGEST_MASS = 2e-3  # largest mass of a cell; a larger one is split at random into equal pieces, which may be placed apart
CUTS = 400  # number of places that are tried for an outcome that may be moved
# Soundness: the mean of f' over a cell must be accurate, because it is a factor of a mass of the pair. In the example, 2 and 8 nodes
# give the same epsilon to 1e-13.
NODES = 4


@dataclass(frozen=True, slots=True)
class CostlySelection(Mechanism):
    """The selection from runs that attain the pair of `run`, by the score of the module's docstring.

    run: the loss of one run in one direction of the neighbouring relation.
    trials: the distribution of the number of runs.
    epsilon: the epsilon at which the score makes delta large.
    is_addition: whether `run` is the loss of the direction "add", so that the selection's pair has to be exchanged for "remove".
    """

    run: PrivacyLoss
    trials: TrialCounts
    epsilon: float
    is_addition: bool

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[CostlyLoss, CostlyLoss]:
        return CostlyLoss(self, self.is_addition), CostlyLoss(self, not self.is_addition)


@dataclass(frozen=True, slots=True)
class CostlyLoss(CurveLoss):
    """The loss of the selection's pair.

    is_reversed: whether P and Q are exchanged, as for the other direction.
    """

    selection: CostlySelection
    is_reversed: bool

    def pair(self) -> ChordPair:
        return _pair(self)


@shared(32)
def _pair(loss: CostlyLoss) -> ChordPair:
    """Return the pair of the best outcome's cell, cached."""
    selection, trials = loss.selection, loss.selection.trials
    log_p, log_q = _cells(selection.run)
    p, q = np.exp(log_p), np.exp(log_q)
    order = _order(p, q, log_p - log_q, trials, selection.epsilon)
    log_best_p = log_p[order] + _log_mean_slope(p[order], trials)
    log_best_q = log_q[order] + _log_mean_slope(q[order], trials)
    # `trials.mean` is an upper bound on E[K], so the masses may add up to a little more than 1.
    total = max(float(np.exp(log_sum(log_best_p[None, :]))[0]), float(np.exp(log_sum(log_best_q[None, :]))[0]), 1.0)
    losses = log_best_p - log_best_q
    log_best_q = log_best_q - math.log(total) - INFLATED
    # The remaining mass is that of no trial or of a failure. Neither depends on the data, so the loss is 0. At least
    # half of INFLATED remains, whatever the rounding of the sum.
    remaining = max(1.0 - math.fsum(np.exp(log_best_q).tolist()), 0.5 * INFLATED)
    losses, log_best_q = np.append(losses, 0.0), np.append(log_best_q, math.log(remaining))
    log_best_p = log_best_q + losses
    if loss.is_reversed:
        losses, log_best_p = -losses, log_best_q
    increasing = np.argsort(losses, kind="stable")
    return ChordPair(losses[increasing], log_best_p[increasing], log_infinite=-math.inf)


def _cells(run: PrivacyLoss) -> tuple[Array, Array]:
    """Return the log masses under P and Q of cells of one run, by increasing loss, each split so that no mass exceeds LARGEST_MASS."""
    reaches = np.geomspace(1e-6, FURTHEST, REACHES)
    # The cells reach to where the tail of P above, and that of Q below, is less than e^LOG_LEAST, or to the last of `reaches`.
    high = float(reaches[np.argmax(np.append(run.tails(reaches).p_above[:-1] <= LOG_LEAST, True))])
    log_below = run.tails(-reaches[::-1]).q_below[::-1]
    low = float(reaches[np.argmax(np.append(log_below[:-1] <= LOG_LEAST, True))])
    ends = np.unique(np.concatenate((np.linspace(-low, high, CELLS), -reaches[reaches < low], reaches[reaches < high])))
    tails = run.tails(ends)
    inside = np.logical_and.reduce([tail > -math.inf for tail in tails])  # where no tail is empty
    p_above, p_below, q_above, q_below = (tail[inside] for tail in tails)
    log_p, log_q = _cell_masses(p_above, p_below), _cell_masses(q_above, q_below)
    possible = (log_p > -math.inf) & (log_q > -math.inf)
    log_p, log_q = log_p[possible], log_q[possible]
    pieces = np.ceil(np.exp(np.maximum(log_p, log_q)) / LARGEST_MASS).astype(int).clip(min=1)
    log_p, log_q = (np.repeat(log_masses - np.log(pieces), pieces) for log_masses in (log_p, log_q))
    by_loss = np.argsort(log_p - log_q, kind="stable")
    return log_p[by_loss], log_q[by_loss]


def _cell_masses(above: Array, below: Array) -> Array:
    """Return the log masses of the cells between the losses of these log tails, and of the cells beyond the first and the last loss."""
    never, always = np.full(1, -math.inf), np.zeros(1)
    with np.errstate(divide="ignore"):  # a cell may have no mass
        return cells_between(np.concatenate((always, above, never)), np.concatenate((never, below, always))).log_mass


def _order(p: Array, q: Array, losses: Array, trials: TrialCounts, epsilon: float) -> IndexArray:
    """Return the indices of the cells from the best to the worst.

    p, q: masses of the cells. losses: their losses, which increase.

    Per unit of its P-mass, a cell that follows the better mass w under P and v under Q adds f'(1 - w) - e^{epsilon - loss} f'(1 - v) to
    delta. A cell that adds something at one of the cuts is moved to the cut where it adds most. w and v belong to the order before any
    move. The other cells keep their place.
    """
    cuts = np.unique(np.linspace(0, len(p) - 1, CUTS).astype(int))
    slope_p, slope_q = (np.exp(-trials.depth(np.minimum(np.cumsum(masses)[cuts], 1.0))) for masses in (p, q))  # f' over E[K]
    # The clip keeps the factor within floating point.
    gains = slope_p[None, :] - np.exp(np.clip(epsilon - losses, -600.0, 600.0))[:, None] * slope_q[None, :]
    is_moved = gains.max(axis=1) > 0.0
    # Half a place more puts a moved cell behind the cell at the cut.
    place = np.where(is_moved, cuts[gains.argmax(axis=1)] + 0.5, np.arange(len(p), dtype=float))
    return np.argsort(place, kind="stable")


def _log_mean_slope(masses: Array, trials: TrialCounts) -> Array:
    """Return the logarithm of the mean of f'(1 - w) over each cell, where w is the mass of better outcomes. masses: best cell first."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    starts = np.cumsum(masses) - masses
    places = np.clip(starts[:, None] + 0.5 * (1.0 + nodes) * masses[:, None], 0.0, 1.0)
    depths = trials.depth(places.ravel()).reshape(places.shape)
    return np.asarray(math.log(trials.mean) + log_sum(np.log(0.5 * weights) - depths))
