"""A chart as a value: axes, lines, bands, bars, markers and grids, before any format draws it."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from dpcli.base.errors import InternalError

Scale = Literal["linear", "log"]
Points = tuple[tuple[float, float], ...]


class Tone(enum.Enum):
    """The role of a colour. A format has a colour for each role, and never tells two things apart by colour alone."""

    MAIN = 0
    SECOND = 1
    THIRD = 2
    FOURTH = 3
    FIFTH = 4
    MUTED = 5  # a reference: no information, a guarantee's straight lines
    LIMIT = 6  # a budget


SERIES = (Tone.MAIN, Tone.SECOND, Tone.THIRD, Tone.FOURTH, Tone.FIFTH)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`; `categories` are the words at 0, 1, 2, ... of one without numbers."""

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    unit: str = ""
    categories: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The label with its unit, and with the scale where it is logarithmic."""
        words = ", ".join(word for word in (self.unit, "log scale" if self.scale == "log" else "") if word)
        return f"{self.label} ({words})" if words else self.label

    def share(self, value: float) -> float:
        """Return the place of `value`: 0 at `low`, 1 at `high`, beyond them outside; -inf if a log scale cannot show it."""
        if self.scale == "linear":
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low) if value > 0.0 else -math.inf


@dataclass(frozen=True, slots=True)
class Line:
    """A curve through points in the order of x, named at its end."""

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
    """An interval at one x, such as the least and the greatest of some measurements."""

    label: str
    x: float
    low: float
    high: float
    tone: Tone = Tone.MAIN


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points without names; a note says what they are."""

    label: str
    points: Points
    tone: Tone = Tone.MUTED


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar up to `value`, at the position of its category, labelled with the value as it is printed."""

    name: str
    label: str
    position: float
    value: float
    tone: Tone = Tone.MAIN


@dataclass(frozen=True, slots=True)
class Square:
    """A square of a grid. value: None if it has none. printed: the value in words. closed: hatched."""

    label: str
    column: int
    row: int
    value: float | None
    printed: str
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """Words at a place in a grid: before its first column where `column` is negative."""

    text: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Squares by value, in steps of colour.

    what: a square is, in a word. steps: least value and words of each, ascending; the last is marked. empty, closed: words of squares
    without a value, and of those that are hatched. named: wide squares with their words in them.
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
        """The number of columns."""
        return 1 + max([*(square.column for square in self.squares), *(heading.column for heading in self.headings)])

    @property
    def rows(self) -> int:
        """The number of rows, those of headings included."""
        return 1 + max([*(square.row for square in self.squares), *(heading.row for heading in self.headings)])

    def step(self, value: float) -> int:
        """Return the index of the last step that a value has reached."""
        return max(i for i, (least, _) in enumerate(self.steps) if i == 0 or value >= least)

    def marked(self, square: Square) -> bool:
        """Return whether a square is at the last step."""
        return square.value is not None and self.step(square.value) == len(self.steps) - 1


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    kind: its name on the command line. subtitle: unit, adjacency, delta and sampling: no epsilon without them.
    notes: what a reader has to know and cannot see, one sentence each.
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
                raise InternalError(f"a {self.kind} plot holds the point ({x!r}, {y!r}): this is a bug in dpcli, and no picture")

    def places(self) -> Iterator[tuple[float, float]]:
        """Yield every point of the picture."""
        for points in (*(line.points for line in self.lines), *(part for band in self.bands for part in (band.lower, band.upper))):
            yield from points
        yield from ((marker.x, marker.y) for marker in self.markers)
        yield from ((bar.value, bar.position) for bar in self.bars)
        yield from ((span.x, y) for span in self.spans for y in (span.low, span.high))
        yield from (point for cloud in self.clouds for point in cloud.points)
        yield from ((square.column, square.value or 0.0) for square in (self.grid.squares if self.grid else ()))


def log_span(values: Iterable[float], room: float = 1.0) -> tuple[float, float]:
    """Return (low, high) of a log axis around positive values, widened by a factor `room`; at least a factor of 4 apart."""
    result = list(values)
    low, high = min(result) / room, max(result) * room
    widen = max(1.0, math.sqrt(4.0 * low / high))
    return low / widen, high * widen
