"""All tables of the pipeline file with their keys, for the manual and for `explain`, and the JSON Schemas of all file formats.

Everything here follows from the classes that read the file (model.py, canonical.py and plugins), so that the manual cannot fall behind. A
*place* is a table with its keys (`TablePlace` in section.py). One key may be in several places with another meaning in each, since every
mechanism type and every table may have a key of this name. A *selector* is a key, such as `type`, whose value decides which other keys its
table has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.keys.annotations import default_text, members_of
from dpcli.file.keys.kinds import CALIBRATE, WEIGHTED
from dpcli.file.keys.tables import Member, Members, table_schema
from dpcli.file.pipeline.canonical import TOP, Mechanisms, MechanismTable
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.section import MECHANISM_TYPES, TablePlace, inner_tables, places_in

TOP_LEVEL = "top level"

DIALECT = "https://json-schema.org/draft/2020-12/schema"
CAPPED = {"anyOf": [{"required": ["epsilon"]}, {"required": ["rho"]}]}  # the condition that a budget has at least one cap


def places_of(key: str, path: str | None = None) -> list[str]:
    """Return a line for each meaning of a key, such as `[budget]: meaning of the key (allowed values; default 0.8)`.

    Args:
        path: Dotted key of the table to search; None for all tables.
    """
    result: dict[tuple[str, str], list[str]] = {}
    for place in every_table():
        if key in place.members and path in (None, place.path):
            member: Member = place.members[key]
            default = default_text(member)
            takes = f"{member.text}; {default}" if default.startswith("default ") else member.text  # else "required" or "optional"
            result.setdefault((member.doc, takes), []).append(place.title)
    return [f"{', '.join(titles)}: {doc} ({takes})" for (doc, takes), titles in result.items()]


@cache
def every_table() -> tuple[TablePlace, ...]:
    """Return all tables of the pipeline file. They are kept, since their classes are imported to list them."""
    return tuple(tables())


def tables(top: Members = TOP) -> Iterator[TablePlace]:
    """Yield every table of a file with these top-level keys, each before its inner tables. The manual also passes those of other files."""
    yield TablePlace(TOP_LEVEL, "format = 1 comes first in every file.", top)
    for name, member in top.items():
        if isinstance(member.kind, Mechanisms):
            yield from _mechanism_tables()
        else:
            yield from places_in(member.kind, name, f"[{name}]")


def _mechanism_tables() -> Iterator[TablePlace]:
    """Yield the tables of [[mechanism]]: the keys of all types, then those of each type."""
    path, title, selector = "mechanism", "[[mechanism]]", MECHANISM_TYPES.selector
    # `Entry` declares `type` as any text; here its kind is a choice among the registered types.
    shared = {**members_of(Entry), selector: MechanismTable().members(None)[selector]}
    yield TablePlace(title, Entry.__doc__ or "", shared, path)
    yield from inner_tables(shared, path, title)
    for name, target in MECHANISM_TYPES.registry.items():
        keys, choice = MECHANISM_TYPES.class_members(name), f'{selector} = "{name}"'
        yield TablePlace(choice, load(target).__doc__ or "", keys, path, selector_value=name, choice=choice)
        yield from inner_tables(keys, path, title)


def json_schema() -> dict[str, object]:
    """Return format 1 of the pipeline file as JSON Schema, draft 2020-12.

    The schema has the allowed values and the default of each key, and the keys of each mechanism type, sampling scheme, task and clipping
    style. Instead of a number, a mechanism may have "calibrate", with or without a weight, or a list of such values. Rules about several
    keys (DP005) are not in the schema; only the reader checks them.
    """
    schema = table_schema(TOP)
    schema["properties"]["budget"] |= CAPPED
    # [defaults] may state a key that every mechanism needs. So the required keys of mechanisms apply only to files without it.
    mechanisms = schema["properties"]["mechanism"]
    allowed_keys, required_keys = _allowed_and_required(_calibratable(mechanisms["items"]))
    schema["properties"]["mechanism"] = {**mechanisms, "items": allowed_keys}
    has_no_defaults = {"not": {"required": ["defaults"]}}
    conditional = {"if": has_no_defaults, "then": {"properties": {"mechanism": {"items": required_keys}}}}
    has_queries = {"required": ["source", "query"], "properties": {"query": {"minItems": 1}}}
    either = {"anyOf": [{"required": ["mechanism"]}, has_queries]}
    return {"$schema": DIALECT, "title": "dpcli pipeline, format 1", **schema, **conditional, **either}


def policy_schema() -> dict[str, object]:
    """Return the policy file of the gate, format 1, as JSON Schema."""
    keys, _reader = FILES["policy"]
    schema = table_schema(load(keys))
    schema["properties"]["together"]["items"] |= CAPPED  # [[together]] caps the sum over the files of some datasets
    return {"$schema": DIALECT, "title": "dpcli policy, format 1", **schema}


def schedule_schema() -> dict[str, object]:
    """Return the schedule of planned runs, format 1, as JSON Schema."""
    keys, _reader = FILES["schedule"]
    return {"$schema": DIALECT, "title": "dpcli schedule, format 1", **table_schema(load(keys))}


def _calibratable(schema: Any, takes_lists: bool = True) -> Any:
    """Return a schema in which "calibrate" may replace each number and, if `takes_lists`, a list of values may.

    A number in an array that the key takes in any case, such as `orders`, is not replaced by a list.
    """
    if isinstance(schema, list):
        return [_calibratable(item, takes_lists) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") not in ("number", "integer"):
        return {key: _calibratable(value, takes_lists and key != "items") for key, value in schema.items()}
    annotations = {key: value for key, value in schema.items() if key in ("description", "default")}
    number = {key: value for key, value in schema.items() if key not in annotations}
    choices = [number, {"const": CALIBRATE}, WEIGHTED]
    if takes_lists:
        choices = [*choices, {"type": "array", "minItems": 1, "items": {"anyOf": choices}}]
    return {**annotations, "anyOf": choices}


def _allowed_and_required(item: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the schema of a mechanism into that of its allowed keys and that of its required keys, which [defaults] may state instead."""
    allowed, required = [], []
    for case in item["allOf"]:  # one case for each mechanism type: if the type is this one, then these keys
        keys = dict(case["then"])
        required.append({"if": case["if"], "then": {"required": keys.pop("required", [])}})
        allowed.append({**case, "then": keys})
    common = {key: value for key, value in item.items() if key not in ("required", "allOf")}
    return {**common, "allOf": allowed}, {"required": item.get("required", []), "allOf": required}
