"""Windows that move with the day of a run: "last 28 days"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.kinds import BlockKind
from dpcli.ledger.planning.rhythm import DAYS, days_before

_WORDS = re.compile(r"last ([1-9][0-9]{0,4}) (day|week)s?")


@dataclass(frozen=True, slots=True)
class Trailing:
    """The days up to the one before a run.

    Weeks are counted back from the day of the run where blocks are days, and from its Monday where they are weeks. A block of which some
    day is read is read, and charged, as a whole.
    """

    count: int
    unit: str

    @property
    def words(self) -> str:
        """As a file states it."""
        return f"last {self.count} {self.unit}{'' if self.count == 1 else 's'}"

    def blocks(self, kind: BlockKind, day: date) -> Sequence[str]:
        """The blocks that a run on a day reads. Raises InputError where blocks are of no calendar, or the calendar has no such days."""
        today = kind.of_day(day)
        if today is None:
            raise InputError(f'expected the names of blocks, found "{self.words}": the blocks are not days or weeks')
        whole = kind.first_day(today)
        end = day if self.unit == "day" or whole is None else whole
        try:
            first, last = (kind.of_day(days_before(end, back)) for back in (self.count * DAYS[self.unit], 1))
        except OverflowError:
            raise InputError(f'expected days of the calendar, found "{self.words}" of {day}') from None
        assert first is not None and last is not None  # as today has a block
        return kind.between(first, last)


def trailing_of(text: str, kind: BlockKind) -> Trailing | None:
    """What a window says, None where it names blocks."""
    found = None if kind.holds(text) else _WORDS.fullmatch(text)
    return None if found is None else Trailing(int(found[1]), found[2])
