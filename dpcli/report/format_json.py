"""json: the machine form, indented."""

from __future__ import annotations

import json

from dpcli.report.document import Document, jsonable

JUDGES = False
ENDINGS = (".json",)


def render(document: Document) -> str:
    """One object; infinities are strings."""
    return json.dumps(jsonable(document.data), indent=2, ensure_ascii=False) + "\n"
