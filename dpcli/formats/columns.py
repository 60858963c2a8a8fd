"""A table for a screen: how wide its columns are, and its lines."""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.document.document import Table, visible
from dpcli.formats.folded import cells, folded
from dpcli.values import dataclass

NARROW = 12  # cells that a column which may be folded has at least
GAP = 3  # cells between two columns


@dataclass(frozen=True, slots=True)
class ColumnWidth:
    """right: set flush right. folds: its texts may be broken into lines. widths in cells: as it is at least, at most, and by itself."""

    right: bool
    folds: bool
    least: int
    natural: int


def columns_of(table: Table, width: int) -> list[ColumnWidth]:
    """A long text folds: a path must not squeeze out the reason beside it. A number that loses its last digits is another number."""
    found, last = [], len(table.columns) - 1
    for i, title in enumerate(table.columns):
        longest = max(map(cells, (title, *(visible(row[i]) for row in table.rows))))
        folds = i not in table.numeric and (i == last or longest > width // 3)
        natural = min(longest, max(width // 3, NARROW)) if folds and i < last else longest
        found.append(ColumnWidth(i in table.numeric, folds, min(longest, NARROW) if folds else longest, natural))
    return found


def fitted(columns: list[ColumnWidth], width: int) -> list[int]:
    """Their widths: together at most `width` cells, or what they take at least where that is more; the widest that may fold give way."""
    widths = [column.natural for column in columns]
    excess = sum(widths) - max(width - GAP * len(columns) + 1, sum(column.least for column in columns) + 1)
    while excess > 0:
        open_ = [k for k, column in enumerate(columns) if column.folds and widths[k] > column.least]
        if not open_:
            break
        widest = max(open_, key=lambda k: widths[k])
        widths[widest] -= 1
        excess -= 1
    return widths


def table_lines(table: Table, width: int) -> Iterator[tuple[str, int | None]]:
    """Each line with the row that it is of: None for the rule, -1 for the titles."""
    columns = columns_of(table, width)
    widths = fitted(columns, width)
    for line in _row(table.columns, columns, widths):
        yield line, -1
    yield " " + "─" * (sum(widths) + GAP * (len(widths) - 1)), None
    for i, row in enumerate(table.rows):
        for line in _row(tuple(map(visible, row)), columns, widths):
            yield line, i


def _row(texts: tuple[str, ...], columns: list[ColumnWidth], widths: list[int]) -> Iterator[str]:
    parts = [folded(text, width) for text, width in zip(texts, widths, strict=True)]
    for k in range(max(map(len, parts))):
        line = (
            _padded(part[k] if k < len(part) else "", width, column.right)
            for part, width, column in zip(parts, widths, columns, strict=True)
        )
        yield " " + (" " * GAP).join(line)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * max(width - cells(text), 0)
    return space + text if right else text + space
