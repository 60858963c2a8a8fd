"""A composition on a grid: how fine, how the counts are powered, and the curve that comes out, from below and from above.

Many steps are composed four at a time, the spacing doubling after each round (Ghazi et al. 2022, arXiv:2207.04381): the composed
loss spreads as fast as the grid coarsens, and each round costs the same error, about count h^2/4 (t+1) nats of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.convolution import convolved, transform_size
from dpcli.numerics.grid.lattice import Lattice, coarsened, discretised, edges
from dpcli.numerics.grid.survey import MANY, SAMPLE, Survey, spread
from dpcli.numerics.tails import HasTails
from dpcli.numerics.work import remaining

TOO_STEADY = "the loss varies too little, compared with its size, for a grid"
FARTHEST_CELL = 2.0**50  # cells from 0, beyond which their places would not be exact
LOG_NEGLIGIBLE = -20.0
MAX_POINTS = 1 << 20
SMALLEST = 1 << 12
SNAPPED = 16.0  # units in a spacing, beyond which it is no part of one
PASSES = 4.0  # cells that a point of the plan takes, both bounds together
WIDEST_CELL = 300.0  # exponent of the tilt across one cell, and its width

Parts = Sequence[tuple[HasTails, Survey, int]]


@dataclass(frozen=True, slots=True)
class GridPlan:
    """The grid of the composition.

    rounds: of four-fold composition and coarsening, per part. work: grid points to be transformed. longest: points of the longest
    convolution of one part.
    coarseness: how many times the spacing is what the error asked for. orders: distances from the tilt at
    which Chernoff's bound shows that little lies below, and above, the window.
    """

    tilt: float
    log_delta: float
    spacing: float
    first: int
    size: int
    rounds: tuple[int, ...]
    work: float
    longest: float
    coarseness: float
    orders: tuple[float, float]

    def affordable(self, work: float) -> bool:
        """Return whether the grid may be laid: its points, its work, places that are exact, and cells across which numbers do not
        overflow."""
        narrow = max(self.tilt, 1.0) * self.spacing <= WIDEST_CELL and max(-self.first, self.first + self.size) <= FARTHEST_CELL
        return narrow and max(self.size, self.longest) <= MAX_POINTS and self.work <= work


def planned(parts: Parts, tilt: float, log_delta: float, error: float, unit: float, work: float) -> GridPlan | None:
    """The cheapest plan found whose interval is about `error` (nats) wide; a coarser one where that takes more than `work` points.

    unit: a loss that is to be a whole multiple of the spacing (0: none); no rounds are then made. None where no plan is cheap enough.
    """
    work = min(work, remaining() / PASSES)
    window = spread([(view, count) for _, view, count in parts], tilt, LOG_NEGLIGIBLE)
    widest = (window[1] - window[0]) / SMALLEST
    # Where the tilted composition sits on its largest loss, its window shows no scale: the losses of one step do.
    steady = max(_finest(part, tilt, log_delta, work) for part in parts)
    for cell in (widest, steady) if steady > widest else (widest,):
        view = _cheapest(parts, tilt, log_delta, error, unit, work, window, cell)
        if view is not None:
            return view
    return None


def _cheapest(
    parts: Parts,
    tilt: float,
    log_delta: float,
    error: float,
    unit: float,
    work: float,
    window: tuple[float, float, float, float],
    widest: float,
) -> GridPlan | None:
    """The cheapest plan whose cells are at most `widest`, as of `planned`."""
    every = max(len(parts) // SAMPLE, 1) if len(parts) > MANY else 1  # where they are many, a few of them say how fine
    looked = {i: _needed(parts[i], tilt, log_delta, error / len(parts), unit, widest, work) for i in range(0, len(parts), every)}
    scale = min(spacing * math.sqrt(parts[i][2]) for i, spacing in looked.items())  # the error goes as count times the square of it
    needed = [looked.get(i, scale / math.sqrt(part[2])) for i, part in enumerate(parts)]
    reaches = [_reach(part, tilt, log_delta) for part in parts]
    work = min(work, remaining() / PASSES)  # to look took its share
    most = 0 if min(needed) <= SNAPPED * unit else min(max(_most_rounds(count) for _, _, count in parts), 20)
    for relaxed in (1.25**k for k in range(40)):
        wanted = [spacing * relaxed for spacing in needed]
        plans = [_plan(parts, reaches, tilt, log_delta, unit, window, wanted, widest, limit) for limit in range(1 + most)]
        cheap = [plan for plan in plans if plan.affordable(work)]
        if cheap:
            return replace(min(cheap, key=lambda plan: plan.work), coarseness=relaxed)
    return None


def _most_rounds(count: int) -> int:
    return int(math.log(count, 4.0) + 1e-9)


def _reach(part: tuple[HasTails, Survey, int], tilt: float, log_delta: float) -> tuple[float, float]:
    """The losses of one step that matter."""
    _, survey, count = part
    return survey.range(log_delta - math.log(count) - 16.0, tilt, LOG_NEGLIGIBLE - math.log(count))


def _needed(
    part: tuple[HasTails, Survey, int], tilt: float, log_delta: float, error: float, unit: float, widest: float, work: float
) -> float:
    """A spacing at which this part's share of the interval is at most `error`, found by trying; coarser where work forbids it."""
    count = part[2]
    finest = _finest(part, tilt, log_delta, work)
    spacing = min(max(math.sqrt(4.0 * error / (count * (tilt + 1.0))), unit), widest)
    if not 0.0 < spacing < math.inf:
        raise NotRepresentable(TOO_STEADY)
    for _ in range(8):
        spacing = max(_snapped(spacing, unit), finest)
        lower, upper = _single(part, tilt, log_delta, spacing)
        total = float(lower.weights.sum())
        width = count * math.log(float(upper.weights.sum()) / total) / tilt if total > 0.0 else math.inf
        if width <= error:
            return spacing
        if spacing <= finest:
            break
        spacing *= max(0.1, min(0.8, 0.9 * math.sqrt(error / width)))
    return spacing * min(1.0, max(0.01, math.sqrt(error / width)))


