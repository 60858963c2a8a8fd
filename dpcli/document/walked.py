"""Rows that are too many to hold: each walk over them reads them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

Item = TypeVar("Item", covariant=True)


class Walked(Sequence[Item]):
    """So many things, of which every walk begins a new reading. One by its number costs the walk up to it."""

    def __init__(self, count: int, walk: Callable[[], Iterator[Item]]) -> None:
        self._count, self._walk = count, walk

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return self._walk()

    @overload
    def __getitem__(self, at: int) -> Item: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...

    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        wanted = range(self._count)[at]
        if isinstance(wanted, range):
            return [self[i] for i in wanted]
        return next(islice(self._walk(), wanted, None))
