"""Composition of losses on a grid: the choice of the spacing, the convolution of many steps, and the resulting curve.

This is the core of the accountant pld: `plan_grid` chooses a grid from surveys of the losses (survey.py), and `compose_on_grid` returns the
curve, whose bounds hold for any plan. Each loss is rounded to the grid by lattice.py.

Rounding `count` losses to a grid of spacing h adds at most count h^2/4 to the *dispersion*, the bound on the rounding in lattice.py. Many
steps are composed in rounds (Ghazi et al. 2022, arXiv:2207.04381). A round composes four copies, which leaves a fourth of the losses, and
then doubles h. So each round adds the same dispersion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import np
from dpcli.numerics.grid.convolution import convolve, convolve_directly, short, transform_size
from dpcli.numerics.grid.grid_curve import GridCurve
from dpcli.numerics.grid.lattice import Lattice, coarsen, discretise, edges
from dpcli.numerics.grid.survey import Survey, Window, spread
from dpcli.numerics.tails import HasTails
from dpcli.numerics.work import remaining

TOO_STEADY = "the loss varies too little, compared with its size, for a grid"
TOO_FAR = "the loss is too far spread for a grid of this size"
WIDENED = 2.0  # the window may need this many times the planned points, so a plan must leave room for them
GENTLER = 40  # number of smaller tilts that are tried
FARTHEST_CELL = 2.0**50  # largest distance of a cell from 0, in cells; beyond it, positions would not be exact
MAX_POINTS = 1 << 20  # most points of a convolution
FEWEST = 64  # fewest points of the window, and fewest cells over the narrowest loss of one step
SNAPPED = 16.0  # a spacing of more than this many units is not adapted to the unit
PASSES = 2.0  # cells of work for each point of the plan
WIDEST_CELL = 300.0  # largest width of a cell
STEEPEST_CELL = 16.0  # largest tilt times width of a cell; mass that rounding moves up by a cell grows by e to this power
WIDTH = 4.0  # width of an interval of epsilon, in units of dispersion times t + 1

Parts = Sequence[tuple[HasTails, Survey, int]]  # each different loss with its survey, and how often it is added


@dataclass(frozen=True, slots=True)
class GridTarget:
    """The question for which a grid is made.

    tilt, log_delta: the tilt, and about log delta where the curve is wanted.
    log_rare: logarithm of the P-mass that may count as infinite loss. log_negligible: logarithm of the share of the tilted mass that may be
    left out.
    """

    tilt: float
    log_delta: float
    log_rare: float
    log_negligible: float


@dataclass(frozen=True, slots=True)
class GridPlan:
    """The plan of a grid for the composition.

    spacing, first, size: the spacing, and the first point and number of points of the window.
    rounds: for each part, the number of rounds of four-fold composition and coarsening.
    work: number of grid points to be transformed. longest: number of points of the longest convolution of one part.
    orders: distances from the tilt at which Chernoff's bound shows that little mass lies below and above the window.
    coarse: whether the spacing is larger than the wanted error requires.
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
        """Return whether the grid may be made: it has not too many points, takes at most `work`, and its positions are exact."""
        exact = max(-self.first, self.first + self.size) <= FARTHEST_CELL
        return exact and max(WIDENED * self.size, self.longest) <= MAX_POINTS and self.work <= work


def plan_grid(parts: Parts, target: GridTarget, error: float, unit: float, work: float) -> GridPlan:
    """Return the cheapest plan whose interval for epsilon is about `error` nats wide, or the finest one that `work` points allow.

    unit: a loss that shall be a whole multiple of the spacing, or 0. Such a plan has no rounds. If numbers would overflow across a cell,
    the plan has a smaller tilt than the target. Raises NotRepresentable if there is no plan.
    """
    for _ in range(GENTLER):
        plan = _cheapest(parts, target, error, unit, work)
        if plan.spacing > WIDEST_CELL:
            break
        if target.tilt * plan.spacing <= STEEPEST_CELL:
            return plan
        target = replace(target, tilt=min(0.25 * target.tilt, 0.5 * STEEPEST_CELL / plan.spacing))
    raise NotRepresentable(TOO_FAR)


