"""Bounds on delta(epsilon) of Poisson-sampled steps by the number of large losses, each number on a grid at a tilt of its own.

contour/certified.py tries this at a delta below about 1e-30. The noise is Gaussian, or has many atoms, like discrete Gaussian noise. A loss
is L = log dP/dQ, of a pair (P, Q). A *tilt* t multiplies all masses by e^{t L}, which makes the losses near epsilon the likely ones, so
that floating-point numbers keep the digits of a tiny delta.

At a tiny delta, many small losses and one large loss may be about equally likely to reach epsilon. No tilt suits both cases, so a contour
(contour/integral.py) or a grid at one tilt gives wide bounds. Here the outcomes of each step are divided at a loss c, the *cut*. delta is a
sum over the number of steps with a loss above c, and every term has a tilt of its own.

Decomposition. A *lattice* is a set of tilted masses at the multiples of its spacing h. An outcome x of a step lies in cell j if its loss is
between j h and (j + 1) h. The masses of a cell are divided between its two ends so that its P-mass and its Q-mass stay (lattice.py). c is a
multiple of h, so each cell is small or large. With A and B the measures of a step's small and large cells, the composition is
SUM_k C(n, k) A^(n-k) B^k. The bounds of grid_curve.py hold for each term: their proofs hold for a part of the measure that is given by
cells, with the moment of this part in place of e^M.

Errors.

1. The masses of a step's cells have a relative error, which is one of the curve. `slip` bounds how far a loss is moved: the true curve at
   eps lies between the computed ones at eps + slip and eps - slip. Outcomes that are left out add their P-mass to delta. step_cells.py
   derives these bounds.
2. Numbers k with a negligible term are left out, and Chernoff's bound on their terms is added to the upper bound. It is computed on a
   coarse lattice, whose pair dominates too. Numbers beyond those counted are bounded by a geometric series, because their ratios fall.
3. Other losses are not divided: each term is composed with their lattices, which are made from their tails (lattice.py). Where these count
   a loss as infinite, its P-mass is added once to delta, because it does not depend on the term.

The coarse lattice also gives c and the tilts, which decide only how narrow the bounds are. The terms are computed on a fine lattice, which
is a subdivision of the coarse one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple, Protocol

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.composed_losses import window_end
from dpcli.numerics.grid.convolution import convolve, transform_size  # a size for fast transforms
from dpcli.numerics.grid.grid_curve import GridCurve
from dpcli.numerics.grid.lattice import Lattice, discretise, edges
from dpcli.numerics.grid.step_cells import MASS_ERROR, AtomicStep, RisingStep, StepCells, step_maker
from dpcli.numerics.grid.survey import survey
from dpcli.numerics.logspace import log_peak, log_sum
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import TABLE, hold, remaining, spend  # limits on memory (TABLE, hold) and on work

# Floating point.
STEEPEST_CELL = 600.0  # largest product of a tilt and the width of a cell; its exponential is a finite float
# Accuracy: what is left out is bounded and added to the bounds, and any cut and tilts give bounds.
LEFT_OUT = -12.0  # logarithm of the P-mass of outcomes that are left out, relative to delta
OMITTED = -12.5  # a number of large losses is left out if log of Chernoff's bound on its term is lower than this, relative to delta
COARSE_CELLS, TILTS, CUTS = 4096, 96, 32  # numbers of cells, tilts and cuts of the coarse lattice
OTHER_CELLS = 16384  # most cells of another loss on the coarse lattice
LOWEST_CUT = 1.0 / 300.0  # the lowest cut that is tried, as a share of the largest loss
MAX_TILT = 250.0  # largest tilt, in units of -log delta over the largest loss
LOG_LEAST = -745.0  # log delta below every float
LEAST_RANGE = 1e-6  # the method is not used if the range of positive losses, relative to the largest one, is less
MOST_LARGE = 24  # most large losses of one kind that are counted one by one
MOST_TERMS, MOST_NUMBERS = 24, 200  # most terms that are computed, and most combinations of numbers of several kinds
ESTIMATE = 1e-3  # accuracy to which log epsilon is estimated
CHERNOFF_EXCESS = 4.0  # log of Chernoff's bound is about this much above log delta
NEARLY_BEST = 3.0  # among cuts whose log bounds are at most this much above the best, the one with the fewest terms is taken
WIDTH = 3e-7  # relative width for which the interval of epsilon is made
WINDOW_DEVIATIONS = 10.0  # half of a window, in standard deviations
WINDOW_ORDER = 9.0  # order of Chernoff's bound on the mass outside of a window, in units of 1 / standard deviation
LOG_OUTSIDE = -32.0  # logarithm of the share of the tilted mass that may lie outside of a window
LARGEST_EXPONENT = 100.0  # at losses l with t (l - epsilon) above this, the rest of a term is below e^-LARGEST_EXPONENT
SEARCH_SHARE, SEARCH_ACCURACY = 0.2, 1e-9  # epsilon is searched within this share of its estimate, up to this relative accuracy
# Speed and memory.
MOST_CELLS = 1 << 19  # most cells of the fine lattice
MOST_POINTS = 1 << 21  # most points of a transform
ROOM = 0.7  # share of MOST_POINTS that a window may take on the coarse lattice; it may be longer on the fine one
MOST_WORK, MOST_WORK_SHARE = 1.1e7, 0.75  # most work for the fine lattice, and the largest share of what is left that it may take
MIXTURE_WORK = 30.0  # work for each shift and cell of a step's mixture
MIXTURE_TABLE = 10.0  # entries of the largest table of a mixture, for each shift and cell
# Soundness: generous bounds on the relative error of a sum over a lattice, of `gap` in `_log_lower`, of a logarithm and of an epsilon.
SUM_ERROR, GAP_ERROR, LOG_ERROR, EPSILON_ROUNDING = 1e-12, 1e-9, 1e-9, 1e-15


class UndividedLoss(Protocol):
    """A loss with tails and a CGF."""

    def tails(self, at: Array) -> Tails:
        """Return log P(L > l), log P(L <= l), log Q(L > l) and log Q(L <= l) at increasing l."""
        ...

    def cgf(self, z: Array) -> Array:
        """Return upper bounds on log E[e^{z L}] at z > 0."""
        ...


Steps = Sequence[tuple[RisingStep | AtomicStep, int]]
Others = Sequence[tuple[UndividedLoss, int]]


class OtherCells(NamedTuple):
    """The tails of another loss at the edges of its cells, for lattices of the same spacing, which are not divided."""

    spacing: float
    start: int
    tails: Tails
    copies: int

    def lattice(self, tilt: float) -> Lattice:
        """Return all cells as a tilted lattice."""
        return discretise(self.tails, self.start, self.spacing, tilt, self.copies)


def others_on(others: Others, spacing: float, tilt: float, log_rare: float) -> list[OtherCells]:
    """Return the cells of the losses that matter at `tilt` and above. Larger ones, of P-mass e^log_rare, count as infinite."""
    result = []
    for loss, count in others:
        low, high = survey(loss).range(log_rare - math.log(len(others) * count), tilt, LOG_OUTSIDE - math.log(count))
        start = math.floor(low / spacing) - 1
        size = math.ceil(high / spacing) + 2 - start
        hold(2.0 * size)
        result.append(OtherCells(spacing, start, loss.tails(edges(start, size, spacing)), count))
    return result


def _most_large(kinds: int) -> int:
    """Return the largest number of large losses of one kind that is counted, so that all kinds have at most MOST_NUMBERS combinations.

    Each kind has two numbers more: 0, and -1 for all larger ones.
    """
    return min(MOST_LARGE, int(MOST_NUMBERS ** (1.0 / kinds)) - 2)


def _log_terms(n: int, small: Array, large: Array, most_large: int) -> tuple[list[int], Array]:
    """Return the numbers k of large losses among n steps of one kind, and log(C(n, k) A^(n-k) B^k) for each of them.

    small, large: log A and log B, of shape (tilts, cuts). The result has the shape (numbers, tilts, cuts). All numbers above `most_large`
    together are one term with the number -1, by a geometric series. It is inf where the series does not converge.
    """
    most = min(n, most_large)
    numbers = [*range(most + 1)]
    k = np.arange(most + 1.0)[:, None, None]
    log_binomials = np.array([math.log(math.comb(n, j)) for j in numbers])
    log_terms = log_binomials[:, None, None] + np.where(k < n, (n - k) * small, 0.0) + np.where(k > 0.0, k * large, 0.0)
    if n == most:
        return numbers, log_terms
    ratio = (n - most) / (most + 1.0) * np.exp(np.minimum(large - small, 700.0))
    log_more = np.where(ratio < 1.0, log_terms[-1] + np.log(ratio) - np.log1p(-np.minimum(ratio, 1.0)), np.inf)
    return [*numbers, -1], np.concatenate((log_terms, log_more[None]))


class TermPlan(NamedTuple):
    """A choice of the cut and of the terms that are computed, for one epsilon.

    cut: index of the first large cell. numbers, tilts: for each term, how many losses of each kind of step are large, and its tilt.
    omitted: the tilts of the other terms, and logarithms of Chernoff's bounds on them without the factor e^{-t epsilon}.
    """

    cut: int
    numbers: list[tuple[int, ...]]
    tilts: list[float]
    omitted: tuple[Array, Array]


class CoarseSurvey:
    """The coarse lattices of all kinds of steps, with the CGFs of their small and large parts at many tilts and cuts.

    others: losses that are not divided. Each term has their CGF too.

    spacing, start, size: the distance of the coarse lattice's points, its first point in units of that, and its number of cells.
    largest: about the largest loss of the composition.
    cells: the cells of each kind of step, with the number of steps. tilts, cuts: those that are tried; a cut is the index of a cell.
    numbers: the combinations of numbers of large losses, one for each kind. slip: how far all steps' losses together may be moved.
    """

    def __init__(self, steps: Steps, others: Others, log_delta: float) -> None:
        low, high = min(step.ends[0] for step, _ in steps), max(step.ends[1] for step, _ in steps)
        ranges = [survey(loss).range(log_delta + LEFT_OUT - math.log(n), 1.0, LOG_OUTSIDE - math.log(n)) for loss, n in others]
        # The finest spacing with at most COARSE_CELLS cells for the steps, and OTHER_CELLS for each other loss.
        self.spacing = spacing = max([(high - low) / COARSE_CELLS, *((top - bottom) / OTHER_CELLS for bottom, top in ranges)])
        self.start = math.floor(low / spacing)
        self.size = math.ceil(high / spacing) - self.start
        self.largest = high * sum(n for _, n in steps) + sum(n * max(float(survey(loss).edges[-1]), 0.0) for loss, n in others)
        self.cells: list[tuple[StepCells, int]] = []
        tilts = np.geomspace(1.0 / self.largest, -MAX_TILT * log_delta / high, TILTS)
        self.tilts: Array = np.minimum(tilts, STEEPEST_CELL / spacing)
        losses = np.asarray(spacing * (self.start + np.arange(self.size)), dtype=np.float64)
        cuts = np.searchsorted(losses, high * np.geomspace(LOWEST_CUT, 1.0, CUTS))
        self.cuts = np.unique(np.append(cuts, self.size))
        self.slip = 0.0
        numbers, logs = [], []
        for step, n in steps:
            cells = step.cells(spacing, self.start, self.size)
            self.cells.append((cells, n))
            self.slip += n * cells.slip
            numbers_of_kind, log_terms = _log_terms(n, *self._cgfs(cells, losses), _most_large(len(steps)))
            numbers.append(numbers_of_kind)
            logs.append(log_terms)
        self.numbers = list(product(*numbers))
        hold(float(len(self.numbers) * logs[0][0].size))
        table = logs[0]
        for rows in logs[1:]:
            table = (table[:, None] + rows[None]).reshape(-1, *table.shape[1:])
            table[np.isnan(table)] = -np.inf  # numbers without mass of one kind, and without a bound for another
        # Chernoff's bound at t has the factor t^t / (1 + t)^{1 + t} (`log_peak`) and the CGF of the other losses in every term.
        in_every_term = sum((n * loss.cgf(self.tilts) for loss, n in others), np.array([log_peak(t) for t in self.tilts.tolist()]))
        self._table = table + in_every_term[:, None]  # of shape (numbers, tilts, cuts), without the factor e^{-t epsilon}

    def _cgfs(self, cells: StepCells, losses: Array) -> tuple[Array, Array]:
        """Return K of the small part and of the large part, of shape (tilts, cuts)."""
        t, occupied = self.tilts[:, None], np.flatnonzero(cells.log_mass > -np.inf)
        hold(3.0 * len(t) * len(occupied))
        terms = cells.log_mass[occupied] + t * losses[occupied] + np.log1p(cells.share[occupied] * np.expm1(t * cells.spacing))
        ends = [0, *np.searchsorted(occupied, self.cuts).tolist(), len(occupied)]
        parts = [log_sum(terms[:, i:j]) if i < j else np.full(len(t), -np.inf) for i, j in pairwise(ends)]
        between_cuts = np.stack(parts, axis=1)
        small = np.logaddexp.accumulate(between_cuts, axis=1)[:, :-1]
        large = np.logaddexp.accumulate(between_cuts[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return small, large

    def _chernoff(self, epsilon: float) -> Array:
        """Return log of Chernoff's bounds on all terms, of shape (numbers, cuts)."""
        spend(0.2 * self._table.size)
        return np.asarray((self._table - (self.tilts * epsilon)[:, None]).min(axis=1))

    def log_delta(self, epsilon: float) -> float:
        """Return about log delta(epsilon)."""
        return float(np.logaddexp.reduce(self._chernoff(epsilon), axis=0).min()) - CHERNOFF_EXCESS

    def epsilon(self, log_delta: float) -> float:
        """Return about the epsilon at which delta is e^log_delta."""
        low = 1e-4 * self.spacing  # practically 0
        if self.log_delta(low) <= log_delta:
            return 0.0
        ends = math.log(low), math.log(self.largest)
        _, log_epsilon = bracket_root(lambda e: self.log_delta(math.exp(e)) - log_delta, *ends, rtol=ESTIMATE)
        return math.exp(log_epsilon)

    def plan(self, epsilon: float, log_delta: float) -> TermPlan | None:
        """Return the plan with the fewest terms, or None if there would be more than MOST_TERMS."""
        bounds = self._chernoff(epsilon)
        totals = np.logaddexp.reduce(bounds, axis=0)
        kept = bounds > log_delta + OMITTED
        # -1 stands for all larger numbers, which are no single term.
        counted = np.array([min(number) >= 0 for number in self.numbers])
        terms = np.where((kept & ~counted[:, None]).any(axis=0), np.inf, kept.sum(axis=0))
        terms = np.where(totals <= float(totals.min()) + NEARLY_BEST, terms, np.inf)
        best = int(np.lexsort((totals, terms))[0])  # the cut with the fewest terms; of several, the one with the best bound
        if not 0 < terms[best] <= MOST_TERMS:
            return None
        at = (self._table[:, :, best] - self.tilts * epsilon).argmin(axis=1)
        tilts, rows = self.tilts[at], np.flatnonzero(kept[:, best])
        omitted = np.flatnonzero(~kept[:, best] & (bounds[:, best] != -np.inf))  # -inf: no step has a large loss, or no small one
        return TermPlan(
            cut=int(self.cuts[best]),
            numbers=[self.numbers[i] for i in rows.tolist()],
            tilts=tilts[rows].tolist(),
            omitted=(tilts[omitted], self._table[omitted, at[omitted], best] + tilts[omitted] * self.slip),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LargeLosses:
    """Bounds on delta, narrow near one epsilon.

    terms: the curves of the terms. omitted: tilts, and logarithms of Chernoff's bounds without -t epsilon, of the terms that are left out.
    log_lost: log of the P-mass of the outcomes that are left out, or count as infinite. slip: largest distance of the losses from their
        exact values.
    log_error: bound on the logarithm of the relative error of the divided steps' masses. t: the tilt of the largest term.
    """

    terms: list[GridCurve]
    omitted: tuple[Array, Array]
    log_lost: float
    slip: float
    log_error: float
    t: float

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon)."""
        return self._lower(epsilon), self._upper(epsilon)

    def _lower(self, epsilon: float) -> float:
        """Return a lower bound on log delta: that of the curves at an epsilon on the safe side of all moves of the losses."""
        at = epsilon + self.slip + EPSILON_ROUNDING * abs(epsilon)
        return float(np.logaddexp.reduce([_log_lower(curve, at) for curve in self.terms])) - self.log_error

    def _upper(self, epsilon: float) -> float:
        """Return an upper bound on log delta, likewise, with the terms and the outcomes that are left out."""
        at, (tilts, logs) = epsilon - self.slip - EPSILON_ROUNDING * abs(epsilon), self.omitted
        terms = [_log_upper(curve, at) for curve in self.terms]
        upper = np.logaddexp.reduce([*terms, *(logs + LOG_ERROR * np.abs(logs) - tilts * at)]) + self.log_error
        return float(np.logaddexp(upper, self.log_lost))

    def epsilon(self, log_delta: float, near: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on the epsilon at which delta is e^log_delta; 0 or inf if it is not near `near`."""
        first, last = (1.0 - SEARCH_SHARE) * near, (1.0 + SEARCH_SHARE) * near
        _, upper = bracket_root(lambda at: self._upper(at) - log_delta, first, last, rtol=SEARCH_ACCURACY)
        # The lower bound is vague, or none, far from `near`. So its bracket is grown downwards from the upper end.
        distance = SEARCH_ACCURACY * near
        while upper - distance > first and self._lower(upper - distance) < log_delta:
            distance *= 4.0
        lower = max(upper - distance, first)
        lower, _ = bracket_root(lambda at: self._lower(at) - log_delta, lower, upper, rtol=SEARCH_ACCURACY)
        is_lower, is_upper = self._lower(lower) >= log_delta, self._upper(upper) <= log_delta
        return (lower if is_lower else 0.0), (upper if is_upper else math.inf)


