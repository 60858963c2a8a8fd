"""Privacy profiles: bounds on delta at many epsilons, and the corners of the trade-off curve that these bounds imply."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from dpcli.accountants.base import Accountant, Failing, PrivacyProfile, checked, implied_delta
from dpcli.accountants.many import on_contours, on_grids
from dpcli.analysis.account import attained, sound_profiles
from dpcli.analysis.account_rows import agree
from dpcli.base.errors import InputError, InternalError, NotRepresentable
from dpcli.file.pipeline.model import Pipeline
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.trade_off import delta_from_pairs, false_negatives
from dpcli.numerics.work import QUESTION, RESERVED, allowance, limited

# If the relative gap between the two bounds on delta is smaller than this, no further accountant is run.
CURVE_GAP = 5e-2
POINT_GAP = 1e-3  # the gap at an epsilon whose delta is printed as a number; the grid accountant aims at it too
NEGLIGIBLE = 1e-4  # bounds on deltas below this share of the delta of interest need not be tight
MANY_MECHANISMS = 64  # with more mechanisms, accountants that handle each step by itself are not run at single points
COMPETITIVE = 1.25  # an accountant whose epsilon exceeds the best one by a larger factor is not run for a whole curve
CURVE_CELLS = 3.0 * QUESTION  # work that a whole curve may take
# One-sided accountants are run at SPARSE_DELTAS deltas up to FIRST_CLOSE_DELTA, and at CLOSE_DELTAS deltas from there to LAST_DELTA.
SPARSE_DELTAS, FIRST_CLOSE_DELTA, CLOSE_DELTAS, LAST_DELTA = 6, 1e-3, 12, 0.9
LARGEST_EXPONENT = 700.0  # e^epsilon is finite up to this; the corner of a larger epsilon is invisible in every picture


class ComposedProfile(NamedTuple):
    """The privacy profile of a pipeline, as composed by one accountant."""

    accountant: Accountant
    profile: PrivacyProfile

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on epsilon at delta; inf if the accountant certifies no bound."""
        try:
            with self.accountant.within_allowance():
                return checked(self.profile.epsilon(delta)).upper
        except NotRepresentable:
            return math.inf

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at epsilon; 1 if the accountant certifies no bound."""
        try:
            with self.accountant.within_allowance():
                return min(checked(implied_delta(self.profile, epsilon)).upper, 1.0)
        except NotRepresentable:
            return 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ProfileCurve:
    """Bounds on delta as a function of epsilon.

    epsilons: epsilons in nats, in increasing order.
    upper, lower: bounds on delta at each epsilon. The lower bound is 0 if nothing is certified.
    delta: the delta of interest. Bounds on much smaller deltas need not be tight.
    """

    epsilons: Array
    upper: Array
    lower: Array
    delta: float = 0.0

    def at(self, epsilon: float) -> float:
        """Return the upper bound on delta at an epsilon >= 0 that all (epsilon, delta) pairs of the curve imply together."""
        return float(delta_from_pairs(self.epsilons, self.upper, np.array([epsilon]))[0])

    def is_narrow(self) -> bool:
        """Return whether the two bounds nearly meet at every epsilon, except for negligible deltas."""
        negligible = max(NEGLIGIBLE * self.delta, 1e-300)
        return bool(np.all(self.upper - self.lower <= CURVE_GAP * self.upper + negligible))

    def is_narrow_at(self, epsilon: float, delta: float) -> bool:
        """Return whether the two bounds nearly meet at `epsilon`, one of the curve's epsilons, up to a negligible share of `delta`."""
        i = int(np.searchsorted(self.epsilons, epsilon))
        return bool(self.upper[i] - self.lower[i] <= POINT_GAP * self.upper[i] + NEGLIGIBLE * delta)

    def intersected(self, other: ProfileCurve) -> ProfileCurve:
        """Return the smaller upper bounds and larger lower bounds of two curves. Raises InternalError if the curves are contradictory."""
        upper, lower = np.minimum(self.upper, other.upper), np.maximum(self.lower, other.lower)
        if not np.all(agree(lower, upper)):
            raise InternalError(
                "accountants contradict each other on delta(epsilon): this is a bug in dpcli, so no number is reported"
            )
        return ProfileCurve(self.epsilons, upper, np.minimum(lower, upper), self.delta)


def _unbounded(epsilons: Array, delta: float = 0.0) -> ProfileCurve:
    """Return the trivial curve, whose bounds on delta are 0 and 1."""
    return ProfileCurve(epsilons, np.ones_like(epsilons), np.zeros_like(epsilons), delta)


