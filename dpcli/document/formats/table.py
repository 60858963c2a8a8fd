"""table: headline, tables and notes for readers, in a terminal or a log.

The library rich lays out the tables, as a *grid* of columns under a *head* of column names. It is slow for many rows, so a long table is
laid out once for its *widest* cells, and further rows are written in the places that rich gave to the columns (`_spans`, `_lines_of_rows`).
A column of numbers is never cut or wrapped, even on a screen that is too narrow, because a number that loses its last digits is another
number. The settings of a column, as rich takes them, are a dict such as {"header": "epsilon", "justify": "right", ...} (`_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from dpcli.document.document import Document, Table, visible

if TYPE_CHECKING:
    from rich.console import Console

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
TAKES_WIDTH_AND_COLOR = True
COMPLETE_FIELDS = ("title", "headline", "passages", "tables", "notes")  # shown in full

# Widths are numbers of terminal cells. A wide character, such as a Chinese one, fills two.
FOLDED = 12  # smallest width of a column whose text may wrap, so that most words fit on a line
GAP = 3  # cells between two columns, as rich lays them out
PART = 256  # largest number of rows that rich lays out together; its time and memory grow with the number
NARROW = 85  # smallest width of a screen that shows the column of theorems, because readers need the other columns more
# The style of the headline for each verdict.
STYLE = {"pass": "green", "warn": "yellow", "fail": "bold red", "unknown": "bold red", "": "bold"}


def render(document: Document, width: int = 100, color: bool = False) -> str:
    """Return the document as text. Tables are at most `width` cells wide, or wider if columns that do not wrap need it."""
    return "".join(stream(document, width, color))


def stream(document: Document, width: int = 100, color: bool = False) -> Iterator[str]:
    """Yield the text of `render` in pieces, so that a table of many rows need not be held in memory as a whole."""
    from rich.text import Text

    console = _console(width, color)

    def write(text: str, style: str | None = None) -> None:
        console.print(Text(visible(text)), style=style)

    if document.title:
        write(document.title, "bold")
    write(document.headline, STYLE[document.verdict])
    for passage in document.passages:
        console.print()
        write(passage.title, "bold")
        for words in (*passage.paragraphs, *(f"- {point}" for point in passage.points)):
            write(words)
    for table in document.tables:
        console.print()
        if table.title:  # not as the title of the grid, since rich would wrap the title at the width of the grid
            write(table.title, "bold")
        yield _take_text(console)
        yield from _table_text(_without_theorems(table, width), console, width)
        for note in table.footnotes:
            write(f"  {note}", "dim")
    if document.notes:
        console.print()
    for note in document.notes:
        write(note)
    yield _take_text(console)


def _console(width: int, color: bool) -> Console:
    """Return a console of rich that writes to memory and interprets no characters of a text."""
    import io

    from rich.console import Console

    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        color_system="standard" if color else None,
    )


def _take_text(console: Console) -> str:
    """Return the text that was written since the last call, without spaces at the ends of lines."""
    out: Any = console.file
    text = out.getvalue()
    out.seek(0)
    out.truncate()
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _table_text(table: Table, console: Console, width: int) -> Iterator[str]:
    """Yield the text of a table, in one piece or in parts."""
    widest = _widest(table)
    widest_cells, _widest_words = widest
    columns, needed = _columns(table, list(map(cell_width, widest_cells)), width)
    console.width = max(width, needed)  # wider than a screen that is too narrow for its numbers
    if len(table.rows) <= PART:
        yield _grid_text(columns, table.rows, table.flagged, console)
    else:
        yield from _parts_of_grid(table, widest, columns, console)
    console.width = width


def _parts_of_grid(
    table: Table, widest: list[tuple[str, ...]], columns: Sequence[dict[str, Any]], console: Console
) -> Iterator[str]:
    """Yield the text of a table in parts: its head, PART rows at a time, and its lower edge.

    The two rows of `_widest` are added to each part, so that all parts have equal column widths. Their lines are cut off again. A part with
    highlighted rows, or with a cell that wraps, is laid out by rich, and any other part by `_lines_of_rows`.
    """
    widest_lines, lower_edge = _split_last_line(_grid_text(columns, widest, frozenset(), console, head=False))
    head = _grid_text(columns, widest, frozenset(), console)
    yield head[: len(head) - len(widest_lines) - len(lower_edge)]
    spans = _spans(columns, widest, console)
    rows, offset = iter(table.rows), 0
    while part := list(islice(rows, PART)):
        flagged = frozenset(i - offset for i in table.flagged if offset <= i < offset + len(part))
        text = None if flagged else _lines_of_rows(spans, columns, part)
        if text is None:
            lines, _ = _split_last_line(_grid_text(columns, [*part, *widest], flagged, console, head=False))
            text = lines[: len(lines) - len(widest_lines)]
        yield text
        offset += len(part)
    yield lower_edge


def _spans(columns: Sequence[dict[str, Any]], widest: list[tuple[str, ...]], console: Console) -> list[tuple[int, int]]:
    """Return the first terminal cell and the width of each column, as rich lays out a grid with the rows `widest`."""
    # One marker character per column, a number in a circle; where rich prints it, the column starts or, aligned to the right, ends.
    marks = tuple(chr(0x2460 + i % 20) for i in range(len(columns)))
    lines, _ = _split_last_line(_grid_text(columns, [marks, *widest], frozenset(), console, head=False))
    widest_cells, _widest_words = widest
    line, spans, position = lines.splitlines()[0], [], -1
    for column, mark, cell in zip(columns, marks, widest_cells, strict=True):
        position = line.index(mark, position + 1)
        width = cell_width(cell)
        spans.append((position - width + 1 if column["justify"] == "right" else position, width))
    ends = [start - GAP for start, _ in spans[1:]] + [console.width - 1]
    return [(start, min(width, end - start)) for (start, width), end in zip(spans, ends, strict=True)]


def _lines_of_rows(
    spans: Sequence[tuple[int, int]], columns: Sequence[dict[str, Any]], rows: Sequence[tuple[str, ...]]
) -> str | None:
    """Return the lines that rich would make of rows, in a thousandth of the time; None if a cell does not fit on one line.

    spans: `_spans` of the columns.
    """
    lines = []
    for row in rows:
        line, end = "", 0
        for (start, width), column, cell in zip(spans, columns, map(visible, row), strict=True):
            is_right = column["justify"] == "right"
            text = cell.rstrip() if is_right else cell
            padding = width - cell_width(text)
            if padding < 0:
                return None
            padded_text = " " * padding + text if is_right else text + " " * padding
            line += " " * (start - end) + padded_text
            end = start + width
        lines.append(f"{line.rstrip()}\n")
    return "".join(lines)


def cell_width(text: str) -> int:
    """Return the number of cells of a terminal that a text fills."""
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def _split_last_line(text: str) -> tuple[str, str]:
    """Return the rows and the lower edge of a grid without column names. Its first line, the upper edge, is left out."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[1:-1]), lines[-1]


