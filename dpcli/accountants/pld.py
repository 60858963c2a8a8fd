"""The grid accountant: privacy-loss distributions of anything that has tails, composed by the fast Fourier transform.

Consumes each step's privacy losses, both directions, by their tails, rounded outwards to a grid. Bounds: lower and upper on the
dominating pairs, as far apart as the grid is coarse; the lower one is shown where every mechanism attains its pair. Its width depends
on the tolerance and the time that are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, merged, normalised, require_positive
from dpcli.accountants.directions import Losses, directions, least
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import foresee, remembered, shared

if TYPE_CHECKING:  # a grid is read when one is made: where the headline is settled, none is
    from dpcli.numerics.grid.grid_curve import GridCurve
    from dpcli.numerics.grid.survey import Survey

TOLERANCE = 1e-3
POINTS_PER_SECOND = 4e7
PATIENCE = 4.0  # seconds, where nobody says
REFINEMENTS = 8
AIM = 0.5  # of the tolerance: relative width that a grid is made for
GLIMPSE = 0.02  # relative width of the first interval of the other direction, which is seldom the larger
FIRST_SHARE = 0.25  # of the points that the question may cost: where epsilon lies is better known after a first grid
RARE = 2e-3  # share of the tolerance that may be lost for what is very rare
LOG_NEGLIGIBLE = -24.0  # logarithm of the share of the tilted mass that a first grid may leave out
COARSER = 64.0  # times the error, where the window of a finer grid would not hold all that matters
MAX_SURVEYS = 4096
PART = 1.5e4  # cells that one more part takes at the least: a look at its loss, and its transform


Surveys = tuple[tuple["Survey", int], ...]


class Effort(NamedTuple):
    """points: of the grid that may be transformed. log_rare, log_negligible: logarithms of the share of delta that may count as infinite,
    and of the tilted mass that may be lost."""

    points: float
    log_rare: float
    log_negligible: float = LOG_NEGLIGIBLE


@dataclass(frozen=True, slots=True)
class PldProfile(PrivacyProfile):
    """Both directions of the composition, each on its own grid; the larger epsilon counts.

    tolerance: relative width of the interval at which no finer grid is made. seconds: about what may be spent; the interval is as narrow as
    that pays for.
    """

    steps: Steps
    tolerance: float = TOLERANCE
    seconds: float = PATIENCE

    @property
    def effort(self) -> Effort:
        return Effort(self.seconds * POINTS_PER_SECOND, math.log(RARE * self.tolerance))

    def tuned(self, tolerance: float | None, seconds: float) -> PldProfile:
        return replace(self, tolerance=tolerance or self.tolerance, seconds=seconds)

    def epsilon(self, delta: float) -> Bound:
        return least(lambda steps: replace(self, steps=steps)._epsilon(delta), self.steps)

    def delta(self, epsilon: float) -> Bound:
        return least(lambda steps: replace(self, steps=steps)._delta(epsilon), self.steps)

    def _epsilon(self, delta: float) -> Bound:
        require_positive(delta, "the tilted grid")
        log_delta = math.log(delta)

        def grid(losses: Losses, width: float, effort: Effort) -> tuple[GridCurve, float]:
            return curve_at_delta(losses, log_delta, width, effort)

        lower, upper, spacing = self._narrowed(grid, lambda curve: curve.epsilon(log_delta), lambda end: (end, log_delta))
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

        lower, upper, _ = self._narrowed(grid, lambda curve: curve.delta(epsilon), point)
        return Bound(min(max(upper, math.ulp(0.0)), 1.0), min(lower, 1.0))

    def _narrowed(
        self,
        grid: Callable[[Losses, float, Effort], tuple[GridCurve, float]],
        ends: Callable[[GridCurve], tuple[float, float]],
        point: Callable[[float], tuple[float, float]],
    ) -> tuple[float, float, float]:
        """(lower, upper, spacing): the larger bounds of both directions, by ever finer grids until these are near enough or the next
        one would cost more than what is left. An answer is in hand from the first grid on, however coarse it had to be.

        point: (epsilon, log delta), where the one that is asked for is the given one.
        """
        points = self.effort.points
        sides = [
            _Side(losses, GLIMPSE if k else AIM * self.tolerance, LOG_NEGLIGIBLE)
            for k, losses in enumerate(directions(merged(self.steps)))
        ]
        for attempt in range(REFINEMENTS):
            lower, upper = max(side.lower for side in sides), max(side.upper for side in sides)
            wanted = [side for side in sides if side.wanted(lower, upper, self.tolerance)]
            for k, side in enumerate(wanted):
                share = points * (1.0 / (len(wanted) - k) if attempt else FIRST_SHARE)
                effort = self.effort._replace(points=share, log_negligible=side.log_negligible)
                try:
                    with np.errstate(all="ignore"):  # what overflows ends as an infinite or empty bound
                        curve, cost = grid(side.losses, side.error, effort)
                        side.narrow(curve, ends(curve), attempt > 0)
                except NotRepresentable:  # what has been shown by then holds
                    if attempt == 0:
                        raise
                    side.last = True
                    continue
                points -= cost
                if not curve.covered:
                    side.error *= COARSER
                    side.last = attempt >= REFINEMENTS // 2
                    continue
                if not math.isfinite(side.upper):
                    side.last = side.last or attempt > 1
                    side.error *= 0.1
                    side.log_negligible = 2.0 * side.log_negligible
                    continue
                width = (side.upper - side.lower) / side.upper if side.upper > 0.0 else 0.0
                side.error *= max(min(AIM * self.tolerance / width, 0.5), 1e-6) if width > 0.0 else 1.0
                epsilon, log_delta = point(side.upper)
                excess = curve.lattice.log_scale - curve.lattice.tilt * epsilon - log_delta  # of the tilted mass, in units of delta
                side.log_negligible = min(side.log_negligible, LOG_NEGLIGIBLE - max(excess, 0.0))
        lower, upper = max(side.lower for side in sides), max(side.upper for side in sides)
        if lower > upper * (1.0 + 1e-9):
            raise InternalError(
                f"the grid's bounds contradict each other ({lower!r} above {upper!r}): this is a bug in dpcli, and no number"
            )
        return min(lower, upper), upper, max(sides, key=lambda side: side.upper).spacing

    def shares(self, delta: float) -> tuple[float, ...]:
        """Each step's K at the tilt, which is what its loss adds to the exponent; by its Renyi curve where it has no pair of its own."""
        from dpcli.numerics.grid.survey import best_tilt

        sides = [tuple((surveyed(loss), n) for loss, n in side) for side in directions(self.steps)]
        tilt = np.array([max(best_tilt(side, math.log(delta))[0] for side in sides)])
        return normalised([_exponent(mechanism, count, tilt) for mechanism, count in self.steps])


