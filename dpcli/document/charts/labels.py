"""Where words go in a picture, so that none covers another or a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dpcli.document.chart import Chart, Line

Point = tuple[float, float]

NARROW, WIDE = frozenset("ijlft.,:;'|!()[] "), frozenset("mwMW@%")


AIR = 3.0  # between a label and a line
BOLD = 1.12  # how much wider bold words are
APART = 0.05  # of the height, between names at the ends of lines


def text_width(text: str, size: float) -> float:
    """Width of a line of text, estimated from above for the common sans-serif faces."""
    units = sum(0.40 if c in NARROW else 0.98 if c in WIDE else 0.72 if c.isupper() else 0.64 for c in text)
    return units * size


def wrap(text: str, size: float, width: float) -> list[str]:
    """Lines of at most `width`, broken between words; a longer word is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= width:
            lines[-1] = longer
            continue
        while text_width(word, size) > width and len(word) > 1:
            cut = next(i for i in range(len(word) - 1, 0, -1) if i == 1 or text_width(word[:i], size) <= width)
            lines, word = [*lines, word[:cut]], word[cut:]
        lines.append(word)
    return [line for line in lines if line]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, point: Point) -> bool:
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom

    def distance(self, point: Point) -> float:
        """0 inside."""
        across = max(self.left - point[0], 0.0, point[0] - self.right)
        return math.hypot(across, max(self.top - point[1], 0.0, point[1] - self.bottom))

    def count(self, points: Sequence[Point]) -> int:
        """How many points it covers."""
        return sum(self.left <= x <= self.right and self.top <= y <= self.bottom for x, y in points)

    def grown(self, by: float) -> Box:
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def overlaps(self, other: Box) -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom

    def within(self, other: Box) -> bool:
        return self.left >= other.left and self.right <= other.right and self.top >= other.top and self.bottom <= other.bottom


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least `gap` apart within [low, high], in the same order and near those that were wanted."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed: list[float] = []
    for i in order:
        placed.append(max(wanted[i], placed[-1] + gap if placed else low))
    limit = high
    for at in range(len(placed) - 1, -1, -1):
        placed[at] = min(placed[at], limit)
        limit = placed[at] - gap
    found = [0.0] * len(wanted)
    for position, i in zip(placed, order, strict=True):
        found[i] = position
    return found


def place(
    anchors: Sequence[Point],
    width: float,
    height: float,
    frame: Box,
    taken: Sequence[Box],
    ink: Sequence[Point],
    own: Sequence[Point] = (),
) -> tuple[Box, Point]:
    """The best of many boxes around some anchors, and the anchor it belongs to.

    Within the frame, over no other box, nearer to its `own` ink than to other, over as little ink as can be, and near its anchor.
    """
    choices = [(box, anchor) for anchor in anchors for box in _around(anchor, width, height)]
    mine = set(own)
    others = [point for point in ink if point not in mine] if own else []
    choices = _least(choices, lambda box, _: (not box.within(frame)) + sum(box.overlaps(other) for other in taken))
    choices = _least(choices, lambda box, anchor: _any_nearer(box, 1.2 * box.distance(anchor), others))
    choices = _least(choices, lambda box, _: box.grown(AIR).count(ink))
    choices = _least(choices, lambda box, anchor: box.distance(anchor) + 0.1 * abs(0.5 * (box.left + box.right) - anchor[0]))
    return choices[0]


def _any_nearer(box: Box, limit: float, points: Sequence[Point]) -> bool:
    """Whether a point is nearer to a box than the limit."""
    return any(box.distance(point) < limit for point in points)


Choice = tuple[Box, Point]


def _least(choices: list[Choice], cost: Callable[[Box, Point], float]) -> list[Choice]:
    """The cheapest of the choices, in their order."""
    costs = [cost(*choice) for choice in choices]
    least = min(costs)
    return [choice for choice, value in zip(choices, costs, strict=True) if value == least]


def _around(anchor: Point, width: float, height: float) -> Iterator[Box]:
    """Boxes on all sides of a point, nearer and farther."""
    x, y = anchor
    for away in (8.0, 16.0, 28.0, 44.0, 70.0, 110.0):
        for left in (x + away, x - away - width, x - 0.5 * width, x - 0.25 * width, x - 0.75 * width):
            for top in (y - away - height, y + away, y - 0.5 * height):
                if not (left <= x <= left + width and top <= y <= top + height):
                    yield Box(left, top, left + width, top + height)


def dense(points: Sequence[Point], step: float = 3.0) -> list[Point]:
    """Points at most `step` apart along a polyline: what counts as ink."""
    found: list[Point] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        parts = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / step))
        found += [(x0 + (x1 - x0) * i / parts, y0 + (y1 - y0) * i / parts) for i in range(parts)]
    return found or list(points)


def along(points: Sequence[Point]) -> list[Point]:
    """Some points along a path, where its name could stand."""
    return [points[round(share * (len(points) - 1))] for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)]


def inside(point: Point, polygon: Sequence[Point]) -> bool:
    """Whether a ray from the point to the right crosses the polygon an odd number of times."""
    x, y = point
    odd = False
    for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
            odd = not odd
    return odd


def named_at_end(chart: Chart) -> tuple[Line, ...]:
    """The lines that end at the right edge, clear of its foot and of each other's ends: their names go there, others next to the line."""
    ends = [line for line in chart.lines if chart.x.share(line.points[-1][0]) > 0.97]
    heights = [0.0, *(chart.y.share(line.points[-1][1]) for line in ends)]
    return tuple(
        line for i, line in enumerate(ends, 1) if all(abs(heights[i] - other) > APART for j, other in enumerate(heights) if i != j)
    )
