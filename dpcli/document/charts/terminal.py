"""terminal: a chart as text, in braille dots, or in ASCII if the output cannot encode braille.

A *cell* is the place of one character on the screen. A plot is drawn on a `Canvas` of its own (terminal_canvas.py), which is then copied
between the axis on the left and the names on the right. Labels are placed by labels.py as in the other formats, with cells converted to its
pixels: next to an *anchor*, a point of what they name, and over as little *ink* as possible, the points of all lines. Sizes were chosen by
eye; a chart in text is a picture, whose numbers can be read in the format csv.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dpcli.document.chart import Bar, Chart, Line, Tone
from dpcli.document.charts.labels import Block, Box, Point, along, dense, named_at_end, place, place_within, spread
from dpcli.document.charts.terminal_canvas import Canvas, Glyphs, glyphs_for
from dpcli.document.charts.terminal_grid import grid_lines
from dpcli.document.charts.ticks import Tick, ticks
from dpcli.document.document import visible

ROWS = 20  # height of a plot, in lines
ACROSS, DOWN = 8.0, 16.0  # width and height of a cell in the pixels of labels.py; a cell is about twice as high as wide
NAMES = 24  # largest number of columns for the names at the ends of lines
Y_TICKS = 7  # largest number of ticks of the y axis
END = 0.01  # distance, in cells, of the end of an axis from the edge, so that a point at the end is in the last cell

At = Callable[[float, float], Point]  # function that returns the position of a point of the chart in cells


def render(chart: Chart, width: int = 100, color: bool = False, encoding: str = "utf-8", **_: object) -> str:
    """Return the chart as text in at most `width` columns, with the notes below it.

    width: number of columns of the screen; at least 40 are used.
    color: whether to use ANSI colour codes.
    encoding: encoding of the output. A character that it does not have, say in a title, becomes "?".
    """
    glyphs, width = glyphs_for(encoding), max(width, 40)
    if chart.grid is not None:
        body = grid_lines(chart.grid, width)
    elif chart.bars:
        body = _bars(chart, width, glyphs, color)
    else:
        body = _plot(chart, width, glyphs, color)
    head = [*_wrapped(chart.title, width), *_wrapped(chart.subtitle, width), ""]
    if color:
        head[0] = f"\x1b[1m{head[0]}\x1b[0m"
    lines = [*head, *body, ""]
    for note in chart.notes:
        lines += _wrapped(note, width, "  ")
    return "\n".join(lines).rstrip().encode(encoding, "replace").decode(encoding) + "\n"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines of at most `width` characters, with an indent before all lines but the first."""
    return textwrap.wrap(visible(text), width, subsequent_indent=indent)


