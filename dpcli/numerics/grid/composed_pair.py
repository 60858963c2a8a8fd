"""A dominating pair with finitely many outcomes for a whole composition, for mechanisms that use the composition as one step.

A pair (P, Q) *dominates* if its delta is at least the true one at every epsilon. Losses are log dP/dQ. Entries that share one sample are
such a step: sampling needs the tails of their composition, because it amplifies all of them (mechanisms/combined/composed.py).

Each loss is put on a grid by chords of its hockey-stick curve (Doroshenko et al. 2022, arXiv:2207.04380). The chords keep the masses of
each cell under P and Q. The grid pairs dominate the losses, so their product dominates the composition.

The sums have only positive terms, and no transform is used. So every probability keeps its relative accuracy down to the ends that are cut
off. The upper end counts as infinite loss, and the lower end moves up to the lowest loss that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.tails import ROUNDING, HasTails, Tails, atom_tails, cells_between
from dpcli.numerics.work import hold, spend  # limits on memory and on work

# Accuracy and speed: the pair dominates for any of these values.
LOG_ABOVE, LOG_BELOW = -140.0, -60.0  # logarithms of the P-mass that may be cut off at the upper and the lower end
WIDTH = 26.0  # number of standard deviations of the composition that determines the spacing
POINTS = 2048  # points for WIDTH standard deviations of the composition; more if the losses are much narrower than the composition
MAX_POINTS = 4096  # most points for WIDTH standard deviations
MOST_OF_ONE = 64 * MAX_POINTS  # most points of one step's loss
LEAST_SPACING = 1e-9  # least spacing, in nats
FURTHEST = 4096.0  # largest loss that is put on a grid
LOG_TOO_LARGE = -4.0  # a loss is refused if the log P-mass beyond FURTHEST, which would count as infinite, is above this
SURVEYED = (1e-6, FURTHEST, 400)  # least and largest loss, and number of losses on either side of 0, at which a range may end
CELLS = 4000  # number of cells from which a variance is estimated
WORK = 0.02  # work of a product of two masses, in cells (numerics/work.py)


@dataclass(frozen=True, slots=True, eq=False)
class GridOutcomes:
    """A pair (P, Q) with finitely many losses.

    weights: P-masses of the losses (first + k) spacing for k = 0, 1, .... infinite: P-mass of an infinite loss. The Q-mass of a loss is
    e^-loss times its P-mass, and the remaining Q-mass is at loss -inf.
    """

    spacing: float
    first: int
    weights: Array
    infinite: float

    def tails(self, at: Array) -> Tails:
        """Return the tails of the loss (`numerics.tails`)."""
        losses: Array = self.spacing * np.arange(self.first, self.first + len(self.weights), dtype=float)
        with np.errstate(divide="ignore"):
            log_p: Array = np.log(self.weights)
            atoms = atom_tails(at, losses, log_p, log_p - losses)
            log_finite_q = min(float(np.logaddexp.reduce(log_p - losses)), 0.0)
            log_rest_q = math.log(max(-math.expm1(log_finite_q), 1e-300))  # 1e-300 keeps the logarithm finite
            log_infinite = math.log(self.infinite) if self.infinite > 0.0 else -math.inf
        p_above, q_below = np.logaddexp(atoms.p_above, log_infinite), np.logaddexp(atoms.q_below, log_rest_q)
        return Tails(np.minimum(p_above, 0.0), atoms.p_below, atoms.q_above, np.minimum(q_below, 0.0))


def composed_outcomes(parts: Sequence[tuple[HasTails, int]]) -> GridOutcomes:
    """Return a pair that dominates the composition of the losses, given as pairs of a loss and how often it is added.

    parts: at least one pair, with counts of at least 1. Raises NotRepresentable if a loss is too large for a grid, or if the losses are of
    too different sizes for one grid.
    """
    ranges = [_range(loss) for loss, _ in parts]
    variances = [_variance(loss, *ends) for (loss, _), ends in zip(parts, ranges, strict=True)]
    deviation = math.sqrt(math.fsum(n * variance for variance, (_, n) in zip(variances, parts, strict=True)))
    least_deviation = min((math.sqrt(variance) for variance in variances if variance > 0.0), default=1.0)
    # More than POINTS if the narrowest loss has less than a quarter of the deviation of the composition.
    points = min(MAX_POINTS, POINTS * max(1.0, deviation / (4.0 * least_deviation)))
    spacing = max(WIDTH * deviation / points, LEAST_SPACING)
    composed: GridOutcomes | None = None
    for (loss, count), (low, high) in zip(parts, ranges, strict=True):
        part = _power(_on_grid(loss, low, high, spacing), count)
        composed = part if composed is None else _sum(composed, part)
    assert composed is not None
    mass = float(composed.weights.sum()) + composed.infinite  # 1 up to rounding, which is far smaller than the excess of the chords
    return GridOutcomes(spacing, composed.first, composed.weights / mass, composed.infinite / mass)


def _range(loss: HasTails) -> tuple[float, float]:
    """Return the lower and the upper end of the losses that are put on the grid. The ends are at most FURTHEST from 0.

    Raises NotRepresentable if the log P-mass beyond FURTHEST is above LOG_TOO_LARGE.
    """
    at = np.geomspace(*SURVEYED)
    at = np.concatenate((-at[::-1], [0.0], at))
    tails = loss.tails(at)
    above, below = np.flatnonzero(tails.p_above <= LOG_ABOVE), np.flatnonzero(tails.p_below <= LOG_BELOW)
    log_infinite = float(tails.p_above[-1])
    if not len(above):  # mass beyond FURTHEST counts as infinite loss, so the range ends where only that mass is beyond
        above = np.flatnonzero(tails.p_above <= log_infinite + 1e-12)
        if log_infinite > LOG_TOO_LARGE:
            raise NotRepresentable("a loss in the group is too large to be put on a grid")
    return float(at[below[-1]]) if len(below) else float(at[0]), float(at[above[0]])


def _variance(loss: HasTails, low: float, high: float) -> float:
    """Return about the variance of the loss between `low` and `high`."""
    edges: Array = np.linspace(low, high, CELLS + 1)
    mass = np.diff(np.exp(loss.tails(edges).p_below))
    middle = 0.5 * (edges[1:] + edges[:-1])
    total = max(float(mass.sum()), 1e-300)
    mean = float(mass @ middle) / total
    return float(mass @ (middle - mean) ** 2) / total


def _on_grid(loss: HasTails, low: float, high: float, spacing: float) -> GridOutcomes:
    """Return one loss on the grid, by the chords of its hockey-stick curve. Raises NotRepresentable if it needs too many points."""
    first, last = math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1
    if last - first > MOST_OF_ONE:
        raise NotRepresentable("the losses in the group are of too different sizes for one grid")
    at: Array = spacing * np.arange(first, last + 1, dtype=float)
    tails = loss.tails(at)
    with np.errstate(all="ignore"):
        log_p, slip_p = _cell_masses(tails.p_above, tails.p_below)
        log_q, slip_q = _cell_masses(tails.q_above, tails.q_below)
        # How far log P/Q of a cell is above its lower end, raised by its error. A larger one moves mass up, so the pair still dominates.
        rho = np.where(np.isneginf(log_p), 0.0, log_p - log_q - at[:-1] + np.minimum(slip_p + slip_q, 1.0))
        # The share of a cell's mass at its upper end. NumPy's expm1 may differ from math's in the last digit, which exceeds 1 here.
        share = np.minimum(np.expm1(-np.clip(rho, 0.0, spacing)) / math.expm1(-spacing), 1.0)
        mass = np.exp(log_p) * (1.0 + np.minimum(slip_p, 1.0))
    weights = np.zeros(len(at))
    weights[:-1] += mass * (1.0 - share)
    weights[1:] += mass * share
    weights[0] += math.exp(float(tails.p_below[0]))
    return _trim(GridOutcomes(spacing, first, weights, math.exp(float(tails.p_above[-1]))))


def _cell_masses(above: Array, below: Array) -> tuple[Array, Array]:
    """Return the logarithms of the masses between grid points, and bounds on their relative error. An empty cell has the error 0.

    The relative error of a tail probability is ROUNDING (4 + |its logarithm|). The error of the smaller tail counts like the larger one's.
    """
    log_mass, log_larger_tail, _, share = cells_between(above, below)  # share: the mass over the larger tail
    return log_mass, np.where(share > 0.0, ROUNDING * (4.0 - np.maximum(log_larger_tail, -1e4)) * 2.0 / share, 0.0)


def _power(one: GridOutcomes, count: int) -> GridOutcomes:
    """Return the composition of `count` copies, by repeated squaring."""
    result: GridOutcomes | None = None
    while True:
        if count % 2:
            result = one if result is None else _sum(result, one)
        count //= 2
        if not count:
            break
        one = _sum(one, one)
    assert result is not None
    return result


def _sum(first: GridOutcomes, second: GridOutcomes) -> GridOutcomes:
    """Return the composition of two pairs with the same spacing."""
    hold(float(len(first.weights) + len(second.weights)))
    spend(WORK * len(first.weights) * len(second.weights))
    weights = np.convolve(first.weights, second.weights)
    infinite = first.infinite + second.infinite  # at least the probability that one of them is
    return _trim(GridOutcomes(first.spacing, first.first + second.first, weights, infinite))


def _trim(outcomes: GridOutcomes) -> GridOutcomes:
    """Return the pair without its ends of negligible P-mass."""
    weights = outcomes.weights
    above, below = np.cumsum(weights[::-1])[::-1], np.cumsum(weights)
    end = max(int(np.count_nonzero(above > math.exp(LOG_ABOVE))), 1)
    begin = min(int(np.count_nonzero(below <= math.exp(LOG_BELOW))), end - 1)
    kept = weights[begin:end].copy()
    kept[0] += float(weights[:begin].sum())
    return GridOutcomes(outcomes.spacing, outcomes.first + begin, kept, outcomes.infinite + float(weights[end:].sum()))