def _cheapest(parts: Parts, target: GridTarget, error: float, unit: float, work: float) -> GridPlan:
    """Return the plan of `plan_grid` for this tilt, even if numbers would overflow across a cell."""
    work = min(work, remaining() / PASSES)
    window = spread([(view, count) for _, view, count in parts], target.tilt, target.log_negligible)
    reaches = [_reach(part, target) for part in parts]
    # If the tilted composition is concentrated on its largest loss, its window has no width. The ranges of single steps give a scale then.
    widest = max((window.high - window.low) / FEWEST, min(high - low for low, high in reaches) / FEWEST)
    if not 0.0 < widest < math.inf:
        raise NotRepresentable(TOO_STEADY)
    variance = error / (WIDTH * (target.tilt + 1.0))

    def spacing_of(rounds: tuple[int, ...]) -> float:  # the spacing that has this variance as its dispersion
        dispersion = math.fsum(_dispersion(n, r) for (_, _, n), r in zip(parts, rounds, strict=True))
        return min(math.sqrt(4.0 * variance / dispersion), widest)

    most = max(count for _, _, count in parts)
    dispersions = [_dispersion(most, k) for k in range(1 + min(_most_rounds(most), 20))]
    choices = {tuple(_rounds(count, dispersion) for _, _, count in parts) for dispersion in dispersions}
    no_rounds = (0,) * len(parts)
    if unit > 0.0 and spacing_of(no_rounds) <= SNAPPED * unit:
        choices = {no_rounds}
    for doublings in range(200):
        factor = 2.0 ** (0.5 * doublings)
        plans = [
            _plan(parts, reaches, target, unit, window, spacing_of(rounds) * factor, rounds, coarse=doublings > 0)
            for rounds in choices
        ]
        affordable = [plan for plan in plans if plan.affordable(work)]
        if affordable:
            return min(affordable, key=lambda plan: plan.work)
    raise NotRepresentable(TOO_FAR)


def _most_rounds(count: int) -> int:
    """Return how often `count` can be divided by 4."""
    return int(math.log(count, 4.0) + 1e-9)


def _dispersion(count: int, rounds: int) -> float:
    """Return the dispersion of `count` steps after `rounds` rounds, in units of a quarter of the square of the last spacing."""
    return count * (1.0 + rounds) / 4.0**rounds


def _rounds(count: int, dispersion: float) -> int:
    """Return the least number of rounds with at most this dispersion, or the largest possible number if none has."""
    most = _most_rounds(count)
    return next((r for r in range(most) if _dispersion(count, r) <= dispersion), most)


def _reach(part: tuple[HasTails, Survey, int], target: GridTarget) -> tuple[float, float]:
    """Return the range of losses of one step that matter."""
    _, survey, count = part
    return survey.range(target.log_rare - math.log(count), target.tilt, target.log_negligible - math.log(count))


def _step_lattice(part: tuple[HasTails, Survey, int], target: GridTarget, spacing: float) -> Lattice:
    """Return the lattice of one step."""
    low, high = _reach(part, target)
    if not max(abs(low), abs(high)) <= FARTHEST_CELL * spacing:
        raise NotRepresentable(TOO_STEADY)
    start = math.floor(low / spacing) - 1
    # If all losses lie beyond the survey, the range is empty, and they count as infinite.
    end = max(math.ceil(high / spacing) + 1, start + 2)
    magnified = math.exp(min(-target.log_negligible - 16.0, 100.0))
    at = edges(start, end - start + 1, spacing)
    return discretise(part[0].tails(at), start, spacing, target.tilt, part[2], magnified)


def _snap(spacing: float, unit: float) -> float:
    """Return the largest spacing up to the given one of which `unit` is a whole multiple.

    If that would be far too fine, or if `unit` is 0, it is the given spacing.
    """
    if unit <= 0.0 or spacing > SNAPPED * unit:
        return spacing
    return unit / math.ceil(unit / spacing)


def _plan(
    parts: Parts,
    reaches: list[tuple[float, float]],
    target: GridTarget,
    unit: float,
    window: Window,
    spacing: float,
    rounds: tuple[int, ...],
    *,
    coarse: bool,
) -> GridPlan:
    """Return the plan with this spacing and these rounds. reaches: results of `_reach`."""
    spacing = _snap(spacing, unit)
    first = math.floor(window.low / spacing)
    size = transform_size(math.ceil(window.high / spacing) - first + 1)
    work, longest = float(size) * (len(parts) + 1), 0.0
    for (start, end), r in zip(reaches, rounds, strict=True):
        points = (end - start) / spacing * 2.0**r
        longest = max(longest, points * (4.0 if r else 1.0))
        work += points * (3.0 + 10.0 * r)
    return GridPlan(target, spacing, first, size, rounds, work, longest, (window.below, window.above), coarse)


def compose_on_grid(parts: Parts, plan: GridPlan) -> GridCurve:
    """Return the curve of the composition."""
    lattices: list[tuple[Lattice, int]] = []
    infinite = 0.0
    for part, rounds in zip(parts, plan.rounds, strict=True):
        _, survey, count = part
        step = _step_lattice(part, plan.target, plan.spacing / 2.0**rounds)
        lattices += _copies_of(step, count, rounds, survey, plan.target)
        infinite += count * math.log1p(-min(math.exp(survey.log_infinite), 1.0 - 1e-16))
    lattice, outside = _convolve_on_window(lattices, plan)
    return GridCurve(lattice, outside, -math.expm1(infinite) * (1.0 - 1e-12), plan.coarse)


