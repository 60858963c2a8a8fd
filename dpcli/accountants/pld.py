"""The grid accountant: privacy-loss distributions on a grid, composed by the fast Fourier transform.

Consumes the tails of each step's privacy losses log dP/dQ in both directions, which are rounded outwards to a grid. Bounds: lower and
upper. They are bounds for the dominating pairs (P, Q). The lower one is shown only if every mechanism attains its pair, so that some
neighbouring datasets really have these two laws. A finer grid gives a narrower interval; how fine it may be depends on the given tolerance
and time.
"""

# K(t) = log E_P[e^{t L}] is the cumulant-generating function of a loss L, and that of a sum of losses is the sum of their K.
# For each direction, the *surveys* of the losses, rough tables of their masses (numerics/grid/survey.py), give the *tilt* t: masses are
# multiplied by e^{t L}, which makes the losses L near epsilon the likely ones. Then a grid is planned, and the losses are composed on it
# (numerics/grid/composed_losses.py). What the result shows decides the accuracy of the next grid. The *window* is the range of losses on
# which the composition is computed.

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_positive, shares_of
from dpcli.accountants.directions import Losses, directions, smallest_bound
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import foresee, remembered, shared  # limits on work, and caches

if TYPE_CHECKING:  # the modules of the grid are imported only when a grid is made, because many commands need none
    from dpcli.numerics.grid.grid_curve import GridCurve
    from dpcli.numerics.grid.survey import Survey

# Accuracy and speed: the bounds hold for any of these values.
TOLERANCE = 1e-3  # default relative width of the interval at which no finer grid is made
POINTS_PER_SECOND = 4e7  # assumed speed of the transforms; fixed, so that all machines make the same grids
PATIENCE = 4.0  # default number of seconds for one answer
REFINEMENTS = 8  # most grids for one direction
AIM = 0.5  # relative width that a grid is made for, as a share of the tolerance, so that most grids meet the tolerance
GLIMPSE = 0.02  # relative width of the first interval of the second direction, whose epsilon is seldom the larger one
FIRST_SHARE = 0.25  # share of the points that a first grid may cost; later grids use them better: epsilon is then roughly known
RARE = 2e-3  # share of the tolerance that may be lost by counting very rare losses as infinite
LOG_NEGLIGIBLE = -24.0  # logarithm of the share of the tilted mass that a first grid may leave out
COARSER = 64.0  # factor for the error of the next grid if the window of the last one did not cover all that matters
# Factors for the error and for the logarithm of the negligible share of the next grid if the last one gave no finite upper bound.
FINER, MORE_TAIL = 0.1, 2.0
MOST_INFINITE = 3  # number of grids after which no finer one is made if none gave a finite upper bound
LEAST_REFINEMENT, MOST_REFINEMENT = 0.5, 1e-6  # range of the factor for the error of the next grid in all other cases
# Chernoff's bound is above delta. A grid for delta is made for a smaller delta: the bound divided by e^CHERNOFF_EXCESS, and at most e^-1.
CHERNOFF_EXCESS, LARGEST_LOG_DELTA = 2.0, -1.0
MAX_SURVEYS = 4096  # most surveys that are cached
LEAST_PART_CELLS = 1.5e4  # fewest cells (numerics/work.py) for one more part, which needs a survey of its loss and a transform
LEAST_WIDTH = 1e-14  # least absolute width of an interval that a grid is made for
SMALL_SHARE = 0.5  # a width is relative to epsilon, or to SMALL_SHARE / tilt if that is more

Surveys = tuple[tuple["Survey", int], ...]


class Effort(NamedTuple):
    """Limits for making one grid.

    points: how many grid points may be transformed.
    log_rare: the logarithm of the share of delta whose losses may count as infinite.
    log_negligible: the logarithm of the share of the tilted mass that may be lost.
    """

    points: float
    log_rare: float
    log_negligible: float = LOG_NEGLIGIBLE


