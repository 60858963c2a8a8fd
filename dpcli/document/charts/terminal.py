"""terminal: braille dots, or plain ASCII where the output has no braille."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise

from dpcli.document.chart import Bar, Chart, Line, Tone
from dpcli.document.charts.canvas import Canvas, Glyphs, glyphs
from dpcli.document.charts.grid_text import grid_lines
from dpcli.document.charts.labels import Box, Point, along, dense, named_at_end, place, spread
from dpcli.document.charts.regions import place_within
from dpcli.document.charts.ticks import Tick, ticks
from dpcli.document.document import visible

ROWS = 20
ACROSS, DOWN = 8.0, 16.0  # a cell, in the units in which labels are placed
NAMES = 24  # most columns for the names at the ends of lines


def render(chart: Chart, width: int = 100, color: bool = False, encoding: str = "utf-8", **_: object) -> str:
    """The picture in at most `width` columns (at least 40), with notes below; no escape codes unless `color`."""
    found, width = glyphs(encoding), max(width, 40)
    if chart.grid is not None:
        body = grid_lines(chart.grid, width)
    else:
        body = _bars(chart, width, found, color) if chart.bars else _plane(chart, width, found, color)
    head = [*_wrapped(chart.title, width), *_wrapped(chart.subtitle, width), ""]
    if color:
        head[0] = f"\x1b[1m{head[0]}\x1b[0m"
    text = "\n".join([*head, *body, "", *(line for note in chart.notes for line in _wrapped(note, width, "  "))])
    return text.rstrip().encode(encoding, "replace").decode(encoding) + "\n"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(visible(text), width, subsequent_indent=indent)


def _plane(chart: Chart, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    marks = ticks(chart.y, 7)
    left = max((len(words) for _, words in marks), default=0) + 1
    ended = named_at_end(chart)
    names = [_wrapped(line.label, min(NAMES, width // 4)) for line in ended]
    right = max((len(part) + 1 for block in names for part in block), default=0)
    columns = width - left - right - 1
    canvas = Canvas(width, ROWS, glyphs)
    inside = Canvas(columns, ROWS, glyphs)

    def at(x: float, y: float) -> Point:
        return chart.x.share(x) * (columns - 0.01), (1.0 - chart.y.share(y)) * (ROWS - 0.01)

    paths = [tuple(at(x, y) for x, y in line.points) for line in chart.lines]
    for line, path in zip(chart.lines, paths, strict=True):
        for start, end in pairwise(path):
            inside.line(start, end, line.tone, line.dashed)
    for span in chart.spans:
        inside.line(at(span.x, span.low), at(span.x, span.high), span.tone)
    for cloud in chart.clouds:
        for point in cloud.points:
            inside.dot(*at(*point), cloud.tone)
    ink = [[(x * ACROSS, y * DOWN) for x, y in dense(path, 0.5)] for path in paths]
    taken: list[Box] = []
    for marker in chart.markers:
        x, y = at(marker.x, marker.y)
        inside.write(min(int(y), ROWS - 1), min(int(x), columns - 1), glyphs.marker, marker.tone)
        _label(inside, marker.label, [(x * ACROSS, y * DOWN)], marker.tone, taken, ink, ())
    for band in chart.bands:  # before the lines, whose names can stand in more places
        _region(inside, band.label, [at(*point) for point in (*band.lower, *reversed(band.upper))], taken, ink)
    for line, own in sorted(zip(chart.lines, ink, strict=True), key=lambda pair: -len(pair[0].label)):
        if line not in ended:
            _label(inside, line.label, along(own), line.tone, taken, ink, own)
    _onto(canvas, inside, left + 1)
    _frame_left(canvas, chart, marks, left, glyphs)
    _end_names(canvas, ended, names, [at(*line.points[-1])[1] for line in ended], left + 1 + columns + 1)
    return [visible(chart.y.title), *canvas.lines(color), *_foot(chart, left, columns, glyphs)]


def _label(
    canvas: Canvas,
    label: str,
    anchors: list[Point],
    tone: Tone | None,
    taken: list[Box],
    ink: list[list[Point]],
    own: Sequence[Point],
) -> None:
    """A label near one of its anchors, over as few dots as can be."""
    frame = Box(0.0, 0.0, canvas.columns * ACROSS, canvas.rows * DOWN)
    block = _wrapped(label, max(canvas.columns * 9 // 20, 12))
    width, height = (max(len(part) for part in block) + 2) * ACROSS, (len(block) + 0.5) * DOWN  # a cell of air around it
    box, _ = place(anchors, width, height, frame, taken, [point for points in ink for point in points], own)
    row, column = round(max(box.top, 0.0) / DOWN), round(max(box.left, 0.0) / ACROSS) + 1
    taken.append(box)
    for i, part in enumerate(block):
        canvas.write(row + i, column, part, tone)


def _region(canvas: Canvas, label: str, polygon: list[Point], taken: list[Box], ink: list[list[Point]]) -> None:
    """The name of a region in cells that are within it."""
    placed = place_within(
        [(x * ACROSS, y * DOWN) for x, y in polygon],
        visible(label),
        lambda block: (max(map(len, block)) * ACROSS, len(block) * DOWN),
        (ACROSS, DOWN),
        Box(0.0, 0.0, canvas.columns * ACROSS, canvas.rows * DOWN),
        taken,
        [point for points in ink for point in points],
    )
    if placed is None:
        return
    taken.append(placed.box)
    for i, part in enumerate(placed.block):
        canvas.write(round(placed.box.top / DOWN) + i, round(placed.box.left / ACROSS), part)


def _onto(canvas: Canvas, inside: Canvas, column: int) -> None:
    canvas.bits = {(row, at + column): bits for (row, at), bits in inside.bits.items()}
    canvas.text = {(row, at + column): text for (row, at), text in inside.text.items()}
    canvas.tones = {(row, at + column): tone for (row, at), tone in inside.tones.items()}


def _frame_left(canvas: Canvas, chart: Chart, marks: Sequence[Tick], left: int, glyphs: Glyphs) -> None:
    for row in range(ROWS):
        canvas.write(row, left, glyphs.upright)
    for value, words in marks:
        row = min(int((1.0 - chart.y.share(value)) * (ROWS - 0.01)), ROWS - 1)
        canvas.write(row, left - 1 - len(words), words)


def _end_names(canvas: Canvas, lines: tuple[Line, ...], names: list[list[str]], ends: list[float], column: int) -> None:
    tall = max((len(block) for block in names), default=1)
    rows = spread([end - 0.5 * (len(block) - 1) for end, block in zip(ends, names, strict=True)], tall, 0.0, ROWS - tall)
    for line, block, row in zip(lines, names, rows, strict=True):
        for i, part in enumerate(block):
            canvas.write(int(row) + i, column, part, line.tone)


def _foot(chart: Chart, left: int, columns: int, glyphs: Glyphs) -> list[str]:
    """The axis across, its numbers where they do not touch, and what it is."""
    numbers = [" "] * (left + 1 + columns)
    free = 0
    for value, words in ticks(chart.x, max(3, columns // 9)):
        start = max(left + 1 + round(chart.x.share(value) * (columns - 1)) - len(words) // 2, 0)
        start = min(start, len(numbers) - len(words))
        if start >= free:
            numbers[start : start + len(words)] = words
            free = start + len(words) + 1
    title = visible(chart.x.title)
    return [" " * left + glyphs.corner + glyphs.level * columns, "".join(numbers).rstrip(), title.center(left + columns).rstrip()]


def _bars(chart: Chart, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    left, right = max(len(visible(bar.name)) for bar in chart.bars), max(len(bar.label) for bar in chart.bars)
    columns = max(width - left - right - 4, 8)

    def row(bar: Bar) -> str:
        length = max(round(min(max(chart.x.share(bar.value), 0.0), 1.0) * columns), int(bar.value > 0.0))
        drawn = Canvas(columns + 1, 1, glyphs)
        drawn.write(0, 0, glyphs.block * length, bar.tone)
        return f"{visible(bar.name):>{left}} {glyphs.upright}{drawn.lines(color)[0]} {bar.label}"

    ordered = sorted(chart.bars, key=lambda bar: -bar.position)
    return [*(row(bar) for bar in ordered), *_foot(chart, left + 1, columns, glyphs)]
