"""json: the JSON data of a document, indented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpcli.document.document import Document, json_text

# Properties of the format. facts.py explains each constant and reads it by its name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".json",)
REQUIRED_FIELDS: frozenset[str] = frozenset()
COMPLETE_FIELDS = ("data",)


def render(document: Document) -> str:
    """Return one JSON object. Infinities are strings."""
    return json_text(document.data, indent=2) + "\n"


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    mark = "{"
    for name, value in document.data.items():
        yield f"{mark}\n  {json_text(str(name))}: "
        yield from _items(value) if value and isinstance(value, Sequence) and not isinstance(value, str) else (_inside(value, 1),)
        mark = ","
    yield "\n}\n"


def _items(values: Sequence[Any]) -> Iterator[str]:
    mark = "["
    for value in values:
        yield f"{mark}\n    {_inside(value, 2)}"
        mark = ","
    yield "\n  ]"


def _inside(value: Any, depth: int) -> str:
    return json_text(value, indent=2).replace("\n", "\n" + "  " * depth)  # strings in JSON contain no line breaks
