"""Composition of privacy losses on a grid: the choice of the spacing, the convolution of all steps, and the resulting curve.

This is the core of the accountant pld (accountants/pld.py). It gives the losses L = log dP/dQ of one direction, each with its survey and
its count. `plan_grid` chooses a grid, and `compose_on_grid` returns a `GridCurve`: bounds on delta(epsilon) from both sides. They hold for
any plan and at every epsilon. A good plan makes them narrow near the epsilon or delta of the question.

Words of the grid:

* Survey: a rough table of one loss, from which a plan is made (survey.py).
* Tilt t: all masses are multiplied by e^{t L}. The right t makes losses near epsilon the likely ones, so that floating point keeps their
  digits even if delta is tiny. A share of the *tilted mass* is a share of all mass after this multiplication.
* Lattice: a pair of distributions with losses on the grid that dominates one loss, or a sum of losses (lattice.py).
* Window: the interval of losses on which the whole composition is computed. The transform wraps mass from outside of it into it, so that
  mass is bounded and counted as an error.
* Dispersion: V of lattice.py, which measures how far rounding to the grid has moved the losses. The lower bound on delta gets worse with V.

Rounding `count` losses to a grid of spacing h adds at most count h^2/4 to the dispersion. Many steps are composed in rounds (Ghazi et al.
2022, arXiv:2207.04381). A round composes four copies, which leaves a fourth of the losses, and then doubles h. So each round adds the same
dispersion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import np
from dpcli.numerics.grid.convolution import are_short, convolve, convolve_directly, transform_size  # a size for fast transforms
from dpcli.numerics.grid.grid_curve import GridCurve
from dpcli.numerics.grid.lattice import Lattice, coarsen, discretise, edges
from dpcli.numerics.grid.survey import GridPart, Survey, Window, tilted_window
from dpcli.numerics.work import remaining  # how much work is left

TOO_STEADY = "the loss varies too little, compared with its size, for a grid"
TOO_FAR = "the loss is too far spread for a grid of this size"
# Soundness: beyond this many cells from 0, positions on the grid would not be exact floats.
FARTHEST_CELL = 2.0**50
# Accuracy: the bounds hold for any values, which decide only how narrow they are.
FEWEST = 64  # fewest points of the window, and fewest cells over the narrowest loss of one step
SNAPPED = 16.0  # a spacing of more than this many units is not adapted to the unit
WIDTH = 4.0  # an interval of epsilon is about this times the dispersion times t + 1 wide; a wanted width thus gives the spacing
STEEPEST_CELL = 16.0  # largest tilt times width of a cell; mass that rounding moves up by a cell grows by e to this power
WIDEST_CELL = 300.0  # largest width of a cell, far below the 709 at which e^width would overflow
NEARLY_NEGLIGIBLE = 4.0  # a planned end is kept if the mass beyond it is at most e to this power times the negligible mass
MOST_MAGNIFIED = 100.0  # largest logarithm of the factor by which an absolute error of a mass counts more than a relative one
MAGNIFIED_LESS = 16.0  # that logarithm is -log_negligible minus this
# Speed and memory.
MAX_POINTS = 1 << 20  # most points of a convolution
WIDENED = 2.0  # room for a window that turns out longer than planned: a plan may take 1 / WIDENED of MAX_POINTS for it
LONGEST_WINDOW = 8.0  # longest window that is made, in multiples of the planned one
CELLS_OF_POINT = 2.0  # cells of work for each point of a plan
# Estimated work of a plan, for each point of the finest grid of a part: without rounds, and more for each round. It decides which plan is
# taken.
WORK, WORK_OF_ROUND = 3.0, 10.0
MOST_ROUNDS = 20  # most rounds of a plan
# Limits of searches, so that they end.
GENTLER = 40  # number of tilts that are tried, each at most a quarter of the one before
COARSER = 200  # number of coarser spacings that are tried, each sqrt(2) times the one before
# Ends and number of the orders, relative to the planned one, at which Chernoff's bound on the mass beyond a window is tried.
ORDERS = (1e-3, 10.0, 33)

Parts = Sequence[GridPart]


@dataclass(frozen=True, slots=True)
class GridTarget:
    """The question for which a grid is made.

    tilt: t of the module's docstring. log_delta: about log delta where the curve is wanted.
    log_rare: logarithm of the P-mass that may count as infinite loss.
    log_negligible: logarithm of the share of the tilted mass that may be left out.
    """

    tilt: float
    log_delta: float
    log_rare: float
    log_negligible: float


@dataclass(frozen=True, slots=True)
class GridPlan:
    """The plan of a grid for the composition.

    spacing: h. first, size: first point and number of points of the window.
    rounds: for each part, the number of rounds of four-fold composition and coarsening.
    work: number of grid points to be transformed. longest: number of points of the longest convolution of one part.
    orders: distances from the tilt at which Chernoff's bound shows that little mass lies below and above the window.
    coarse: whether the spacing is larger than the wanted error requires, because a finer grid was not affordable.
    """

    target: GridTarget
    spacing: float
    first: int
    size: int
    rounds: tuple[int, ...]
    work: float
    longest: float
    orders: tuple[float, float]
    coarse: bool

    def affordable(self, work: float) -> bool:
        """Return whether the grid may be made: it has few enough points, takes at most `work`, and its positions are exact."""
        exact = max(-self.first, self.first + self.size) <= FARTHEST_CELL
        return exact and max(WIDENED * self.size, self.longest) <= MAX_POINTS and self.work <= work


def plan_grid(parts: Parts, target: GridTarget, error: float, unit: float, work: float) -> GridPlan:
    """Return the cheapest plan whose interval for epsilon is about `error` nats wide, or the finest one that `work` points allow.

    unit: the common unit of losses that lie on a lattice, or 0. If the spacing divides it, the losses need no rounding and have no
    dispersion. The plan then has no rounds, each of which would add some. If a cell would be too steep (STEEPEST_CELL), the plan has a
    smaller tilt than the target. Raises NotRepresentable if there is no plan.
    """
    for _ in range(GENTLER):
        plan = _cheapest(parts, target, error, unit, work)
        if plan.spacing > WIDEST_CELL:
            break
        if target.tilt * plan.spacing <= STEEPEST_CELL:
            return plan
        # The next plan may have a larger spacing, hence the 0.5.
        target = replace(target, tilt=min(0.25 * target.tilt, 0.5 * STEEPEST_CELL / plan.spacing))
    raise NotRepresentable(TOO_FAR)


def _cheapest(parts: Parts, target: GridTarget, error: float, unit: float, work: float) -> GridPlan:
    """Return the plan of `plan_grid` for this tilt, even if numbers would overflow across a cell."""
    work = min(work, remaining() / CELLS_OF_POINT)
    window = tilted_window([(part.survey, part.copies) for part in parts], target.tilt, target.log_negligible)
    ranges = [_range(part, target) for part in parts]
    # If the tilted composition is concentrated on its largest loss, its window has no width. The ranges of single steps give a scale then.
    widest = max((window.high - window.low) / FEWEST, min(high - low for low, high in ranges) / FEWEST)
    if not 0.0 < widest < math.inf:
        raise NotRepresentable(TOO_STEADY)
    wanted_dispersion = error / (WIDTH * (target.tilt + 1.0))

    def spacing_of(rounds: tuple[int, ...]) -> float:
        """Return the largest spacing with the wanted dispersion, if each part has this number of rounds."""
        dispersion = math.fsum(_dispersion(part.copies, r) for part, r in zip(parts, rounds, strict=True))
        return min(math.sqrt(4.0 * wanted_dispersion / dispersion), widest)

    # For each number of rounds of the part with most copies, the others get rounds that leave them no larger a dispersion.
    most = max(part.copies for part in parts)
    dispersions = [_dispersion(most, k) for k in range(1 + min(_most_rounds(most), MOST_ROUNDS))]
    choices = {tuple(_rounds(part.copies, dispersion) for part in parts) for dispersion in dispersions}
    no_rounds = (0,) * len(parts)
    if unit > 0.0 and spacing_of(no_rounds) <= SNAPPED * unit:  # the spacing can divide the unit, so that nothing is rounded
        choices = {no_rounds}
    layout = _Layout(target, unit, window, ranges)
    for attempt in range(COARSER):
        factor = 2.0 ** (0.5 * attempt)
        plans = [layout.plan(spacing_of(rounds) * factor, rounds, coarse=attempt > 0) for rounds in choices]
        affordable = [plan for plan in plans if plan.affordable(work)]
        if affordable:
            return min(affordable, key=lambda plan: plan.work)
    raise NotRepresentable(TOO_FAR)


def _most_rounds(count: int) -> int:
    """Return how often `count` can be divided by 4."""
    return int(math.log(count, 4.0) + 1e-9)  # the logarithm of a power of 4 may be rounded down


def _dispersion(count: int, rounds: int) -> float:
    """Return the dispersion of `count` steps after `rounds` rounds, in units of a quarter of the square of the last spacing.

    The first spacing is 2^-rounds times the last one, and each round adds as much dispersion as the steps had before it.
    """
    return count * (1.0 + rounds) / 4.0**rounds


def _rounds(count: int, dispersion: float) -> int:
    """Return the least number of rounds with at most this dispersion, or the largest possible number if none has."""
    most = _most_rounds(count)
    return next((r for r in range(most) if _dispersion(count, r) <= dispersion), most)


def _range(part: GridPart, target: GridTarget) -> tuple[float, float]:
    """Return the range of losses of one step that matter. What it leaves out is rare, or negligible, in all `count` steps together."""
    log_count = math.log(part.copies)
    return part.survey.range(target.log_rare - log_count, target.tilt, target.log_negligible - log_count)


def _step_lattice(part: GridPart, target: GridTarget, spacing: float) -> Lattice:
    """Return the lattice of one step. Raises NotRepresentable if positions on the grid would not be exact."""
    low, high = _range(part, target)
    if not max(abs(low), abs(high)) <= FARTHEST_CELL * spacing:
        raise NotRepresentable(TOO_STEADY)
    start = math.floor(low / spacing) - 1
    # If all losses lie beyond the survey, the range is empty, and they count as infinite.
    end = max(math.ceil(high / spacing) + 1, start + 2)
    # How much more an absolute error of a mass counts than a relative one, where rounding may be counted as either (`discretise`).
    magnified = math.exp(min(-target.log_negligible - MAGNIFIED_LESS, MOST_MAGNIFIED))
    at = edges(start, end - start + 1, spacing)
    return discretise(part.loss.tails(at), start, spacing, target.tilt, part.copies, magnified)


def _snap(spacing: float, unit: float) -> float:
    """Return the largest spacing up to the given one of which `unit` is a whole multiple.

    If that would be far too fine, or if `unit` is 0, it is the given spacing.
    """
    if unit <= 0.0 or spacing > SNAPPED * unit:
        return spacing
    return unit / math.ceil(unit / spacing)


class _Layout(NamedTuple):
    """The choices that all plans for one tilt share.

    unit: as for `plan_grid`. window: where the tilted composition lies, by the surveys. ranges: the results of `_range` for all parts.
    """

    target: GridTarget
    unit: float
    window: Window
    ranges: list[tuple[float, float]]

    def plan(self, spacing: float, rounds: tuple[int, ...], *, coarse: bool) -> GridPlan:
        """Return the plan with this spacing and these rounds."""
        window, spacing = self.window, _snap(spacing, self.unit)
        first = math.floor(window.low / spacing)
        size = transform_size(math.ceil(window.high / spacing) - first + 1)
        work, longest = float(size) * (len(self.ranges) + 1), 0.0
        for (start, end), r in zip(self.ranges, rounds, strict=True):
            points = (end - start) / spacing * 2.0**r  # for one step; a round composes four copies
            longest = max(longest, points * (4.0 if r else 1.0))
            work += points * (WORK + WORK_OF_ROUND * r)
        return GridPlan(
            target=self.target,
            spacing=spacing,
            first=first,
            size=size,
            rounds=rounds,
            work=work,
            longest=longest,
            orders=(window.below, window.above),
            coarse=coarse,
        )


def compose_on_grid(parts: Parts, plan: GridPlan) -> GridCurve:
    """Return the curve of the composition."""
    lattices: list[tuple[Lattice, int]] = []
    log_finite = 0.0  # log of the probability that no step's loss is infinite
    for part, rounds in zip(parts, plan.rounds, strict=True):
        step = _step_lattice(part, plan.target, plan.spacing / 2.0**rounds)
        lattices += _copies_of(step, part.copies, rounds, part.survey, plan.target)
        log_finite += part.copies * math.log1p(-min(math.exp(part.survey.log_infinite), 1.0 - 1e-16))  # log1p(-1) would raise
    lattice, outside = _convolve_on_window(lattices, plan)
    infinite_lower = -math.expm1(log_finite) * (1.0 - 1e-12)  # a lower bound, so rounded down
    return GridCurve(lattice, outside, infinite_lower, plan.coarse)


def _copies_of(step: Lattice, count: int, rounds: int, survey: Survey, target: GridTarget) -> list[tuple[Lattice, int]]:
    """Return lattices on the plan's spacing, with counts, whose convolution is `count` copies of `step`.

    Each round makes a block of four blocks, and doubles the spacing. Blocks that are too few for that are convolved with the remainder.
    count: at least 1. survey: the survey of one step's loss, which tells how far a round may be cut off.
    """
    block = step
    remainder: list[tuple[Lattice, int]] = []  # at most one lattice, with the count 1
    steps_in_block, steps_in_remainder = 1, 0
    for _ in range(rounds):
        count, extra = divmod(count, 4)
        if extra:
            steps_in_remainder += extra * steps_in_block
            remainder = [(_convolve_and_trim([(block, extra), *remainder], steps_in_remainder, 1, survey, target), 1)]
        steps_in_block *= 4
        block = coarsen(_convolve_and_trim([(block, 4)], steps_in_block, count, survey, target))
        remainder = [(coarsen(lattice), 1) for lattice, _ in remainder]
    return [(block, count), *remainder] if count else remainder


def _convolve_and_trim(parts: list[tuple[Lattice, int]], copies: int, times: int, survey: Survey, target: GridTarget) -> Lattice:
    """Return the convolution of the parts without its negligible ends. The upper end counts as infinite loss, and the lower one as lost.

    Without this, the number of points would double with each round. copies: number of steps in the result. times: how often the result is
    used. Raises NotRepresentable if positions on the grid would not be exact.
    """
    first = sum(n * lattice.start for lattice, n in parts)
    length = sum(n * (len(lattice.weights) - 1) for lattice, n in parts) + 1
    if not max(-first, first + length) <= FARTHEST_CELL:
        raise NotRepresentable(TOO_STEADY)
    result = convolve_directly(parts) if are_short(parts) else convolve(parts, first, transform_size(length))
    log_rare = target.log_rare - math.log(times)
    above = _rare_above(parts, survey.rare_order(copies, log_rare), log_rare)
    end = max(math.ceil(min(max(above / result.spacing, first), first + length - 1)) - first + 1, 1)
    below = np.cumsum(result.weights[:end])
    rounding = result.error * np.sqrt(np.arange(1.0, end + 1.0))  # a bound on the error of the mass below each point
    begin = min(int(np.count_nonzero(below <= math.exp(target.log_negligible) / times + rounding)), end - 1)
    return replace(
        result,
        start=first + begin,
        weights=result.weights[begin:end].copy(),
        infinite=result.infinite + (math.exp(log_rare) if end < length else 0.0),
        lost=result.lost + (float(below[begin - 1] + rounding[begin - 1]) if begin else 0.0),
    )


def _rare_above(parts: list[tuple[Lattice, int]], order: float, log_rare: float) -> float:
    """Return a loss that the composition exceeds with probability at most e^log_rare, by Chernoff's bound at `order`."""
    log_moment = math.fsum(
        count * (_log_moment(lattice, order - lattice.tilt) + lattice.log_scale + lattice.log_error) for lattice, count in parts
    )
    return (log_moment - log_rare) / order if math.isfinite(log_moment) else math.inf