@dataclass(frozen=True, slots=True)
class PldProfile(PrivacyProfile):
    """The privacy profile of a composition: the larger of the two directions' bounds, each computed on its own grid.

    tolerance: the relative width of the interval at which no finer grid is made.
    seconds: about how long one answer may take. The interval is as narrow as this time allows.
    """

    steps: Steps
    tolerance: float = TOLERANCE
    seconds: float = PATIENCE

    @property
    def effort(self) -> Effort:
        """The limits that `seconds` and `tolerance` imply for all grids of one answer together."""
        return Effort(self.seconds * POINTS_PER_SECOND, math.log(RARE * self.tolerance))

    def tuned(self, tolerance: float | None, seconds: float) -> PldProfile:
        return replace(self, tolerance=tolerance or self.tolerance, seconds=seconds)

    def epsilon(self, delta: float) -> Bound:
        return smallest_bound(lambda steps: replace(self, steps=steps)._epsilon(delta), self.steps)

    def delta(self, epsilon: float) -> Bound:
        return smallest_bound(lambda steps: replace(self, steps=steps)._delta(epsilon), self.steps)

    def _epsilon(self, delta: float) -> Bound:
        require_positive(delta, "the tilted grid")
        log_delta = math.log(delta)

        def grid(losses: Losses, width: float, effort: Effort) -> tuple[GridCurve, float]:
            return curve_at_delta(losses, log_delta, width, effort)

        lower, upper, spacing = self._refine(grid, lambda curve: curve.epsilon(log_delta), lambda end: (end, log_delta))
        if not math.isfinite(upper):
            return Bound(math.inf)
        width = (upper - lower) / upper if upper > 0.0 else 0.0
        detail = {"spacing": spacing} if width <= self.tolerance else {"spacing": spacing, "tolerance missed: width": width}
        return Bound(upper, lower, detail)

    def _delta(self, epsilon: float) -> Bound:
        def grid(losses: Losses, width: float, effort: Effort) -> tuple[GridCurve, float]:
            return curve_at_epsilon(losses, epsilon, width, effort)

        def point(end: float) -> tuple[float, float]:
            return epsilon, math.log(max(end, math.ulp(0.0)))

        lower, upper, _ = self._refine(grid, lambda curve: curve.delta(epsilon), point)
        return Bound(min(max(upper, math.ulp(0.0)), 1.0), min(lower, 1.0))

    def _refine(
        self,
        grid: Callable[[Losses, float, Effort], tuple[GridCurve, float]],
        ends: Callable[[GridCurve], tuple[float, float]],
        point: Callable[[float], tuple[float, float]],
    ) -> tuple[float, float, float]:
        """Return (lower, upper, spacing), the larger bounds of the two directions and the grid spacing of the upper one.

        Finer grids are made until the interval is narrow enough, or the next grid would cost more points than are left.

        The quantity that is bounded is epsilon or delta.
        grid: returns a curve for the losses of one direction, a relative width and an effort, and the number of points that it took.
        ends: returns a curve's bounds on the quantity.
        point: returns the (epsilon, log delta) at which the quantity has a given value.
        """
        points = self.effort.points
        sides = [
            _Side(losses, GLIMPSE if k else AIM * self.tolerance, LOG_NEGLIGIBLE)
            for k, losses in enumerate(directions(join_equal_steps(self.steps)))
        ]
        for attempt in range(REFINEMENTS):
            lower, upper = max(side.lower for side in sides), max(side.upper for side in sides)
            useful = [side for side in sides if side.may_improve(lower, upper, self.tolerance)]
            for k, side in enumerate(useful):
                share = points * (1.0 / (len(useful) - k) if attempt else FIRST_SHARE)
                effort = self.effort._replace(points=share, log_negligible=side.log_negligible)
                try:
                    with np.errstate(all="ignore"):  # an overflow gives an infinite or trivial bound, which is sound
                        curve, cost = grid(side.losses, side.error, effort)
                        side.narrow(curve, ends(curve), attempt > 0)
                except NotRepresentable:  # the bounds of the earlier grids still hold
                    if attempt == 0:
                        raise
                    side.last = True
                    continue
                points -= cost
                side.plan_next(curve, attempt, self.tolerance, point)
        lower, upper = max(side.lower for side in sides), max(side.upper for side in sides)
        if lower > upper * (1.0 + 1e-9):  # by more than rounding
            raise InternalError(
                f"the grid's bounds contradict each other ({lower!r} above {upper!r}): this is a bug in dpcli, and no number"
            )
        return min(lower, upper), upper, max(sides, key=lambda side: side.upper).spacing

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return each step's share of K at the tilt, the exponent of the bound. A step without a dominating pair uses its Renyi curve."""
        from dpcli.numerics.grid.survey import best_tilt

        sides = [tuple((surveyed(loss), n) for loss, n in side) for side in directions(self.steps)]
        tilt = np.array([max(best_tilt(side, math.log(delta))[0] for side in sides)])
        return shares_of([_exponent(mechanism, count, tilt) for mechanism, count in self.steps])


