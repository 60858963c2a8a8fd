"""table: for people, in a terminal or a log."""

from __future__ import annotations

from dataclasses import replace

from dpcli.document.document import Document, Table, visible

JUDGES = False
SCREEN = True
ENDINGS = ()
NEEDS: frozenset[str] = frozenset()
SHOWS = ("title", "headline", "passages", "tables", "notes")

FOLDED = 12  # columns that a text which may be folded has at least
STYLE = {"pass": "green", "warn": "yellow", "fail": "bold red", "unknown": "bold red", "": "bold"}


def render(document: Document, width: int = 100, color: bool = False) -> str:
    """Rich tables in at most `width` columns; no escape codes unless `color`."""
    import io

    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        color_system="standard" if color else None,
    )

    def show(table: Table) -> None:
        table = _narrowed(table, width)
        grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        needed = 0
        for i, column in enumerate(map(visible, table.columns)):
            longest = max([len(column), *(len(row[i]) for row in table.rows)])
            folds = i not in table.numeric and (
                i == len(table.columns) - 1 or longest > width // 3
            )  # a long path must not squeeze out the reason beside it
            needed += 3 + (min(longest, FOLDED) if folds else longest)
            grid.add_column(
                column,
                justify="right" if i in table.numeric else "left",
                no_wrap=not folds,
                overflow="fold",
                min_width=min(longest, FOLDED) if folds else longest,
                max_width=max(width // 3, FOLDED) if folds and i < len(table.columns) - 1 else None,
            )
        for i, row in enumerate(table.rows):
            grid.add_row(*(Text(visible(cell)) for cell in row), style="yellow" if i in table.flagged else None)
        if table.title:  # not as the title of the grid, which wraps it at the width of the grid
            console.print(Text(visible(table.title)), style="bold")
        # Wider than the screen where that is too narrow: a number that loses its last digits is another number.
        console.width = max(width, needed)
        console.print(grid)
        console.width = width
        for note in table.footnotes:
            console.print(Text("  " + visible(note)), style="dim")

    if document.title:
        console.print(Text(visible(document.title)), style="bold")
    console.print(Text(visible(document.headline)), style=STYLE[document.verdict])
    for passage in document.passages:
        console.print()
        console.print(Text(visible(passage.title)), style="bold")
        for words in (*passage.paragraphs, *(f"- {point}" for point in passage.points)):
            console.print(Text(visible(words)))
    for table in document.tables:
        console.print()
        show(table)
    if document.notes:
        console.print()
    for note in document.notes:
        console.print(Text(visible(note)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _narrowed(table: Table, width: int) -> Table:
    """Without the last column where there is no room for what is only a comment."""
    if width >= 85 or table.columns[-1] != "theorem":
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))
