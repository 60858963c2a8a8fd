"""Bounds on delta at many epsilons at once, for plots and for the conversion to a trade-off curve.

The losses are log dP/dQ of dominating pairs, one list for each direction of the neighbouring relation (accountants/directions.py).
`on_contours` answers as the accountant exact does, by contour integrals, and `on_grids` as pld does, by grids of losses. A contour or a
grid bounds delta at every epsilon, most tightly at the epsilon that it was built for. Neighbouring epsilons share one as long as its
interval is narrow, because a new one for each epsilon would take too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dpcli.accountants.base import Steps, join_equal_steps
from dpcli.accountants.directions import Losses, directions
from dpcli.accountants.exact import CHERNOFF_EXCESS, MAX_LOG_DELTA, ExactProfile, delta_on, is_single
from dpcli.accountants.pld import AIM, PldProfile, curve_at_delta, curve_at_epsilon
from dpcli.base.errors import NotRepresentable
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.certified import Interval, intervals
from dpcli.numerics.contour.integral import log_hockey, total_cgf
from dpcli.numerics.work import TooMuchWork  # raised when the allowed work is used up

if TYPE_CHECKING:
    from dpcli.numerics.grid.grid_curve import GridCurve

# Accuracy and speed: the bounds hold for any of these values.
MAX_PARTS = 200  # most different losses in one direction; more would take too long for a whole curve
NARROW = 1e-7  # width of an interval on log delta at which no better contour is built
# Grids are built for log delta from FIRST_GRID down to LAST_GRID, each STEP below the one before.
FIRST_GRID, LAST_GRID, STEP = math.log(0.1), -60.0, 5.0
NEAR = 1.0  # the grid of the least epsilon replaces that of FIRST_GRID if its log delta is less than this above FIRST_GRID
CHANGED = 1.0  # change of log delta after which new intervals may be built


class _GridInterval:
    """The bounds of a grid curve, as an `Interval`."""

    def __init__(self, curve: GridCurve) -> None:
        self.curve = curve

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        low, high = self.curve.delta(epsilon)
        return (math.log(low) if low > 0.0 else -math.inf), math.log(max(high, math.ulp(0.0)))


def on_contours(profile: ExactProfile, epsilons: Array, log_floor: float) -> tuple[Array, Array]:
    """Return (lower, upper) bounds on delta at increasing `epsilons`, computed as by the exact accountant.

    Args:
        log_floor: the logarithm of the delta below which the upper bounds need not be tight.

    Raises:
        NotRepresentable: as the exact accountant does, and if there are more than MAX_PARTS different losses.
    """

    def side(losses: Losses) -> tuple[Array, Array]:
        if is_single(losses):  # one step, whose delta follows from its tails without a contour
            bounds = np.array([delta_on(losses, epsilon) for epsilon in epsilons.tolist()])
            return bounds[:, 0], bounds[:, 1]
        chernoff = _chernoff(losses, epsilons)

        def build(i: int) -> Sequence[Interval]:
            log_delta = float(chernoff[i]) - CHERNOFF_EXCESS  # an estimate, because Chernoff's bound is above delta
            return _build_until_narrow(losses, min(log_delta, MAX_LOG_DELTA), float(epsilons[i]))  # the largest for a contour

        return _bounds(build, epsilons, chernoff, log_floor)

    return _larger_bounds(profile.steps, side)


def on_grids(profile: PldProfile, epsilons: Array, log_floor: float) -> tuple[Array, Array]:
    """Return (lower, upper) bounds on delta at increasing `epsilons`, computed as by the grid accountant.

    Raises NotRepresentable as the grid accountant does, and if there are more than MAX_PARTS different losses.
    """

    def side(losses: Losses) -> tuple[Array, Array]:
        log_deltas, grids = _grids(profile, losses, float(epsilons[0]), log_floor)
        log_low, log_high = np.full_like(epsilons, -math.inf), np.zeros_like(epsilons)
        first = 0  # index of the two neighbouring grids in use
        for i, epsilon in enumerate(epsilons.tolist()):
            log_low[i], log_high[i] = _ends(grids[first : first + 2], epsilon)
            while first + 2 < len(grids) and log_high[i] < log_deltas[first + 1]:  # delta is below that of both grids
                first += 1
                log_low[i], log_high[i] = _ends(grids[first : first + 2], epsilon)
        return _round_outward(log_low, log_high)

    return _larger_bounds(profile.steps, side)


def _grids(profile: PldProfile, losses: Losses, least_epsilon: float, log_floor: float) -> tuple[list[float], list[Interval]]:
    """Return the log delta that each grid is built for, in decreasing order, and the grids. Refused grids are left out.

    The grid of the least epsilon comes first, because its delta may be far above the others. Its log delta is given as 0.
    """
    width = AIM * profile.tolerance  # relative width that a grid is made for; most grids then meet the tolerance
    log_deltas: list[float] = []
    grids: list[Interval] = []
    targets = np.arange(FIRST_GRID, max(log_floor, LAST_GRID), -STEP).tolist()
    with suppress(NotRepresentable):
        curve, _ = curve_at_epsilon(losses, least_epsilon, width, profile.effort)  # effort: limits for making one grid
        grids.append(_GridInterval(curve))
        log_deltas.append(0.0)
    if grids and grids[0].log_delta(least_epsilon)[1] < FIRST_GRID + NEAR:
        targets = targets[1:]
    for log_delta in targets:
        with suppress(NotRepresentable):
            curve, _ = curve_at_delta(losses, log_delta, width, profile.effort)
            grids.append(_GridInterval(curve))
            log_deltas.append(log_delta)
    return log_deltas, grids


def _larger_bounds(steps: Steps, side: Callable[[Losses], tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the larger of the two directions' bounds, which `side` returns for the losses of each direction."""
    sides = directions(join_equal_steps(steps))
    if any(len(losses) > MAX_PARTS for losses in sides):
        raise NotRepresentable(f"more than {MAX_PARTS} different parts would take too long for a whole curve")
    bounds = [side(losses) for losses in sides]
    return np.maximum.reduce([low for low, _ in bounds]), np.maximum.reduce([high for _, high in bounds]).clip(max=1.0)


