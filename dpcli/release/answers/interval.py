"""Intervals of answers, and the search for the ends of a set of values that a test accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

HALVINGS = 200
CLOSE = 1e-4  # of the distance from the start: how much further out an end may be
LOOKS = 16  # between an end that was found and the end of the range


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """low <= truth <= high with probability at least `confidence`, over the noise alone.

    The truth is the exact answer that the noise was added to: of rows that were clamped, and of those that were kept. What clamping and
    dropped rows have changed is not covered.
    """

    low: float
    high: float
    confidence: float


def accepted(accepts: Callable[[float], bool], start: float, low: float, high: float) -> tuple[float, float]:
    """Ends of an interval within [low, high] that holds the values which a test accepts, seen from one that it should accept.

    Each end is rounded outwards. An end of the range that is accepted stays; so do both where `start` is not accepted, for then nothing is
    known of where the others lie, and one beyond which LOOKS values are not all refused.
    """
    if not accepts(start):
        return low, high
    return _end(accepts, start, low), _end(accepts, start, high)


def _end(accepts: Callable[[float], bool], start: float, limit: float) -> float:
    if accepts(limit):
        return limit
    inside, outside = start, limit
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        if abs(outside - inside) <= CLOSE * abs(inside - start) or middle in (inside, outside):
            break
        inside, outside = (middle, outside) if accepts(middle) else (inside, middle)
    looks = (outside + (limit - outside) * step / LOOKS for step in range(1, LOOKS))
    return limit if any(accepts(look) for look in looks) else outside
