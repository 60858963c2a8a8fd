"""The JSON Schema of what `-f json` prints: .github/docs/documents.json, which every command of a test must agree with.

With UPDATE_DOCS=1, what a command prints and the file does not allow is added to it. A field that is no longer required, or that
has one more type, breaks a reader: it asks for a new number in the name of the schema, unless no release has had the field.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

PLACE = Path(__file__).resolve().parent.parent / ".github" / "docs" / "documents.json"
# Kinds of files that dpcli reads again. `-f json` prints none of them; an export may be written to standard output.
OF_FILES = {f"dpcli/{name}" for name in ("canaries/v1", "dp-event/v1", "pate-transcript/v3", "run/v1", "sweep-run/v1", "trials/v1")}
INFINITY = "^-?inf$"  # a pattern says nothing of numbers: {"type": ["number", "string"], "pattern": INFINITY} is a float
NAMES: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
Node = dict[str, Any]  # True stands for a node that allows everything: what a user's file says, or another format


@cache
def schema() -> Node:
    """Return the published schema, which has a definition for each kind of document."""
    loaded: Node = json.loads(PLACE.read_text("utf-8"))
    return loaded


def definition(kind: str) -> str:
    """Return the name of the definition of a kind, such as account-v1 for dpcli/account/v1."""
    return kind.removeprefix("dpcli/").replace("/", "-")


def require_published(text: str) -> None:
    """Fail if a document of a known kind does not match the schema. Documents of other packages' commands are not checked."""
    document = json.loads(text)
    if document["schema"] in OF_FILES:
        return
    name = definition(document["schema"])
    definitions = schema()["$defs"]
    if os.environ.get("UPDATE_DOCS"):
        before = json.dumps(definitions.get(name))
        definitions[name] = widened(definitions.get(name), document)
        definitions[name]["properties"]["schema"] = {"const": document["schema"]}
        if json.dumps(definitions[name]) != before:
            write()
    problems = list(faults(definitions[name], document, document["schema"]))
    assert not problems, f"not as .github/docs/documents.json says; UPDATE_DOCS=1 adds what is new: {'; '.join(problems[:8])}"


def write() -> None:
    """Write the schema, sorted by kind."""
    whole = schema()
    whole["$defs"] = dict(sorted(whole["$defs"].items()))
    whole["anyOf"] = [{"$ref": f"#/$defs/{name}"} for name in whole["$defs"]]
    PLACE.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")


def types(node: Mapping[str, Any]) -> set[str]:
    """Return the types that a node allows."""
    stated = node.get("type", [])
    return {stated} if isinstance(stated, str) else set(stated)


def faults(node: Node | Literal[True], value: Any, place: str) -> Iterator[str]:
    """Yield each way in which a value does not match a node of the schema. Unlisted fields count too."""
    if node is True:
        return
    if "const" in node:
        if value != node["const"]:
            yield f"{place}: expected {node['const']!r}, found {value!r}"
        return
    name, allowed = NAMES.get(type(value), "null"), types(node)
    is_text_of_number = name == "string" and "pattern" in node and value not in ("inf", "-inf")
    if is_text_of_number or not (name in allowed or (name == "integer" and "number" in allowed)):
        yield f"{place}: expected {' or '.join(sorted(allowed))}, found {name}"
    elif name == "object":
        listed, rest = node.get("properties", {}), node.get("additionalProperties")
        yield from (f"{place}: lacks {key}" for key in node.get("required", ()) if key not in value)
        for key, item in value.items():
            if key not in listed and rest is None:
                yield f"{place}: {key} is not listed"
            else:
                yield from faults(listed.get(key, rest), item, f"{place}.{key}")
    elif name == "array":
        for item in value:
            yield from faults(node.get("items", {}), item, f"{place}[]")


def widened(node: Node | Literal[True] | None, value: Any) -> Node | Literal[True]:
    """Return a node that also allows the value. Fields of the first value are required, and later ones are not."""
    if node is True or (node is not None and "const" in node):
        return node
    wide: Node = dict(node or {})
    name, allowed = NAMES.get(type(value), "null"), types(wide)
    is_infinity = value in ("inf", "-inf") and ("pattern" in wide or not allowed - {"null", "integer"})
    if name == "number" or is_infinity:
        if "string" not in allowed:
            wide["pattern"] = INFINITY
        allowed = allowed - {"integer"} | {"number", "string"}
    elif not (name == "integer" and "number" in allowed):
        allowed = allowed | {name}
    if name == "string" and not is_infinity:
        wide.pop("pattern", None)
    wide["type"] = next(iter(allowed)) if len(allowed) == 1 else sorted(allowed)
    if name == "object":
        rest, listed = wide.get("additionalProperties"), dict(wide.get("properties", {}))
        for key, item in value.items():
            if rest is None or key in listed:
                listed[key] = widened(listed.get(key), item)
            else:
                wide["additionalProperties"] = rest = widened(rest, item)
        wide["required"] = [key for key in wide.get("required", listed) if key in value]
        wide["properties"] = listed
    elif name == "array":
        wide["items"] = dict(wide.get("items", {}))
        for item in value:
            wide["items"] = widened(wide["items"] or None, item)
    return wide
