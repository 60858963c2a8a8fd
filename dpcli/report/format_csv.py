"""csv: the first table; cells that a spreadsheet would run as a formula are quoted with an apostrophe."""

from __future__ import annotations

import csv
import io

from dpcli.report.document import Document, visible

JUDGES = False
ENDINGS = (".csv",)


def render(document: Document) -> str:
    """RFC 4180 with a header line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for table in document.tables[:1]:
        writer.writerow(table.columns)
        writer.writerows([safe(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def safe(cell: str) -> str:
    """A cell that no spreadsheet runs as a formula."""
    cell = visible(cell)
    return "'" + cell if cell[:1] in ("=", "+", "@", "\t", "\r") or (cell[:1] == "-" and cell != "-") else cell
