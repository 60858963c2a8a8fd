"""The layout of a chart as a scene: polylines, polygons, dots and texts. The formats svg and png paint scenes (shapes.py).

A chart with axes is laid out here, and one of squares in grid_scene.py. *Ink* is what names must not cover: points of lines and dots. A
*span* is a vertical interval at one x, such as an error bar, and a *band* the area between two curves. Coordinates are pixels, and y
increases downwards. The order of drawing matters twice: later shapes cover earlier ones, and names are placed last, where they cover as
little as possible (`Placement`). Distances and sizes were chosen by eye. No number of the chart is changed here: a curve that bounds
something is drawn through the points that it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from dpcli.document.chart import Axis, Band, Chart, Line, Points, Tone
from dpcli.document.charts.grid_scene import grid_scene
from dpcli.document.charts.labels import (
    AIR,
    BOLD,
    Block,
    Box,
    Point,
    along,
    dense,
    inside,
    named_at_end,
    place,
    place_within,
    spread,
    text_width,
    wrap,
)
from dpcli.document.charts.shapes import (
    LEADING,
    MARGIN,
    SMALL,
    TEXT,
    WIDTH,
    Dot,
    Fill,
    OtherTone,
    Scene,
    Stroke,
    Words,
    corners,
    foot,
    head,
)
from dpcli.document.charts.ticks import MOST_TICKS, ticks
from dpcli.document.document import visible

PLOT_HEIGHT = 340.0  # least height of the plot area, in pixels
BAR_HALF = 0.32  # half height of a bar, as a share of the distance of two bars
CAP = 5.0  # half width, in pixels, of the horizontal ends of a span
END_LABELS = 190.0  # largest width, in pixels, of the names at the ends of lines
BASELINE = 0.35  # from the middle of a text down to its baseline, as a share of its size
BASELINE_IN_LINE = 0.75  # from the upper end of a line of text down to its baseline, as a share of its height


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot area with its axes."""

    box: Box
    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> Point:
        """Return the pixel of a point. A point far outside is moved to within one plot size of the plot area.

        The infinite share of a value that a log scale cannot show becomes a pixel, too.
        """
        across, up = (min(max(share, -1.0), 2.0) for share in (self.x.share(x), self.y.share(y)))
        box = self.box
        return box.left + across * (box.right - box.left), box.bottom - up * (box.bottom - box.top)

    def path(self, points: Points) -> tuple[Point, ...]:
        return tuple(self.at(x, y) for x, y in points)


def scene(chart: Chart) -> Scene:
    """Return the scene of a chart, with the title above it, the notes below it, and names at the ends of lines.

    Labels do not cover each other.
    """
    if chart.grid is not None:
        return grid_scene(chart, chart.grid)
    result = Scene(WIDTH, 0.0)  # its height is known when the foot is laid out
    top = head(result, chart) + 48.0  # room for the title of the y axis
    bottom = top + max(PLOT_HEIGHT, 30.0 * len(chart.bars))
    notes_bottom = foot(result, chart, bottom + 70.0)  # 70: room for the ticks and the title of the x axis
    result.height = notes_bottom + (8.0 if chart.notes else 0.0)
    box = Box(MARGIN + _left_room(chart), top, WIDTH - MARGIN - _right_room(chart), bottom)
    frame = Frame(box, chart.x, chart.y)
    _axes(result, frame)
    _shapes(result, chart, frame)
    _names(result, chart, frame)
    return result


def labels(chart: Chart, width: float, height: float) -> list[Words]:
    """Return only the labels inside and next to a plot of this size, for vega.py. The upper left corner of the plot is (0, 0)."""
    result, frame = Scene(width, height), Frame(Box(0.0, 0.0, width, height), chart.x, chart.y)
    _shapes(result, chart, frame)
    _names(result, chart, frame)
    return result.words


def _left_room(chart: Chart) -> float:
    """Return the width that the labels of the y axis need."""
    return 12.0 + max((text_width(words, SMALL) for _, words in ticks(chart.y, MOST_TICKS)), default=0.0)


