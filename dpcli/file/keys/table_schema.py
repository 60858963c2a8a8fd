"""JSON Schema of a table from its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.file.keys.plain import plain

if TYPE_CHECKING:
    from dpcli.file.keys.member import Member, Members


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
    if member.default is not None:
        schema = {**schema, "default": plain(member.default)}
    return {"description": member.doc, **schema} if member.doc else schema


def selected_schema(selector: str, choices: Mapping[str, Members], default: str | None = None) -> dict[str, Any]:
    """A table whose keys depend on the word at `selector`. default: the word where it is absent, None where it must be there."""
    cases = [
        {"if": _states(selector, name, [] if name == default else [selector]), "then": table_schema(known)}
        for name, known in choices.items()
    ]
    required = {"required": [selector]} if default is None else {}
    return {"type": "object", **required, "properties": {selector: {"enum": list(choices)}}, "allOf": cases}


def _states(selector: str, name: str, required: list[str]) -> dict[str, Any]:
    return {"properties": {selector: {"const": name}}, "required": required}
