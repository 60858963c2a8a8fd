"""jsonl: one line per record (accountant, file, finding), or the whole machine form on one line."""

from __future__ import annotations

import json

from dpcli.report.document import Document, jsonable

JUDGES = False
ENDINGS = (".jsonl",)


def render(document: Document) -> str:
    """Each line is a JSON object."""
    return "".join(json.dumps(jsonable(record), ensure_ascii=False) + "\n" for record in document.records or [document.data])
