"""Values of a file as plain data: tables, lists, text and numbers, as JSON has them."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any


def plain_table(value: Any) -> dict[str, Any]:
    """A dataclass as a table, without what is None or equals its default, or is no part of what it says (compare=False)."""
    stated = ((field, getattr(value, field.name)) for field in fields(value) if field.compare)
    return {
        field.name: plain(content)
        for field, content in stated
        if content is not None and (field.default is MISSING or content != field.default)
    }


def plain(value: Any) -> Any:
    """One value."""
    if is_dataclass(value):
        return plain_table(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