@limited
def profile(
    pipeline: Pipeline,
    epsilons: Sequence[float] | Array,
    group_size: int = 1,
    delta: float = 1e-6,
    points: Sequence[float] = (),
) -> ProfileCurve:
    """Return bounds on delta as a function of epsilon for a pipeline, from the sound accountants.

    Args:
        pipeline: the pipeline.
        epsilons: finite epsilons >= 0 in nats, in increasing order.
        group_size: number of units of privacy that change together.
        delta: the delta of interest, such as that of the file. A one-sided accountant whose epsilon at this delta is far above the best
            one is not run for a whole curve.
        points: the epsilons whose delta is printed as a number. One-sided accountants are also run at these epsilons, unless an interval
            is narrow there.

    Returns:
        Upper bounds and certified lower bounds on delta. Two-sided accountants are run at each epsilon. If their intervals are wide,
        one-sided accountants are run at a few deltas, and the upper bounds between these follow from the (epsilon, delta) pairs.

    Raises:
        InputError: an epsilon is out of range, or the pipeline contradicts itself.
    """
    grid = np.asarray(epsilons, dtype=float)
    in_range = grid.ndim == 1 and len(grid) > 0 and np.all((grid >= 0.0) & (grid < math.inf))
    if not in_range or np.any(np.diff(grid) < 0.0):
        raise InputError(f"expected finite epsilons >= 0 in increasing order, found {grid.tolist()!r:.80}")
    composed = sound_profiles(pipeline, None, group_size)
    accountants = [accountant for accountant, _ in composed]
    pairs_are_attained = attained(pipeline, group_size)
    has_many = len(pipeline.mechanisms) > MANY_MECHANISMS
    # Each accountant splits its profile into the same cases, and the worst of them bounds the pipeline.
    curves = []
    for case in zip(*(composition.cases() for _, composition in composed), strict=True):
        profiles = list(map(ComposedProfile, accountants, case))
        curves.append(_curve_of_case(profiles, grid, delta, points, pairs_are_attained, has_many))
    upper = np.max([curve.upper for curve in curves], axis=0)
    lower = np.max([curve.lower for curve in curves], axis=0)
    return ProfileCurve(grid, upper, lower, delta)


def _curve_of_case(
    composed: Sequence[ComposedProfile],
    epsilons: Array,
    delta: float,
    points: Sequence[float],
    pairs_are_attained: bool,
    has_many: bool,
) -> ProfileCurve:
    """Return the curve of one composition.

    Args:
        composed: the composition by each accountant.
        epsilons, delta, points: as for `profile`.
        pairs_are_attained: whether lower bounds for the dominating pairs are also lower bounds for the pipeline.
        has_many: whether there are too many mechanisms to handle each of them at every point.
    """
    profiles = {profile.accountant.name: profile for profile in composed}
    wide_points = list(points)
    curve = _unbounded(epsilons, delta)
    for name, bounds in TWO_SIDED.items():
        if name not in profiles:
            continue
        with allowance(CURVE_CELLS, QUESTION if profiles[name].accountant.fallback else 0.0, RESERVED):
            answer = replace(bounds(profiles[name].profile, epsilons, delta), delta=delta)
        wide_points = [epsilon for epsilon in wide_points if not answer.is_narrow_at(epsilon, delta)]
        curve = curve.intersected(answer if pairs_are_attained else replace(answer, lower=np.zeros_like(epsilons)))
        # No accountant improves a narrow interval, even if no data attain the pair.
        if answer.is_narrow() or curve.is_narrow():
            break
    if not curve.is_narrow():
        one_sided = [profile for name, profile in profiles.items() if name not in TWO_SIDED]
        curve = curve.intersected(_from_pairs(one_sided, epsilons, delta, wide_points, has_many))
    return replace(curve, upper=np.minimum(curve.upper, delta_from_pairs(epsilons, curve.upper, epsilons)))


def pure_epsilon(pipeline: Pipeline, group_size: int = 1) -> float:
    """Return an upper bound on every privacy loss: the epsilon at delta = 0, or inf if it is not finite."""
    ((_, profile),) = sound_profiles(pipeline, ("basic",), group_size)
    try:
        return profile.epsilon(0.0).upper
    except NotRepresentable:
        return math.inf


def trade_off(curve: ProfileCurve, alphas: Sequence[float] | Array) -> Array:
    """Return lower bounds on the false negative rates of any attack, at false positive rates `alphas` in [0, 1]. They are convex."""
    return false_negatives(curve.epsilons, curve.upper, np.asarray(alphas, dtype=float))


def _one_by_one(profile: PrivacyProfile, epsilons: Array, delta: float) -> ProfileCurve:
    """Return the curve by evaluating the profile at one epsilon after the other."""
    curve = _unbounded(epsilons)
    for i, epsilon in enumerate(epsilons.tolist()):
        with suppress(NotRepresentable):
            bound = checked(profile.delta(epsilon))
            curve.upper[i], curve.lower[i] = min(bound.upper, 1.0), bound.lower or 0.0
    return curve