def _finest(part: tuple[HasTails, Survey, int], tilt: float, log_delta: float, work: float) -> float:
    """The smallest spacing at which the losses of one step are few enough points."""
    low, high = _reach(part, tilt, log_delta)
    return (high - low) / min(0.5 * MAX_POINTS, max(work / 40.0, 1 << 16))


def _single(part: tuple[HasTails, Survey, int], tilt: float, log_delta: float, spacing: float) -> tuple[Lattice, Lattice]:
    """(lower, upper) lattices of one step. Raises NotRepresentable where one cell is wider than the tilt can weigh."""
    if max(tilt, 1.0) * spacing > WIDEST_CELL:
        raise NotRepresentable("the loss is too far spread for a grid of this size")
    low, high = _reach(part, tilt, log_delta)
    if not max(abs(low), abs(high)) <= FARTHEST_CELL * spacing:
        raise NotRepresentable(TOO_STEADY)
    start = math.floor(low / spacing) - 1
    end = max(math.ceil(high / spacing) + 1, start + 2)  # losses beyond the survey leave no range: they count as infinite
    return discretised(part[0].tails(edges(start, end - start + 1, spacing)), start, spacing, tilt)


def _snapped(spacing: float, unit: float) -> float:
    """The largest spacing up to the given one that is a whole part of `unit`; as given where that is far too fine."""
    if unit <= 0.0 or spacing > SNAPPED * unit:
        return spacing
    return unit / math.ceil(unit / spacing)