def _exponent(mechanism: Mechanism, count: int, tilt: Array) -> float:
    """Return K of `count` runs of the mechanism at a tilt, in the direction with the larger K."""
    try:
        sides = directions(((mechanism, count),))
    except NotRepresentable:
        return count * float(tilt[0] * mechanism.rdp(1.0 + tilt)[0])
    return max(sum(n * float(surveyed(loss).cgf(tilt)[0]) for loss, n in side) for side in sides)


class _Side:
    """A direction of the composition while its grids are refined: the bounds so far, and the accuracy of the next grid.

    error: the relative width that the next grid is made for.
    log_negligible: the logarithm of the share of the tilted mass that the next grid may lose.
    lower, upper: the best bounds so far. spacing: the spacing of the grid that gave `upper`.
    last: whether no finer grid is to be made.
    """

    def __init__(self, losses: Losses, error: float, log_negligible: float) -> None:
        self.losses, self.error, self.log_negligible = losses, error, log_negligible
        self.lower, self.upper, self.spacing = 0.0, math.inf, math.nan
        self.last = False

    def may_improve(self, lower: float, upper: float, tolerance: float) -> bool:
        """Return whether a finer grid may improve the answer. lower, upper: the larger bounds of the two directions so far."""
        return not self.last and self.upper > lower and (self.upper - lower > tolerance * upper or not upper < math.inf)

    def narrow(self, curve: GridCurve, ends: tuple[float, float], all_points: bool) -> None:
        """Improve the bounds by those of a new curve. all_points: whether the curve could use all points that were left.

        A curve is `coarse` if its grid is coarser than `error` requires, because that would have cost too many points. If all points that
        were left could be used, no finer grid is tried.
        """
        self.lower = max(self.lower, ends[0])
        if ends[1] < self.upper or math.isnan(self.spacing):
            self.upper, self.spacing = max(ends[1], 0.0), curve.lattice.spacing
        self.last = curve.coarse and all_points

    def plan_next(self, curve: GridCurve, attempt: int, tolerance: float, point: Callable[[float], tuple[float, float]]) -> None:
        """Set the accuracy of the next grid from what the last curve has shown.

        point: returns the (epsilon, log delta) at which the quantity that is bounded has a given value.

        A curve is `covered` if the mass outside of its window is bounded. If not, the bounds say nothing, and a coarser grid has room for a
        longer window.
        """
        if not curve.covered:
            self.error *= COARSER
            self.last = attempt >= REFINEMENTS // 2
            return
        if not math.isfinite(self.upper):
            self.error *= FINER
            self.log_negligible *= MORE_TAIL
            self.last = self.last or attempt + 1 >= MOST_INFINITE
            return
        if self.upper > self.lower:
            width = (self.upper - self.lower) / self.upper
            self.error *= max(min(AIM * tolerance / width, LEAST_REFINEMENT), MOST_REFINEMENT)
        epsilon, log_delta = point(self.upper)
        log_scale = curve.lattice.log_scale - curve.lattice.tilt * epsilon  # factor from tilted mass to delta
        self.log_negligible = min(self.log_negligible, LOG_NEGLIGIBLE - max(log_scale - log_delta, 0.0))


@shared(MAX_SURVEYS)
def surveyed(loss: PrivacyLoss) -> Survey:
    """Return the cached survey of a loss."""
    from dpcli.numerics.grid.survey import survey

    return survey(loss)