def _right_room(chart: Chart) -> float:
    """Return the width that names at the ends of lines, or numbers at the ends of bars, need."""
    if chart.bars:
        return 14.0 + max(text_width(bar.label, SMALL) for bar in chart.bars)
    blocks = [wrap(visible(line.label), SMALL, END_LABELS) for line in named_at_end(chart)]
    if not blocks:
        return 8.0
    widest = max((text_width(part, SMALL) for part in chain.from_iterable(blocks)), default=0.0)
    return BOLD * widest + 14.0


def _axes(scene: Scene, frame: Frame) -> None:
    """Draw the axes with their ticks and titles, and the lines of the grid."""
    box = frame.box
    for value, words in ticks(frame.x, MOST_TICKS):
        x, _ = frame.at(value, frame.y.low)
        scene.grid.append(Stroke(((x, box.top), (x, box.bottom)), "grid", width=1.0))
        scene.words.append(Words((x, box.bottom + 18.0), words, SMALL, "quiet", "middle"))
    for value, words in ticks(frame.y, MOST_TICKS):
        _, y = frame.at(frame.x.low, value)
        if not frame.y.categories:
            scene.grid.append(Stroke(((box.left, y), (box.right, y)), "grid", width=1.0))
        tone: OtherTone = "text" if frame.y.categories else "quiet"
        scene.words.append(Words((box.left - 8.0, y + BASELINE * SMALL), words, SMALL, tone, "end"))
    scene.grid.append(Stroke(((box.left, box.top), (box.left, box.bottom), (box.right, box.bottom)), "axis", width=1.2))
    scene.words.append(Words((MARGIN, box.top - 14.0), visible(frame.y.title), TEXT))
    scene.words.append(Words((0.5 * (box.left + box.right), box.bottom + 38.0), visible(frame.x.title), TEXT, anchor="middle"))


def _shapes(scene: Scene, chart: Chart, frame: Frame) -> None:
    """Draw bands, spans, clouds, lines, bars with their numbers, and markers. The first line is on top of the others."""
    for band in chart.bands:
        scene.fills.append(Fill((*frame.path(band.lower), *reversed(frame.path(band.upper))), band.tone, opacity=0.13))
    for span in chart.spans:
        (x, top), (_, bottom) = frame.at(span.x, span.high), frame.at(span.x, span.low)
        ends = ((x - CAP, top), (x + CAP, top), (x, top), (x, bottom), (x - CAP, bottom), (x + CAP, bottom))
        scene.strokes.append(Stroke(ends, span.tone, width=1.8))
    scene.dots += [Dot(frame.at(*point), radius=3.0, tone=cloud.tone, edge=0.0) for cloud in chart.clouds for point in cloud.points]
    for line in reversed(chart.lines):
        scene.strokes.append(Stroke(frame.path(line.points), line.tone, width=1.6 if line.dashed else 2.4, dashed=line.dashed))
    for bar in chart.bars:
        left, top = frame.at(frame.x.low, bar.position + BAR_HALF)
        right, bottom = frame.at(bar.value, bar.position - BAR_HALF)
        outline = corners(Box(left, top, right, bottom))
        scene.fills.append(Fill(outline, "paper", opacity=1.0))  # This covers the grid lines.
        scene.fills.append(Fill(outline, bar.tone, opacity=0.55 if bar.tone is Tone.MUTED else 1.0))
        baseline = 0.5 * (top + bottom) + BASELINE * SMALL
        scene.words.append(Words((right + 6.0, baseline), bar.label, SMALL, bold=bar.tone is Tone.MAIN))
    scene.dots += [Dot(frame.at(marker.x, marker.y), radius=5.0, tone=marker.tone) for marker in chart.markers]