def _plan(
    parts: Parts,
    reaches: list[tuple[float, float]],
    tilt: float,
    log_delta: float,
    unit: float,
    window: tuple[float, float, float, float],
    needed: list[float],
    widest: float,
    limit: int,
) -> GridPlan:
    low, high, *orders = window
    finest = [spacing / math.sqrt(1.0 + min(limit, _most_rounds(part[2]))) for spacing, part in zip(needed, parts, strict=True)]
    wanted = min(spacing * 2.0 ** min(limit, _most_rounds(part[2])) for spacing, part in zip(finest, parts, strict=True))
    wanted = min(wanted, widest)
    spacing = _snapped(wanted, unit)
    rounds = tuple(
        min(max(0, math.ceil(math.log2(spacing / fine) - 1e-9)), _most_rounds(part[2]), limit)
        for fine, part in zip(finest, parts, strict=True)
    )
    first = math.floor(low / spacing)
    size = transform_size(math.ceil(high / spacing) - first + 1)
    work = float(size) * (len(parts) + 1)
    longest = 0.0
    for (start, end), r in zip(reaches, rounds, strict=True):
        longest = max(longest, (end - start) / spacing * 2.0**r * (4.0 if r else 1.0))
        work += (end - start) / spacing * 2.0**r * (3.0 + 20.0 * r)
    return GridPlan(tilt, log_delta, spacing, first, size, rounds, work, longest, 1.0, (orders[0], orders[1]))


def composed(parts: Parts, plan: GridPlan) -> tuple[GridCurve, GridCurve]:
    """(lower, upper) curves of the composition."""
    sides: tuple[list[tuple[Lattice, int]], list[tuple[Lattice, int]]] = ([], [])
    infinite = 0.0
    for part, rounds in zip(parts, plan.rounds, strict=True):
        _, survey, count = part
        pair = _single(part, plan.tilt, plan.log_delta, plan.spacing / 2.0**rounds)
        for upper in (0, 1):
            sides[upper].extend(_powered(pair[upper], count, rounds, survey, plan, bool(upper)))
        infinite += count * math.log1p(-min(math.exp(survey.log_infinite), 1.0 - 1e-16))
    curves = [_finished(side, plan) for side in sides]
    lower = GridCurve(*curves[0], -math.expm1(infinite) * (1.0 - 1e-12), -1.0, plan.coarseness > 1.0)
    return lower, GridCurve(*curves[1], curves[1][0].infinite, 1.0, plan.coarseness > 1.0)


def _powered(one: Lattice, count: int, rounds: int, survey: Survey, plan: GridPlan, upper: bool) -> list[tuple[Lattice, int]]:
    """Lattices on the plan's spacing, with counts, that amount to `count` copies of `one`."""
    rest: Lattice | None = None
    copies = 1
    for _ in range(rounds):
        left = count % 4
        if left:
            rest = _trimmed([(one, left)] + ([(rest, 1)] if rest else []), copies * 4, count, survey, plan, upper)
        one = coarsened(_trimmed([(one, 4)], copies * 4, count, survey, plan, upper), upper)
        rest = coarsened(rest, upper) if rest else None
        count, copies = count // 4, copies * 4
    return ([(one, count)] if count else []) + ([(rest, 1)] if rest else [])


def _trimmed(parts: list[tuple[Lattice, int]], copies: int, left: int, survey: Survey, plan: GridPlan, upper: bool) -> Lattice:
    """Return the convolution of the parts, cut to where it matters.

    In the upper pair what is cut off above counts as infinite, and what is cut off below as lost; the lower pair drops both.
    """
    first = sum(n * lattice.start for lattice, n in parts)
    length = sum(n * (len(lattice.weights) - 1) for lattice, n in parts) + 1
    if not max(-first, first + length) <= FARTHEST_CELL:
        raise NotRepresentable(TOO_STEADY)
    result = convolved(parts, first, transform_size(length))
    log_rare = plan.log_delta - math.log(max(left, 1)) - 16.0
    above = _rare_above(parts, survey.rare_order(copies, log_rare), log_rare)
    below = spread([(survey, copies)], plan.tilt, LOG_NEGLIGIBLE - math.log(max(left, 1)))[0]  # may be -inf
    last = first + length - 1
    begin = math.floor(min(max(below / result.spacing, first), last)) - first
    end = max(math.ceil(min(max(above / result.spacing, first), last)) - first + 1, begin + 1)
    weights = result.weights[begin:end].copy()
    infinite, lost = result.infinite, result.lost
    if upper:
        infinite += math.exp(log_rare) if end < length else 0.0
        lost += float(result.weights[:begin].sum()) + result.error * math.sqrt(begin)
    return Lattice(
        result.tilt,
        result.spacing,
        first + begin,
        weights,
        result.log_scale,
        infinite,
        result.error,
        result.log_error,
        result.shift,
        lost,
    )


