"""JSON Schema of the pipeline file, of the policy file and of schedules, for editors; made from the dataclasses that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.keys.kinds import CALIBRATE
from dpcli.file.keys.table_schema import table_schema
from dpcli.file.pipeline.document import TOP

DIALECT = "https://json-schema.org/draft/2020-12/schema"
CAPPED = {"anyOf": [{"required": ["epsilon"]}, {"required": ["rho"]}]}  # a budget caps something


def json_schema() -> dict[str, object]:
    """Format 1 as JSON Schema, draft 2020-12.

    It says what one key may hold, what holds where it is absent (but where nothing does), and which keys go with which mechanism type,
    sampling scheme, task and clipping style; what keys must agree on among each other (rule DP005) only the reader checks. A number of a
    mechanism may be "calibrate", or a list of such.
    """
    schema = table_schema(TOP)
    schema["properties"]["budget"] |= CAPPED
    mechanisms = schema["properties"]["mechanism"]
    shape, needed = _apart(_calibratable(mechanisms["items"]))
    schema["properties"]["mechanism"] = {**mechanisms, "items": shape}
    schema |= {"if": {"not": {"required": ["defaults"]}}, "then": {"properties": {"mechanism": {"items": needed}}}}
    either = {"anyOf": [{"required": ["mechanism"]}, {"required": ["source", "query"], "properties": {"query": {"minItems": 1}}}]}
    return {"$schema": DIALECT, "title": "dpcli pipeline, format 1", **schema, **either}


def policy_schema() -> dict[str, object]:
    """The policy file of the gate, format 1, in the same dialect."""
    schema = table_schema(load(FILES["policy"][0]))
    schema["properties"]["together"]["items"] |= CAPPED
    return {"$schema": DIALECT, "title": "dpcli policy, format 1", **schema}


def schedule_schema() -> dict[str, object]:
    """The schedule of planned runs, format 1, in the same dialect."""
    return {"$schema": DIALECT, "title": "dpcli schedule, format 1", **table_schema(load(FILES["schedule"][0]))}


def _calibratable(schema: Any, several: bool = True) -> Any:
    """The same schema with every number also allowed to be left open, and to be a list of such, where it is in no list itself."""
    if isinstance(schema, list):
        return [_calibratable(item, several) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") in ("number", "integer"):
        about = {key: schema[key] for key in ("description", "default") if key in schema}
        one = {"anyOf": [{key: value for key, value in schema.items() if key not in about}, {"const": CALIBRATE}]}
        return {**about, "anyOf": [*one["anyOf"], {"type": "array", "minItems": 1, "items": one}]} if several else {**about, **one}
    return {key: _calibratable(value, several and key != "items") for key, value in schema.items()}


def _apart(item: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a table may hold, and what it must state, unless [defaults] does."""
    cases = item["allOf"]
    shape = [{**case, "then": {key: value for key, value in case["then"].items() if key != "required"}} for case in cases]
    needed = [{"if": case["if"], "then": {"required": case["then"].get("required", [])}} for case in cases]
    rest = {key: value for key, value in item.items() if key not in ("required", "allOf")}
    return {**rest, "allOf": shape}, {"required": item.get("required", []), "allOf": needed}
