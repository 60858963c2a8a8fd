"""Pipeline files with queries, made from the examples of every measure (the statistic of a query)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpcli.base.lazy import load
from dpcli.file.pipeline.read import parse, section
from dpcli.release.plugin import MEASURES
from dpcli.release.query_entries import PricedQuery, priced_queries
from tests.inline import text_of

COLUMNS = {
    "visitor": {"type": "text"},
    "state": {"type": "text", "domain": ["CA", "NY"]},
    "city": {"type": "text", "domain": ["A", "B", "C", "D"]},
    "name": {"type": "text"},
    "age": {"type": "integer", "min": 0, "max": 115},
    "spent": {"type": "decimal", "min": 0, "max": 500, "step": 0.01},
}
UNIT = {"unit": "visitor", "max_contributions": 10}
BY_UNIT = frozenset({"max_groups", "max_rows"})  # a total is bounded where each row is a unit too


def queries() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (name, table) for every example of every measure, as cases with different names."""
    for measure, target in MEASURES.items():
        for place, example in enumerate(load(target).examples):
            yield f"{measure}-{place}", {"name": f"q{place}", "measure": measure, **example}


def document(*tables: Mapping[str, Any], adjacency: str = "add-remove", by_unit: bool = True, **more: Any) -> dict[str, Any]:
    """Return a whole file. Without `by_unit`, rows belong to no unit, and keys that only limit a unit's rows are left out."""
    asked = [table if by_unit else {key: value for key, value in table.items() if key not in BY_UNIT} for table in tables]
    return {
        "format": 1,
        "privacy": {"adjacency": adjacency, "delta": 1e-6, **(UNIT if by_unit else {"unit": "example"})},
        "budget": {"epsilon": 50.0},
        "source": {"path": "visits.csv", "columns": COLUMNS, **({"unit": "visitor"} if by_unit else {})},
        "query": asked,
        **more,
    }


def priced(tables: Mapping[str, Any], folder: str = "") -> tuple[PricedQuery, ...]:
    """Return the queries of a whole file, with their mechanisms."""
    data = text_of(dict(tables))
    pipeline = parse(data, "file.toml")
    source, query = (section(data, "file.toml", name) for name in ("source", "query"))
    return priced_queries(source, query, pipeline.privacy, pipeline.budget, folder)
