"""Random TOML texts of one document, with another order of keys and tables, other quotes and forms of numbers, and inline tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from random import Random
from typing import Any

COMMENTS = ["", "", "", "  # as agreed", '\t# [not] a = "table"']


def spelled(random: Random, document: Mapping[str, Any]) -> str:
    """Return a text of a document. Top-level scalars come first, as TOML requires, and everything else in any order."""
    scalars = {key: value for key, value in document.items() if not isinstance(value, dict | list)}
    blocks = [_table(random, (key,), value) for key, value in document.items() if isinstance(value, dict)]
    runs = [_table(random, ("mechanism",), entry, brackets=2) for entry in document.get("mechanism", [])]
    for block in blocks:
        runs.insert(random.randint(0, len(runs)), block)
    return "".join([_pairs(random, scalars), *runs])


def _table(random: Random, path: tuple[str, ...], table: Mapping[str, Any], brackets: int = 1) -> str:
    """Return a table under its header. Some of its inner tables get their own headers, and the others are inline."""
    apart = [key for key, value in table.items() if isinstance(value, dict) and random.random() < 0.5]
    head = "[" * brackets + ".".join(_key(random, part) for part in path) + "]" * brackets
    own = _pairs(random, {key: value for key, value in table.items() if key not in apart})
    inner = "".join(_table(random, (*path, key), table[key]) for key in apart)
    return f"\n{head}{random.choice(COMMENTS)}\n{own}{inner}"


def _pairs(random: Random, table: Mapping[str, Any]) -> str:
    order = random.sample(list(table), len(table))
    return "".join(f"{_key(random, key)} = {_value(random, table[key])}{random.choice(COMMENTS)}\n" for key in order)


def _key(random: Random, key: str) -> str:
    bare = key.replace("_", "").replace("-", "").isalnum() and key.isascii()
    return key if bare and random.random() < 0.8 else json.dumps(key, ensure_ascii=False)


def _value(random: Random, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:_}" if random.random() < 0.5 else str(value)
        case float():
            return repr(value) if value == 0 or not isfinite(value) or random.random() < 0.5 else f"{value:.17e}"
        case str():
            literal = "'" not in value and value.isprintable() and random.random() < 0.5
            return f"'{value}'" if literal else json.dumps(value, ensure_ascii=False)
        case dict():
            return "{ " + ", ".join(f"{_key(random, key)} = {_value(random, inner)}" for key, inner in value.items()) + " }"
        case _:
            return "[" + ", ".join(_value(random, item) for item in value) + "]"
