"""The scene of a grid of squares, such as the blocks of a ledger: the squares with their headings, and the legend below them.

A *scene* is a picture whose layout is done, which svg and png paint (shapes.py); scene.py calls `grid_scene` for a chart with a `Grid`. The
grid states the column and row of each square; a `Mesh` has their pixels. A square's colour is the *step* that its value reaches. Three
kinds are told by more than their colour: a square without a value is smaller or pale, a *closed* one is hatched, and one at the last step
has a dot. If the squares have names, they are wide, and contain their names and values. Coordinates are pixels, and y increases downwards.
The numbers here were chosen by eye; they change the layout alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.document.chart import Chart, Grid, Square
from dpcli.document.charts.labels import BOLD, Box, Point, text_width
from dpcli.document.charts.shapes import (
    INNER,
    LEADING,
    MARGIN,
    SMALL,
    STEPS,
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
from dpcli.document.document import visible

FINE = 11.0  # font size, in pixels, of the headings and the labels in squares of a grid
BASELINE = 0.36  # distance from the middle of a heading down to its baseline, as a share of its size
WIDEST = 20.0  # largest distance, in pixels, from one square to the next
NAMED = (124.0, 52.0)  # distance, in pixels, across and down from one square to the next if squares have words in them
GAP = 0.14  # gap between two squares, as a share of their distance
HEADING_ROOM = 46.0  # space, in pixels, for a heading that begins at the last column
STRIP = 22.0  # width, in pixels, of the hatched part of a closed square with words in it
HATCH = 4.0  # distance, in pixels, between two lines of a hatching
FIRST_DARK = 3  # first step whose colour is so dark that text on it is white


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
    result = Scene(WIDTH, 0.0)
    mesh = _mesh(grid, head(result, chart) + 26.0)
    _headings(result, grid, mesh)
    for square in grid.squares:
        box = mesh.box(square.column, square.row)
        _square(result, grid, square, box, f"{square.label}: {square.printed}")
        if grid.named:
            _name(result, grid, square, box)
    legend_bottom = _legend(result, grid, mesh.top + mesh.down * grid.rows + 20.0)
    result.height = foot(result, chart, legend_bottom + 30.0)
    return result


def _mesh(grid: Grid, top: float) -> Mesh:
    """Return the positions of squares below `top`. Without names, they are as large as the width permits, up to WIDEST."""
    if grid.named:
        return Mesh(MARGIN, top, *NAMED)
    left = max((text_width(visible(heading.text), FINE) for heading in grid.headings if heading.column < 0), default=0.0) + 6.0
    across = min(WIDEST, (INNER - left - HEADING_ROOM) / grid.columns)
    return Mesh(MARGIN + left, top, across, across)


def _headings(scene: Scene, grid: Grid, mesh: Mesh) -> None:
    """Write the headings: of a row to the left of it, and of columns where the first of them begins."""
    for heading in grid.headings:
        box = mesh.box(max(heading.column, 0), heading.row)
        baseline = 0.5 * (box.top + box.bottom) + BASELINE * FINE
        if heading.column < 0:
            scene.words.append(Words((box.left - 6.0, baseline), visible(heading.text), FINE, "quiet", "end"))
        else:
            scene.words.append(Words((box.left, baseline), visible(heading.text), FINE, "quiet"))


def _square(scene: Scene, grid: Grid, square: Square, box: Box, words: str) -> None:
    """Draw a square. It is smaller if it has no value, hatched if it is closed, and has a dot at the last step of colour.

    words: text that is shown on hover.
    """
    wide, high = box.right - box.left, box.bottom - box.top
    if square.value is None:
        inset = 0.0 if grid.named else 0.28 * wide
        scene.fills.append(Fill(corners(box.grown(-inset)), "empty", opacity=0.35 if grid.named else 1.0, title=words))
    else:
        scene.fills.append(Fill(corners(box), STEPS[grid.step(square.value)], opacity=1.0, title=words))
    tone: OtherTone = "paper" if _dark(grid, square) else "quiet"
    if square.closed:
        room = Box(box.right - STRIP, box.top, box.right, box.bottom) if grid.named else box
        scene.strokes += [Stroke(line, tone, width=1.2) for line in _hatching(room)]
    if grid.marked(square):
        radius = 0.18 * min(wide, high, WIDEST)
        middle = 0.5 * (box.left + box.right), 0.5 * (box.top + box.bottom)
        at = (box.left + 3.0 * radius, box.top + 26.0) if grid.named else middle
        scene.dots.append(Dot(at, radius, "paper", edge=0.0))


def _hatching(box: Box) -> Iterator[tuple[Point, Point]]:
    """Yield slanting lines across a box, from its left or lower edge to its upper or right edge."""
    wide, high = box.right - box.left, box.bottom - box.top
    count = max(2, round((wide + high) / HATCH))
    for i in range(1, count):
        along = (wide + high) * i / count  # distance along the left and lower edge, and along the upper and right edge
        start = box.left + max(0.0, along - high), box.top + min(along, high)
        end = box.left + min(along, wide), box.top + max(0.0, along - wide)
        yield start, end


def _dark(grid: Grid, square: Square) -> bool:
    return square.value is not None and grid.step(square.value) >= FIRST_DARK


def _name(scene: Scene, grid: Grid, square: Square, box: Box) -> None:
    """Write the label of a square, and a line for each part of its value."""
    tone: OtherTone = "paper" if _dark(grid, square) else "text"
    room = box.right - box.left - 10.0 - (STRIP if square.closed else 0.0)
    scene.words.append(Words((box.left + 6.0, box.top + 16.0), _cut(visible(square.label), room), SMALL, tone, bold=True))
    indent = 16.0 if grid.marked(square) else 0.0
    for i, line in enumerate(visible(square.printed).split(", ")):
        at = box.left + 6.0 + (0.0 if i else indent), box.top + 30.0 + 13.0 * i
        scene.words.append(Words(at, _cut(line, room - indent), FINE, tone))


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
        if x > MARGIN and x + wide > MARGIN + INNER:  # a new line of the legend
            x, y = MARGIN, y + LEADING * SMALL + 4.0
        # A grid whose squares have no names in them, even if those of the chart do: the samples are small.
        grid_of_samples = Grid(grid.what, (), (), grid.steps, grid.empty, grid.closed)
        _square(scene, grid_of_samples, square, Box(x, y, x + side, y + side), "")
        scene.words.append(Words((x + side + 6.0, y + side - 2.5), words, SMALL, "quiet"))
        x += wide
    return y + side


def _kinds(grid: Grid) -> Iterator[tuple[Square, str]]:
    """Yield a sample of each kind of square with its words. Hatched and empty squares are left out if the grid has none."""
    if any(square.value is None for square in grid.squares):
        yield Square("", 0, 0, None, ""), grid.empty
    yield from ((Square("", 0, 0, least, ""), words) for least, words in grid.steps)
    if any(square.closed for square in grid.squares):
        value_of_second_step, _ = grid.steps[1]  # gives the colour of the sample
        yield Square("", 0, 0, value_of_second_step, "", closed=True), grid.closed
