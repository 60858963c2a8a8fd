"""A grid of squares laid out: headings at its edge and between its rows, a legend of its colours below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.document.chart import Chart, Grid, Square
from dpcli.document.charts.labels import BOLD, Box, text_width, wrap
from dpcli.document.charts.page import LEADING, MARGIN, SMALL, TEXT, TITLE, WIDTH, foot, head
from dpcli.document.charts.shapes import STEPS, Dot, Fill, Ink, Scene, Stroke, Words
from dpcli.document.document import visible

FINE = 11.0  # size of the words at the edge of a grid
WIDEST, NAMED = 20.0, (124.0, 52.0)  # from one square to the next, at most; across and down where names are in them
GAP = 0.14  # of that, between two
BESIDE = 46.0  # room for a heading that begins at the last column
STRIP = 22.0  # of a square with words in it that is hatched
HATCH = 4.0  # between two lines of a hatching
DARK = 3  # the first step that is darker than the words on it


@dataclass(frozen=True, slots=True)
class Mesh:
    """Where squares lie. left, top: of the first; across, down: from one to the next."""

    left: float
    top: float
    across: float
    down: float

    def box(self, column: float, row: float) -> Box:
        """The inside of one."""
        x, y, gap = self.left + column * self.across, self.top + row * self.down, GAP * min(self.across, self.down, WIDEST)
        return Box(x, y, x + self.across - gap, y + self.down - gap)


def grid_scene(chart: Chart, grid: Grid) -> Scene:
    """Title above, legend and notes below."""
    inner = WIDTH - 2.0 * MARGIN
    subtitle, notes = wrap(visible(chart.subtitle), TEXT, inner), [wrap(visible(note), SMALL, inner) for note in chart.notes]
    mesh = _mesh(grid, MARGIN + TITLE + 6.0 + LEADING * TEXT * len(subtitle) + 26.0, inner)
    below = mesh.top + mesh.down * grid.rows + 20.0
    found = Scene(WIDTH, 0.0)
    head(found, visible(chart.title), subtitle)
    _headings(found, grid, mesh)
    for square in grid.squares:
        _square(found, grid, square, mesh.box(square.column, square.row), square_said(square))
        if grid.named:
            _name(found, grid, square, mesh.box(square.column, square.row))
    below = _legend(found, grid, below, inner) + 30.0
    foot(found, notes, below)
    found.height = below + LEADING * SMALL * sum(map(len, notes)) + 4.0 * len(notes)
    return found


def square_said(square: Square) -> str:
    """A square in words."""
    return f"{square.label}: {square.said}"


def _mesh(grid: Grid, top: float, inner: float) -> Mesh:
    if grid.named:
        return Mesh(MARGIN, top, *NAMED)
    left = max((text_width(heading.text, FINE) for heading in grid.headings if heading.column < 0), default=0.0) + 6.0
    across = min(WIDEST, (inner - left - BESIDE) / grid.columns)
    return Mesh(MARGIN + left, top, across, across)


def _headings(scene: Scene, grid: Grid, mesh: Mesh) -> None:
    for heading in grid.headings:
        box = mesh.box(max(heading.column, 0), heading.row)
        baseline = 0.5 * (box.top + box.bottom) + 0.36 * FINE
        if heading.column < 0:
            scene.words.append(Words((box.left - 6.0, baseline), visible(heading.text), FINE, "quiet", "end"))
        else:
            scene.words.append(Words((box.left, baseline), visible(heading.text), FINE, "quiet"))


def _square(scene: Scene, grid: Grid, square: Square, box: Box, said: str) -> None:
    """Its colour, smaller where it has no value; lines where it is closed, and a dot where it is at the last step."""
    wide, high = box.right - box.left, box.bottom - box.top
    if square.value is None:
        inset = 0.0 if grid.named else 0.28 * wide
        scene.fills.append(Fill(_corners(box.grown(-inset)), "empty", 0.35 if grid.named else 1.0, said))
    else:
        scene.fills.append(Fill(_corners(box), STEPS[grid.step(square.value)], 1.0, said))
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
    """Slanting lines across a box, from its left or lower edge to its upper or right one."""
    wide, high = box.right - box.left, box.bottom - box.top
    count = max(2, round((wide + high) / HATCH))
    for i in range(1, count):
        along = (wide + high) * i / count
        start = box.left + max(0.0, along - high), box.top + min(along, high)
        yield start, (box.left + min(along, wide), box.top + max(0.0, along - wide))


def _dark(grid: Grid, square: Square) -> bool:
    return square.value is not None and grid.step(square.value) >= DARK


def _name(scene: Scene, grid: Grid, square: Square, box: Box) -> None:
    """Its label, and a line for each thing that is said of it."""
    ink: Ink = "paper" if _dark(grid, square) else "text"
    room = box.right - box.left - 10.0 - (STRIP if square.closed else 0.0)
    scene.words.append(Words((box.left + 6.0, box.top + 16.0), _cut(visible(square.label), room), SMALL, ink, bold=True))
    indent = 16.0 if grid.marked(square) else 0.0
    for i, line in enumerate(visible(square.said).split(", ")):
        at = box.left + 6.0 + (0.0 if i else indent), box.top + 30.0 + 13.0 * i
        scene.words.append(Words(at, _cut(line, room - indent), FINE, ink))


def _cut(text: str, room: float) -> str:
    """As much of a text as has room."""
    if BOLD * text_width(text, SMALL) <= room:
        return text
    while text and BOLD * text_width(f"{text}...", SMALL) > room:
        text = text[:-1]
    return f"{text}..."


def _legend(scene: Scene, grid: Grid, top: float, inner: float) -> float:
    """Every kind of square that there is, with its words; returns the foot of it."""
    side, x, y = 13.0, MARGIN, top
    for square, words in _kinds(grid):
        wide = side + 6.0 + text_width(words, SMALL) + 16.0
        if x > MARGIN and x + wide > MARGIN + inner:
            x, y = MARGIN, y + LEADING * SMALL + 4.0
        plain = Grid(grid.what, (), (), grid.steps, grid.empty, grid.closed)
        _square(scene, plain, square, Box(x, y, x + side, y + side), "")
        scene.words.append(Words((x + side + 6.0, y + side - 2.5), words, SMALL, "quiet"))
        x += wide
    return y + side


def _kinds(grid: Grid) -> Iterator[tuple[Square, str]]:
    """A sample of each; of what is hatched, and of what has no value, where there is some."""
    if any(square.value is None for square in grid.squares):
        yield Square("", 0, 0, None, ""), grid.empty
    yield from ((Square("", 0, 0, least, ""), words) for least, words in grid.steps)
    if any(square.closed for square in grid.squares):
        yield Square("", 0, 0, grid.steps[1][0], "", closed=True), grid.closed
