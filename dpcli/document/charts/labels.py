"""The layout of labels in a chart: widths of texts, and positions that cover as little as possible.

scene.py (for svg and png) and terminal.py place the names of lines, markers and bands by it. *Ink* is what must stay visible: points of
lines and dots. An *anchor* is a point that a label may stand next to. A *block* is the lines of a label, and a *box* the rectangle that
they fill. Svg and png use pixels, and terminal.py uses the same functions with its cells converted to pixels, so no function may assume a
font: `text_width` only estimates, on the large side. The numbers here were chosen by eye. Nothing here decides what a chart says, only
where its words stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from dpcli.document.chart import Chart, Line

Point = tuple[float, float]  # (x, y), with y downwards

NARROW, WIDE = frozenset("ijlft.,:;'|!()[] "), frozenset("mwMW@%")  # characters that are narrower or wider than others
AIR = 3.0  # desired distance, in pixels, between a label and a line
BOLD = 1.12  # width of bold text, relative to plain text
DISTANCES = (8.0, 16.0, 28.0, 44.0, 70.0, 110.0)  # distances, in pixels, of a label from its anchor, the preferred ones first
CLEARLY_NEARER = 1.2  # least distance of a label from other ink, as a multiple of its distance from its anchor
RIGHT_EDGE = 0.97  # a line that ends beyond this share of the width ends at the right edge
APART = 0.05  # smallest distance between the ends of two lines that are named at their ends, as a share of the height


def text_width(text: str, size: float) -> float:
    """Return an estimate of the width of a line of text, which is on the large side for Latin letters in common sans-serif fonts."""
    return sum(map(_character_width, text)) * size


def _character_width(character: str) -> float:
    """Return the estimate of `text_width` for one character at font size 1."""
    if character in NARROW:
        return 0.40
    if character in WIDE:
        return 0.98
    return 0.72 if character.isupper() else 0.64


def wrap(text: str, size: float, width: float) -> list[str]:
    """Return the text in lines of at most `width`, or of one character. It is broken between words, and a word that is too long is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= width:
            lines[-1] = longer
            continue
        while text_width(word, size) > width and len(word) > 1:
            fitting = len(word) - 1
            while fitting > 1 and text_width(word[:fitting], size) > width:
                fitting -= 1
            lines.append(word[:fitting])
            word = word[fitting:]
        lines.append(word)
    return [line for line in lines if line]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in coordinates in which y increases downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, point: Point) -> bool:
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom

    def distance(self, point: Point) -> float:
        """Return the distance of a point from the box; 0 if the point is inside."""
        across = max(self.left - point[0], 0.0, point[0] - self.right)
        return math.hypot(across, max(self.top - point[1], 0.0, point[1] - self.bottom))

    def count(self, points: Sequence[Point]) -> int:
        return sum(self.left <= x <= self.right and self.top <= y <= self.bottom for x, y in points)

    def grown(self, by: float) -> Box:
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def overlaps(self, other: Box) -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom

    def within(self, other: Box) -> bool:
        return self.left >= other.left and self.right <= other.right and self.top >= other.top and self.bottom <= other.bottom


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions within [low, high] that are at least `gap` apart, have the order of `wanted`, and are close to `wanted`.

    If the interval is too short for all of them, the first ones are below `low`.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    result = [0.0] * len(wanted)
    least = low
    for i in order:  # each is raised to be far enough from the one before
        result[i] = max(wanted[i], least)
        least = result[i] + gap
    most = high
    for i in reversed(order):  # each is lowered again, into the interval and below the one after
        result[i] = min(result[i], most)
        most = result[i] - gap
    return result