def _chernoff(losses: Losses, epsilons: Array) -> Array:
    """Return Chernoff's upper bound on log delta at each epsilon; it is at most 0, and 0 if the CGF is nowhere finite."""
    z = np.geomspace(1e-3, 1e6, 181)[:, None]  # every order gives a bound
    with np.errstate(all="ignore"):
        exponents = total_cgf(losses, z[:, 0])[:, None] - z * epsilons + log_hockey(z)
        return np.asarray(np.where(np.isnan(exponents), 0.0, exponents).min(axis=0).clip(max=0.0))


def _bounds(build: Callable[[int], Sequence[Interval]], epsilons: Array, log_upper: Array, log_floor: float) -> tuple[Array, Array]:
    """Return (lower, upper) bounds on delta at increasing epsilons, from intervals that neighbouring epsilons share.

    New intervals are built where the present ones are not narrow and log delta has changed by CHANGED since the last were built. When the
    allowed work ends, the remaining epsilons keep the bounds known before.

    build: returns intervals that are narrow at the epsilon with a given index. log_upper: known upper bounds on log delta.
    """
    log_low, log_high = np.full_like(epsilons, -math.inf), log_upper.copy()
    present: Sequence[Interval] = ()
    last_built = math.inf
    with suppress(TooMuchWork):
        for i, epsilon in enumerate(epsilons.tolist()):
            ends = _ends(present, epsilon)
            upper = min(float(log_high[i]), ends[1])
            if not ends[1] - ends[0] <= NARROW and abs(upper - last_built) >= CHANGED and upper > log_floor:
                present = (*present[-1:], *build(i))  # the last interval, made for a smaller epsilon, may still be the tighter one
                ends = _ends(present, epsilon)
                last_built = min(float(log_high[i]), ends[1])
            log_low[i], log_high[i] = ends[0], min(ends[1], float(log_high[i]))
    return _round_outward(log_low, log_high)


def _round_outward(log_low: Array, log_high: Array) -> tuple[Array, Array]:
    """Return e^log_low rounded down and e^log_high rounded up, by more than the errors of log and exp. The upper bound is never 0."""
    high = np.minimum(log_high, 0.0)
    upper = np.exp(high + 4e-16 * (4.0 + np.abs(high)))
    finite = np.where(np.isfinite(log_low), log_low, -1e4)  # e^-1e4 is 0
    return np.exp(finite - 4e-16 * (4.0 + np.abs(finite))), np.maximum(upper, math.ulp(0.0))


def _build_until_narrow(losses: Losses, log_delta: float, epsilon: float) -> Sequence[Interval]:
    """Return contours for log_delta, built one after the other until they bound it narrowly at `epsilon`."""
    built: tuple[Interval, ...] = ()
    with np.errstate(all="ignore"), suppress(NotRepresentable):  # an overflow gives a trivial bound
        for interval, enough in intervals(losses, log_delta, epsilon):
            built = (*built, interval)
            low, high = _ends(built, epsilon)
            if high - low <= max(enough, NARROW):
                break
    return built


def _ends(present: Sequence[Interval], epsilon: float) -> tuple[float, float]:
    """Return the best bounds on log delta at `epsilon` that the intervals give; (-inf, inf) if there are none."""
    low, high = -math.inf, math.inf
    for interval in present:
        with np.errstate(all="ignore"):
            ends = interval.log_delta(epsilon)
        low, high = max(low, ends[0]), min(high, ends[1])  # a NaN from an overflow is ignored
    return low, high
