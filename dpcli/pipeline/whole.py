"""All that the tables of a file come to: what its keys say, whether they agree, and the mechanisms that its queries are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.pipeline.consistency import check
from dpcli.pipeline.document import read_document
from dpcli.pipeline.section import entries_of_queries
from dpcli.toml.findings import Findings


def values_of(tables: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """The top-level values that could be read, by key, with a finding for everything that is wrong. Raises TooMany."""
    values = read_document(tables, findings)
    check(tables, values, findings)
    queries = entries_of_queries(values, findings)
    if not queries:
        return values
    places = tuple(position for position, _ in queries)
    return {**values, "mechanism": (*values.get("mechanism", ()), *(entry for _, entry in queries)), "queries": places}
