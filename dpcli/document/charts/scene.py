"""The layout of a chart or a grid as a scene: polylines, polygons, dots and texts. The formats svg and png paint scenes.

A chart has axes and lines; a grid has squares, such as the blocks of a ledger. Coordinates are pixels, and y increases downwards. The order
of drawing matters twice: later shapes cover earlier ones, and names are placed last, where they cover as little as possible (`Placement`).
No number is changed here: a curve that bounds something is drawn through the points that it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from dpcli.document.chart import Axis, Band, Chart, Grid, Line, Points, Square, Tone
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
    ticks,
    wrap,
)
from dpcli.document.charts.shapes import (
    LEADING,
    MARGIN,
    SMALL,
    STEPS,
    TEXT,
    TITLE,
    WIDTH,
    Dot,
    Fill,
    Ink,
    Scene,
    Stroke,
    Words,
    foot,
    head,
)
from dpcli.document.document import visible

INNER = WIDTH - 2.0 * MARGIN  # width, in pixels, of the picture without its margins
FINE = 11.0  # font size, in pixels, of the headings and the labels in squares of a grid
WIDEST = 20.0  # largest distance, in pixels, from one square to the next
NAMED = (124.0, 52.0)  # distance, in pixels, across and down from one square to the next if squares have words in them
GAP = 0.14  # gap between two squares, as a share of their distance
HEADING_ROOM = 46.0  # space, in pixels, for a heading that begins at the last column
STRIP = 22.0  # width, in pixels, of the hatched part of a closed square with words in it
HATCH = 4.0  # distance, in pixels, between two lines of a hatching
DARK = 3  # first step whose colour is so dark that text on it is white

PLOT_HEIGHT = 340.0  # least height of the plot area, in pixels
BAR_HALF = 0.32  # half height of a bar, as a share of the distance of two bars
CAP = 5.0  # half width, in pixels, of the horizontal ends of a span
END_LABELS = 190.0  # largest width, in pixels, of the names at the ends of lines


@dataclass(frozen=True, slots=True)
class Mesh:
    """The positions of squares.

    left, top: left upper corner of the first square.
    across, down: distances from one square to the next.
    """

    left: float
    top: float
    across: float
    down: float

    def box(self, column: float, row: float) -> Box:
        """Return the box of a square without the gap to the next square."""
        left, top = self.left + column * self.across, self.top + row * self.down
        gap = GAP * min(self.across, self.down, WIDEST)
        return Box(left, top, left + self.across - gap, top + self.down - gap)


def grid_scene(chart: Chart, grid: Grid) -> Scene:
    """Return the scene of a grid, with its title above it, and its legend and notes below it."""
    subtitle, notes = _head_and_foot(chart)
    mesh = _mesh(grid, _below_head(subtitle) + 26.0)
    result = Scene(WIDTH, 0.0)
    head(result, visible(chart.title), subtitle)
    _headings(result, grid, mesh)
    for square in grid.squares:
        box = mesh.box(square.column, square.row)
        _square(result, grid, square, box, f"{square.label}: {square.printed}")
        if grid.named:
            _name(result, grid, square, box)
    legend_bottom = _legend(result, grid, mesh.top + mesh.down * grid.rows + 20.0)
    notes_top = legend_bottom + 30.0
    foot(result, notes, notes_top)
    result.height = notes_top + _foot_height(notes)
    return result


def _head_and_foot(chart: Chart) -> tuple[list[str], list[list[str]]]:
    """Return the lines of the subtitle, and the lines of each note."""
    return wrap(visible(chart.subtitle), TEXT, INNER), [wrap(visible(note), SMALL, INNER) for note in chart.notes]


def _below_head(subtitle: list[str]) -> float:
    """Return the lower edge of the title and the lines of the subtitle."""
    return MARGIN + TITLE + 6.0 + LEADING * TEXT * len(subtitle)


def _foot_height(notes: list[list[str]]) -> float:
    """Return the height of notes, each of one or more lines."""
    return LEADING * SMALL * sum(map(len, notes)) + 4.0 * len(notes)


def _mesh(grid: Grid, top: float) -> Mesh:
    if grid.named:
        return Mesh(MARGIN, top, *NAMED)
    left = max((text_width(visible(heading.text), FINE) for heading in grid.headings if heading.column < 0), default=0.0) + 6.0
    across = min(WIDEST, (INNER - left - HEADING_ROOM) / grid.columns)
    return Mesh(MARGIN + left, top, across, across)


def _headings(scene: Scene, grid: Grid, mesh: Mesh) -> None:
    for heading in grid.headings:
        box = mesh.box(max(heading.column, 0), heading.row)
        baseline = 0.5 * (box.top + box.bottom) + 0.36 * FINE
        if heading.column < 0:
            scene.words.append(Words((box.left - 6.0, baseline), visible(heading.text), FINE, "quiet", "end"))
        else:
            scene.words.append(Words((box.left, baseline), visible(heading.text), FINE, "quiet"))


def _square(scene: Scene, grid: Grid, square: Square, box: Box, words: str) -> None:
    """Draw a square. It is smaller if it has no value, hatched if it is closed, and has a dot at the last step of colour."""
    wide, high = box.right - box.left, box.bottom - box.top
    if square.value is None:
        inset = 0.0 if grid.named else 0.28 * wide
        scene.fills.append(Fill(_corners(box.grown(-inset)), "empty", 0.35 if grid.named else 1.0, words))
    else:
        scene.fills.append(Fill(_corners(box), STEPS[grid.step(square.value)], 1.0, words))
    ink: Ink = "paper" if _dark(grid, square) else "quiet"
    if square.closed:
        room = Box(box.right - STRIP, box.top, box.right, box.bottom) if grid.named else box
        scene.strokes += [Stroke(line, ink, 1.2) for line in _hatching(room)]
    if grid.marked(square):
        radius = 0.18 * min(wide, high, WIDEST)
        middle = 0.5 * (box.left + box.right), 0.5 * (box.top + box.bottom)
        at = (box.left + 3.0 * radius, box.top + 26.0) if grid.named else middle
        scene.dots.append(Dot(at, radius, "paper", 0.0))


def _corners(box: Box) -> tuple[tuple[float, float], ...]:
    return (box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom)


def _hatching(box: Box) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield slanting lines across a box, from its left or lower edge to its upper or right edge."""
    wide, high = box.right - box.left, box.bottom - box.top
    count = max(2, round((wide + high) / HATCH))
    for i in range(1, count):
        along = (wide + high) * i / count
        start = box.left + max(0.0, along - high), box.top + min(along, high)
        end = box.left + min(along, wide), box.top + max(0.0, along - wide)
        yield start, end