def _rare_above(parts: list[tuple[Lattice, int]], order: float, log_rare: float) -> float:
    """A loss that the composition exceeds with a P-mass of at most e^log_rare: Chernoff's bound, from the weights and their error."""
    log_moment = math.fsum(
        count * (_log_moment(lattice, order - lattice.tilt) + lattice.log_scale + lattice.log_error) for lattice, count in parts
    )
    return (log_moment - log_rare) / order if math.isfinite(log_moment) else math.inf


def _log_moment(lattice: Lattice, s: float) -> float:
    """log of the sum of w e^{s l}. The error of the weights is not in it: as a measure of its own it is part of the curve's slack."""
    kept = np.flatnonzero(lattice.weights)
    if not len(kept):
        return -math.inf
    exponents = s * lattice.spacing * (lattice.start + kept)
    top = float(exponents.max())
    moment = float((lattice.weights[kept] * np.exp(np.maximum(exponents - top, -500.0))).sum())
    return math.log(moment) + top + 1e-12


def _finished(side: list[tuple[Lattice, int]], plan: GridPlan) -> tuple[Lattice, float]:
    """The composition on the plan's window, wider where that turns out too narrow, and a bound on the tilted mass outside of it."""
    begin, below = _edge(side, -1.0, plan.spacing * plan.first, plan.orders[0])
    end, above = _edge(side, 1.0, plan.spacing * (plan.first + plan.size - 1), plan.orders[1])
    # So wide that it would take too long, or not finite: nothing is bounded.
    if not end - begin <= plan.spacing * min(8.0 * plan.size, MAX_POINTS):
        return convolved(side, plan.first, plan.size), math.inf
    first = min(math.floor(begin / plan.spacing), plan.first)
    length = max(math.ceil(end / plan.spacing) - first + 1, plan.size)
    result = convolved(side, first, plan.size if (first, length) == (plan.first, plan.size) else transform_size(length))
    return result, below + above + result.lost


