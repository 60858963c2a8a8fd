"""A composition as the losses of its parts, once per direction of the neighbouring relation."""

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
    """Composed groups taken apart."""
    if isinstance(mechanism, Composed):
        return tuple(piece for part, n in mechanism.parts for piece in parts_of(part, n * count))
    return ((mechanism, count),)


def directions(steps: Steps) -> tuple[Losses, ...]:
    """The composition's losses, "remove" first; one direction where both are equal. Steps that cost nothing are left out.

    Those that have a Renyi curve and no pair are one loss, by the best pair of the sum of their curves, where others have pairs. Raises
    NotRepresentable where none has.
    """
    parts = merged(tuple(part for mechanism, count in steps for part in parts_of(mechanism, count)))
    parts = tuple(part for part in parts if part[0] != Free()) or parts[:1]
    sides: list[tuple[tuple[PrivacyLoss, ...], int]] = []
    bare: list[tuple[Mechanism, int]] = []
    for mechanism, count in parts:
        try:
            sides.extend(mechanism.together(count))
        except NotRepresentable:
            if mechanism.attained():  # a bound in its place would be taken for what is attained
                raise
            bare.append((mechanism, count))
    if bare:
        from dpcli.mechanisms.stated.renyi import RenyiPairLoss

        unknown = tuple(bare)
        views(unknown, (lambda part: part.rdp(np.array([2.0]))) if sides else (lambda part: part.losses()))
        sides.append(((RenyiPairLoss(unknown),), 1))
    number = max(len(losses) for losses, _ in sides)
    return tuple(tuple((losses[min(side, len(losses) - 1)], n) for losses, n in sides) for side in range(number))


def each_way(steps: Steps) -> tuple[Steps, ...]:
    """Compositions that each dominate this one: itself, but for mechanisms that are dominated in several ways."""
    parts = tuple(part for mechanism, count in steps for part in parts_of(mechanism, count))
    number = max((len(mechanism.ways()) for mechanism, _ in parts), default=1)
    if number == 1:
        return (steps,)
    return tuple(
        tuple((ways[min(way, len(ways) - 1)], count) for ways, count in ((mechanism.ways(), count) for mechanism, count in parts))
        for way in range(number)
    )


def least(bound_of: Callable[[Steps], Bound], steps: Steps) -> Bound:
    """The smallest of the bounds by each way, with a lower end that holds for each. Raises NotRepresentable with the first one's reason
    where none answers."""
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
