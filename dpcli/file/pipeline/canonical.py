"""A pipeline as plain tables in one spelling, and back: what a ledger remembers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.keys.plain import plain_table
from dpcli.file.pipeline.document import pipeline_of, read_document
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Findings, TooMany


def tables_of(pipeline: Pipeline) -> dict[str, Any]:
    """What decides the cost of a run: [privacy] and the mechanisms, without what equals its default; JSON values only.

    Two files that mean the same (key order, spelling of numbers, comments, their [budget]) have equal tables.
    """
    return {"privacy": plain_table(pipeline.privacy), "mechanism": [_entry(entry) for entry in pipeline.mechanisms]}


def pipeline_from(tables: Mapping[str, Any]) -> Pipeline:
    """The pipeline that `tables_of` wrote down. Raises InputError where this version cannot read it."""
    findings = Findings()
    document = {"format": 1, **tables}
    with suppress(TooMany):
        values = read_document(document, findings)
    if findings.items:
        first = findings.items[0]
        raise InputError(f"expected a pipeline that this version reads, found {'.'.join(map(str, first.key))}: {first.message}")
    return pipeline_of(values, document)


def _entry(entry: Entry) -> dict[str, Any]:
    table = plain_table(entry)
    own = table.pop("spec", {})
    return {**table, **own}