def _dark(grid: Grid, square: Square) -> bool:
    """Return whether text on the square is white."""
    return square.value is not None and grid.step(square.value) >= DARK


def _name(scene: Scene, grid: Grid, square: Square, box: Box) -> None:
    """Write the label of a square, and a line for each part of its value."""
    ink: Ink = "paper" if _dark(grid, square) else "text"
    room = box.right - box.left - 10.0 - (STRIP if square.closed else 0.0)
    scene.words.append(Words((box.left + 6.0, box.top + 16.0), _cut(visible(square.label), room), SMALL, ink, bold=True))
    indent = 16.0 if grid.marked(square) else 0.0
    for i, line in enumerate(visible(square.printed).split(", ")):
        at = box.left + 6.0 + (0.0 if i else indent), box.top + 30.0 + 13.0 * i
        scene.words.append(Words(at, _cut(line, room - indent), FINE, ink))


def _cut(text: str, room: float) -> str:
    """Return the text, cut with "..." if it is wider than `room`."""
    if BOLD * text_width(text, SMALL) <= room:
        return text
    while text and BOLD * text_width(f"{text}...", SMALL) > room:
        text = text[:-1]
    return f"{text}..."


def _legend(scene: Scene, grid: Grid, top: float) -> float:
    """Draw a sample of each kind of square with its words, and return the lower edge of the legend."""
    side, x, y = 13.0, MARGIN, top
    for square, words in _kinds(grid):
        wide = side + 6.0 + text_width(words, SMALL) + 16.0
        if x > MARGIN and x + wide > MARGIN + INNER:
            x, y = MARGIN, y + LEADING * SMALL + 4.0
        plain = Grid(grid.what, (), (), grid.steps, grid.empty, grid.closed)
        _square(scene, plain, square, Box(x, y, x + side, y + side), "")
        scene.words.append(Words((x + side + 6.0, y + side - 2.5), words, SMALL, "quiet"))
        x += wide
    return y + side


