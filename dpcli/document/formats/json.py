"""json: the JSON data of a document, indented.

A *document* is the result of a command (document.py), and its `data` are for programs, with unrounded numbers. The first field of a result,
`schema`, names its form (document/schemas.py). JSON has no infinities, so they are the strings "inf" and "-inf" (`jsonable`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpcli.document.document import Document, json_text

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".json",)
COMPLETE_FIELDS = ("data",)  # shown in full


def render(document: Document) -> str:
    return json_text(document.data, indent=2) + "\n"


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`, for data that are not empty. A list at the top level is written item by item, since it may be long."""
    separator = "{"
    for name, value in document.data.items():
        yield f"{separator}\n  {json_text(str(name))}: "
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        yield from _items(value) if is_list and value else (_inside(value, depth=1),)
        separator = ","
    yield "\n}\n"


def _items(values: Sequence[Any]) -> Iterator[str]:
    """Yield a list that is not empty, in pieces."""
    separator = "["
    for value in values:
        yield f"{separator}\n    {_inside(value, depth=2)}"
        separator = ","
    yield "\n  ]"


def _inside(value: Any, depth: int) -> str:
    """Return a value as indented JSON, whose lines after the first are indented by `depth` further levels."""
    return json_text(value, indent=2).replace("\n", "\n" + "  " * depth)  # strings in JSON contain no line breaks
