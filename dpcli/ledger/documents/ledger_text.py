"""A table for a terminal, without any library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpcli.document.document import Table


def columns(table: Table) -> tuple[str, ...]:
    """A line of heads and a line for each row, in columns; nothing where there is no row."""
    widths = [max(len(cell) for cell in column) for column in zip(table.columns, *table.rows, strict=True)]
    rows = (table.columns, *table.rows) if table.rows else ()
    return tuple("  ".join(_set(row, widths, table)).rstrip() for row in rows)


def _set(row: Sequence[str], widths: Sequence[int], table: Table) -> Iterator[str]:
    for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if i in table.numeric else cell.ljust(width)