@remembered(16)
def curve_at_delta(losses: Losses, log_delta: float, width: float, effort: Effort) -> tuple[GridCurve, float]:
    """Return a curve for epsilon at e^log_delta, and the grid points that it took.

    width: about the width of the curve's interval, relative to Chernoff's bound on epsilon.
    Raises NotRepresentable if the loss is infinite with probability delta or more, or if the grid would take more work than is allowed.
    """
    from dpcli.numerics.grid.survey import best_tilt

    surveys = _surveys(losses, log_delta + effort.log_rare)
    # The probability that some loss is infinite, and its share of delta. The cap of 1 - 1e-16 keeps the logarithm finite.
    infinite = -math.expm1(math.fsum(n * math.log1p(-min(math.exp(survey.log_infinite), 1.0 - 1e-16)) for survey, n in surveys))
    share = math.exp(math.log(infinite) - log_delta) if infinite > 0.0 else 0.0
    if share >= 1.0:
        raise NotRepresentable(f"everything may be revealed with probability {infinite:.6g}, which is not below delta")
    log_finite = log_delta + math.log1p(-share)
    tilt, chernoff_epsilon = best_tilt(surveys, log_finite)
    return _curve(losses, surveys, tilt, log_finite, width * max(chernoff_epsilon, SMALL_SHARE / tilt), effort)


@remembered(16)
def curve_at_epsilon(losses: Losses, epsilon: float, width: float, effort: Effort) -> tuple[GridCurve, float]:
    """Return a curve for delta at `epsilon`, and the grid points that it took.

    width: about the width of the curve's interval, relative to epsilon.
    Raises NotRepresentable if the grid would take more work than is allowed.
    """
    from dpcli.numerics.grid.survey import tilt_for

    surveys = tuple((surveyed(loss), count) for loss, count in losses)
    for _ in range(2):  # losses are negligible relative to delta, so the second round uses the delta of the first
        tilt, log_delta = tilt_for(surveys, epsilon)
        log_target = min(log_delta - CHERNOFF_EXCESS, LARGEST_LOG_DELTA)
        surveys = _surveys(losses, log_target + effort.log_rare)
    return _curve(losses, surveys, tilt, log_target, width * max(epsilon, SMALL_SHARE / tilt), effort)


def _surveys(losses: Losses, log_rare: float) -> Surveys:
    """Return a survey of each loss without its largest values, whose probability in all steps together is at most e^log_rare."""
    foresee(LEAST_PART_CELLS * len(losses))
    return tuple((_without_rare(loss, log_rare - math.log(count * len(losses))), count) for loss, count in losses)


@shared(MAX_SURVEYS)
def _without_rare(loss: PrivacyLoss, log_rare: float) -> Survey:
    """Return the survey of a loss without its largest values, whose probability is at most e^log_rare."""
    return surveyed(loss).cut(log_rare)


def _curve(
    losses: Losses, surveys: Surveys, tilt: float, log_delta: float, error: float, effort: Effort
) -> tuple[GridCurve, float]:
    """Return the curve that suits `tilt`, `log_delta` and the absolute width `error`, and the grid points that it took."""
    from dpcli.numerics.grid.composed_losses import GridTarget, compose_on_grid, plan_grid
    from dpcli.numerics.grid.survey import GridPart, common_unit

    parts = [GridPart(loss, survey, count) for (loss, count), (survey, _) in zip(losses, surveys, strict=True)]
    log_rare = log_delta + effort.log_rare - math.log(len(losses))
    with np.errstate(all="ignore"):  # an overflow gives an infinite or trivial bound, which is sound
        # Some losses are multiples of a common unit, such as those of discrete noise. The planner then chooses the spacing to suit it.
        unit = common_unit([GridPart(loss, surveyed(loss), count) for loss, count in losses])
        target = GridTarget(tilt, log_delta, log_rare, effort.log_negligible - math.log(len(losses)))
        plan = plan_grid(parts, target, max(error, LEAST_WIDTH), unit, effort.points)
        return compose_on_grid(parts, plan), plan.work


ACCOUNTANT = Accountant(
    name="pld",
    title="privacy-loss distribution",
    source="Doroshenko et al. 2022, arXiv:2207.04380; Ghazi et al. 2022, arXiv:2207.04381; proof: dpcli explain accountants",
    compose=PldProfile,
    heavy=True,  # its work grows with the difficulty of the question
    fallback=True,  # it may always spend the work of one question
    cells=lambda parts: 2e6 + 2e5 * parts,  # estimated work for this many different mechanisms
)
