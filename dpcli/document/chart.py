"""Charts as values: axes, lines, bands, bars, markers and grids, independent of the format that draws them.

A command makes a `Chart` in the units of its numbers; the formats in charts/ draw it (scene.py and terminal.py lay it out, vega.py and
chart_csv.py write its data). A chart is a plot with two axes, or a grid of squares, such as the blocks of a ledger. A *tone* is the role of
a colour, never the colour. A chart says nothing by colour alone, so that it can be read in grey and in ASCII.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dpcli.base.errors import InternalError

Scale = Literal["linear", "log", "utc"]
EPOCH = datetime(1970, 1, 1)  # the moment 0 of an axis of dates
Points = tuple[tuple[float, float], ...]

SMALLEST_RATIO = (
    4.0  # smallest ratio of the ends of a log axis, so that it has some ticks even if all values are equal; layout alone
)


class Tone(enum.Enum):
    """The role of a colour. A format has a colour for each role, and never distinguishes two things only by colour."""

    MAIN = 0
    SECOND = 1
    THIRD = 2
    FOURTH = 3
    FIFTH = 4
    MUTED = 5  # a reference, such as the line of a test without information
    LIMIT = 6  # a budget


SERIES = (Tone.MAIN, Tone.SECOND, Tone.THIRD, Tone.FOURTH, Tone.FIFTH)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`, which are positive on a log scale. On the scale utc they are moments in UTC, in ms after EPOCH.

    unit: unit of the numbers, for the title; "" if they have none.
    categories: labels of the positions 0, 1, 2, ...; empty if the axis has numbers.
    """

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    unit: str = ""
    categories: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The label with the unit, and with the scale unless it is linear."""
        scale = {"linear": "", "log": "log scale", "utc": "UTC"}[self.scale]
        remarks = [remark for remark in (self.unit, scale) if remark]
        return f"{self.label} ({', '.join(remarks)})" if remarks else self.label

    def share(self, value: float) -> float:
        """Return the position of `value` along the axis: 0 at `low` and 1 at `high`; -inf if a log scale cannot show the value."""
        if self.scale != "log":
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low) if value > 0.0 else -math.inf

    def words(self, value: float, form: str = "") -> str:
        """Return a value as text: a date as an ISO time, and a number in a format such as ".4g"; "" keeps all of its digits."""
        return f"{date_of(value).isoformat()}Z" if self.scale == "utc" else format(value, form)


@dataclass(frozen=True, slots=True)
class Line:
    """A curve through points in increasing order of x."""

    label: str
    points: Points
    tone: Tone = Tone.MAIN
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two curves: certified bounds, or a region of the plane."""

    label: str
    lower: Points
    upper: Points
    tone: Tone = Tone.MAIN


@dataclass(frozen=True, slots=True)
class Marker:
    """A point with its label."""

    label: str
    x: float
    y: float
    tone: Tone = Tone.MAIN


@dataclass(frozen=True, slots=True)
class Span:
    """A vertical interval at one x, such as the range of several measurements."""

    label: str
    x: float
    low: float
    high: float
    tone: Tone = Tone.MAIN


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points that the picture does not label. A note of the chart explains them, and `label` names them in the data."""

    label: str
    points: Points
    tone: Tone = Tone.MUTED


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar up to `value`.

    name: its category.
    label: the value as it is printed at the end of the bar.
    position: position of the category on the y axis.
    """

    name: str
    label: str
    position: float
    value: float
    tone: Tone = Tone.MAIN


@dataclass(frozen=True, slots=True)
class Square:
    """A square of a grid.

    value: the value that determines the colour; None if there is none.
    printed: the value in words.
    closed: whether the square is hatched.
    """

    label: str
    column: int
    row: int
    value: float | None
    printed: str
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a grid: of the columns from `column` on, or, left of the first column, of a row if `column` is negative."""

    text: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid of squares whose colours are steps of their values.

    what: word for one square, such as "block".
    steps: smallest value and description of each step, in increasing order. Squares at the last step are marked with a dot.
    empty: description of squares without a value.
    closed: description of hatched squares, such as blocks to which nothing may be charged.
    named: whether the squares are wide and contain their labels.
    """

    what: str
    squares: tuple[Square, ...]
    headings: tuple[Heading, ...]
    steps: tuple[tuple[float, str], ...]
    empty: str
    closed: str
    named: bool = False

    @property
    def columns(self) -> int:
        """The number of columns. Raises ValueError if the grid is empty."""
        columns = [square.column for square in self.squares] + [heading.column for heading in self.headings]
        return 1 + max(columns)

    @property
    def rows(self) -> int:
        """The number of rows, including rows of headings. Raises ValueError if the grid is empty."""
        rows = [square.row for square in self.squares] + [heading.row for heading in self.headings]
        return 1 + max(rows)

    def step(self, value: float) -> int:
        """Return the index of the last step that a value has reached; 0 if it has reached none."""
        reached = [index for index, (least, _) in enumerate(self.steps) if value >= least]
        return max(reached, default=0)

    def marked(self, square: Square) -> bool:
        """Return whether a square is at the last step."""
        return square.value is not None and self.step(square.value) == len(self.steps) - 1


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. Raises InternalError if a point of it is not finite.

    kind: name of the chart on the command line.
    subtitle: the setting without which an epsilon means nothing: unit, adjacency, delta and sampling.
    notes: sentences that a reader needs and cannot see in the picture.
    grid: grid that is drawn instead of a plot; None for a plot.
    """

    kind: str
    title: str
    subtitle: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...] = ()
    bands: tuple[Band, ...] = ()
    markers: tuple[Marker, ...] = ()
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    clouds: tuple[Cloud, ...] = ()
    grid: Grid | None = None

    def __post_init__(self) -> None:
        for x, y in self.places():
            if not (math.isfinite(x) and math.isfinite(y)):
                raise InternalError(
                    f"a {self.kind} plot contains the point ({x!r}, {y!r}): this is a bug in dpcli, so no picture is drawn"
                )

    def places(self) -> Iterator[tuple[float, float]]:
        """Yield every point of the picture as (x, y). A square is (column, value), and its value is 0 if it has none."""
        for line in self.lines:
            yield from line.points
        for band in self.bands:
            yield from band.lower
            yield from band.upper
        for marker in self.markers:
            yield marker.x, marker.y
        for bar in self.bars:
            yield bar.value, bar.position
        for span in self.spans:
            yield span.x, span.low
            yield span.x, span.high
        for cloud in self.clouds:
            yield from cloud.points
        for square in self.grid.squares if self.grid else ():
            yield square.column, square.value or 0.0


def moment(when: datetime) -> float:
    """Return the value of a time in UTC, without a zone, on an axis of dates."""
    return (when - EPOCH) / timedelta(milliseconds=1)


def date_of(value: float) -> datetime:
    """Return the time in UTC of a value on an axis of dates."""
    return EPOCH + timedelta(milliseconds=value)


def log_span(values: Iterable[float], room: float = 1.0) -> tuple[float, float]:
    """Return the ends of a log axis around one or more positive values.

    The range is widened by the factor `room` at each end, and its ends differ by a factor of at least SMALLEST_RATIO. Both ends are normal
    floats.
    """
    known = list(values)
    low, high = min(known) / room, max(known) * room
    widening = max(1.0, math.sqrt(SMALLEST_RATIO * low / high))
    return max(low / widening, sys.float_info.min), min(high * widening, sys.float_info.max)
