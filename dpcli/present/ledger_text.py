"""A table for a terminal, without any library."""

from __future__ import annotations

from dpcli.document.document import Table


def columns(table: Table) -> tuple[str, ...]:
    """A line of heads and a line for each row, in columns; nothing where there is no row."""
    widths = [max(len(cell) for cell in column) for column in zip(table.columns, *table.rows, strict=True)]
    rows = (table.columns, *table.rows) if table.rows else ()
    lines = (
        "  ".join(_set(cell, wide, i in table.numeric) for i, (cell, wide) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
    return tuple(line.rstrip() for line in lines)


def _set(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)
