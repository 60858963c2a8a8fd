"""Limits on the work of a computation: whoever is about to make a table announces its size, and is refused before it is made.

One cell is one element of an array that goes through about ten elementary functions: some fifty nanoseconds. The numbers are counted,
not measured, so that the same question is answered or refused on every machine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from dpcli.base.errors import NotRepresentable

QUESTION = 2e7  # cells for one question to one accountant
COMMAND = 7e7  # cells for all that one command asks, but for an accountant that is a fallback (accountants/base.py)
SEARCH = 3e8  # cells for a search, which asks the same questions at many values
LEAST = 1.5e6  # cells for a question to an accountant that others fall back on, however much has been spent before
KEPT = 1.5e7  # of COMMAND: cells that are left to those
BESIDE = 0.25  # of what is left: cells for one of those where more are asked, so that none leaves the next ones without
CALL = 300.0  # cells that a call of array functions costs, however short the arrays
TABLE = 1 << 22  # cells that are held at a time: a few hundred MB with what is made on the way

P = ParamSpec("P")
R = TypeVar("R")
_left: ContextVar[list[float] | None] = ContextVar("left", default=None)
_forget: list[Callable[[], None]] = []


class TooMuchWork(NotRepresentable):
    """Raised where a number could be computed, but would take more work than is allowed."""


def spend(cells: float) -> None:
    """Say that so many cells are about to be computed. Raises NotRepresentable where they are more than what is left."""
    left = _left.get()
    if left is not None:
        left[0] -= cells + CALL
        if left[0] < 0.0:
            raise TooMuchWork("it would take more than the work that one question may cost")


def foresee(cells: float) -> None:
    """Raise NotRepresentable where at least so many cells will be needed and fewer are left; none is spent."""
    left = _left.get()
    if left is not None and cells > left[0]:
        raise TooMuchWork("it would take more than the work that one question may cost")


def remaining() -> float:
    """Cells that are left; inf where nobody counts."""
    left = _left.get()
    return math.inf if left is None else max(left[0], 0.0)


def hold(cells: float) -> None:
    """`spend`, for a table that is held whole. Raises NotRepresentable where it is larger than TABLE too."""
    if not cells <= TABLE:
        raise TooMuchWork(f"it would take a table of {cells:.2g} numbers, more than memory should hold")
    spend(cells)


@contextmanager
def allowance(cells: float, least: float = 0.0, kept: float = 0.0, share: float = 1.0) -> Iterator[list[float]]:
    """At most so many cells inside, and no more than that share of what is left around it, less `kept`; or `least` if that is more."""
    outer = _left.get()
    start = cells if outer is None else min(cells, max(share * outer[0] - kept, least))
    mine = [start]
    token = _left.set(mine)
    try:
        yield mine
    finally:
        _left.reset(token)
        if outer is not None:
            outer[0] = max(outer[0] - (start - max(mine[0], 0.0)), 0.0)


def remembered(maxsize: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A cache whose answers are charged again each time: what is refused must not depend on what was asked before.

    Forgotten before the next command: what an answer reads of `shared` caches was charged to whoever read it first.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.lru_cache(maxsize)
        def costed(*args: Any) -> tuple[R, float]:
            with allowance(math.inf) as left:
                start = left[0]
                value = function(*args)
                return value, (start - left[0] if math.isfinite(start) else 0.0)

        @functools.wraps(function)
        def within(*args: Any) -> R:
            hits = costed.cache_info().hits
            value, cells = costed(*args)
            if costed.cache_info().hits > hits:
                spend(cells)
            return value

        _forget.append(costed.cache_clear)
        return within

    return decorate


def shared(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A cache of what several accountants read, charged once in each command and forgotten before the next: a question is answered alike
    whatever was asked before it."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = functools.lru_cache(maxsize)(function)
        _forget.append(cached.cache_clear)
        return cached  # type: ignore[return-value]

    return decorate


def exhausted() -> bool:
    """Return whether next to nothing is left."""
    left = _left.get()
    return left is not None and left[0] < LEAST


def limited_to(cells: float) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: what the function may cost for all that it asks."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> R:
            if _left.get() is None:
                for forget in _forget:
                    forget()
            with allowance(cells):
                return function(*args, **kwargs)

        return within

    return decorate


limited = limited_to(COMMAND)