def _beyond(curve: GridCurve, epsilon: float) -> tuple[float, float]:
    """Return the curve of the lattice at epsilon, as a sum of positive terms, and the P-mass above, in units of e^{M - t eps}."""
    lattice = curve.lattice
    first = max(math.floor(epsilon / lattice.spacing) - lattice.start, 0)
    weights = lattice.weights[first : first + math.ceil(LARGEST_EXPONENT / (lattice.tilt * lattice.spacing)) + 2]
    spend(0.5 * len(weights))
    distance = np.maximum(lattice.spacing * (lattice.start + first + np.arange(len(weights))) - epsilon, 0.0)
    terms = weights * np.exp(-lattice.tilt * distance)
    return -float((terms * np.expm1(-distance)).sum()), float(terms.sum())


def _log_upper(curve: GridCurve, epsilon: float) -> float:
    """Return an upper bound on log of the term's curve at epsilon."""
    value, _ = _beyond(curve, epsilon)
    value = value + 2.0 * math.exp(-LARGEST_EXPONENT) + curve.slack
    scale = curve.lattice.log_scale + curve.lattice.log_error
    return scale - curve.lattice.tilt * epsilon + math.log(value) if math.isfinite(value) else math.inf


def _log_lower(curve: GridCurve, epsilon: float) -> float:
    """Return a lower bound on log of the term's curve at epsilon, or -inf if there is none.

    It is the lattice's curve minus `gap`, as grid_curve.py derives it: boxes of some half widths and heights around epsilon, each times the
    Q-mass within it, and what lies beyond the boxes. All is in units of e^{M - t eps}.
    """
    lattice, (widths, heights, beyond) = curve.lattice, curve.boxes
    gap = beyond + curve.slack + lattice.excess  # slack: error of the curve; excess: tilted mass that the lower bound may lack
    if not (len(widths) and math.isfinite(gap)):
        return -math.inf
    widest, order = float(widths[-1]), lattice.tilt + 1.0
    first = max(math.floor((epsilon - widest) / lattice.spacing) - lattice.start, 0)
    end = max(math.ceil((epsilon + widest) / lattice.spacing) - lattice.start + 1, first)
    weights = lattice.weights[first:end]
    distance = lattice.spacing * (lattice.start + first + np.arange(len(weights))) - epsilon
    sums = np.append(0.0, np.cumsum(weights * np.exp(-order * distance)))  # running sums of Q-masses
    low, high = (np.searchsorted(distance, sign * widths, side="right") for sign in (-1.0, 1.0))
    low = np.maximum(low - 1, 0)  # one more point on either side, because the ends are rounded
    high = np.minimum(high + 1, len(weights))
    error = (lattice.error * np.sqrt(high - low + 1.0) + curve.outside) * np.exp(order * (widths + 2.0 * lattice.spacing))
    mass = sums[high] - sums[low] + SUM_ERROR * float(sums[-1]) + error
    value, p_mass = _beyond(curve, epsilon)
    gap += math.expm1(min(lattice.blur, 700.0)) * p_mass + float(heights @ mass)  # blur: log of a relative error of the masses
    value = value * (1.0 - SUM_ERROR) - gap * (1.0 + GAP_ERROR)
    return lattice.log_scale - lattice.log_error - lattice.tilt * epsilon + math.log(value) if value > 0.0 else -math.inf


