"""A grid in characters: a digit for each step, and a line for each square where names are in them."""

from __future__ import annotations

import textwrap

from dpcli.document.chart import Grid, Square
from dpcli.document.document import visible

EMPTY, CLOSED, LAST = ".", "x", "#"
APART = 2  # columns from one square to the next


def grid_lines(grid: Grid, width: int) -> list[str]:
    """The rows from the top, then the legend; rows that are wider than `width` are cut on the left, where the older things stand."""
    legend = textwrap.wrap(_legend(grid), width)
    body = _list(grid, width) if grid.named else _rows(grid, width)
    return [*body, "", *legend]


def mark(grid: Grid, square: Square) -> str:
    """One character."""
    if square.closed:
        return CLOSED
    if square.value is None:
        return EMPTY
    return LAST if grid.marked(square) else str(grid.step(square.value))


def _list(grid: Grid, width: int) -> list[str]:
    wide = min(max((len(visible(square.label)) for square in grid.squares), default=0), width // 2)
    return [
        f"{mark(grid, square)} {visible(square.label)[:wide]:{wide}}  {visible(square.said)}"[:width] for square in grid.squares
    ]


def _rows(grid: Grid, width: int) -> list[str]:
    """Two columns of the screen for each of the grid's where there is room, else one."""
    left = max((len(heading.text) for heading in grid.headings if heading.column < 0), default=0) + 1
    apart = APART if left + APART * grid.columns <= width else 1
    hidden = max(0, grid.columns - (width - left) // apart)
    lines = [[" "] * width for _ in range(grid.rows)]
    free = [left] * grid.rows
    for heading in sorted(grid.headings, key=lambda heading: heading.column):
        words, before = visible(heading.text), heading.column < 0
        at = left - 1 - len(words) if before else left + apart * (heading.column - hidden)
        if before or (free[heading.row] <= at and at + len(words) <= width):
            lines[heading.row][at : at + len(words)] = words
            free[heading.row] = free[heading.row] if before else at + len(words) + 1
    for square in grid.squares:
        if square.column >= hidden:
            lines[square.row][left + apart * (square.column - hidden)] = mark(grid, square)
    told = [f"({hidden} columns on the left: no room)"] if hidden else []
    return ["".join(line).rstrip() for line in lines] + told


def _legend(grid: Grid) -> str:
    steps = [f"{LAST if i == len(grid.steps) - 1 else i}: {words}" for i, (_, words) in enumerate(grid.steps)]
    return ", ".join([f"{EMPTY}: {grid.empty}", *steps, f"{CLOSED}: {grid.closed}"])