def _vectorised(bounds: Callable[[Any, Array, float], tuple[Array, Array]]) -> Callable[[Any, Array, float], ProfileCurve]:
    """Return a function that evaluates `bounds` at all epsilons together and returns its (lower, upper) bounds as a curve.

    If the accountant does not apply, the curve is the trivial one.
    """

    def curve(profile: PrivacyProfile, epsilons: Array, delta: float) -> ProfileCurve:
        if isinstance(profile, Failing):
            rest = curve(profile.rest, epsilons, max(profile.delta_of_rest(delta, -1), 0.0))
            upper = np.minimum(profile.with_failure(rest.upper, 1), 1.0)
            return ProfileCurve(epsilons, upper, profile.with_failure(rest.lower, -1))
        log_floor = math.log(NEGLIGIBLE * delta) if delta > 0.0 else -math.inf
        try:
            lower, upper = bounds(profile, epsilons, log_floor)
        except NotRepresentable:
            return _unbounded(epsilons)
        return ProfileCurve(epsilons, upper, lower)

    return curve


# The accountants that also certify lower bounds, the cheapest first.
TWO_SIDED: dict[str, Callable[[Any, Array, float], ProfileCurve]] = {
    "analytic": _one_by_one,
    "exact": _vectorised(on_contours),
    "pld": _vectorised(on_grids),
}


def _from_pairs(
    profiles: Sequence[ComposedProfile], epsilons: Array, delta: float, points: Sequence[float], has_many: bool
) -> ProfileCurve:
    """Return the curve that the (epsilon, delta) pairs of one-sided accountants imply.

    points: epsilons at which pairs are added.
    has_many: whether there are too many mechanisms to handle each of them at every point.
    """
    reference_delta = delta or 1e-6  # at delta = 0 only pure mechanisms have a finite epsilon
    competitive = _competitive(profiles, reference_delta)
    pairs = [(profile.epsilon(pair_delta), pair_delta) for profile in competitive for pair_delta in _deltas(reference_delta)]
    for profile in competitive:
        if not (has_many and profile.accountant.stepwise):
            pairs += [(epsilon, profile.delta(epsilon)) for epsilon in points]
    pair_epsilons, pair_deltas = np.array(pairs).reshape(-1, 2).T
    is_finite = np.isfinite(pair_epsilons)
    upper = delta_from_pairs(pair_epsilons[is_finite], pair_deltas[is_finite], epsilons)
    return replace(_unbounded(epsilons), upper=upper)


def _competitive(profiles: Sequence[ComposedProfile], delta: float) -> list[ComposedProfile]:
    """Return the profiles whose epsilon at `delta` is finite and exceeds the best one by a factor of at most COMPETITIVE."""
    epsilon_by_profile = {profile: profile.epsilon(delta) for profile in profiles}
    limit = COMPETITIVE * min(epsilon_by_profile.values(), default=math.inf)
    return [profile for profile, epsilon in epsilon_by_profile.items() if epsilon <= limit and math.isfinite(epsilon)]


def _deltas(reference_delta: float) -> list[float]:
    """Return the deltas at which one-sided accountants are run: 0, the delta of interest, and a grid from below it to LAST_DELTA."""
    first = max(min(1e-3 * reference_delta, 1e-9), 1e-300)
    sparse = np.geomspace(first, FIRST_CLOSE_DELTA, SPARSE_DELTAS, endpoint=False)
    close = np.geomspace(FIRST_CLOSE_DELTA, LAST_DELTA, CLOSE_DELTAS)
    return [0.0, reference_delta, *sparse.tolist(), *close.tolist()]


class FallingLine(NamedTuple):
    """A line of a trade-off curve: the false negative rate is `height` - `fall` x the false positive rate."""

    fall: float
    height: float

    def crossing(self, other: FallingLine) -> float:
        """Return the false positive rate at which two lines cross."""
        return (self.height - other.height) / (self.fall - other.fall)


def corners(pairs: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """Return the false positive rates at which the trade-off curve of these (epsilon, delta) pairs bends. They include 0 and 1.

    Each pair bounds the false negative rate from below by max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)). The maximum of these
    bounds is convex and piecewise linear. So a picture through its corners is exact, and a picture through other points would lie above
    the curve.
    """
    heights: dict[float, float] = {0.0: 0.0}
    for epsilon, delta in pairs:
        if epsilon <= LARGEST_EXPONENT:
            steep, flat = math.exp(epsilon), math.exp(-epsilon)
            heights[steep] = max(heights.get(steep, 0.0), 1.0 - delta)
            heights[flat] = max(heights.get(flat, 0.0), flat * (1.0 - delta))
    lines = [FallingLine(fall, height) for fall, height in sorted(heights.items(), reverse=True)]
    bends = (left.crossing(right) for left, right in pairwise(_upper_envelope(lines)))
    return (0.0, *sorted({x for x in bends if 0.0 < x < 1.0}), 1.0)


def _upper_envelope(lines: list[FallingLine]) -> list[FallingLine]:
    """Return the lines that are the highest at some point. The lines are given and returned in order, the steepest first."""
    highest: list[FallingLine] = []
    for line in lines:
        while highest and _is_hidden(highest, line):
            highest.pop()
        highest.append(line)
    return highest


def _is_hidden(highest: list[FallingLine], line: FallingLine) -> bool:
    """Return whether the last of the highest lines is nowhere the highest after a flatter line is added."""
    last = highest[-1]
    if line.height >= last.height:
        return True
    return len(highest) > 1 and highest[-2].crossing(line) <= highest[-2].crossing(last)