def _parts(
    cells: Sequence[tuple[StepCells, int]], others: Sequence[OtherCells], cut: int, numbers: Sequence[int], tilt: float
) -> list[tuple[Lattice, int]]:
    """Return the lattices of one term, with how often each is added. numbers: how many losses of each kind are large."""
    parts = [(other.lattice(tilt), other.copies) for other in others]
    for (step, n), k in zip(cells, numbers, strict=True):
        for first, end, copies in ((0, cut, n - k), (cut, len(step.share), k)):  # the small losses, and the large ones
            if copies:
                parts.append((step.lattice(first, end, tilt), copies))
    return parts


def _window(parts: list[tuple[Lattice, int]], epsilon: float) -> tuple[float, float, float]:
    """Return the ends of an interval of losses about the mean and `epsilon`, and a bound on the tilted mass outside of it."""
    mean, variance = 0.0, 0.0
    for part, copies in parts:
        place = np.arange(len(part.weights))
        centre = float((part.weights * place).sum())
        mean += copies * (part.start + centre)
        variance += copies * float((part.weights * (place - centre) ** 2).sum())
    spacing = parts[0][0].spacing
    mean, deviation = spacing * mean, spacing * (math.sqrt(variance) + 1.0)
    ends = min(mean - WINDOW_DEVIATIONS * deviation, epsilon), max(mean + WINDOW_DEVIATIONS * deviation, epsilon)
    low, below = window_end(parts, -1.0, ends[0], WINDOW_ORDER / deviation, LOG_OUTSIDE)
    high, above = window_end(parts, 1.0, ends[1], WINDOW_ORDER / deviation, LOG_OUTSIDE)
    return low, high, below + above