def _edge(side: list[tuple[Lattice, int]], sign: float, edge: float, order: float) -> tuple[float, float]:
    """An end of the window (sign -1: the lower one), the given one if it will do, and Chernoff's bound of the tilted mass beyond."""

    def log_beyond(s: float, at: float) -> float:
        return math.fsum(count * _log_moment(lattice, sign * s) for lattice, count in side) - sign * s * at

    log_mass = log_beyond(order, edge)
    if log_mass <= LOG_NEGLIGIBLE + 4.0:
        return edge, math.exp(log_mass)
    # Planned from a survey that was too rough here: look at the lattices themselves.
    orders = (order * np.geomspace(1e-3, 10.0, 33)).tolist()
    distance = min(max(log_beyond(s, edge) - LOG_NEGLIGIBLE, 0.0) / s for s in orders)
    return edge + sign * distance, math.exp(LOG_NEGLIGIBLE) if math.isfinite(distance) else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class GridCurve:
    """delta(epsilon) of a lattice with a bound on one side: sign +1 from above, -1 from below.

    outside: tilted mass that was wrapped around, or lies beyond. infinite: probability of an infinite loss. coarse: the
    grid is coarser than was asked for.
    """

    lattice: Lattice
    outside: float
    infinite: float
    sign: float
    coarse: bool = False

    def slack(self) -> float:
        """Return the most that the answer may be off by, in units of e^{M - t eps}."""
        t, h = self.lattice.tilt, self.lattice.spacing
        peak = math.exp(t * math.log(t) - (t + 1.0) * math.log1p(t))
        norm = math.sqrt(1.0 / (2.0 * t * (2.0 * t + 1.0) * (t + 1.0)) / h + peak * peak)
        return 1.01 * self.lattice.error * norm + self.outside * peak

    def _unknown(self) -> bool:
        """Return whether something overflowed on the way: a NaN would else pass for nothing."""
        lattice = self.lattice
        return math.isnan(float(lattice.weights.sum()) + lattice.log_scale + lattice.log_error + self.slack() + self.infinite)

    def _sums(self, reference: float) -> tuple[Array, Array, Array]:
        """Losses near and above `reference`, and the sums of w e^{-t(l - ref)} and w e^{-(t+1)(l - ref)} over those at or above each."""
        t, h = self.lattice.tilt, self.lattice.spacing
        index = np.arange(len(self.lattice.weights))
        loss = h * (self.lattice.start + index) - reference
        begin = int(np.searchsorted(loss, -600.0 / (t + 1.0)))
        weights, loss = self.lattice.weights[begin:], loss[begin:]
        terms = weights * np.exp(-t * loss)
        first: Array = np.append(np.cumsum(terms[::-1])[::-1], 0.0)
        second: Array = np.append(np.cumsum((terms * np.exp(-loss))[::-1])[::-1], 0.0)
        return np.asarray(loss, dtype=float), first, second

    def epsilon(self, log_delta: float) -> float:
        """Return where delta(epsilon) falls to e^log_delta, from the curve's own side; +-inf where it does not on the grid."""
        return self._crossing(log_delta) - self.lattice.shift

    def _crossing(self, log_delta: float) -> float:
        """`epsilon`, as if the losses were on the grid."""
        lattice, slack = self.lattice, self.slack()
        if self._unknown():
            return math.inf if self.sign > 0.0 else -math.inf
        rest = math.exp(log_delta) - self.infinite
        if rest <= 0.0:
            return math.inf
        rounding = lattice.log_error + 1e-12 + 4e-16 * len(lattice.weights)
        # Chernoff's bound, from the lattice's own M: there the sums below are compared with 1, and nothing can underflow.
        reference = (lattice.log_scale - math.log(rest) + self.sign * rounding) / lattice.tilt
        if not math.isfinite(reference):
            return math.inf if self.sign > 0.0 else -math.inf
        level = 1.0
        loss, first, second = self._sums(reference)
        drift = self.sign * slack * np.exp(-lattice.tilt * loss)
        at = first[1:] - np.exp(loss) * second[1:] + drift
        if self.sign > 0.0:
            under = np.flatnonzero(at <= level)
            if not len(under):
                return math.inf
            k = int(under[0])
            if k == 0:
                return reference + float(loss[0])
            ratio = (float(first[k]) + float(drift[k - 1]) - level) / float(second[k]) if second[k] > 0.0 else math.inf
            bound = math.log(ratio) * (1.0 + 4e-16) if 0.0 < ratio < math.inf else math.inf
            return reference + min(max(bound, float(loss[k - 1])), float(loss[k]))
        over = np.flatnonzero(at >= level)
        if not len(over):
            return -math.inf
        k = int(over[-1])
        if k == len(loss) - 1:
            return reference + float(loss[k])
        ratio = (float(first[k + 1]) + float(drift[k]) - level) / float(second[k + 1]) if second[k + 1] > 0.0 else 0.0
        return reference + max(math.log(ratio) if ratio > 0.0 else -math.inf, float(loss[k]))

    def delta(self, epsilon: float) -> float:
        """delta(epsilon), from the curve's own side, in [0, 1]."""
        if self._unknown():
            return 1.0 if self.sign > 0.0 else 0.0
        lattice, epsilon = self.lattice, epsilon + self.lattice.shift
        loss = lattice.spacing * (lattice.start + np.arange(len(lattice.weights))) - epsilon
        above = loss > 0.0
        value = float((lattice.weights[above] * np.exp(-lattice.tilt * loss[above]) * -np.expm1(-loss[above])).sum())
        value = max(value + self.sign * self.slack(), 0.0)
        log_value = math.log(value) if value > 0.0 else -math.inf
        log_value += lattice.log_scale - lattice.tilt * epsilon + self.sign * (lattice.log_error + 1e-12)
        return min(1.0, math.exp(min(log_value, 0.0)) + self.infinite)
