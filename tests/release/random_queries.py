"""Random queries of every measure (the statistic of a query) and random tables, for a search for neighbours that break a sensitivity.

privacy/neighbours.py checks whether the exact numbers of two tables are further apart than the query's mechanisms are priced for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpcli.file.toml.findings import InvalidFile
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.data_source import Source
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.source_table import ActualColumn, ActualTable
from dpcli.release.query_entries import PricedQuery
from tests.release.tables.files import priced


def literal(value: Any, name: str) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {TYPES[name][1]})"


def put(engine: DuckDB, kinds: Mapping[str, tuple[str, str]], rows: Iterable[Iterable[str]]) -> None:
    """Replace the engine's table.

    kinds: The family and the SQL type of each column.
    rows: Rows of cells in SQL.
    """
    names = ", ".join(f"f{n}" for n in range(len(kinds)))
    nothing = ", ".join(f"CAST(NULL AS {kind})" for _, kind in kinds.values())
    cells = ", ".join(f"({', '.join(row)})" for row in rows)
    item = f"(VALUES {cells})" if cells else f"(SELECT {nothing} WHERE false)"
    fields = {name: ActualColumn(f"f{n}", family, family) for n, (name, (family, _)) in enumerate(kinds.items())}  # type: ignore[arg-type]
    engine.actual = ActualTable(f"{item} AS raw({names})", fields, "test")


def drawn(measure: str, draw: random.Random, folder: Path) -> tuple[PricedQuery, Source, bool] | None:
    """Draw a query, its source, and whether units have several rows; None if dpcli refuses the file."""
    by_unit, adjacency = draw.random() < 0.6, draw.choice(list(Adjacency))
    whose = {"unit": "visitor", "max_contributions": 10} if by_unit else {"unit": "example"}
    source = {"path": "rows.csv", "columns": columns(draw, by_unit), **({"unit": "who"} if by_unit else {})}
    document = {
        "format": 1,
        "privacy": {"adjacency": adjacency.value, "delta": 1e-6, **whose},
        "budget": {"epsilon": 50.0},
        "source": source,
        "query": [question(measure, draw, by_unit)],
    }
    try:
        (one,) = priced(document, str(folder))
    except InvalidFile:
        return None
    return one, one.setting.source, by_unit


Row = tuple[Any, ...]
TYPES = {
    "who": ("text", "VARCHAR"),
    "state": ("text", "VARCHAR"),
    "free": ("text", "VARCHAR"),
    "vip": ("boolean", "BOOLEAN"),
    "small": ("whole", "BIGINT"),
    "age": ("whole", "BIGINT"),
    "money": ("real", "DOUBLE"),
}
CONDITIONS = ("age >= 1", "vip", "money > 0 or free = 'x'", "state is null or small = 1")
SIZES = {"state": 3, "vip": 2, "small": 3, "big": 2}
DOUBLES = (None, -3.0, -0.75, -0.5, 0.0, 0.1, 0.24, 0.25, 0.3, 0.55, 1.0, 1.7, math.nan, math.inf, -0.0, 1e308)


def columns(draw: random.Random, by_unit: bool) -> dict[str, dict[str, Any]]:
    """Draw the declarations of columns of TYPES, and of columns that are computed from them."""

    def numbers(least: float, span: float, **more: Any) -> dict[str, Any]:
        missing = {"missing": draw.choice([least, least + span])} if draw.random() < 0.4 else {}
        return {"min": least, "max": least + span, **missing, **more}

    return {
        "who": {"type": "text"},
        "state": {"type": "text", "domain": ["a", "b", "c"]},
        "free": {"type": "text"},
        "vip": {"type": "boolean"},
        "small": {"type": "integer", "min": 0, "max": 2},
        "age": numbers(draw.choice([-3, -2, 0, 1, 2]), draw.choice([1, 2, 3, 5]), type="integer"),
        "money": numbers(
            draw.choice([-1.5, 0, 0.25, 1]), draw.choice([0.5, 1, 1.3]), type="decimal", step=draw.choice([0.1, 0.25, 0.3])
        ),
        "half": numbers(-1, 2.5, type="decimal", step=0.5, expression=draw.choice(["age / 2", "coalesce(age, 3) / 2"])),
        "big": {"type": "boolean", "expression": "age > 1"},
        **({"visits": numbers(1, draw.choice([1, 2, 5]), type="integer", rows_of_unit=True)} if by_unit else {}),
        "wide": {"type": "integer", "expression": "age"},
    }


def question(measure: str, draw: random.Random, by_unit: bool) -> dict[str, Any]:
    """Draw a [[query]] table."""
    table = {"name": "q", "measure": measure, **_own(measure, draw, by_unit)}
    if draw.random() < 0.4 and "count" not in table:
        table["where"] = draw.choice(CONDITIONS)
    keyed = bool(table.get("by")) or measure in ("histogram", "mode", "top-k") or (measure == "threshold" and "column" in table)
    if by_unit and keyed:
        table["max_groups"] = draw.choice([1, 2, 3])
    if by_unit and table.get("of") != "units" and "max_total" not in table:
        table["max_rows"] = draw.choice([1, 2, 3])
    return {**table, **_cost(measure, table, draw)}


def _cost(measure: str, table: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    error = measure in ("count", "distinct", "sum", "histogram") or (measure == "mean" and "count" in table)
    possible = [{"epsilon": 0.5}, {"epsilon": 0.01}, {"rho": 0.05}, {"rho": 2.0}, {"weight": 1}]
    error = error and not table.get("totals") and (measure == "count" or "keys" not in table)
    targets = [{"error": {"within": 50, "confidence": 0.9}}] if error else []
    return draw.choice([*possible, *targets])  # type: ignore[no-any-return]


def _own(measure: str, draw: random.Random, by_unit: bool) -> dict[str, Any]:
    """Draw the keys that only this measure has."""
    number, key = (
        {"column": draw.choice(["age", "money", "half", *(["visits"] if by_unit else [])])},
        {"column": draw.choice(list(SIZES))},
    )
    noise = {"noise": draw.choice(["laplace", "gaussian"])} if draw.random() < 0.4 else {}
    by = {"by": draw.sample(list(SIZES), draw.choice([0, 0, 1, 2])), **noise}
    apart = {"by": draw.sample([name for name in SIZES if name != key["column"]], draw.choice([0, 1, 2]))}
    tested: dict[str, Any] = {"delta": 1e-8}
    return {  # type: ignore[no-any-return]
        "count": lambda: _count(by, draw),
        "distinct": lambda: {"column": draw.choice([*SIZES, "free", "wide"]), **by},
        "sum": lambda: {**number, **by, **_open_keys(draw, 0.5), **_totals(draw)},
        "mean": lambda: {**number, **noise, "count": 7} if draw.random() < 0.4 else {**number, **by, **_open_keys(draw, 0.5)},
        "variance": lambda: {**number, **by, **_open_keys(draw, 0.3)},
        "histogram": lambda: {**number, **by, "bins": sorted(draw.sample([-2, -1, 0, 0.5, 1, 2, 3], draw.choice([2, 3, 4])))},
        "quantile": lambda: {**number, "quantiles": draw.choice([[0.5], [0.0], [1.0], [0.25, 0.75], [0.333333]]), **apart},
        "mode": lambda: _mode({**key, **apart}, tested, draw),
        "top-k": lambda: {**key, **apart, "top": draw.choice([1, 2])},
        "threshold": lambda: {**(key if draw.random() < 0.8 else {}), "above": 3, "answers": draw.choice([1, 2])},
        "linear": lambda: _linear(noise, draw),
        "stable-quantile": lambda: {
            **number,
            "quantile": draw.choice([0.5, 0.25, 0.9]),
            "within": draw.choice([1, 2, 3]),
            **tested,
        },
        "interquartile-range": lambda: {**number, "within": draw.choice([1, 2, 3]), **tested},
        "clustered-mean": lambda: {
            **number,
            "width": draw.choice([1, 2, 3]),
            **tested,
            **({"count": 5} if draw.random() < 0.4 else {}),
        },
    }[measure]()


def _mode(key: dict[str, Any], tested: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    if draw.random() < 0.5:
        return key
    return {"column": draw.choice(["free", "wide"]), "method": "propose-test-release", **tested}


def _count(by: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    of = {"of": "units"} if draw.random() < 0.4 else {}
    opened = _open_keys(draw, 0.3)
    return {**by, **of, **(opened or ({"totals": True} if by["by"] and draw.random() < 0.5 else {}))}


def _open_keys(draw: random.Random, chance: float) -> dict[str, Any]:
    """Draw, with probability `chance`, keys of a query whose groups are not declared."""
    if draw.random() >= chance:
        return {}
    by = draw.choice([["free"], ["free", "vip"], ["state"], ["wide", "free"]])
    return {"by": by, "keys": "threshold", "delta": 1e-8}


def _totals(draw: random.Random) -> dict[str, Any]:
    """Draw bounds on the total of a unit, or none."""
    bounds = {"max_total": draw.choice([1, 2, 5]), **draw.choice([{}, {"min_total": -2}, {"min_total": 0}, {"min_total": 0.75}])}
    return bounds if draw.random() < 0.5 else {}


def _linear(noise: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    by = draw.sample(["state", "vip", "big"], draw.choice([1, 2]))
    cells = math.prod(SIZES[name] for name in by)
    rows = [[1, *(draw.choice([-3, -1, 0, 1, 2]) for _ in range(cells - 1))] for _ in range(draw.choice([1, 2, 4]))]
    return {**noise, "by": by, "matrix": rows}


def row(draw: random.Random, who: str | None) -> Row:
    """Draw a row of this unit."""
    return (
        who,
        draw.choice(["a", "b", "c", "z", None]),
        draw.choice(["x", "y", "X", None, ""]),
        draw.choice([True, False, None]),
        draw.choice([0, 1, 2, 5, None]),
        draw.choice([None, -9, -2, -1, 0, 1, 2, 3, 4, 50]),
        draw.choice(DOUBLES),
    )


def table(draw: random.Random, by_unit: bool) -> list[Row]:
    return [row(draw, draw.choice(["u0", "u1", "u2", None, ""]) if by_unit else None) for _ in range(draw.choice([1, 2, 4, 7]))]


BLANK: Row = (None,) * len(TYPES)


def neighbour(draw: random.Random, rows: list[Row], by_unit: bool, adjacency: Adjacency) -> list[Row]:
    """Draw a neighbouring table: without one unit, with blank rows in its place, or with other rows of the unit."""
    replaced = adjacency is Adjacency.REPLACE_ONE
    if not by_unit:
        place = draw.randrange(len(rows))
        new = {Adjacency.REPLACE_ONE: [row(draw, None)], Adjacency.ZERO_OUT: [BLANK]}.get(adjacency, [])
        return [*rows[:place], *rows[place + 1 :], *new]
    unit = draw.choice(sorted({each[0] for each in rows if each[0]}) or ["u0"])
    others = [each for each in rows if each[0] != unit]
    name = draw.choice([unit, "another"])
    if adjacency is Adjacency.ZERO_OUT:
        return [*others, *(BLANK for each in rows if each[0] == unit)]
    return [*others, *(row(draw, name) for _ in range(draw.choice([0, 1, 2, 4]) if replaced else 0))]
