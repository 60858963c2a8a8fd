"""What a dataset may be cut into: days, weeks, listed parts, parts by a hash of the unit. A block has one spelling, as a budget has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import ClassVar, Literal, Protocol

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.plugin import BLOCKS

ColumnType = Literal["date", "text"]
Part = Literal["value", "week"]
PARTS: tuple[Part, ...] = ("value", "week")

# What every ledger of blocks rests on, beside its filter.
PREMISES: Premises = (
    Premise(
        "The block of a record depends on that record alone.",
        "train, release, pate, pmixed, prompt and generate, where the ledger names a column; elsewhere whoever states the window",
        "tests/premises/test_blocks.py::test_blocks_by_rank_move_as_a_whole",
    ),
    Premise(
        "No unit has records in more blocks than max_blocks says.",
        "who opens the ledger",
        "tests/premises/test_blocks.py::test_a_unit_in_one_block_more_loses_more_than_the_cap",
    ),
    Premise(
        "Under zero-out a blank adds nothing to a part or a block that it enters.",
        "account, lint and the ledger, which refuse what may add something",
        "tests/accountants/test_partitions.py::test_under_zero_out_a_blank_must_add_nothing",
    ),
    Premise(
        "A run reads no block outside of its window.",
        "train, release, pate, pmixed, prompt and generate, where the ledger names a column; elsewhere whoever states the window",
        "tests/premises/test_blocks.py::test_a_block_outside_of_the_window_is_read_for_nothing",
    ),
)


class BlockKind(Protocol):
    """One way to cut.

    needs: the term that says which blocks there are, "" where the calendar does. within: whether a unit's records all lie in one.
    ordered: whether one block follows another.
    """

    @property
    def needs(self) -> str: ...

    @property
    def within(self) -> bool: ...

    @property
    def premises(self) -> Premises:
        """What must be true for the numbers of its blocks to hold."""
        ...

    @property
    def ordered(self) -> bool: ...

    @property
    def weekly(self) -> bool:
        """Whether a week of blocks fills a line."""
        ...

    @property
    def listed(self) -> Sequence[str]:
        """All blocks, in order; none where the calendar has no end."""
        ...

    @property
    def word(self) -> str:
        """A block as messages call it."""
        ...

    @property
    def told_by(self) -> ColumnType | None:
        """What the column holds from which a record's block follows; None where dpcli cannot tell the block from a column."""
        ...

    @property
    def shared(self) -> Part:
        """What of that column's values is the same for all records of a block, and another in every other block."""
        ...

    def extent(self, name: str) -> tuple[str, str]:
        """The least and the largest value of that column in a block: dates as 2026-01-31, or the text itself."""
        ...

    def holds(self, name: str) -> bool:
        """Whether it is a block, in its one spelling."""
        ...

    def rank(self, name: str) -> int:
        """The place of a block; where they are ordered, the next one's is one more."""
        ...

    def between(self, first: str, last: str) -> Sequence[str]:
        """All blocks from the first to the last, both included. Raises InputError where they have no order."""
        ...

    def of_day(self, day: date) -> str | None:
        """The block that a day lies in, None where they are not of the calendar."""
        ...

    def first_day(self, name: str) -> date | None:
        """The first day of a block, None where they are not of the calendar."""
        ...


def kind_named(by: str, names: Sequence[str], count: int | None) -> BlockKind:
    """The kind of an opening entry. Raises InputError for one that is not known."""
    if by not in BLOCKS:
        raise InputError(f"--blocks: expected one of {', '.join(BLOCKS)}, found {by[:60]!r}")
    found: BlockKind = load(BLOCKS[by])(tuple(names), count)
    return found


