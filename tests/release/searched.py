"""Questions that a search for what moves too far puts, and cells of its tables."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpcli.file.pipeline.read import parse, section
from dpcli.file.toml.findings import InvalidFile
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.data_source import Source
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.source_table import ActualColumn, ActualTable
from dpcli.release.query_entries import PricedQuery, priced_queries
from tests.inline import text_of
from tests.release.questions_drawn import TYPES, columns, question


def literal(value: Any, name: str) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {TYPES[name][1]})"


def put(engine: DuckDB, kinds: Mapping[str, tuple[str, str]], rows: Iterable[Iterable[str]]) -> None:
    """The engine's table is this one from now on. kinds: family and SQL type of each column. rows: of cells in SQL."""
    names = ", ".join(f"f{n}" for n in range(len(kinds)))
    nothing = ", ".join(f"CAST(NULL AS {kind})" for _, kind in kinds.values())
    cells = ", ".join(f"({', '.join(row)})" for row in rows)
    item = f"(VALUES {cells})" if cells else f"(SELECT {nothing} WHERE false)"
    fields = {name: ActualColumn(f"f{n}", family, family) for n, (name, (family, _)) in enumerate(kinds.items())}  # type: ignore[arg-type]
    engine.actual = ActualTable(f"{item} AS raw({names})", fields, "test")


def drawn(measure: str, draw: random.Random, folder: Path) -> tuple[PricedQuery, Source, bool] | None:
    """A question, and whether units have several rows; None where the file is refused."""
    by_unit, adjacency = draw.random() < 0.6, draw.choice(list(Adjacency))
    whose = {"unit": "visitor", "max_contributions": 10} if by_unit else {"unit": "example"}
    source = {"path": "rows.csv", "columns": columns(draw), **({"unit": "who"} if by_unit else {})}
    document = {
        "format": 1,
        "privacy": {"adjacency": adjacency.value, "delta": 1e-6, **whose},
        "budget": {"epsilon": 50.0},
        "source": source,
        "query": [question(measure, draw, by_unit)],
    }
    data = text_of(document)
    try:
        pipeline = parse(data, "file.toml")
    except InvalidFile:
        return None
    opened_at = section(data, "file.toml", "source")
    (one,) = priced_queries(opened_at, section(data, "file.toml", "query"), pipeline.privacy, pipeline.budget, str(folder))
    return one, opened_at, by_unit
