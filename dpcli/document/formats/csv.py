"""csv: rows of data for programs and spreadsheets, with unrounded numbers and stable column names.

A *document* is the result of a command (document.py). The rows are its `sheet`, a table for programs; for a document without one, its
`records`, objects for programs that read line by line, or else its JSON data as a single row.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from dpcli.document.document import Document, jsonable, safe

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".csv",)
REQUIRED_FIELDS = frozenset({"records"})  # of a document that can be shown
COMPLETE_FIELDS = ("sheet",)  # shown in full


def render(document: Document) -> str:
    """Return RFC 4180 csv with a header line. A text that a spreadsheet would take for a formula gets an apostrophe in front (`safe`)."""
    return "".join(stream(document))


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    columns, rows = (document.sheet.columns, document.sheet.rows) if document.sheet else _columns_and_rows(document)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(map(safe, columns))
    for row in rows:
        writer.writerow(map(_cell, row))
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def _columns_and_rows(document: Document) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
    """Return the columns and rows of a document without a sheet. A column is a key that some record has."""
    records = document.records or [document.data]
    columns = tuple(dict.fromkeys(str(key) for record in records for key in record))
    return columns, (tuple(record.get(column) for column in columns) for record in records)


def _cell(value: Any) -> str:
    """Return a value as text. Numbers keep all digits, booleans are true and false, and lists and tables are JSON."""
    value = jsonable(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):  # infinities are not formulas, although one begins with a minus
        return value if value in ("inf", "-inf") else safe(value)
    return safe(json.dumps(value, ensure_ascii=False))