def _exponent(mechanism: Mechanism, count: int, tilt: Array) -> float:
    """K of so many steps at a tilt, in the direction where it is larger."""
    try:
        sides = directions(((mechanism, count),))
    except NotRepresentable:
        return count * float(tilt[0] * mechanism.rdp(1.0 + tilt)[0])
    return max(sum(n * float(surveyed(loss).cgf(tilt)[0]) for loss, n in side) for side in sides)


class _Side:
    """A direction, and what grids have shown of it.

    error: relative width of the next interval. last: whether no finer grid is made.
    """

    def __init__(self, losses: Losses, error: float, log_negligible: float) -> None:
        self.losses, self.error, self.log_negligible = losses, error, log_negligible
        self.lower, self.upper, self.spacing = 0.0, math.inf, math.nan
        self.last = False

    def wanted(self, lower: float, upper: float, tolerance: float) -> bool:
        """Return whether a finer grid may change the larger of both directions' bounds, which are these now."""
        return not self.last and self.upper > lower and (self.upper - lower > tolerance * upper or not upper < math.inf)

    def narrow(self, curve: GridCurve, ends: tuple[float, float], all_points: bool) -> None:
        self.lower = max(self.lower, ends[0])
        if ends[1] < self.upper or math.isnan(self.spacing):
            self.upper, self.spacing = max(ends[1], 0.0), curve.lattice.spacing
        self.last = curve.coarse and all_points


