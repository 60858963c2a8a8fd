"""JSON Schema of a table from its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcli.keys.member import Member, Members


def table_schema(known: Members) -> dict[str, Any]:
    """A table with exactly these keys."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    schema["properties"] = {name: described(member) for name, member in known.items()}
    if required := [name for name, member in known.items() if member.required]:
        schema["required"] = required
    return schema


def described(member: Member) -> dict[str, Any]:
    """The schema of one key, with what it means."""
    schema = member.kind.schema(member.rule)
    return {"description": member.doc, **schema} if member.doc else schema


def selected_schema(selector: str, choices: Mapping[str, Members]) -> dict[str, Any]:
    """A table whose keys depend on the word at `selector`."""
    cases = [
        {"if": {"properties": {selector: {"const": name}}, "required": [selector]}, "then": table_schema(known)}
        for name, known in choices.items()
    ]
    return {"type": "object", "required": [selector], "properties": {selector: {"enum": list(choices)}}, "allOf": cases}