def _names(scene: Scene, chart: Chart, frame: Frame) -> None:
    """Place the names of lines at their ends. Then place the names of markers, bands and other lines where they cover nothing."""
    named = named_at_end(chart)
    taken = list(_end_names(scene, named, frame))
    ink = [point for stroke in scene.strokes for point in dense(stroke.points)] + [dot.at for dot in scene.dots]
    placement = Placement(scene, frame, taken, ink)
    for marker in chart.markers:
        placement.name_near([frame.at(marker.x, marker.y)], marker.label, marker.tone, bold=True)
    for band in chart.bands:
        placement.name_in_band(band)
    for line in sorted(chart.lines, key=lambda line: -len(line.label)):  # Long names come first, while there is space.
        if line not in named:
            path = dense(frame.path(line.points))
            placement.name_near(along(path), line.label, line.tone, bold=not line.dashed, own=path)


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of names in a plot, so that they cover nothing.

    taken: boxes of the names that were placed.
    ink: points of all lines and dots.
    """

    scene: Scene
    frame: Frame
    taken: list[Box]
    ink: list[Point]

    def name_near(self, anchors: list[Point], label: str, tone: Tone | OtherTone, bold: bool, own: Sequence[Point] = ()) -> None:
        """Place a name near one of several points. own: points of the line that is named."""
        block = wrap(visible(label), SMALL, 0.6 * (self.frame.box.right - self.frame.box.left))
        width = (BOLD if bold else 1.0) * max(text_width(part, SMALL) for part in block)
        height = LEADING * SMALL * len(block)
        box, anchor = place(anchors, width, height, self.frame.box, self.taken, self.ink, own)
        self.taken.append(box)
        is_left_of_anchor = box.right < anchor[0]
        # A halo has the colour of the paper, and would stand out on a band.
        is_on_paper = not any(inside(anchor, fill.points) for fill in self.scene.fills)
        for i, part in enumerate(block):
            at = (box.right if is_left_of_anchor else box.left), box.top + LEADING * SMALL * (i + BASELINE_IN_LINE)
            # The text ends or begins next to its anchor, because its true width may differ from the estimate.
            alignment: Literal["start", "end"] = "end" if is_left_of_anchor else "start"
            self.scene.words.append(Words(at, part, SMALL, tone, alignment, bold=bold, halo=is_on_paper))

    def name_in_band(self, band: Band) -> None:
        """Place the name of a band inside it. A name that does not fit is left out."""

        def size(block: Block) -> Point:
            return max(text_width(part, SMALL) for part in block) + 2.0 * AIR, LEADING * SMALL * len(block)

        corners = (*self.frame.path(band.lower), *reversed(self.frame.path(band.upper)))
        placed = place_within(corners, visible(band.label), size, (4.0, 4.0), self.frame.box, self.taken, self.ink)
        if placed is None:
            return
        self.taken.append(placed.box)
        for i, part in enumerate(placed.block):
            at = placed.box.left + AIR, placed.box.top + LEADING * SMALL * (i + BASELINE_IN_LINE)
            self.scene.words.append(Words(at, part, SMALL, "quiet"))


def _end_names(scene: Scene, lines: tuple[Line, ...], frame: Frame) -> Iterator[Box]:
    """Place the names of lines at their right ends, moved apart where they would touch, and yield their boxes."""
    blocks = [wrap(visible(line.label), SMALL, END_LABELS) for line in lines]
    tallest = LEADING * SMALL * max((len(block) for block in blocks), default=1)
    ends_of_lines = [frame.at(*line.points[-1]) for line in lines]
    middles = spread([y for _, y in ends_of_lines], tallest, frame.box.top, frame.box.bottom)
    for line, block, middle in zip(lines, blocks, middles, strict=True):
        left = frame.box.right + 8.0
        for i, part in enumerate(block):
            offset = (i - 0.5 * (len(block) - 1)) * LEADING * SMALL + BASELINE * SMALL
            scene.words.append(Words((left, middle + offset), part, SMALL, line.tone, bold=not line.dashed))
        yield Box(left, middle - 0.5 * tallest, WIDTH, middle + 0.5 * tallest)
