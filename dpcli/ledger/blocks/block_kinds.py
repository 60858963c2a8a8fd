"""The kinds of blocks into which a dataset can be cut: days, weeks, listed parts, and parts by a hash of the unit.

A *block* is a part of a dataset that has a cap of its own in the ledger, a *unit* is what the guarantee protects, such as a user, and the
*window* of a run is the set of blocks that it reads (family.py has the proof). Each block has one name with exactly one spelling, so that
no block can be charged under two names. family.py and rows.py ask a kind which names are blocks, how they are ordered, and which values of
the column lie in one. A new kind is a subclass of `BlockKind`, which dpcli/ledger/plugin.py registers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.ledger.plugin import BLOCKS

ColumnType = Literal["date", "text"]  # how the values of the column that determines the block of a record are compared
Part = Literal["value", "week"]  # the part of such a value that all records of a block share
PARTS: tuple[Part, ...] = ("value", "week")

# The assumptions of every ledger with blocks, in addition to the assumptions of its filter.
PREMISES: Premises = (
    Premise(
        "The block of a record depends on that record alone.",
        "train, release, pate, pmixed, prompt and generate, if the ledger names a column; otherwise the person who states the window",
        "tests/premises/test_blocks.py::test_blocks_by_rank_move_as_a_whole",
    ),
    Premise(
        "No unit has records in more than max_blocks blocks.",
        "the person who opens the ledger",
        "tests/premises/test_blocks.py::test_a_unit_in_one_block_more_loses_more_than_the_cap",
    ),
    Premise(
        "Under zero-out a blank record adds nothing to a part or a block that it enters.",
        "account, lint and the ledger, which refuse mechanisms to which a blank may add something",
        "tests/accountants/pipelines/test_partitions.py::test_under_zero_out_a_blank_must_add_nothing",
    ),
    Premise(
        "A run reads no block outside of its window.",
        "train, release, pate, pmixed, prompt and generate, if the ledger names a column; otherwise the person who states the window",
        "tests/premises/test_blocks.py::test_a_block_outside_of_the_window_is_read_for_nothing",
    ),
)


class BlockKind(ABC):
    """A way to cut a dataset into blocks.

    Attributes:
        names: The names of the blocks, if they are listed.
        count: The number of the blocks, if a hash determines them.
        needs: The term of the ledger that determines the blocks, "names" or "count"; "" if the calendar determines them.
        unit_in_one_block: Whether all records of a unit lie in one block, by the definition of the blocks.
        ordered: Whether the blocks have an order.
        daily: Whether each block is a day. A calendar then shows a week in one line.
        word: A block in words, for messages.
        column_type: The type of the column that determines the block of a record; None if dpcli cannot compute the block from a column.
        shared_part: The part of the column's value that all records of a block share and that differs between blocks: the value itself, or
            the week of a date.
        premises: The assumptions under which the guarantees of the blocks hold.
    """

    names: Sequence[str]
    count: int | None
    premises: ClassVar[Premises] = PREMISES
    needs: ClassVar[str] = ""
    unit_in_one_block: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    daily: ClassVar[bool] = False
    word: ClassVar[str]
    column_type: ClassVar[ColumnType | None]
    shared_part: ClassVar[Part] = "value"

    def __init__(self, names: Sequence[str] = (), count: int | None = None) -> None:
        self.names, self.count = names, count

    @property
    def listed(self) -> Sequence[str]:
        """All blocks, in order; empty if the calendar determines the blocks, which have no end."""
        return ()

    def extent(self, name: str) -> tuple[str, str]:
        """Return the smallest and the largest value of the column in a block. Dates are written as 2026-01-31."""
        return name, name

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Return whether a text is the name of a block."""

    @abstractmethod
    def rank(self, name: str) -> int:
        """Return the position of a block. If the blocks have an order, the positions of consecutive blocks differ by 1."""

    @abstractmethod
    def between(self, first: str, last: str) -> Sequence[str]:
        """Return all blocks from the first to the last, including both. Raises InputError if the blocks have no order."""

    def of_day(self, day: date) -> str | None:
        """Return the block that contains a day; None if the calendar does not determine the blocks."""
        return None

    def first_day(self, name: str) -> date | None:
        """Return the first day of a block; None if the calendar does not determine the blocks."""
        return None


def kind_named(by: str, names: Sequence[str], count: int | None) -> BlockKind:
    """Return the kind of blocks that an opening entry names. Raises InputError if it is unknown."""
    if by not in BLOCKS:
        raise InputError(f"--blocks: expected one of {', '.join(BLOCKS)}, found {by[:60]!r}")
    kind: BlockKind = load(BLOCKS[by])(tuple(names), count)
    return kind


