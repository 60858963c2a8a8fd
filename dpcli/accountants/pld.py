"""The grid accountant: privacy-loss distributions of anything that has tails, composed by the fast Fourier transform.

Consumes each step's privacy losses, both directions, by their tails, rounded outwards to a grid. Bounds: lower and upper on the
dominating pairs, as far apart as the grid is coarse; the lower one is shown where every mechanism attains its pair. Its width depends
on the tolerance and the time that are given.
"""

from __future__ import annotations

import math
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
    from dpcli.numerics.grid.composed_losses import GridCurve
    from dpcli.numerics.grid.survey import Survey

TOLERANCE = 1e-3
POINTS_PER_SECOND = 5e6
PATIENCE = 4.0  # seconds for one direction, where nobody says
REFINEMENTS = 3
MAX_SURVEYS = 4096
PART = 1.5e4  # cells that one more part takes at the least: a look at its loss, and its transform
TOO_LONG = "the grid that this file needs would take too long"
SKIPPED = "skipped: slow for this file (run with -a pld)"


class Effort(NamedTuple):
    """points: of the grid that may be transformed. strict: whether a grid that is too coarse for its tolerance is refused."""

    points: float
    strict: bool


@dataclass(frozen=True, slots=True)
class PldProfile(PrivacyProfile):
    """Both directions of the composition, each on its own grid; the larger epsilon counts.

    tolerance: relative width of the interval that is aimed at. seconds: about what may be spent on one direction. strict: refuse
    a grid that is coarser than the tolerance asks for, rather than report a wider interval.
    """

    steps: Steps
    tolerance: float = TOLERANCE
    seconds: float = PATIENCE
    strict: bool = False

    @property
    def effort(self) -> Effort:
        return Effort(self.seconds * POINTS_PER_SECOND, self.strict)

    def tuned(self, tolerance: float | None, seconds: float) -> PldProfile:
        return replace(self, tolerance=tolerance or self.tolerance, seconds=seconds, strict=seconds < 1.0)

    def epsilon(self, delta: float) -> Bound:
        return least(lambda steps: replace(self, steps=steps)._epsilon(delta), self.steps)

    def delta(self, epsilon: float) -> Bound:
        return least(lambda steps: replace(self, steps=steps)._delta(epsilon), self.steps)

    def _epsilon(self, delta: float) -> Bound:
        require_positive(delta, "the tilted grid")
        sides = [self._interval(losses, math.log(delta)) for losses in directions(merged(self.steps))]
        lower, (_, upper, spacing) = max(side[0] for side in sides), max(sides, key=lambda side: side[1])
        if not math.isfinite(upper):
            return Bound(math.inf)
        width = (upper - max(lower, 0.0)) / upper if upper > 0.0 else 0.0
        detail = {"spacing": spacing} if width <= self.tolerance else {"spacing": spacing, "tolerance missed: width": width}
        return Bound(max(upper, 0.0), min(max(lower, 0.0), max(upper, 0.0)), detail)

    def _interval(self, losses: Losses, log_delta: float) -> tuple[float, float, float]:
        """(lower, upper, spacing) of one direction; refined until it is as narrow as asked for, or work runs out."""
        error_share, low, high, spacing = 1.0, -math.inf, math.inf, math.nan
        for attempt in range(REFINEMENTS):
            try:
                lower, upper, reference = curves_at_delta(losses, log_delta, self.tolerance * error_share, self.effort)
            except NotRepresentable:  # what has been shown by then holds
                if attempt == 0 or self.strict:
                    raise
                break
            with np.errstate(all="ignore"):  # what overflows ends as an infinite or empty bound
                low, end = max(low, lower.epsilon(log_delta)), upper.epsilon(log_delta)
            high, spacing = (end, upper.lattice.spacing) if end < high or attempt == 0 else (high, spacing)
            if low > high * (1.0 + 1e-9) + 1e-9 * abs(reference):
                raise InternalError(
                    f"the grid's bounds contradict each other ({low!r} above {high!r}): this is a bug in dpcli, and no number"
                )
            width = (high - max(low, 0.0)) / max(high, 1e-300) if high > 0.0 else 0.0
            if width <= self.tolerance or not math.isfinite(width) or upper.coarse:
                break
            error_share *= 0.3 * self.tolerance / width
        return low, high, spacing

    def _delta(self, epsilon: float) -> Bound:
        lower, upper = 0.0, 0.0
        for losses in directions(merged(self.steps)):
            below, above = curves_at_epsilon(losses, epsilon, self.tolerance, self.effort)
            with np.errstate(all="ignore"):
                lower, upper = max(lower, below.delta(epsilon)), max(upper, above.delta(epsilon))
        if lower > upper * (1.0 + 1e-9) + 1e-300:
            raise InternalError(
                f"the grid's bounds contradict each other ({lower!r} above {upper!r}): this is a bug in dpcli, and no number"
            )
        return Bound(max(upper, math.ulp(0.0)), min(lower, upper))

    def shares(self, delta: float) -> tuple[float, ...]:
        """Each step's K at the tilt, which is what its loss adds to the exponent; by its Renyi curve where it has no pair of its own."""
        from dpcli.numerics.grid.survey import best_tilt

        sides = [[(surveyed(loss), n) for loss, n in side] for side in directions(self.steps)]
        tilt = np.array([max(best_tilt(side, math.log(delta))[0] for side in sides)])
        return normalised([_exponent(mechanism, count, tilt) for mechanism, count in self.steps])


