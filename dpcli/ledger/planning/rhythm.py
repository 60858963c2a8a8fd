"""How often a run is made: "day", "week", "month", or a number of them; and the days on which that falls."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, date, timedelta

from dpcli.base.fields import Constraint

_WORDS = re.compile(r"(?:([1-9][0-9]{0,3}) )?(day|week|month)(s?)")
DAYS = {"day": 1, "week": 7}


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Every so many days, weeks or months.

    A month goes from a day to the same day of the next one: from the 31st to the last day where a month has no such day.
    """

    count: int
    unit: str

    @property
    def words(self) -> str:
        """As a file states it."""
        return self.unit if self.count == 1 else f"{self.count} {self.unit}s"

    def days(self, first: date) -> Iterator[date]:
        """The first day, and every later one; the calendar ends with the year 9999."""
        number = 0
        while (day := self._after(first, number * self.count)) is not None:
            yield day
            number += 1

    def _after(self, first: date, units: int) -> date | None:
        if self.unit in DAYS:
            ordinal = first.toordinal() + units * DAYS[self.unit]
            return date.fromordinal(ordinal) if ordinal <= date.max.toordinal() else None
        years, month = divmod(first.month - 1 + units, 12)
        year = first.year + years
        return None if year > MAXYEAR else date(year, month + 1, min(first.day, calendar.monthrange(year, month + 1)[1]))


def rhythm_of(text: str) -> Rhythm:
    """What a file states; `EVERY` holds of it."""
    found = _WORDS.fullmatch(text)
    assert found is not None
    return Rhythm(int(found[1] or 1), found[2])


def _stated(text: str) -> bool:
    found = _WORDS.fullmatch(text)
    return found is not None and (bool(found[3]) == (found[1] not in (None, "1")))


EVERY = Constraint('day, week, month, or a number of them as "2 weeks"', _stated, (("pattern", f"^{_WORDS.pattern}$"),))


def days_before(day: date, count: int) -> date:
    """So many days earlier. Raises OverflowError where the calendar has no such day."""
    return day - timedelta(count)