def _kinds(grid: Grid) -> Iterator[tuple[Square, str]]:
    """Yield a sample of each kind of square with its words. Hatched and empty squares are left out if the grid has none."""
    if any(square.value is None for square in grid.squares):
        yield Square("", 0, 0, None, ""), grid.empty
    yield from ((Square("", 0, 0, least, ""), words) for least, words in grid.steps)
    if any(square.closed for square in grid.squares):
        yield Square("", 0, 0, grid.steps[1][0], "", closed=True), grid.closed


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot area with its axes."""

    box: Box
    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> Point:
        """Return the pixel of a point. A point far outside is moved to within one plot size of the plot area."""
        across, up = (min(max(share, -1.0), 2.0) for share in (self.x.share(x), self.y.share(y)))
        box = self.box
        return box.left + across * (box.right - box.left), box.bottom - up * (box.bottom - box.top)

    def path(self, points: Points) -> tuple[Point, ...]:
        """Return the pixels of the points of a curve."""
        return tuple(self.at(x, y) for x, y in points)


def scene(chart: Chart) -> Scene:
    """Return the scene of a chart, with the title above it, the notes below it, and names at the ends of lines.

    Labels do not cover each other.
    """
    if chart.grid is not None:
        return grid_scene(chart, chart.grid)
    subtitle, notes = _head_and_foot(chart)
    top = _below_head(subtitle) + 48.0
    bottom = top + max(PLOT_HEIGHT, 30.0 * len(chart.bars))
    notes_top = bottom + 70.0
    result = Scene(WIDTH, notes_top + _foot_height(notes) + (8.0 if notes else 0.0))
    head(result, visible(chart.title), subtitle)
    foot(result, notes, notes_top)
    box = Box(MARGIN + _left_room(chart), top, WIDTH - MARGIN - _right_room(chart), bottom)
    frame = Frame(box, chart.x, chart.y)
    _axes(result, frame)
    _shapes(result, chart, frame)
    _names(result, chart, frame)
    return result


def labels(chart: Chart, width: float, height: float) -> list[Words]:
    """Return only the labels inside and next to a plot of this size. The upper left corner of the plot is (0, 0)."""
    result, frame = Scene(width, height), Frame(Box(0.0, 0.0, width, height), chart.x, chart.y)
    _shapes(result, chart, frame)
    _names(result, chart, frame)
    return result.words


def _left_room(chart: Chart) -> float:
    """Return the width that the labels of the y axis need."""
    return 12.0 + max((text_width(words, SMALL) for _, words in ticks(chart.y, 9)), default=0.0)


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
    box = frame.box
    for value, words in ticks(frame.x, 9):
        x, _ = frame.at(value, frame.y.low)
        scene.grid.append(Stroke(((x, box.top), (x, box.bottom)), "grid", 1.0))
        scene.words.append(Words((x, box.bottom + 18.0), words, SMALL, "quiet", "middle"))
    for value, words in ticks(frame.y, 9):
        _, y = frame.at(frame.x.low, value)
        if not frame.y.categories:
            scene.grid.append(Stroke(((box.left, y), (box.right, y)), "grid", 1.0))
        ink: Ink = "text" if frame.y.categories else "quiet"
        scene.words.append(Words((box.left - 8.0, y + 0.35 * SMALL), words, SMALL, ink, "end"))
    scene.grid.append(Stroke(((box.left, box.top), (box.left, box.bottom), (box.right, box.bottom)), "axis", 1.2))
    scene.words.append(Words((MARGIN, box.top - 14.0), visible(frame.y.title), TEXT))
    scene.words.append(Words((0.5 * (box.left + box.right), box.bottom + 38.0), visible(frame.x.title), TEXT, anchor="middle"))


def _shapes(scene: Scene, chart: Chart, frame: Frame) -> None:
    for band in chart.bands:
        scene.fills.append(Fill((*frame.path(band.lower), *reversed(frame.path(band.upper))), band.tone, 0.13))
    for span in chart.spans:
        (x, top), (_, bottom) = frame.at(span.x, span.high), frame.at(span.x, span.low)
        ends = ((x - CAP, top), (x + CAP, top), (x, top), (x, bottom), (x - CAP, bottom), (x + CAP, bottom))
        scene.strokes.append(Stroke(ends, span.tone, 1.8))
    scene.dots += [Dot(frame.at(*point), 3.0, cloud.tone, 0.0) for cloud in chart.clouds for point in cloud.points]
    for line in reversed(chart.lines):
        scene.strokes.append(Stroke(frame.path(line.points), line.tone, 1.6 if line.dashed else 2.4, line.dashed))
    for bar in chart.bars:
        left, top = frame.at(frame.x.low, bar.position + BAR_HALF)
        right, bottom = frame.at(bar.value, bar.position - BAR_HALF)
        corners = _corners(Box(left, top, right, bottom))
        scene.fills.append(Fill(corners, "paper", 1.0))  # This covers the grid lines.
        scene.fills.append(Fill(corners, bar.tone, 0.55 if bar.tone is Tone.MUTED else 1.0))
        baseline = 0.5 * (top + bottom) + 0.35 * SMALL
        scene.words.append(Words((right + 6.0, baseline), bar.label, SMALL, bold=bar.tone is Tone.MAIN))
    scene.dots += [Dot(frame.at(marker.x, marker.y), 5.0, marker.tone) for marker in chart.markers]


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

    def name_near(self, anchors: list[Point], label: str, tone: Tone | Ink, bold: bool, own: Sequence[Point] = ()) -> None:
        """Place a name near one of several points. own: points of the line that is named."""
        block = wrap(visible(label), SMALL, 0.6 * (self.frame.box.right - self.frame.box.left))
        width = (BOLD if bold else 1.0) * max(text_width(part, SMALL) for part in block)
        height = LEADING * SMALL * len(block)
        box, anchor = place(anchors, width, height, self.frame.box, self.taken, self.ink, own)
        self.taken.append(box)
        is_left_of_anchor = box.right < anchor[0]
        is_on_paper = not any(inside(anchor, fill.points) for fill in self.scene.fills)
        for i, part in enumerate(block):
            at = (box.right if is_left_of_anchor else box.left), box.top + LEADING * SMALL * (i + 0.75)
            alignment: Literal["start", "end"] = "end" if is_left_of_anchor else "start"
            self.scene.words.append(Words(at, part, SMALL, tone, alignment, bold, halo=is_on_paper))

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
            at = placed.box.left + AIR, placed.box.top + LEADING * SMALL * (i + 0.75)
            self.scene.words.append(Words(at, part, SMALL, "quiet"))


def _end_names(scene: Scene, lines: tuple[Line, ...], frame: Frame) -> Iterator[Box]:
    """Place the names of lines at their right ends, and yield their boxes."""
    blocks = [wrap(visible(line.label), SMALL, END_LABELS) for line in lines]
    tall = LEADING * SMALL * max((len(block) for block in blocks), default=1)
    ends = spread([frame.path(line.points)[-1][1] for line in lines], tall, frame.box.top, frame.box.bottom)
    for line, block, y in zip(lines, blocks, ends, strict=True):
        left = frame.box.right + 8.0
        for i, part in enumerate(block):
            offset = (i - 0.5 * (len(block) - 1)) * LEADING * SMALL + 0.35 * SMALL
            scene.words.append(Words((left, y + offset), part, SMALL, line.tone, bold=not line.dashed))
        yield Box(left, y - 0.5 * tall, WIDTH, y + 0.5 * tall)
