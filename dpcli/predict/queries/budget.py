"""So many answers of a fitted system and no more, counted durably before each is drawn.

The privacy of all of them is paid for beforehand: what is left here is to give no answer twice for one charge, none for nothing, and none
beyond the last. A crash between the count and the answer loses the answer, never the count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self


@dataclass(frozen=True, slots=True)
class Granted:
    """The answers that one request may draw: numbers `first` to `first + count - 1`, of `total`, which nobody else ever gets."""

    first: int
    count: int
    total: int


class QueryBudget(Protocol):
    """The count of one system's answers, shared by all processes that answer for it."""

    @property
    def total(self) -> int:
        """How many answers there are in all."""
        ...

    def taken(self) -> int:
        """How many have been granted up to now."""
        ...

    def take(self, count: int = 1) -> Granted:
        """Grant `count` answers together or none; returns when the count is durable, and only then may noise be drawn.

        Raises Denied where fewer are left (exit code 1), LedgerError where the store is locked, damaged or another system's.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...