@shared(MAX_SURVEYS)
def surveyed(loss: PrivacyLoss) -> Survey:
    from dpcli.numerics.grid.survey import survey

    return survey(loss)


@remembered(16)
def curve_at_delta(losses: Losses, log_delta: float, width: float, effort: Effort) -> tuple[GridCurve, float]:
    """(a curve whose interval of epsilon at log delta is about so wide, relative to Chernoff's bound; points that it took)."""
    from dpcli.numerics.grid.survey import best_tilt

    surveys = _surveys(losses, log_delta + effort.log_rare)
    infinite = -math.expm1(math.fsum(n * math.log1p(-min(math.exp(view.log_infinite), 1.0 - 1e-16)) for view, n in surveys))
    if infinite >= math.exp(log_delta):
        raise NotRepresentable(f"everything may be revealed with probability {infinite:.6g}, which is not below delta")
    log_finite = log_delta + (math.log1p(-math.exp(math.log(infinite) - log_delta)) if infinite > 0.0 else 0.0)
    tilt, reference = best_tilt(surveys, log_finite)
    return _curve(losses, surveys, tilt, log_finite, width * max(reference, 0.5 / tilt), effort)


@remembered(16)
def curve_at_epsilon(losses: Losses, epsilon: float, width: float, effort: Effort) -> tuple[GridCurve, float]:
    """(a curve whose interval at epsilon is about so wide; points that it took)."""
    from dpcli.numerics.grid.survey import tilt_for

    surveys = tuple((surveyed(loss), count) for loss, count in losses)
    for _ in range(2):  # how rare a loss no longer matters is known when delta is
        tilt, log_delta = tilt_for(surveys, epsilon)
        surveys = _surveys(losses, min(log_delta - 2.0, -1.0) + effort.log_rare)
    return _curve(losses, surveys, tilt, min(log_delta - 2.0, -1.0), width * max(epsilon, 0.5 / tilt), effort)


def _surveys(losses: Losses, log_rare: float) -> Surveys:
    """A rough look at each loss, without what is rarer than this in all steps."""
    foresee(PART * len(losses))
    return tuple((_without_rare(loss, log_rare - math.log(count * len(losses))), count) for loss, count in losses)


@shared(MAX_SURVEYS)
def _without_rare(loss: PrivacyLoss, log_rare: float) -> Survey:
    return surveyed(loss).cut(log_rare)


def _curve(
    losses: Losses, surveys: Surveys, tilt: float, log_delta: float, error: float, effort: Effort
) -> tuple[GridCurve, float]:
    from dpcli.numerics.grid.composed_losses import GridTarget, composed, planned
    from dpcli.numerics.grid.survey import common_unit

    parts = [(loss, view, count) for (loss, count), (view, _) in zip(losses, surveys, strict=True)]
    log_rare = log_delta + effort.log_rare - math.log(len(losses))
    with np.errstate(all="ignore"):  # what overflows ends as an infinite or empty bound
        unit = common_unit([(loss, surveyed(loss), count) for loss, count in losses])
        target = GridTarget(tilt, log_delta, log_rare, effort.log_negligible - math.log(len(losses)))
        plan = planned(parts, target, max(error, 1e-14), unit, effort.points)
        return composed(parts, plan), plan.work


ACCOUNTANT = Accountant(
    name="pld",
    title="privacy-loss distribution",
    source="Doroshenko et al. 2022, arXiv:2207.04380; Ghazi et al. 2022, arXiv:2207.04381; proof: dpcli explain accountants",
    compose=PldProfile,
    heavy=True,
    fallback=True,
    cells=lambda parts: 2e6 + 2e5 * parts,
)