def _copies_of(step: Lattice, count: int, rounds: int, survey: Survey, target: GridTarget) -> list[tuple[Lattice, int]]:
    """Return lattices on the plan's spacing, with counts, whose convolution is `count` copies of `step`.

    Each round makes a block of four blocks. Blocks that are too few for that are convolved with the remainder.
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

    copies: number of steps in the result. times: how often the result is used.
    """
    first = sum(n * lattice.start for lattice, n in parts)
    length = sum(n * (len(lattice.weights) - 1) for lattice, n in parts) + 1
    if not max(-first, first + length) <= FARTHEST_CELL:
        raise NotRepresentable(TOO_STEADY)
    result = convolve_directly(parts) if short(parts) else convolve(parts, first, transform_size(length))
    log_rare = target.log_rare - math.log(times)
    above = _rare_above(parts, survey.rare_order(copies, log_rare), log_rare)
    end = max(math.ceil(min(max(above / result.spacing, first), first + length - 1)) - first + 1, 1)
    below = np.cumsum(result.weights[:end])
    noise = result.error * np.sqrt(np.arange(1.0, end + 1.0))  # a bound on the rounding error of the mass below each point
    begin = min(int(np.count_nonzero(below <= math.exp(target.log_negligible) / times + noise)), end - 1)
    return replace(
        result,
        start=first + begin,
        weights=result.weights[begin:end].copy(),
        infinite=result.infinite + (math.exp(log_rare) if end < length else 0.0),
        lost=result.lost + (float(below[begin - 1] + noise[begin - 1]) if begin else 0.0),
    )


def _rare_above(parts: list[tuple[Lattice, int]], order: float, log_rare: float) -> float:
    """Return a loss that the composition exceeds with probability at most e^log_rare, by Chernoff's bound at `order`."""
    log_moment = math.fsum(
        count * (_log_moment(lattice, order - lattice.tilt) + lattice.log_scale + lattice.log_error) for lattice, count in parts
    )
    return (log_moment - log_rare) / order if math.isfinite(log_moment) else math.inf


def _log_moment(lattice: Lattice, s: float) -> float:
    """Return the log of the sum of w e^{s l} over the weights. The error of the weights is not included; the curve's slack contains it."""
    positive = np.flatnonzero(lattice.weights)
    if not len(positive):
        return -math.inf
    exponents = s * lattice.spacing * (lattice.start + positive)
    top = float(exponents.max())
    moment = float((lattice.weights[positive] * np.exp(np.maximum(exponents - top, -500.0))).sum())
    return math.log(moment) + top + 1e-12


def _convolve_on_window(parts: list[tuple[Lattice, int]], plan: GridPlan) -> tuple[Lattice, float]:
    """Return the composition on the plan's window, or on a wider one if the lattices need it, and a bound on the tilted mass outside."""
    begin, below = edge(parts, -1.0, plan.spacing * plan.first, plan.orders[0], plan.target.log_negligible)
    end, above = edge(parts, 1.0, plan.spacing * (plan.first + plan.size - 1), plan.orders[1], plan.target.log_negligible)
    # If the needed window is too wide or infinite, the plan's window is used, and the mass outside is not bounded.
    if not end - begin <= plan.spacing * min(8.0 * plan.size, MAX_POINTS):
        return convolve(parts, plan.first, plan.size), math.inf
    first = min(math.floor(begin / plan.spacing), plan.first)
    length = max(math.ceil(end / plan.spacing) - first + 1, plan.size)
    result = convolve(parts, first, plan.size if (first, length) == (plan.first, plan.size) else transform_size(length))
    return result, below + above + result.lost


def edge(parts: list[tuple[Lattice, int]], sign: float, edge: float, order: float, log_negligible: float) -> tuple[float, float]:
    """Return an end of the window and Chernoff's bound on the tilted mass beyond it. sign: -1 for the lower end, 1 for the upper one.

    It is the given `edge` if little mass is beyond that, and farther out otherwise. order: a distance from the tilt for Chernoff's bound.
    """

    def log_beyond(s: float, at: float) -> float:
        return math.fsum(count * _log_moment(lattice, sign * s) for lattice, count in parts) - sign * s * at

    log_mass = log_beyond(order, edge)
    if log_mass <= log_negligible + 4.0:
        return edge, math.exp(log_mass)
    # The survey was too rough, so the moments of the lattices determine the end.
    orders = (order * np.geomspace(1e-3, 10.0, 33)).tolist()
    distance = min(max(log_beyond(s, edge) - log_negligible, 0.0) / s for s in orders)
    return edge + sign * distance, math.exp(log_negligible) if math.isfinite(distance) else 1.0