def _exponent(mechanism: Mechanism, count: int, tilt: Array) -> float:
    """K of so many steps at a tilt, in the direction where it is larger."""
    try:
        sides = directions(((mechanism, count),))
    except NotRepresentable:
        return count * float(tilt[0] * mechanism.rdp(1.0 + tilt)[0])
    return max(sum(n * float(surveyed(loss).cgf(tilt)[0]) for loss, n in side) for side in sides)


@shared(MAX_SURVEYS)
def surveyed(loss: PrivacyLoss) -> Survey:
    from dpcli.numerics.grid.survey import survey

    return survey(loss)


@remembered(16)
def curves_at_delta(losses: Losses, log_delta: float, tolerance: float, effort: Effort) -> tuple[GridCurve, GridCurve, float]:
    """(lower, upper, epsilon by Chernoff's bound) near log delta."""
    from dpcli.numerics.grid.survey import best_tilt

    _foresee(losses, effort)
    surveys = [(surveyed(loss), count) for loss, count in losses]
    infinite = -math.expm1(math.fsum(n * math.log1p(-min(math.exp(view.log_infinite), 1.0 - 1e-16)) for view, n in surveys))
    if infinite >= math.exp(log_delta):
        raise NotRepresentable(f"everything may be revealed with probability {infinite:.6g}, which is not below delta")
    log_finite = log_delta + (math.log1p(-math.exp(math.log(infinite) - log_delta)) if infinite > 0.0 else 0.0)
    tilt, reference = best_tilt(surveys, log_finite)
    return (*_curves(losses, tilt, log_finite, tolerance * max(reference, 0.5 / tilt), effort), reference)


@remembered(16)
def curves_at_epsilon(losses: Losses, epsilon: float, tolerance: float, effort: Effort) -> tuple[GridCurve, GridCurve]:
    """(lower, upper) near epsilon."""
    from dpcli.numerics.grid.survey import tilt_for

    _foresee(losses, effort)
    surveys = [(surveyed(loss), count) for loss, count in losses]
    tilt, log_delta = tilt_for(surveys, epsilon)
    return _curves(losses, tilt, min(log_delta - 2.0, -1.0), tolerance * max(epsilon, 0.5 / tilt), effort)


def _foresee(losses: Losses, effort: Effort) -> None:
    """Refuse what is certain to be refused for its number of parts, before any of them is looked at."""
    from dpcli.numerics.grid.composed_losses import SMALLEST

    if len(losses) * SMALLEST > effort.points:  # no grid has fewer points
        raise NotRepresentable(SKIPPED if effort.strict else TOO_LONG)
    foresee(PART * len(losses))


def _curves(losses: Losses, tilt: float, log_delta: float, error: float, effort: Effort) -> tuple[GridCurve, GridCurve]:
    from dpcli.numerics.grid.composed_losses import composed, planned
    from dpcli.numerics.grid.survey import common_unit

    parts = [(loss, surveyed(loss), count) for loss, count in losses]
    with np.errstate(all="ignore"):  # what overflows ends as an infinite or empty bound
        unit = common_unit(parts)
        plan = planned(parts, tilt, log_delta, max(error, 1e-12), unit, effort.points)
        if plan is None or (effort.strict and plan.coarseness > 1.0):
            raise NotRepresentable(SKIPPED if effort.strict else TOO_LONG)
        return composed(parts, plan)


ACCOUNTANT = Accountant(
    name="pld",
    title="privacy-loss distribution",
    source="Doroshenko et al. 2022, arXiv:2207.04380; Ghazi et al. 2022, arXiv:2207.04381; proof: dpcli explain accountants",
    compose=PldProfile,
    heavy=True,
    cells=lambda parts: 2e6 + 2e5 * parts,
)