def known_kinds() -> Mapping[str, str]:
    """Return, for the name of each kind, the term that it needs: {"day": "", "region": "names", "hash": "count", ...}."""
    return {by: load(target).needs for by, target in BLOCKS.items()}


class Days(BlockKind):
    """Days of the calendar: 2026-01-31."""

    daily: ClassVar[bool] = True
    word: ClassVar[str] = "a day as 2026-01-31"
    column_type: ClassVar[ColumnType | None] = "date"

    def holds(self, name: str) -> bool:
        return bool(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", name)) and _is_day(name)

    def rank(self, name: str) -> int:
        return date.fromisoformat(name).toordinal()

    def between(self, first: str, last: str) -> Sequence[str]:
        return [date.fromordinal(day).isoformat() for day in range(self.rank(first), self.rank(last) + 1)]

    def of_day(self, day: date) -> str | None:
        return day.isoformat()

    def first_day(self, name: str) -> date | None:
        return date.fromisoformat(name)


class Weeks(BlockKind):
    """Weeks from Monday to Sunday by ISO 8601: 2026-W05."""

    word: ClassVar[str] = "a week as 2026-W05"
    column_type: ClassVar[ColumnType | None] = "date"
    shared_part: ClassVar[Part] = "week"

    def extent(self, name: str) -> tuple[str, str]:
        monday = date.fromisoformat(f"{name}-1").toordinal()
        sunday = min(monday + 6, date.max.toordinal())  # the calendar ends within its last week
        return date.fromordinal(monday).isoformat(), date.fromordinal(sunday).isoformat()

    def holds(self, name: str) -> bool:
        return bool(re.fullmatch("[0-9]{4}-W[0-9]{2}", name)) and _is_day(f"{name}-1")

    def rank(self, name: str) -> int:
        return date.fromisoformat(f"{name}-1").toordinal() // 7  # Mondays are 7 days apart

    def between(self, first: str, last: str) -> Sequence[str]:
        monday = date.fromisoformat(f"{first}-1")
        return [week_of(monday + timedelta(weeks=number)) for number in range(self.rank(last) - self.rank(first) + 1)]

    def of_day(self, day: date) -> str | None:
        return week_of(day)

    def first_day(self, name: str) -> date | None:
        return date.fromisoformat(f"{name}-1")


class Regions(BlockKind):
    """Parts that are listed at the opening.

    An unlisted name is refused, because it could be a second name of a listed part.
    """

    needs: ClassVar[str] = "names"
    ordered: ClassVar[bool] = False
    word: ClassVar[str] = "one of the blocks that were listed at the opening"
    column_type: ClassVar[ColumnType | None] = "text"

    @property
    def listed(self) -> Sequence[str]:
        return self.names

    def holds(self, name: str) -> bool:
        return name in self.names

    def rank(self, name: str) -> int:
        return self.names.index(name)

    def between(self, first: str, last: str) -> Sequence[str]:
        raise InputError(f"--window: expected the names of blocks, found {first}..{last}: listed blocks have no order")


class Hashes(BlockKind):
    """Parts 0 to count - 1 by a hash of the unit. All records of a unit lie in one part."""

    needs: ClassVar[str] = "count"
    unit_in_one_block: ClassVar[bool] = True
    word: ClassVar[str] = "a whole number below the count that was stated at the opening"
    column_type: ClassVar[ColumnType | None] = None

    @property
    def listed(self) -> Sequence[str]:
        return [str(number) for number in range(self.count or 0)]

    def extent(self, name: str) -> tuple[str, str]:
        raise InputError(f"expected a block that a column determines, found part {name} of a hash, which dpcli does not compute")

    def holds(self, name: str) -> bool:
        # Without leading zeros a block has one spelling. Seven digits are enough for every count, which is at most MOST_BLOCKS.
        return bool(re.fullmatch("0|[1-9][0-9]{0,6}", name)) and int(name) < (self.count or 0)

    def rank(self, name: str) -> int:
        return int(name)

    def between(self, first: str, last: str) -> Sequence[str]:
        return [str(number) for number in range(int(first), int(last) + 1)]


def week_of(day: date) -> str:
    """Return the ISO 8601 week of a day, for example 2026-W05."""
    calendar = day.isocalendar()
    return f"{calendar.year:04}-W{calendar.week:02}"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
