"""Pipelines for the tests of disclosures, with their facts and statements."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from typing import Any

from dpcli.analysis.account import account
from dpcli.disclosure.disclosed_facts import Facts, gather
from dpcli.disclosure.statement import Statement, disclosure, registry_entry
from dpcli.file.pipeline.read import parse
from dpcli.lint.run import judge
from tests.command import ROOT
from tests.inline import text_of

FULL: Mapping[str, Any] = tomllib.loads((ROOT / "examples" / "disclosure.toml").read_text())
# The same without its first entry, which makes the sum of both dear: it states as much.
SAMPLED: Mapping[str, Any] = {**FULL, "mechanism": FULL["mechanism"][1:]}
MINIMAL = """format = 1
[privacy]
adjacency = "add-remove"
delta = 1e-6
[[mechanism]]
name = "count"
type = "gaussian"
noise_multiplier = 4.0
"""


def toml(tables: Mapping[str, Any]) -> str:
    return text_of(dict(tables)).decode()


def without(tables: Mapping[str, Any], table: str, *keys: str) -> dict[str, Any]:
    """Return the tables without some keys of one table, or without the whole table if no key is given."""
    if not keys:
        return {name: item for name, item in tables.items() if name != table}
    return {**tables, table: {key: item for key, item in tables[table].items() if key not in keys}}


def facts(text: str) -> Facts:
    data = text.encode()
    pipeline = parse(data, "-")
    return gather(pipeline, None, judge(pipeline, data))


@functools.cache
def statements(text: str) -> tuple[Statement, Statement]:
    found = facts(text)
    return disclosure(found), registry_entry(found)


def silent(text: str) -> tuple[set[str], set[str]]:
    """Return the items of both forms that the file does not state. A fast accountant suffices for this."""
    found = Facts(account(parse(text.encode(), "-"), ("basic",)), None, None)
    first, second = disclosure(found), registry_entry(found)
    return {answer.item.id for answer in first.silent}, {answer.item.id for answer in second.silent}
