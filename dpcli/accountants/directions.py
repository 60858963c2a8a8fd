"""The privacy losses of a composition's parts, in each direction of the neighbouring relation."""

from __future__ import annotations

from collections.abc import Callable

from dpcli.accountants.base import Bound, Steps, merged, views
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import np

Losses = tuple[tuple[PrivacyLoss, int], ...]


def parts_of(mechanism: Mechanism, count: int) -> Steps:
    """Return the steps that `count` runs of a mechanism consist of. A composed group is replaced by its parts."""
    if isinstance(mechanism, Composed):
        return tuple(piece for part, n in mechanism.parts for piece in parts_of(part, n * count))
    return ((mechanism, count),)


def directions(steps: Steps) -> tuple[Losses, ...]:
    """Return the composition's losses in each direction, "remove" first, or in one direction if both have the same losses.

    Steps that cost nothing are left out. Steps with a Renyi curve but without a dominating pair become one loss, that of the best pair for
    the sum of their curves.

    Raises NotRepresentable if no step has a pair, if a step has neither a pair nor a curve, or if a step that attains its pair has no
    computable losses.
    """
    parts = merged(tuple(part for mechanism, count in steps for part in parts_of(mechanism, count)))
    parts = tuple(part for part in parts if part[0] != Free()) or parts[:1]
    sides: list[tuple[tuple[PrivacyLoss, ...], int]] = []
    without_pair: list[tuple[Mechanism, int]] = []
    for mechanism, count in parts:
        try:
            sides.extend(mechanism.together(count))
        except NotRepresentable:
            if mechanism.attained():  # a lower bound for a substitute pair would be taken for one on the mechanism
                raise
            without_pair.append((mechanism, count))
    if without_pair:
        from dpcli.mechanisms.stated.renyi import RenyiPairLoss

        unpaired = tuple(without_pair)
        views(unpaired, (lambda part: part.rdp(np.array([2.0]))) if sides else (lambda part: part.losses()))
        sides.append(((RenyiPairLoss(unpaired),), 1))
    number = max(len(losses) for losses, _ in sides)
    return tuple(tuple((losses[min(side, len(losses) - 1)], n) for losses, n in sides) for side in range(number))


def each_way(steps: Steps) -> tuple[Steps, ...]:
    """Return compositions that each dominate this one. They differ in the mechanisms that are dominated in several ways.

    A mechanism with fewer ways than another one keeps its last way in the remaining compositions.
    """
    parts = tuple(part for mechanism, count in steps for part in parts_of(mechanism, count))
    number = max((len(mechanism.ways()) for mechanism, _ in parts), default=1)
    if number == 1:
        return (steps,)
    ways_of_parts = [(mechanism.ways(), count) for mechanism, count in parts]
    return tuple(tuple((ways[min(way, len(ways) - 1)], count) for ways, count in ways_of_parts) for way in range(number))


def least(bound_of: Callable[[Steps], Bound], steps: Steps) -> Bound:
    """Return the smallest of the bounds that `bound_of` gives for the dominating compositions of `each_way`.

    Each lower bound holds for one of these compositions only. So the smallest of them is a lower bound on the smallest epsilon, and there
    is none if one of them is unknown. If all are refused, raises NotRepresentable with the first reason.
    """
    compositions = each_way(steps)
    if len(compositions) == 1:
        return bound_of(steps)
    bounds: list[Bound] = []
    reason: NotRepresentable | None = None
    for way in compositions:
        try:
            bounds.append(bound_of(way))
        except NotRepresentable as error:
            reason = reason or error
    if not bounds and reason is not None:
        raise reason
    best = min(bounds, key=lambda bound: bound.upper)
    lowers = [bound.lower for bound in bounds if bound.lower is not None]
    return Bound(best.upper, min(lowers) if len(lowers) == len(compositions) else None, best.detail)