def place(
    anchors: Sequence[Point],
    width: float,
    height: float,
    frame: Box,
    taken: Sequence[Box],
    ink: Sequence[Point],
    own: Sequence[Point] = (),
) -> tuple[Box, Point]:
    """Return the best box for a label around one of several anchors, and that anchor.

    The criteria are, in this order: The box is within the frame and covers no other box. It is clearly nearer to its anchor than to the ink
    of others. It covers little ink. It is near its anchor, with its middle above or below it.

    anchors: points next to which the label may be placed.
    frame: box in which the label should be.
    taken: boxes of other labels.
    ink: points of all lines and dots.
    own: points of the line that the label names.
    """
    own_ink = set(own)
    other_ink = [point for point in ink if point not in own_ink] if own else []

    def conflicts(box: Box, anchor: Point) -> int:
        return sum(box.overlaps(other) for other in taken) + (0 if box.within(frame) else 1)

    def is_nearer_to_other_ink(box: Box, anchor: Point) -> bool:
        limit = CLEARLY_NEARER * box.distance(anchor)
        return any(box.distance(point) < limit for point in other_ink)

    def covered_ink(box: Box, anchor: Point) -> int:
        return box.grown(AIR).count(ink)

    def remoteness(box: Box, anchor: Point) -> float:
        distance_of_middle = abs(0.5 * (box.left + box.right) - anchor[0])
        return box.distance(anchor) + 0.1 * distance_of_middle

    choices = [(box, anchor) for anchor in anchors for box in _around(anchor, width, height)]
    costs: tuple[Callable[[Box, Point], float], ...] = (conflicts, is_nearer_to_other_ink, covered_ink, remoteness)
    for cost in costs:  # each decides only among the choices that are equally good by those before
        choices = _least(choices, cost)
    return choices[0]


Choice = tuple[Box, Point]


def _least(choices: list[Choice], cost: Callable[[Box, Point], float]) -> list[Choice]:
    """Return the choices with the smallest cost, in their order."""
    costs = [cost(*choice) for choice in choices]
    least = min(costs)
    return [choice for choice, value in zip(choices, costs, strict=True) if value == least]


def _around(anchor: Point, width: float, height: float) -> Iterator[Box]:
    """Yield boxes on all sides of a point, at several distances."""
    x, y = anchor
    for distance in DISTANCES:
        # To the right, to the left, or with the anchor at the middle, a quarter or three quarters of the width; above, below, or level.
        lefts = (x + distance, x - distance - width, x - 0.5 * width, x - 0.25 * width, x - 0.75 * width)
        tops = (y - distance - height, y + distance, y - 0.5 * height)
        for left, top in product(lefts, tops):
            box = Box(left, top, left + width, top + height)
            if not box.covers(anchor):
                yield box


def dense(points: Sequence[Point], step: float = 3.0) -> list[Point]:
    """Return points along a polyline that represent its ink. Neighbours are less than 2 `step` apart in each coordinate.

    The last corner is left out. A polyline of fewer than two corners is returned as it is.
    """
    result: list[Point] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        parts = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / step))
        result += [(x0 + (x1 - x0) * i / parts, y0 + (y1 - y0) * i / parts) for i in range(parts)]
    return result or list(points)


def along(points: Sequence[Point]) -> list[Point]:
    """Return several points of a path near which its name may be placed, the middle first and the ends not at all."""
    return [points[round(share * (len(points) - 1))] for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)]


def inside(point: Point, polygon: Sequence[Point]) -> bool:
    """Return whether the point is inside the polygon: a ray to the right then crosses its edges an odd number of times."""
    x, y = point
    odd = False
    for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
            odd = not odd
    return odd


def named_at_end(chart: Chart) -> tuple[Line, ...]:
    """Return the lines that can be named at the right edge: they end there, above the x axis and away from each other."""
    lines = [line for line in chart.lines if chart.x.share(line.points[-1][0]) > RIGHT_EDGE]
    heights = [chart.y.share(line.points[-1][1]) for line in lines]
    result = []
    for i, line in enumerate(lines):
        others = (0.0, *heights[:i], *heights[i + 1 :])  # 0 is the height of the x axis
        if all(abs(heights[i] - other) > APART for other in others):
            result.append(line)
    return tuple(result)


Block = tuple[str, ...]  # lines of a label
# At least this many positions for a label are tried in each direction if they exist, and at most about twice as many: time
TRIED = 20