def _curve(
    cells: Sequence[tuple[StepCells, int]],
    others: Sequence[OtherCells],
    cut: int,
    numbers: Sequence[int],
    tilt: float,
    epsilon: float,
) -> GridCurve | None:
    """Return the curve of one term, or None if it would need too many points."""
    parts = _parts(cells, others, cut, numbers, tilt)
    low, high, outside = _window(parts, epsilon)
    spacing = parts[0][0].spacing
    if not high - low <= MOST_POINTS * spacing:
        return None
    first = math.floor(low / spacing)
    lattice = convolve(parts, first, transform_size(math.ceil(high / spacing) - first + 1))
    # The number of ways in which k of the n steps of each kind may be those with large losses.
    log_ways = math.fsum(math.log(math.comb(n, k)) for (_, n), k in zip(cells, numbers, strict=True))
    return GridCurve(replace(lattice, log_scale=lattice.log_scale + log_ways), outside, infinite_lower=0.0)


def _refinement(coarse: CoarseSurvey, others: Sequence[OtherCells], plan: TermPlan, epsilon: float, shifts: list[int]) -> int:
    """Return the number of cells of the fine lattice in a coarse one: what WIDTH asks for, or what the work allows, which may be 0.

    shifts: the numbers of shifts of the steps that are mixtures. The densities of a mixture are tables of a row for each shift, at four
    nodes in each panel, and there are some more panels than cells. The outcomes at the edges of its cells are found in a few turns.
    """
    ranges = []
    for numbers, tilt in zip(plan.numbers, plan.tilts, strict=True):
        low, high, _ = _window(_parts(coarse.cells, others, plan.cut, numbers, tilt), epsilon)
        ranges.append((high - low) / coarse.spacing)
    steps = sum(n for _, n in coarse.cells) + sum(other.copies for other in others)
    cells = len(coarse.cells) * coarse.size + sum(len(other.tails.p_above) for other in others)
    # The width of the interval is of second order in the spacing, and grows with the tilt and the number of steps.
    spacing = math.sqrt(WIDTH * epsilon / ((max(plan.tilts) + 1.0) * steps))
    # The work without refinement: that of the cells, once and for each term, and that of the transforms.
    work = cells * (8.0 + 4.0 * len(ranges)) + (2.0 * len(coarse.cells) + len(others) + 2.0) * math.fsum(ranges)
    affordable = min(MOST_WORK_SHARE * remaining(), MOST_WORK)
    most = min(MOST_CELLS / cells, ROOM * MOST_POINTS / max(ranges))
    if shifts:
        work += MIXTURE_WORK * sum(shifts) * coarse.size
        most = min(most, TABLE / (MIXTURE_TABLE * max(shifts) * coarse.size))
    most = min(most, affordable / work)
    return min(math.ceil(coarse.spacing / spacing), int(most)) if most < math.inf else 0