def known_kinds() -> Mapping[str, str]:
    """By name, the term that each needs."""
    return {by: load(target).needs for by, target in BLOCKS.items()}


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the calendar: 2026-01-31."""

    names: tuple[str, ...] = ()
    count: int | None = None
    premises: ClassVar[Premises] = PREMISES
    needs: ClassVar[str] = ""
    within: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    listed: ClassVar[Sequence[str]] = ()
    weekly: ClassVar[bool] = True
    word: ClassVar[str] = "a day as 2026-01-31"
    told_by: ClassVar[ColumnType] = "date"
    shared: ClassVar[Part] = "value"

    def extent(self, name: str) -> tuple[str, str]:
        return name, name

    def holds(self, name: str) -> bool:
        return bool(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", name)) and _day(name) is not None

    def rank(self, name: str) -> int:
        return date.fromisoformat(name).toordinal()

    def between(self, first: str, last: str) -> Sequence[str]:
        begin, end = date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal()
        return [date.fromordinal(day).isoformat() for day in range(begin, end + 1)]

    def of_day(self, day: date) -> str | None:
        return day.isoformat()

    def first_day(self, name: str) -> date | None:
        return date.fromisoformat(name)


@dataclass(frozen=True, slots=True)
class Weeks:
    """Weeks from Monday to Sunday by ISO 8601: 2026-W05."""

    names: tuple[str, ...] = ()
    count: int | None = None
    premises: ClassVar[Premises] = PREMISES
    needs: ClassVar[str] = ""
    within: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    listed: ClassVar[Sequence[str]] = ()
    weekly: ClassVar[bool] = False
    word: ClassVar[str] = "a week as 2026-W05"
    told_by: ClassVar[ColumnType] = "date"
    shared: ClassVar[Part] = "week"

    def extent(self, name: str) -> tuple[str, str]:
        monday = date.fromisoformat(f"{name}-1").toordinal()
        return date.fromordinal(monday).isoformat(), date.fromordinal(min(monday + 6, date.max.toordinal())).isoformat()

    def holds(self, name: str) -> bool:
        return bool(re.fullmatch("[0-9]{4}-W[0-9]{2}", name)) and _day(f"{name}-1") is not None

    def rank(self, name: str) -> int:
        return date.fromisoformat(f"{name}-1").toordinal() // 7

    def between(self, first: str, last: str) -> Sequence[str]:
        begin, end = date.fromisoformat(f"{first}-1"), date.fromisoformat(f"{last}-1")
        return [week_of(begin + timedelta(7 * i)) for i in range((end - begin).days // 7 + 1)]

    def of_day(self, day: date) -> str | None:
        return week_of(day)

    def first_day(self, name: str) -> date | None:
        return date.fromisoformat(f"{name}-1")


@dataclass(frozen=True, slots=True)
class Regions:
    """Parts that are listed at the opening: what is under a name that was not listed may be data under a second name."""

    names: tuple[str, ...]
    count: int | None = None
    premises: ClassVar[Premises] = PREMISES
    needs: ClassVar[str] = "names"
    within: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    weekly: ClassVar[bool] = False
    word: ClassVar[str] = "one of the blocks that were listed at the opening"
    told_by: ClassVar[ColumnType] = "text"
    shared: ClassVar[Part] = "value"

    def extent(self, name: str) -> tuple[str, str]:
        return name, name

    def holds(self, name: str) -> bool:
        return name in self.names

    @property
    def listed(self) -> Sequence[str]:
        return self.names

    def rank(self, name: str) -> int:
        return self.names.index(name)

    def between(self, first: str, last: str) -> Sequence[str]:
        raise InputError(f"--window: expected the names of blocks, found {first}..{last}: what is listed has no order")

    def of_day(self, day: date) -> str | None:
        return None

    def first_day(self, name: str) -> date | None:
        return None


@dataclass(frozen=True, slots=True)
class Hashes:
    """Parts 0 to count - 1 by a hash of the unit, whose records all lie in one of them."""

    names: tuple[str, ...]
    count: int
    premises: ClassVar[Premises] = PREMISES
    needs: ClassVar[str] = "count"
    within: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    weekly: ClassVar[bool] = False
    word: ClassVar[str] = "a whole number below the count that was stated at the opening"
    told_by: ClassVar[None] = None
    shared: ClassVar[Part] = "value"

    def extent(self, name: str) -> tuple[str, str]:
        raise InputError(f"expected a block that a column tells, found part {name} of a hash, which is computed elsewhere")

    def holds(self, name: str) -> bool:
        return bool(re.fullmatch("0|[1-9][0-9]{0,6}", name)) and int(name) < self.count

    @property
    def listed(self) -> Sequence[str]:
        return [str(i) for i in range(self.count)]

    def rank(self, name: str) -> int:
        return int(name)

    def between(self, first: str, last: str) -> Sequence[str]:
        return [str(i) for i in range(int(first), int(last) + 1)]

    def of_day(self, day: date) -> str | None:
        return None

    def first_day(self, name: str) -> date | None:
        return None


def week_of(day: date) -> str:
    """The week by ISO 8601 that a day is in, as 2026-W05."""
    found = day.isocalendar()
    return f"{found.year:04}-W{found.week:02}"


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
