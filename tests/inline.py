"""A document of plain values as TOML, with its tables and lists inline."""

from __future__ import annotations

import datetime
import json
from typing import Any


def text_of(document: dict[str, Any]) -> bytes:
    """A whole file: one line for each key of the top."""
    return "".join(f"{key} = {toml(value)}\n" for key, value in document.items()).encode()


def toml(value: Any) -> str:
    """One value, on one line."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case datetime.date():
            return value.isoformat()
    return json.dumps(value)
