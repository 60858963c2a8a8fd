"""The privacy profile of a pipeline, which is delta as a function of epsilon, and the trade-off curve that it implies.

Pictures, `dpcli explain FILE` (meaning.py) and goals.py ask `profile` for bounds on delta at many epsilons, and `trade_off` turns these
into error rates of attacks. A *two-sided* accountant certifies lower bounds as well, so that this module knows how far its answer is from
the truth; a *one-sided* one has only upper bounds. A composition may have several *cases*, such as one for each disjoint part of the data,
and its curve is the worst of their curves at each epsilon.

Every upper bound that is returned is sound by itself, whichever accountants were skipped to save work: the constants touch speed and how
tight the bounds are. Upper bounds between computed points follow from (epsilon, delta) pairs, any of which bounds delta at all other
epsilons. Accountants bound the *dominating pair* of each mechanism, two output distributions at least as easy to tell apart as those of any
neighbouring datasets. Their lower bounds are true for the pipeline only if some data *attain* these pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dpcli.accountants.base import Accountant, Failing, PrivacyProfile, checked, implied_delta
from dpcli.accountants.delta_curve import on_contours, on_grids
from dpcli.analysis.account import attains_pairs, sound_profiles
from dpcli.analysis.account_rows import agree
from dpcli.analysis.trade_off_corners import corners
from dpcli.base.errors import InputError, InternalError, NotRepresentable
from dpcli.file.pipeline.model import Pipeline
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.trade_off import delta_from_pairs, false_negatives
from dpcli.numerics.work import QUESTION, RESERVED, allowance, limited

# When bounds are tight enough.
CURVE_GAP = 5e-2  # relative gap between the bounds on delta below which no further accountant is run; it is invisible in a picture
POINT_GAP = 1e-3  # the gap at an epsilon whose delta is printed as a number; the grid accountant aims at it too
NEGLIGIBLE = 1e-4  # bounds on deltas below this share of the delta of interest need not be tight
TINY = 1e-300  # the smallest delta that is computed with; smaller ones are close to the least double

# Limits on the work. They are arbitrary, and touch the time and the widths of the bounds.
CURVE_CELLS = 3.0 * QUESTION  # cells of work (numerics/work.py) that one accountant may use for a whole curve
MANY_MECHANISMS = 64  # with more mechanisms, accountants that handle each step by itself are not run at single points
COMPETITIVE = 1.25  # an accountant whose epsilon exceeds the best one by a larger factor is not run for a whole curve

# One-sided accountants are run at SPARSE_DELTAS deltas up to FIRST_CLOSE_DELTA, and at CLOSE_DELTAS deltas from there to LAST_DELTA. The
# large deltas lie closer together, because they decide the part of a trade-off curve that can be seen.
SPARSE_DELTAS, FIRST_CLOSE_DELTA, CLOSE_DELTAS, LAST_DELTA = 6, 1e-3, 12, 0.9
USUAL_DELTA = 1e-6  # the delta of interest of a pipeline that states none


@dataclass(frozen=True, slots=True, eq=False)
class ProfileCurve:
    """Bounds on delta as a function of epsilon.

    epsilons: epsilons in nats, in increasing order, as an array of shape (n,).
    upper, lower: bounds on delta at each epsilon, of shape (n,). Where nothing is certified they are 1 and 0.
    delta: the delta of interest. Bounds on much smaller deltas need not be tight.
    """

    epsilons: Array
    upper: Array
    lower: Array
    delta: float = 0.0

    def at(self, epsilon: float) -> float:
        """Return an upper bound on delta, at most 1, at any epsilon >= 0: the smallest that a point of the curve implies there."""
        return float(delta_from_pairs(self.epsilons, self.upper, np.array([epsilon]))[0])

    def is_narrow(self) -> bool:
        """Return whether the two bounds differ by at most CURVE_GAP, relatively, plus a negligible share of `delta`, at every epsilon."""
        negligible = max(NEGLIGIBLE * self.delta, TINY)
        return bool(np.all(self.upper - self.lower <= CURVE_GAP * self.upper + negligible))

    def is_narrow_at(self, epsilon: float, delta: float) -> bool:
        """Return whether the two bounds at `epsilon` differ by at most POINT_GAP, relatively, plus a negligible share of `delta`.

        epsilon: one of the curve's epsilons.
        delta: the delta of interest.
        """
        i = int(np.searchsorted(self.epsilons, epsilon))
        return bool(self.upper[i] - self.lower[i] <= POINT_GAP * self.upper[i] + NEGLIGIBLE * delta)

    def intersected(self, other: ProfileCurve) -> ProfileCurve:
        """Return the smaller upper bounds and the larger lower bounds of two curves at the same epsilons.

        Raises InternalError if a lower bound exceeds an upper bound by more than rounding explains.
        """
        upper, lower = np.minimum(self.upper, other.upper), np.maximum(self.lower, other.lower)
        if not np.all(agree(lower, upper)):
            raise InternalError(
                "accountants contradict each other on delta(epsilon): this is a bug in dpcli, so no number is reported"
            )
        return ProfileCurve(self.epsilons, upper, np.minimum(lower, upper), self.delta)


@limited
def profile(
    pipeline: Pipeline,
    epsilons: Sequence[float] | Array,
    group_size: int = 1,
    delta: float = USUAL_DELTA,
    points: Sequence[float] = (),
) -> ProfileCurve:
    """Return bounds on delta as a function of epsilon for a pipeline, from the sound accountants.

    Args:
        epsilons: finite epsilons >= 0 in nats, in increasing order, at least one.
        group_size: number of units of privacy that change together.
        delta: the delta of interest, such as the delta of the file. A one-sided accountant whose epsilon at this delta is far above the
            best one is not run for a whole curve.
        points: the epsilons, among `epsilons`, whose delta is printed as a number. One-sided accountants are also run at these epsilons,
            unless an interval is narrow there, or the whole curve is narrow.

    Returns:
        Upper bounds and certified lower bounds on delta. Two-sided accountants are run at all epsilons, the cheapest first, until the
        intervals are narrow. If none makes them narrow, one-sided accountants are run at a few deltas, and the upper bounds between these
        follow from the (epsilon, delta) pairs.

    Raises:
        InputError: the epsilons are empty, out of range or not in order, or `sound_profiles` refuses the pipeline or the group size.
        InternalError: accountants contradict each other.
    """
    grid = np.asarray(epsilons, dtype=float)
    in_range = grid.ndim == 1 and len(grid) > 0 and np.all((grid >= 0.0) & (grid < math.inf))
    if not in_range or np.any(np.diff(grid) < 0.0):
        raise InputError(f"expected finite epsilons >= 0 in increasing order, found {grid.tolist()!r:.80}")
    accountant_profiles = sound_profiles(pipeline, group_size=group_size)
    accountants = [accountant for accountant, _ in accountant_profiles]
    pairs_are_attained = attains_pairs(pipeline, group_size)
    has_many = len(pipeline.mechanisms) > MANY_MECHANISMS
    # Each accountant splits its profile into the same cases, and the worst of them bounds the pipeline.
    curves = []
    for profiles_of_case in zip(*(composition.cases() for _, composition in accountant_profiles), strict=True):
        profiles = list(map(ComposedProfile, accountants, profiles_of_case))
        curves.append(_curve_of_case(profiles, grid, delta, points, pairs_are_attained, has_many))
    upper = np.max([curve.upper for curve in curves], axis=0)
    lower = np.max([curve.lower for curve in curves], axis=0)
    return ProfileCurve(grid, upper, lower, delta)


def pure_epsilon(pipeline: Pipeline, group_size: int = 1) -> float:
    """Return an upper bound on every privacy loss in nats, which is the epsilon at delta = 0, or inf if no finite one is certified."""
    ((_, basic),) = sound_profiles(pipeline, ("basic",), group_size)
    try:
        return basic.epsilon(0.0).upper
    except NotRepresentable:
        return math.inf


def trade_off(curve: ProfileCurve, alphas: Sequence[float] | Array) -> Array:
    """Return lower bounds on the false negative rate of any attack at each false positive rate of `alphas`, which are in [0, 1].

    As a function of the false positive rate, the bound is convex, except for rounding.
    """
    return false_negatives(curve.epsilons, curve.upper, np.asarray(alphas, dtype=float))


class ComposedProfile(NamedTuple):
    """The privacy profile of a composition by one accountant."""

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


def _unbounded(epsilons: Array, delta: float = 0.0) -> ProfileCurve:
    """Return the trivial curve, whose bounds on delta are 0 and 1."""
    return ProfileCurve(epsilons, np.ones_like(epsilons), np.zeros_like(epsilons), delta)


def _curve_of_case(
    composed: Sequence[ComposedProfile],
    epsilons: Array,
    delta: float,
    points: Sequence[float],
    pairs_are_attained: bool,
    has_many: bool,
) -> ProfileCurve:
    """Return the curve of one case. Raises InternalError if accountants contradict each other.

    Two-sided accountants are run first, the cheapest first, until the bounds are narrow; if they never are, one-sided ones follow.

    composed: the profile of the case by each accountant.
    epsilons, delta, points: as for `profile`.
    pairs_are_attained: whether lower bounds for the dominating pairs are also lower bounds for the pipeline.
    has_many: whether there are too many mechanisms to handle each of them at every point.
    """
    by_name = {candidate.accountant.name: candidate for candidate in composed}
    wide_points = list(points)
    curve = _unbounded(epsilons, delta)
    if "basic" in by_name:  # the pure epsilon costs nearly no work, and no loss exceeds it
        curve.upper[epsilons >= by_name["basic"].epsilon(0.0)] = 0.0
    names = [name for name in TWO_SIDED if name in by_name]
    if "exact" in by_name and _sums_atoms(by_name["exact"].profile):
        names.remove("exact")
        names.append("exact")  # last, because its contour integrals take long for sums of atoms, and a grid is narrow enough
    for name in names:
        curve_of, candidate = TWO_SIDED[name], by_name[name]
        # The fallback accountant may always do the work of one question, whatever was spent before. The others leave RESERVED cells.
        least_cells = QUESTION if candidate.accountant.fallback else 0.0
        with allowance(CURVE_CELLS, least=least_cells, reserved=RESERVED):
            answer = replace(curve_of(candidate.profile, epsilons, delta), delta=delta)
        wide_points = [epsilon for epsilon in wide_points if not answer.is_narrow_at(epsilon, delta)]
        curve = curve.intersected(answer if pairs_are_attained else replace(answer, lower=np.zeros_like(epsilons)))
        # All accountants bound the same dominating pairs, so a narrow interval cannot be improved, whether or not data attain the pairs.
        if answer.is_narrow() or curve.is_narrow():
            break
    else:  # no interval was narrow
        one_sided = [candidate for name, candidate in by_name.items() if name not in TWO_SIDED]
        curve = curve.intersected(_from_pairs(one_sided, epsilons, delta, wide_points, has_many))
    # A point of the curve may imply a smaller delta at another epsilon than the accountants have there.
    return replace(curve, upper=np.minimum(curve.upper, delta_from_pairs(epsilons, curve.upper, epsilons)))


def _sums_atoms(profile: Any) -> bool:
    """Return whether a composition has several steps, and all of their privacy losses are *atoms*, that is, have countably many values.

    `decays` of a loss says whether its characteristic function decays, which it does not for atoms. A loss without this attribute counts as
    one that decays. Of a composition that fails with a known probability (`Failing`), the steps that do not fail are judged.
    """
    if isinstance(profile, Failing):
        return _sums_atoms(profile.rest)
    try:
        losses = [loss for mechanism, _ in profile.steps for loss in mechanism.losses()]
        return sum(count for _, count in profile.steps) > 1 and not any(getattr(loss, "decays", True) for loss in losses)
    except NotRepresentable:
        return False


def _one_by_one(profile: PrivacyProfile, epsilons: Array, delta: float) -> ProfileCurve:
    """Return the curve by evaluating the profile at one epsilon after the other. Its bounds are trivial where the profile refuses.

    delta: not used; the functions of TWO_SIDED have the same arguments.
    """
    curve = _unbounded(epsilons)
    for i, epsilon in enumerate(epsilons.tolist()):
        with suppress(NotRepresentable):
            bound = checked(profile.delta(epsilon))
            curve.upper[i], curve.lower[i] = min(bound.upper, 1.0), bound.lower or 0.0
    return curve


def _vectorised(bounds: Callable[[Any, Array, float], tuple[Array, Array]]) -> Callable[[Any, Array, float], ProfileCurve]:
    """Return a function that evaluates `bounds` at all epsilons together and returns its (lower, upper) bounds as a curve.

    `bounds` also takes the log of a delta below which its bounds need not be tight. The curve is the trivial one if it raises
    NotRepresentable. A composition may reveal everything with a known probability (`Failing`). Then `bounds` is evaluated for the
    composition of the steps when none fails, and the probability is added.
    """

    def curve(profile: PrivacyProfile, epsilons: Array, delta: float) -> ProfileCurve:
        if isinstance(profile, Failing):  # a sign of -1 rounds down, and 1 up
            rest = curve(profile.rest, epsilons, max(profile.delta_of_rest(delta, sign=-1), 0.0))
            upper = np.minimum(profile.with_failure(rest.upper, sign=1), 1.0)
            return ProfileCurve(epsilons, upper, profile.with_failure(rest.lower, sign=-1))
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
    """Return the curve that the (epsilon, delta) pairs of one-sided accountants imply. Its lower bounds are 0.

    delta: the delta of interest, at which the accountants are compared.
    points: epsilons at which pairs are added.
    """
    reference_delta = delta or USUAL_DELTA  # at delta = 0 only pure mechanisms have a finite epsilon
    competitive = _competitive(profiles, reference_delta)
    deltas = _deltas(reference_delta)
    pairs = [(candidate.epsilon(pair_delta), pair_delta) for candidate in competitive for pair_delta in deltas]
    for candidate in profiles:  # what is not competitive at the delta of interest may be the best one at an epsilon of 0
        if not (has_many and candidate.accountant.stepwise):
            pairs += [(epsilon, candidate.delta(epsilon)) for epsilon in points]
    pair_epsilons, pair_deltas = np.array(pairs).reshape(-1, 2).T
    is_finite = np.isfinite(pair_epsilons)
    upper = delta_from_pairs(pair_epsilons[is_finite], pair_deltas[is_finite], epsilons)
    return replace(_unbounded(epsilons), upper=upper)


def _competitive(profiles: Sequence[ComposedProfile], delta: float) -> list[ComposedProfile]:
    """Return the profiles whose epsilon at `delta` is finite and at most COMPETITIVE times the best one."""
    epsilons = {candidate: candidate.epsilon(delta) for candidate in profiles}
    limit = COMPETITIVE * min(epsilons.values(), default=math.inf)
    return [candidate for candidate, epsilon in epsilons.items() if epsilon <= limit and math.isfinite(epsilon)]


def _deltas(reference_delta: float) -> list[float]:
    """Return the deltas at which one-sided accountants are run: 0, the delta of interest, and a grid from below it to LAST_DELTA."""
    first = max(min(1e-3 * reference_delta, 1e-9), TINY)  # well below every delta at which a curve is read; arbitrary
    sparse = np.geomspace(first, FIRST_CLOSE_DELTA, SPARSE_DELTAS, endpoint=False)
    close = np.geomspace(FIRST_CLOSE_DELTA, LAST_DELTA, CLOSE_DELTAS)
    return [0.0, reference_delta, *sparse.tolist(), *close.tolist()]


def corner_points(curve: ProfileCurve) -> tuple[tuple[float, float], ...]:
    """Return the corners (false positive rate, false negative rate) of a trade-off curve, between which it is straight."""
    alphas = corners(zip(curve.epsilons.tolist(), curve.upper.tolist(), strict=True))
    return tuple(zip(alphas, trade_off(curve, alphas).tolist(), strict=True))
