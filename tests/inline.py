"""Write plain values as TOML text for tests, with tables and lists inline: {"a": {"b": 1}} becomes `a = { b = 1 }`."""

from __future__ import annotations

import datetime
import json
from typing import Any


def text_of(document: dict[str, Any]) -> bytes:
    """Return the content of a TOML file, with one line for each top-level key."""
    return "".join(f"{key} = {toml(value)}\n" for key, value in document.items()).encode()


def toml(value: Any) -> str:
    """Return one value as TOML on one line."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case datetime.date():
            return value.isoformat()
    return json.dumps(value)
