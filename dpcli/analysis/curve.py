"""The privacy profile at many epsilons at once, from above and where certified from below; where trade-off curves bend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from dpcli.accountants.base import Accountant, PrivacyProfile, checked, implied_delta
from dpcli.accountants.many import on_contours, on_grids
from dpcli.analysis.account import attained, sound_profiles
from dpcli.base.errors import InputError, InternalError, NotRepresentable
from dpcli.file.pipeline.model import Pipeline
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.trade_off import delta_from_pairs, false_negatives
from dpcli.numerics.work import KEPT, QUESTION, allowance, limited

Asked = tuple[Accountant, PrivacyProfile]

CLOSE = 5e-2  # relative width of a certificate that needs no other accountant
NARROW = 1e-3  # relative width of an interval at a point that needs no other accountant: what the grid aims at
NEGLIGIBLE = 1e-4  # of the delta of interest: below that, any upper bound will do
MANY = 64  # mechanisms, beyond which accountants that ask each of them are asked at fewer points
FAR = 1.25  # accountants whose epsilon is this many times the best one's are not asked for a whole curve
CURVE = 3.0 * QUESTION  # cells for a whole curve
DELTAS = (6, 1e-3, 12, 0.9)  # how many from the smallest to what, and from there on more closely to where


@dataclass(frozen=True, slots=True, eq=False)
class ProfileCurve:
    """delta at increasing `epsilons` (nats): `upper` bounds, and `lower` bounds, 0 where nothing is certified.

    delta: the one of interest, next to which much smaller ones do not matter.
    """

    epsilons: Array
    upper: Array
    lower: Array
    delta: float = 0.0

    def at(self, epsilon: float) -> float:
        """An upper bound on delta at any epsilon >= 0: the pairs of the curve, each with what it implies elsewhere."""
        return float(delta_from_pairs(self.epsilons, self.upper, np.array([epsilon]))[0])

    @property
    def close(self) -> bool:
        """Return whether the two bounds nearly meet wherever it matters."""
        return bool(np.all(self.upper - self.lower <= CLOSE * self.upper + max(NEGLIGIBLE * self.delta, 1e-300)))


@limited
def profile(
    pipeline: Pipeline,
    epsilons: Sequence[float] | Array,
    group_size: int = 1,
    delta: float = 1e-6,
    points: Sequence[float] = (),
) -> ProfileCurve:
    """delta(epsilon) of a pipeline, from the sound accountants.

    Args:
        epsilons: increasing, finite, >= 0, in nats.
        group_size: units of privacy that change together.
        delta: where accountants are compared before the slow ones are asked for more; the one that the file states, say.
        points: of the epsilons, those at which delta is read off as a number: where no interval is narrow there, others are asked as
            `account` asks them.

    Returns:
        Upper bounds on delta, and certified lower bounds: those that bound from both sides are asked at each epsilon; where they leave a
        gap, so are the others, at a few deltas, and what those pairs imply in between is an upper bound too.

    Raises:
        InputError: epsilons out of range, or a pipeline that makes no sense.
    """
    at = np.asarray(epsilons, dtype=float)
    if at.ndim != 1 or not len(at) or not np.all((at >= 0.0) & (at < math.inf)) or np.any(np.diff(at) < 0.0):
        raise InputError(f"expected finite epsilons >= 0 in increasing order, found {at.tolist()!r:.80}")
    chosen = sound_profiles(pipeline, group_size=group_size)
    certain, many = attained(pipeline, group_size), len(pipeline.mechanisms) > MANY
    accountants = [accountant for accountant, _ in chosen]
    cases = zip(*(profile.cases() for _, profile in chosen), strict=True)
    curves = [_curve(list(zip(accountants, case, strict=True)), at, delta, points, certain, many) for case in cases]
    upper, lower = np.max([curve.upper for curve in curves], axis=0), np.max([curve.lower for curve in curves], axis=0)
    return ProfileCurve(at, upper, lower, delta)


def _curve(chosen: Sequence[Asked], at: Array, delta: float, points: Sequence[float], certain: bool, many: bool) -> ProfileCurve:
    """Return the curve of one composition. certain: whether lower bounds on its dominating pairs are lower bounds on the pipeline.
    many: whether its steps are too many to ask each of them again and again."""
    result = {accountant.name: (accountant, profile) for accountant, profile in chosen}
    wide = list(points)
    curve = ProfileCurve(at, np.ones_like(at), np.zeros_like(at), delta)
    for name, ask in TWO_SIDED.items():
        if name in result and not curve.close:
            with allowance(CURVE, 0.0, KEPT):
                answer = ask(result[name][1], at, delta)
            wide = [x for x in wide if not _narrow(answer, x, delta)]
            curve = _both(curve, answer if certain else replace(answer, lower=np.zeros_like(at)))
    rest = [one for name, one in result.items() if name not in TWO_SIDED]
    found_all = curve if curve.close else _both(curve, _from_pairs(rest, at, delta, wide, many))
    return replace(found_all, upper=np.minimum(found_all.upper, delta_from_pairs(at, found_all.upper, at)))


def pure_epsilon(pipeline: Pipeline, group_size: int = 1) -> float:
    """Return the epsilon that no loss exceeds, where a trade-off curve bends; inf where there is none."""
    ((_, profile),) = sound_profiles(pipeline, ("basic",), group_size)
    try:
        return profile.epsilon(0.0).upper
    except NotRepresentable:
        return math.inf


def trade_off(curve: ProfileCurve, alphas: Sequence[float] | Array) -> Array:
    """The lowest false negative rate of any attack at false positive rates `alphas` in [0, 1]: a lower bound, convex in alpha."""
    return false_negatives(curve.epsilons, curve.upper, np.asarray(alphas, dtype=float))


def _both(a: ProfileCurve, b: ProfileCurve) -> ProfileCurve:
    """The better of two bounds on each side; two that exclude each other are a bug, and no number."""
    upper, lower = np.minimum(a.upper, b.upper), np.maximum(a.lower, b.lower)
    if not np.all(lower <= upper * (1.0 + 1e-9) + 1e-300):
        raise InternalError("accountants contradict each other on delta(epsilon): this is a bug in dpcli, and no number")
    return ProfileCurve(a.epsilons, upper, np.minimum(lower, upper), a.delta)


def _one_by_one(profile: PrivacyProfile, epsilons: Array, delta: float) -> ProfileCurve:
    """Each epsilon on its own; 1 where the accountant does not apply."""
    upper, lower = np.ones_like(epsilons), np.zeros_like(epsilons)
    for i, epsilon in enumerate(epsilons.tolist()):
        with suppress(NotRepresentable):
            bound = checked(profile.delta(epsilon))
            upper[i], lower[i] = min(bound.upper, 1.0), bound.lower or 0.0
    return ProfileCurve(epsilons, upper, lower)


def _as_curve(ask: Callable[[Any, Array, float], tuple[Array, Array]]) -> Callable[[Any, Array, float], ProfileCurve]:
    """A function for many epsilons as one that returns a curve, which says nothing where the accountant does not apply."""

    def curve(profile: PrivacyProfile, epsilons: Array, delta: float) -> ProfileCurve:
        log_floor = math.log(NEGLIGIBLE * delta) if delta > 0.0 else -math.inf
        with suppress(NotRepresentable):
            lower, upper = ask(profile, epsilons, log_floor)
            return ProfileCurve(epsilons, upper, lower)
        return ProfileCurve(epsilons, np.ones_like(epsilons), np.zeros_like(epsilons))

    return curve


def _narrow(curve: ProfileCurve, epsilon: float, delta: float) -> bool:
    """Return whether the two bounds meet at one of its epsilons, or what is left is negligible at the delta of interest."""
    i = int(np.searchsorted(curve.epsilons, epsilon))
    return bool(curve.upper[i] - curve.lower[i] <= NARROW * curve.upper[i] + NEGLIGIBLE * delta)


def _from_pairs(profiles: Sequence[Asked], epsilons: Array, delta: float, points: Sequence[float], stepwise: bool) -> ProfileCurve:
    """Return the bound that the (epsilon, delta) pairs of one-sided accountants imply; one far behind at `delta` is asked no further.

    points: those at which one pair more is made, as `account` makes it. stepwise: whether accountants that ask each step are left out
    there, as steps are many.
    """
    compared = delta or 1e-6  # at delta = 0 only pure mechanisms would be left
    best = {one: _epsilon(one, compared) for one in profiles}
    near = [one for one, value in best.items() if value <= FAR * min(best.values(), default=math.inf) and math.isfinite(value)]
    few, middle, many, last = DELTAS
    low = np.geomspace(max(min(1e-3 * compared, 1e-9), 1e-300), middle, few, endpoint=False)
    deltas = [0.0, compared, *low.tolist(), *np.geomspace(middle, last, many).tolist()]
    listed = [(_epsilon(one, d), d) for one in near for d in deltas] + [
        (x, _delta(one, x)) for one in near if not (stepwise and one[0].stepwise) for x in points
    ]
    pairs = np.array(listed or [(math.inf, 1.0)])
    finite = pairs[np.isfinite(pairs[:, 0])]
    return ProfileCurve(epsilons, delta_from_pairs(finite[:, 0], finite[:, 1], epsilons), np.zeros_like(epsilons))


def _epsilon(one: Asked, delta: float) -> float:
    accountant, profile = one
    try:
        with accountant.within_allowance():
            return checked(profile.epsilon(delta)).upper
    except NotRepresentable:
        return math.inf


def _delta(one: Asked, epsilon: float) -> float:
    accountant, profile = one
    try:
        with accountant.within_allowance():
            return min(checked(implied_delta(profile, epsilon)).upper, 1.0)
    except NotRepresentable:
        return 1.0


# Those that bound from below too, the cheapest first.
TWO_SIDED: dict[str, Callable[[Any, Array, float], ProfileCurve]] = {
    "analytic": _one_by_one,
    "exact": _as_curve(on_contours),
    "pld": _as_curve(on_grids),
}


Straight = tuple[float, float]  # fall per unit of the false positive rate, height where that rate is 0

LARGEST = 700.0  # e^epsilon is a number up to there; a larger epsilon bends the curve within less than any picture shows


def corners(pairs: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """The false positive rates, 0 and 1 among them, at which the curve of these (epsilon, delta) pairs bends.

    Each pair bounds the false negative rate by max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)); several do so by the largest,
    which is convex and piecewise linear. Drawn through its corners it is itself; through other points it would lie above itself.
    """
    heights: dict[float, float] = {0.0: 0.0}
    for epsilon, delta in pairs:
        if epsilon <= LARGEST:
            for fall, height in ((math.exp(epsilon), 1.0 - delta), (math.exp(-epsilon), math.exp(-epsilon) * (1.0 - delta))):
                heights[fall] = max(heights.get(fall, 0.0), height)
    highest = _highest(sorted(heights.items(), reverse=True))
    bends = (_meet(left, right) for left, right in pairwise(highest))
    return (0.0, *sorted({x for x in bends if 0.0 < x < 1.0}), 1.0)


def _highest(lines: list[Straight]) -> list[Straight]:
    """Return the lines that are the highest somewhere, in order of steepness."""
    kept: list[Straight] = []
    for line in lines:
        while kept and (line[1] >= kept[-1][1] or (len(kept) > 1 and _meet(kept[-2], line) <= _meet(kept[-2], kept[-1]))):
            kept.pop()
        kept.append(line)
    return kept


def _meet(left: Straight, right: Straight) -> float:
    """Return where two lines cross."""
    return (left[1] - right[1]) / (left[0] - right[0])