def _log_moment(lattice: Lattice, s: float) -> float:
    """Return an upper bound on the log of the sum of w e^{s l} over the weights w at the losses l.

    The error of the weights is not included; the curve's slack contains it. Exponents far below the largest are raised, so that no term
    underflows.
    """
    positive = np.flatnonzero(lattice.weights)
    if not len(positive):
        return -math.inf
    exponents = s * lattice.spacing * (lattice.start + positive)
    top = float(exponents.max())
    moment = float((lattice.weights[positive] * np.exp(np.maximum(exponents - top, -500.0))).sum())
    return math.log(moment) + top + 1e-12


def _convolve_on_window(parts: list[tuple[Lattice, int]], plan: GridPlan) -> tuple[Lattice, float]:
    """Return the composition on the plan's window, or on a wider one if the lattices need it, and a bound on the tilted mass outside."""
    low, high = plan.spacing * plan.first, plan.spacing * (plan.first + plan.size - 1)
    order_below, order_above = plan.orders
    begin, below = window_end(parts, -1.0, low, order_below, plan.target.log_negligible)
    end, above = window_end(parts, 1.0, high, order_above, plan.target.log_negligible)
    # If the needed window is too wide or infinite, the plan's window is used, and the mass outside is not bounded.
    if not end - begin <= plan.spacing * min(LONGEST_WINDOW * plan.size, MAX_POINTS):
        return convolve(parts, plan.first, plan.size), math.inf
    first = min(math.floor(begin / plan.spacing), plan.first)
    length = max(math.ceil(end / plan.spacing) - first + 1, plan.size)
    result = convolve(parts, first, plan.size if (first, length) == (plan.first, plan.size) else transform_size(length))
    return result, below + above + result.lost


def window_end(
    parts: list[tuple[Lattice, int]], sign: float, planned: float, order: float, log_negligible: float
) -> tuple[float, float]:
    """Return an end of the window and Chernoff's bound on the tilted mass beyond it. sign: -1 for the lower end, 1 for the upper one.

    It is the `planned` end if little mass is beyond that, and farther out otherwise. order: a distance from the tilt for Chernoff's bound.
    """

    def log_beyond(s: float, at: float) -> float:
        return math.fsum(count * _log_moment(lattice, sign * s) for lattice, count in parts) - sign * s * at

    log_mass = log_beyond(order, planned)
    if log_mass <= log_negligible + NEARLY_NEGLIGIBLE:
        return planned, math.exp(log_mass)
    # The survey was too rough, so the moments of the lattices determine the end.
    orders = (order * np.geomspace(*ORDERS)).tolist()
    distance = min(max(log_beyond(s, planned) - log_negligible, 0.0) / s for s in orders)
    return planned + sign * distance, math.exp(log_negligible) if math.isfinite(distance) else 1.0
