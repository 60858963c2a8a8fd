"""The name of a region stands within it, or nowhere: beside it, it would say the opposite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dpcli.document.charts.labels import Box, Point, inside

Block = tuple[str, ...]  # lines of words
TRIED = 20  # places across, and down


@dataclass(frozen=True, slots=True)
class Placed:
    """Lines of words, and the box that they fill."""

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
    """Where a label fits into a region: in few lines, over as little ink as can be, far from the edge; None where it does not fit.

    Args:
        polygon: the region, y downwards.
        size: width and height of some lines.
        step: boxes begin at whole multiples of it.
        taken: boxes that nothing may cover.
    """
    edges = list(pairwise([*polygon, polygon[0]]))
    for block in _blocks(label):
        width, height = size(block)
        boxes = [box for box in _boxes(polygon, width, height, step, frame) if not any(box.overlaps(other) for other in taken)]
        fitting = [box for box in boxes if _contains(polygon, edges, box)]
        if fitting:
            air = 0.75 * step[0]
            return Placed(block, min(fitting, key=lambda box: (box.grown(air).count(ink), -_room(edges, box))))
    return None


def _blocks(label: str) -> list[Block]:
    """The words on one line, on two, ... on a line each."""
    words = label.split()
    found = []
    for lines in range(1, len(words) + 1):
        cuts = [round(i * len(words) / lines) for i in range(lines + 1)]
        found.append(tuple(" ".join(words[start:end]) for start, end in pairwise(cuts)))
    return found


def _boxes(polygon: Sequence[Point], width: float, height: float, step: Point, frame: Box) -> list[Box]:
    """Boxes on a grid over the region's part of the frame."""
    xs, ys = zip(*polygon, strict=True)
    left, right = max(min(xs), frame.left), min(max(xs), frame.right) - width
    top, bottom = max(min(ys), frame.top), min(max(ys), frame.bottom) - height
    return [Box(x, y, x + width, y + height) for y in _multiples(top, bottom, step[1]) for x in _multiples(left, right, step[0])]


def _multiples(low: float, high: float, step: float) -> list[float]:
    """Whole multiples of `step` in [low, high], at most about `TRIED` of them."""
    first, last = -int(-low // step), int(high // step)
    return [i * step for i in range(first, last + 1, max(1, (last - first) // TRIED))]


def _contains(polygon: Sequence[Point], edges: Sequence[tuple[Point, Point]], box: Box) -> bool:
    """Whether the whole box is in the polygon: one point of it is, and no edge passes through it."""
    middle = 0.5 * (box.left + box.right), 0.5 * (box.top + box.bottom)
    return inside(middle, polygon) and not any(_crosses(start, end, box) for start, end in edges)


def _crosses(start: Point, end: Point, box: Box) -> bool:
    """Whether a segment has a point within the box; its border does not count. Source: Liang and Barsky 1984."""
    enters, leaves = 0.0, 1.0
    sides = ((start[0], end[0] - start[0], box.left, box.right), (start[1], end[1] - start[1], box.top, box.bottom))
    for at, along, low, high in sides:
        if along == 0.0:
            if not low < at < high:
                return False
            continue
        first, last = sorted(((low - at) / along, (high - at) / along))
        enters, leaves = max(enters, first), min(leaves, last)
    return enters < leaves


def _room(edges: Sequence[tuple[Point, Point]], box: Box) -> float:
    """How far the corners of the edges are from the box, at least."""
    return min(box.distance(point) for edge in edges for point in (edge[0], _halfway(*edge)))


def _halfway(start: Point, end: Point) -> Point:
    return 0.5 * (start[0] + end[0]), 0.5 * (start[1] + end[1])