def large_losses(
    losses: Sequence[tuple[object, int]], log_delta: float, epsilon: float | None = None
) -> tuple[LargeLosses, float] | None:
    """Return bounds on delta near the epsilon at which it is about e^log_delta, and that epsilon; None if the method does not apply.

    epsilon: the epsilon, if it is known; log delta is at most about `log_delta` there.
    """
    kinds = [(step_maker(loss), loss, n) for loss, n in losses]
    step_makers = [(make_step, n) for make_step, _, n in kinds if make_step]
    undivided: Others = [(loss, n) for make_step, loss, n in kinds if not make_step]  # type: ignore[misc]
    count = sum(n for _, n in step_makers)
    if not step_makers or _most_large(len(step_makers)) < 1:
        return None
    coarse = None
    for _ in range(2 if epsilon is not None else 1):  # the second round uses the estimate of delta of the first
        log_left_out = log_delta + LEFT_OUT
        steps: Steps = [(make_step(log_left_out - math.log(count)), n) for make_step, n in step_makers]
        low, high = min(step.ends[0] for step, _ in steps), max(step.ends[1] for step, _ in steps)
        if not high - max(low, 0.0) > LEAST_RANGE * high:
            return None
        coarse = CoarseSurvey(steps, undivided, log_delta)
        if epsilon is not None:  # the estimate is far too low if only outcomes that are left out reach epsilon
            log_delta = min(log_delta, max(LOG_LEAST, coarse.log_delta(epsilon)))
    assert coarse is not None
    near = coarse.epsilon(log_delta) if epsilon is None else epsilon
    plan = coarse.plan(near, log_delta) if near > 0.0 else None
    if plan is None:
        return None
    least, log_rare = min(plan.tilts), log_delta + LEFT_OUT
    shifts = [step.shifts for step, _ in steps if step.shifts > 1]
    finer = _refinement(coarse, others_on(undivided, coarse.spacing, least, log_rare), plan, near, shifts)
    if not finer:
        return None
    spacing = coarse.spacing / finer
    cells = [(step.cells(spacing, coarse.start * finer, coarse.size * finer), n) for step, n in steps]
    others = others_on(undivided, spacing, least, log_rare)
    curves: list[GridCurve] = []
    for numbers, tilt in zip(plan.numbers, plan.tilts, strict=True):
        curve = _curve(cells, others, plan.cut * finer, numbers, tilt, near)
        if curve is None:
            return None
        curves.append(curve)
    log_infinite = [math.log(other.copies) + float(other.tails.p_above[-1]) for other in others]
    _, tilt_of_largest = max(zip((_log_upper(curve, near) for curve in curves), plan.tilts, strict=True))
    bounds = LargeLosses(
        terms=curves,
        omitted=plan.omitted,
        log_lost=float(np.logaddexp.reduce([log_left_out, *log_infinite])) + LOG_ERROR,
        slip=math.fsum(n * step_cells.slip for step_cells, n in cells),
        log_error=count * 2.0 * MASS_ERROR,
        t=tilt_of_largest,
    )
    return bounds, near
