"""Limits on the work of a computation, counted in cells.

A function that is about to compute an array announces its size with `spend`, and is refused before the array is made if the work that is
left does not suffice. One cell stands for one array element that goes through about ten elementary functions, which takes some fifty
nanoseconds. Work is counted and not measured, so that every machine answers and refuses the same questions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from dpcli.base.errors import NotRepresentable

# Speed and memory: these decide which questions are refused, and how much work may go into an interval. Every bound holds for any of them.
# The allowance of a question lies inside that of a command or of a search, which pays for its work.
QUESTION = 2e7  # cells for one question to one accountant
COMMAND = 7e7  # cells for all questions of one command; a fallback accountant (accountants/base.py) gets QUESTION in any case
SEARCH = 3e8  # cells for one search, which asks the same questions at many values of a parameter
# A heavy accountant is one whose work grows with the difficulty of the question (`Accountant.heavy` of accountants/base.py).
LEAST = 1.5e6  # cells that a question to an accountant that is not heavy may always cost, whatever earlier questions cost
RESERVED = 1.5e7  # cells of COMMAND that heavy accountants leave to the others
SHARE_EACH = 0.25  # share of the cells left that one of several accountants may use, so that the next ones have some too
CALL = 300.0  # cells that a call of array functions costs in addition, however short the arrays are
TABLE = 1 << 22  # cells of the largest table; it takes a few hundred MB of memory with its intermediate results

P = ParamSpec("P")
R = TypeVar("R")
# The cells that are left of the innermost allowance, in a list of one number that `spend` lowers; None outside of any allowance.
_left: ContextVar[list[float] | None] = ContextVar("left", default=None)
_cache_clears: list[Callable[[], None]] = []  # functions that empty the caches of `remembered` and `shared`


class TooMuchWork(NotRepresentable):
    """Raised if a number could be computed, but would take more work than is allowed."""


def spend(cells: float) -> None:
    """Count `cells`, which are about to be computed, and CALL for the call. Raises TooMuchWork if fewer are left."""
    left = _left.get()
    if left is not None:
        left[0] -= cells + CALL
        if left[0] < 0.0:
            raise TooMuchWork("it would take more work than one question may cost")


def foresee(cells: float) -> None:
    """Raise TooMuchWork if fewer than `cells` are left, without spending any. cells: a lower bound on the work that will be needed."""
    left = _left.get()
    if left is not None and cells > left[0]:
        raise TooMuchWork("it would take more work than one question may cost")


def remaining() -> float:
    """Return the number of cells that are left; inf outside of any allowance."""
    left = _left.get()
    return math.inf if left is None else max(left[0], 0.0)


def hold(cells: float) -> None:
    """Count the cells of a table that is held in memory at once. Raises TooMuchWork as `spend` does, and if the table exceeds TABLE."""
    if not cells <= TABLE:
        raise TooMuchWork(f"it would take a table of {cells:.2g} numbers, more than memory should hold")
    spend(cells)


@contextmanager
def allowance(cells: float, least: float = 0.0, reserved: float = 0.0, share: float = 1.0) -> Iterator[list[float]]:
    """Limit the work inside the context to `cells`, and yield a list of one number, the cells that are left.

    Inside another allowance the limit is also at most `share` of what is left there less `reserved`, but not less than `least`. The outer
    allowance pays for the work. It pays no more than the limit, even if the last work that was refused was larger.
    """
    outer = _left.get()
    start = cells if outer is None else min(cells, max(share * outer[0] - reserved, least))
    inner = [start]
    token = _left.set(inner)
    try:
        yield inner
    finally:
        _left.reset(token)
        if outer is not None:
            outer[0] = max(outer[0] - (start - max(inner[0], 0.0)), 0.0)


def remembered(maxsize: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that caches up to `maxsize` answers and charges the full work of an answer each time.

    Whether a question is refused must not depend on the questions before it. The cache is cleared before the next command, because the work
    of an answer does not include what it read from `shared` caches, for which the first reader in a command pays.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.lru_cache(maxsize)
        def answer_and_cost(*args: Any) -> tuple[R, float]:
            """Return the answer and the cells that it took, or 0 outside of any allowance."""
            with allowance(math.inf) as left:
                start = left[0]
                value = function(*args)
                return value, (start - left[0] if math.isfinite(start) else 0.0)

        @functools.wraps(function)
        def charge(*args: Any) -> R:
            hits = answer_and_cost.cache_info().hits
            value, cells = answer_and_cost(*args)
            if answer_and_cost.cache_info().hits > hits:  # a new answer was paid for as it was computed
                spend(cells)
            return value

        _cache_clears.append(answer_and_cost.cache_clear)
        return charge

    return decorate


def shared(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that caches up to `maxsize` values that several accountants read.

    The first reader in a command pays for a value. The cache is cleared before the next command, so that the answers of a command do not
    depend on the commands before it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = functools.lru_cache(maxsize)(function)
        _cache_clears.append(cached.cache_clear)
        return cached  # type: ignore[return-value]

    return decorate


def exhausted() -> bool:
    """Return whether fewer than LEAST cells are left. Outside of any allowance it is false."""
    left = _left.get()
    return left is not None and left[0] < LEAST


def limited_to(cells: float) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that limits all the work of one call to `cells`. An outermost call, a command, first clears the caches."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def limited_call(*args: P.args, **kwargs: P.kwargs) -> R:
            if _left.get() is None:
                for clear in _cache_clears:
                    clear()
            with allowance(cells):
                return function(*args, **kwargs)

        return limited_call

    return decorate


limited = limited_to(COMMAND)  # a decorator for functions that answer a command
