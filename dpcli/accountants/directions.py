"""A composition as the losses of its parts, once per direction of the neighbouring relation."""

from __future__ import annotations

from dpcli.accountants.base import Steps, merged, views
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.stated.post_processing import Free

Losses = tuple[tuple[PrivacyLoss, int], ...]


def parts_of(mechanism: Mechanism, count: int) -> Steps:
    """Composed groups taken apart."""
    if isinstance(mechanism, Composed):
        return tuple(found for part, n in mechanism.parts for found in parts_of(part, n * count))
    return ((mechanism, count),)


def directions(steps: Steps) -> tuple[Losses, ...]:
    """The composition's losses, "remove" first; one direction where both are equal. Steps that cost nothing are left out."""
    parts = merged(tuple(part for mechanism, count in steps for part in parts_of(mechanism, count)))
    parts = tuple(part for part in parts if part[0] != Free()) or parts[:1]
    counts = dict(parts)
    sides = [side for found in views(parts, lambda part: part.together(counts[part])) for side in found]
    number = max(len(losses) for losses, _ in sides)
    return tuple(tuple((losses[min(side, len(losses) - 1)], n) for losses, n in sides) for side in range(number))
