"""What every picture asks: the smallest certified epsilon of a pipeline, at many values of something."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from dpcli.accountants.base import Bound, checked
from dpcli.analysis.account import Account, account, attained, sound_profiles
from dpcli.analysis.rows import AccountRow
from dpcli.base.errors import CannotCertify, InternalError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.file.pipeline.model import Pipeline

NARROW = 2e-3  # certified bounds this close (relative): no accountant can say much less, and the others need not be asked
MOST = 3  # reasons that an error names

Progress = Callable[[int, int], None]


def quiet(done: int, total: int) -> None:
    """No progress."""


@dataclass(frozen=True, slots=True)
class Question:
    """A pipeline, and how it is to be accounted.

    accountants: a line for each of these; for all of them together where there are none.
    delta: the file's where None. mechanism: the one that is varied, where several could be.
    """

    pipeline: Pipeline
    accountants: tuple[str, ...] = ()
    delta: float | None = None
    group_size: int = 1
    mechanism: str | None = None
    progress: Progress = quiet

    def headline(self) -> Account:
        """The pipeline as it stands.

        Raises CannotCertify where no finite epsilon can be given, or where an accountant that was named has none: none is left out
        without a word.
        """
        found = account(self.pipeline, self.accountants or None, self.delta, group_size=self.group_size)
        if found.winner is None and not any(row.bound is not None for row in found.rows):
            reasons = [reason for reason in dict.fromkeys(row.reason for row in found.rows) if reason]
            some = "; ".join(reasons[:MOST]) + ("; ..." if len(reasons) > MOST else "")
            raise CannotCertify(f"nothing to draw: no finite epsilon at delta = {found.delta!r} ({some})")
        if self.accountants and (silent := [row for row in found.rows if row.bound is None]):
            reasons = [f"{row.accountant.name}: {row.reason or 'it says nothing here'}" for row in silent]
            raise CannotCertify(f"cannot draw what was asked for: {'; '.join(reasons)}")
        return found

    def groups(self, rows: Sequence[AccountRow]) -> tuple[tuple[str, ...], ...]:
        """The accountants of each line: one each where they were named, else all the sound ones, the most promising first."""
        if self.accountants:
            return tuple((name,) for name in dict.fromkeys(self.accountants))
        return (tuple(row.accountant.name for row in sorted(rows, key=_promise) if row.accountant.sound),)

    def each(self, values: Sequence[float]) -> Iterator[float]:
        """The values, with progress reported."""
        for done, value in enumerate(values):
            self.progress(done, len(values))
            yield value
        self.progress(len(values), len(values))


@dataclass(frozen=True, slots=True)
class Epsilon:
    """epsilon in [lower, upper] nats, `lower` None where none is certified, by the accountant with the smallest upper bound."""

    upper: float
    lower: float | None
    accountant: str


def smallest(pipeline: Pipeline, names: Sequence[str], delta: float, group_size: int = 1) -> Epsilon | None:
    """The smallest upper bound of the accountants asked in order, until one certifies both sides closely; None where none applies."""
    best: Epsilon | None = None
    lowest = 0.0
    for name, bound in _bounds(pipeline, names, delta, group_size):
        lowest = max(lowest, bound.lower or 0.0)
        if best is None or bound.upper < best.upper:
            best = Epsilon(bound.upper, None, name)
        if bound.lower is not None and bound.upper - bound.lower <= NARROW * bound.upper:
            break
    if best is None:
        return None
    if lowest > best.upper * (1.0 + 1e-9):
        raise InternalError(f"accountants contradict each other: at least {lowest!r} and at most {best.upper!r}: no picture")
    return replace(best, lower=min(lowest, best.upper) if lowest > 0.0 else None)


def _bounds(pipeline: Pipeline, names: Sequence[str], delta: float, group_size: int) -> Iterator[tuple[str, Bound]]:
    """What the accountants say, where they say something finite; computed as it is asked for, and quickly."""
    profiles, certain = sound_profiles(pipeline, names, group_size), attained(pipeline, group_size)
    for accountant, profile in profiles:
        with suppress(NotRepresentable), accountant.within_allowance():
            bound = checked(profile.epsilon(delta))
            if math.isfinite(bound.upper):
                yield accountant.name, bound if certain else replace(bound, lower=None)
    if not profiles:  # approximations, which are drawn where they are asked for by name
        for row in account(replace(pipeline, budget=None), names, delta, group_size=group_size).rows:
            if row.bound is not None:
                yield row.accountant.name, row.bound


def _promise(row: AccountRow) -> tuple[int, float]:
    """Certified on both sides first, then by the bound; those that say nothing here may still do so elsewhere."""
    order = list(ACCOUNTANTS).index(row.accountant.name)
    if row.bound is None:
        return 2, order
    return (1, row.bound.upper) if row.bound.lower is None else (0, row.bound.upper)