def _grid_text(
    columns: Sequence[dict[str, Any]], rows: Sequence[tuple[str, ...]], flagged: frozenset[int], console: Console, head: bool = True
) -> str:
    """Return the text of rows as a grid. `flagged` has the indices of the highlighted rows; `head` is false to omit the column names."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_header=head)
    for column in columns:
        grid.add_column(**column)
    for i, row in enumerate(rows):
        grid.add_row(*(Text(visible(cell)) for cell in row), style="yellow" if i in flagged else None)
    console.print(grid)
    return _take_text(console)


def _columns(table: Table, widths: Sequence[int], width: int) -> tuple[list[dict[str, Any]], int]:
    """Return rich's settings of each column, and the width that the console needs at least. Columns of numbers never wrap.

    widths: width of the widest cell of each column, including its name.
    """
    columns, needed = [], 0
    for i, column in enumerate(map(visible, table.columns)):
        is_last = i == len(table.columns) - 1
        # Text columns before the last fold too, because a long path must leave room for the reason in the last column.
        may_fold = i not in table.numeric and (is_last or widths[i] > width // 3)
        folds = may_fold and widths[i] > FOLDED
        needed += GAP + (FOLDED if folds else widths[i])
        columns.append(
            {
                "header": column,
                "justify": "right" if i in table.numeric else "left",
                "no_wrap": not folds,
                "overflow": "fold",
                "min_width": FOLDED if folds else None,
                "max_width": max(width // 3, FOLDED) if folds and not is_last else None,
            }
        )
    return columns, needed


def _widest(table: Table) -> list[tuple[str, ...]]:
    """Return two rows that determine all column widths: the first has the widest cells, the second the cells with the widest words."""
    count = len(table.columns)
    cells, widths = [""] * count, [0] * count
    cells_of_words, word_widths = [""] * count, [0] * count
    for row in chain([table.columns], table.rows):
        for column, cell in enumerate(map(visible, row)):
            width = cell_width(cell)
            if width > widths[column]:
                cells[column], widths[column] = cell, width
            # The words of a cell that is narrower than the widest word so far need not be measured.
            word_width = max(map(cell_width, cell.split()), default=0) if width > word_widths[column] else 0
            if word_width > word_widths[column]:
                cells_of_words[column], word_widths[column] = cell, word_width
    return [tuple(cells), tuple(cells_of_words)]


def _without_theorems(table: Table, width: int) -> Table:
    """Return the table without its last column if that is the column of theorems and the screen is narrow."""
    if width >= NARROW or table.columns[-1] != "theorem":
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))
