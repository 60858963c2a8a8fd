"""A grid of squares in a terminal: a character for each square, and a legend below. terminal.py adds the title and notes.

A *step* is a range of values with one colour; a digit is the step of a square's value. Squares without a value, *closed* squares (those
that a picture hatches) and squares at the last step have the characters below. grid_scene.py draws the same grid as a picture. A grid whose
squares have names is a list instead.
"""

from __future__ import annotations

import textwrap

from dpcli.document.chart import Grid, Square
from dpcli.document.document import visible

EMPTY, CLOSED, LAST = ".", "x", "#"  # characters of squares without a value, of closed squares, and of squares at the last step
APART = 2  # distance of squares in columns of the screen, if there is room


def grid_lines(grid: Grid, width: int) -> list[str]:
    """Return a grid and its legend. On a narrow screen the left columns are left out: in the grid of a ledger, its oldest blocks."""
    legend = textwrap.wrap(_legend(grid), width)
    body = _list(grid, width) if grid.named else _rows(grid, width)
    return [*body, "", *legend]


def mark(grid: Grid, square: Square) -> str:
    if square.closed:
        return CLOSED
    if square.value is None:
        return EMPTY
    return LAST if grid.marked(square) else str(grid.step(square.value))


def _list(grid: Grid, width: int) -> list[str]:
    """Return a line for each square, for a grid whose squares have names."""
    labels = [visible(square.label) for square in grid.squares]
    label_width = min(max(map(len, labels), default=0), width // 2)
    lines = []
    for square, label in zip(grid.squares, labels, strict=True):
        line = f"{mark(grid, square)} {label[:label_width]:{label_width}}  {visible(square.printed)}"
        lines.append(line[:width])
    return lines


def _rows(grid: Grid, width: int) -> list[str]:
    """Return the rows of a grid. A square takes two columns of the screen if there is room, otherwise one."""
    # The room for the headings of rows, which have negative columns.
    left = max((len(visible(heading.text)) for heading in grid.headings if heading.column < 0), default=0) + 1
    apart = APART if left + APART * grid.columns <= width else 1
    hidden = max(0, grid.columns - (width - left) // apart)  # number of columns on the left that do not fit
    lines = [[" "] * width for _ in range(grid.rows)]
    free = [left] * grid.rows  # for each row, the first column of the screen behind the last heading
    for heading in sorted(grid.headings, key=lambda heading: heading.column):
        words, row = visible(heading.text), heading.row
        if heading.column < 0:
            start = left - 1 - len(words)
            lines[row][start : start + len(words)] = words
            continue
        start = left + apart * (heading.column - hidden)
        if free[row] <= start and start + len(words) <= width:
            lines[row][start : start + len(words)] = words
            free[row] = start + len(words) + 1
    for square in grid.squares:
        if square.column >= hidden:
            lines[square.row][left + apart * (square.column - hidden)] = mark(grid, square)
    rows = ["".join(line).rstrip() for line in lines]
    if not hidden:
        return rows
    columns = "1 column on the left is" if hidden == 1 else f"{hidden} columns on the left are"
    return rows + textwrap.wrap(f"({columns} not shown: the screen is too narrow)", width)


def _legend(grid: Grid) -> str:
    """Return the meaning of each character on one line."""
    marks = [*map(str, range(len(grid.steps) - 1)), LAST]
    steps = [f"{step_mark}: {words}" for step_mark, (_, words) in zip(marks, grid.steps, strict=True)]
    return ", ".join([f"{EMPTY}: {grid.empty}", *steps, f"{CLOSED}: {grid.closed}"])