@dataclass(frozen=True, slots=True)
class Placed:
    """The lines of a label, and the box that they fill."""

    block: Block
    box: Box


def place_within(
    polygon: Sequence[Point],
    label: str,
    size: Callable[[Block], Point],
    step: Point,
    frame: Box,
    taken: Sequence[Box],
    ink: Sequence[Point],
) -> Placed | None:
    """Return a position of a label in a region; None if it does not fit.

    The label has as few lines as possible. It covers as little ink as possible, and is far from the edge of the region.

    polygon: corners of the region, with y downwards.
    size: function that returns the width and height of the lines of a label.
    step: boxes begin at whole multiples of this distance, across and down.
    taken: boxes that the label must not cover.
    """
    edges = list(pairwise([*polygon, polygon[0]]))
    step_across, _ = step
    air = 0.75 * step_across
    for block in _blocks(label):
        width, height = size(block)
        boxes = _boxes(polygon, width, height, step, frame)
        free = [box for box in boxes if not any(box.overlaps(other) for other in taken)]
        fitting = [box for box in free if _contains(polygon, edges, box)]
        if fitting:
            best = min(fitting, key=lambda box: (box.grown(air).count(ink), -_room(edges, box)))
            return Placed(block, best)
    return None


def _blocks(label: str) -> list[Block]:
    """Return the label on one line, on two lines, and so on up to one line for each word."""
    words = label.split()
    result = []
    for lines in range(1, len(words) + 1):
        cuts = [round(i * len(words) / lines) for i in range(lines + 1)]
        result.append(tuple(" ".join(words[start:end]) for start, end in pairwise(cuts)))
    return result


def _boxes(polygon: Sequence[Point], width: float, height: float, step: Point, frame: Box) -> list[Box]:
    """Return boxes on a grid that covers the part of the region inside the frame."""
    xs, ys = zip(*polygon, strict=True)
    left, right = max(min(xs), frame.left), min(max(xs), frame.right) - width
    top, bottom = max(min(ys), frame.top), min(max(ys), frame.bottom) - height
    step_across, step_down = step
    corners = product(multiples(top, bottom, step_down), multiples(left, right, step_across))
    return [Box(x, y, x + width, y + height) for y, x in corners]


def multiples(low: float, high: float, step: float) -> list[float]:
    """Return whole multiples of `step` in [low, high]. If there are more than about 2 TRIED of them, some are skipped."""
    first, last = -int(-low // step), int(high // step)  # rounded up, and down
    return [i * step for i in range(first, last + 1, max(1, (last - first) // TRIED))]


def _contains(polygon: Sequence[Point], edges: Sequence[tuple[Point, Point]], box: Box) -> bool:
    """Return whether the box is inside the polygon: its middle is inside, and no edge of the polygon crosses the box."""
    middle = 0.5 * (box.left + box.right), 0.5 * (box.top + box.bottom)
    return inside(middle, polygon) and not any(_crosses(start, end, box) for start, end in edges)


def _crosses(start: Point, end: Point, box: Box) -> bool:
    """Return whether a segment has a point in the interior of the box. Source: Liang and Barsky 1984."""
    (x0, y0), (x1, y1) = start, end
    enters, leaves = 0.0, 1.0  # the part of the segment that is inside, as shares of its length
    for coordinate, change, low, high in ((x0, x1 - x0, box.left, box.right), (y0, y1 - y0, box.top, box.bottom)):
        if change == 0.0:
            if not low < coordinate < high:
                return False
            continue
        first, last = sorted(((low - coordinate) / change, (high - coordinate) / change))
        enters, leaves = max(enters, first), min(leaves, last)
    return enters < leaves


def _room(edges: Sequence[tuple[Point, Point]], box: Box) -> float:
    """Return the smallest distance from the box to the corners and the midpoints of the edges."""
    middles = ((0.5 * (x0 + x1), 0.5 * (y0 + y1)) for (x0, y0), (x1, y1) in edges)
    return min(map(box.distance, (*(corner for corner, _ in edges), *middles)))