def _plot(chart: Chart, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    """Return a chart with two axes: the title of y, the plot with names on its right, and the x axis."""
    y_ticks = ticks(chart.y, Y_TICKS)
    left = max((len(words) for _, words in y_ticks), default=0) + 1  # the column of the y axis, behind the widest number
    lines_named_at_end = named_at_end(chart)
    names = [_wrapped(line.label, min(NAMES, width // 4)) for line in lines_named_at_end]
    right = max((len(part) + 1 for block in names for part in block), default=0)
    columns = width - left - right - 1
    canvas = Canvas(width, ROWS, glyphs)
    plot_canvas = Canvas(columns, ROWS, glyphs)  # a canvas of its own, so that nothing is drawn beyond the axes

    def at(x: float, y: float) -> Point:
        return chart.x.share(x) * (columns - END), (1.0 - chart.y.share(y)) * (ROWS - END)

    first_column = left + 1
    _draw(plot_canvas, chart, at)
    _write_labels(plot_canvas, chart, at, lines_named_at_end)
    _copy(plot_canvas, canvas, first_column)
    _write_y_axis(canvas, chart, y_ticks, left, glyphs)
    rows_of_ends = [row for _, row in (at(*line.points[-1]) for line in lines_named_at_end)]
    _end_names(canvas, lines_named_at_end, names, rows_of_ends, first_column + columns + 1)
    return [visible(chart.y.title), *canvas.lines(color), *_foot(chart, left, columns, glyphs)]


def _draw(canvas: Canvas, chart: Chart, at: At) -> None:
    """Draw the lines, spans and clouds of a chart in dots. Bands have no area in a terminal."""
    for line in chart.lines:
        for start, end in pairwise([at(x, y) for x, y in line.points]):
            canvas.line(start, end, line.tone, dashed=line.dashed)
    for span in chart.spans:
        canvas.line(at(span.x, span.low), at(span.x, span.high), span.tone)
    for cloud in chart.clouds:
        for point in cloud.points:
            canvas.dot(*at(*point), cloud.tone)


def _write_labels(canvas: Canvas, chart: Chart, at: At, named: tuple[Line, ...]) -> None:
    """Write markers with their labels, and the names of bands and of lines that are not named at their ends.

    named: the lines that are named at their ends.
    """
    paths = [_in_pixels(dense([at(*point) for point in line.points], 0.5)) for line in chart.lines]
    labels = _Labels(canvas, [point for path in paths for point in path])
    for marker in chart.markers:
        x, y = at(marker.x, marker.y)
        canvas.write(min(int(y), ROWS - 1), min(int(x), canvas.columns - 1), canvas.glyphs.marker, marker.tone)
        labels.write_near(_in_pixels([(x, y)]), marker.label, marker.tone)
    for band in chart.bands:  # bands come before lines, whose names have more possible places
        polygon = [at(*point) for point in (*band.lower, *reversed(band.upper))]
        labels.write_inside(_in_pixels(polygon), band.label)
    for line, path in sorted(zip(chart.lines, paths, strict=True), key=lambda pair: -len(pair[0].label)):
        if line not in named:
            labels.write_near(along(path), line.label, line.tone, path)


def _in_pixels(points: Sequence[Point]) -> list[Point]:
    """Return points in cells as points in the pixels of labels.py."""
    return [(x * ACROSS, y * DOWN) for x, y in points]


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels in a plot. Points and boxes are in the pixels of labels.py.

    ink: points of all lines.
    taken: boxes of the labels that were written.
    """

    canvas: Canvas
    ink: list[Point]
    taken: list[Box] = field(default_factory=list)

    @property
    def frame(self) -> Box:
        return Box(0.0, 0.0, self.canvas.columns * ACROSS, self.canvas.rows * DOWN)

    def write_near(self, anchors: list[Point], label: str, tone: Tone, own: Sequence[Point] = ()) -> None:
        """Write a label near one of its anchors, over as few dots as possible. own: points of the line that is named."""
        block = _wrapped(label, max(self.canvas.columns * 9 // 20, 12))  # up to nearly half of the plot
        # The box has an empty cell around the label.
        width, height = (max(map(len, block)) + 2) * ACROSS, (len(block) + 0.5) * DOWN
        box, _ = place(anchors, width, height, self.frame, self.taken, self.ink, own)
        self.taken.append(box)
        row, column = round(max(box.top, 0.0) / DOWN), round(max(box.left, 0.0) / ACROSS) + 1
        for i, part in enumerate(block):
            self.canvas.write(row + i, column, part, tone)

    def write_inside(self, polygon: list[Point], label: str) -> None:
        """Write the name of a region inside it. A name that does not fit is left out."""

        def size(block: Block) -> Point:
            return max(map(len, block)) * ACROSS, len(block) * DOWN

        placed = place_within(polygon, visible(label), size, (ACROSS, DOWN), self.frame, self.taken, self.ink)
        if placed is None:
            return
        self.taken.append(placed.box)
        row, column = round(placed.box.top / DOWN), round(placed.box.left / ACROSS)
        for i, part in enumerate(placed.block):
            self.canvas.write(row + i, column, part)


def _copy(source: Canvas, target: Canvas, column: int) -> None:
    """Copy a canvas into another one, so that its left edge is at a column."""
    target.bits = {(row, column + inner): bits for (row, inner), bits in source.bits.items()}
    target.text = {(row, column + inner): text for (row, inner), text in source.text.items()}
    target.tones = {(row, column + inner): tone for (row, inner), tone in source.tones.items()}


def _write_y_axis(canvas: Canvas, chart: Chart, y_ticks: Sequence[Tick], left: int, glyphs: Glyphs) -> None:
    """Write the y axis at the column `left`, with the numbers of its ticks to the left of it."""
    for row in range(ROWS):
        canvas.write(row, left, glyphs.upright)
    for value, words in y_ticks:
        row = min(int((1.0 - chart.y.share(value)) * (ROWS - END)), ROWS - 1)
        canvas.write(row, left - 1 - len(words), words)


def _end_names(canvas: Canvas, lines: tuple[Line, ...], names: list[list[str]], ends: list[float], column: int) -> None:
    """Write the names of lines at a column, each at the row where its line ends, moved apart where they would touch.

    names: the lines of each name. ends: the row of each end.
    """
    tallest = max((len(block) for block in names), default=1)
    wanted_rows = [end - 0.5 * (len(block) - 1) for end, block in zip(ends, names, strict=True)]
    rows = spread(wanted_rows, tallest, 0.0, ROWS - tallest)
    for line, block, row in zip(lines, names, rows, strict=True):
        for i, part in enumerate(block):
            canvas.write(int(row) + i, column, part, line.tone)


def _foot(chart: Chart, left: int, columns: int, glyphs: Glyphs) -> list[str]:
    """Return the lines of the horizontal axis: the line, the numbers that do not touch each other, and the title."""
    numbers = [" "] * (left + 1 + columns)
    free = 0  # the first column behind the last number
    for value, words in ticks(chart.x, max(3, columns // 9)):  # about one number in nine columns
        start = max(left + 1 + round(chart.x.share(value) * (columns - 1)) - len(words) // 2, 0)
        start = min(start, len(numbers) - len(words))
        if start >= free:
            numbers[start : start + len(words)] = words
            free = start + len(words) + 1
    title = visible(chart.x.title)
    return [" " * left + glyphs.corner + glyphs.level * columns, "".join(numbers).rstrip(), title.center(left + columns).rstrip()]


def _bars(chart: Chart, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    """Return a chart of bars, the one with the largest position on top. A positive value has at least one block."""
    left = max(len(visible(bar.name)) for bar in chart.bars)
    right = max(len(bar.label) for bar in chart.bars)
    columns = max(width - left - right - 4, 8)

    def row(bar: Bar) -> str:
        share = min(max(chart.x.share(bar.value), 0.0), 1.0)
        least = 1 if bar.value > 0.0 else 0
        length = max(round(share * columns), least)
        drawn = Canvas(columns + 1, 1, glyphs)
        drawn.write(0, 0, glyphs.block * length, bar.tone)
        return f"{visible(bar.name):>{left}} {glyphs.upright}{drawn.lines(color)[0]} {bar.label}"

    ordered = sorted(chart.bars, key=lambda bar: -bar.position)
    return [*(row(bar) for bar in ordered), *_foot(chart, left + 1, columns, glyphs)]
