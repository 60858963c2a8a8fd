"""Blocks of a dataset for the tests of windows: the block of a value in plain Python, and a table with its ledger."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from string import ascii_letters
from typing import Any

from dpcli.base.lazy import load
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from dpcli.release.release_plan import ReleasePlan, plan_of
from tests.inline import text_of
from tests.release.tables.files import COLUMNS, document

REGIONS = ("eu", "us west", "it's", "é")


DAYS = [date(2020, 12, 20) + timedelta(i) for i in range(30)]


TOLD = [by for by, target in BLOCKS.items() if load(target).column_type is not None]


def family(by: str, column: str = "when", max_blocks: int = 1) -> BlockFamily:
    needs = load(BLOCKS[by]).needs
    return BlockFamily(by, column, max_blocks, REGIONS if needs == "names" else (), 6 if needs == "count" else None)


def block_of(by: str, value: Any) -> str | None:
    """Return the block of a value, computed in plain Python."""
    if by == "region":
        return value if value in REGIONS else None
    found = value if isinstance(value, date) else None
    if isinstance(value, str):
        text = value.strip(" ")
        try:
            found = date.fromisoformat(text[:10]) if re.fullmatch("[0-9-]{10}([T ].*)?", text) else None
        except ValueError:
            found = None
    if found is None:
        return None
    year, week, _ = found.isocalendar()
    return {"day": f"{found}", "week": f"{year:04}-W{week:02}"}[by]


def windows(by: str, draw: random.Random) -> Iterator[tuple[str, ...]]:
    """Yield windows of one block, of consecutive blocks, and of blocks with gaps."""
    known = sorted({block for day in DAYS for block in [block_of(by, day)] if block} if by != "region" else set(REGIONS))
    yield (draw.choice(known),)
    yield tuple(known[1:4])
    yield tuple(draw.sample(known, min(4, len(known))))


def ledger(where: str, by: str = "day", unit: str = "visitor", column: str = "when") -> Ledger:
    found = family(by, column).content()
    adjacency = "add-remove"
    return init(where, "visits", LedgerTerms(unit, adjacency, 1e4, 0.5, filter="approx-dp", blocks=found))


def csv(
    folder: Path, draw: random.Random, keep: Callable[[str], bool] = lambda day: False, before: list[str] | None = None
) -> list[str]:
    """Write the table, with the lines of `before` whose day is kept, and random lines for the other days."""
    kept = [line for line in before or [] if keep(line.split(",")[0])]
    fresh = []
    for _ in range(200):
        day = f"{draw.choice(DAYS)}"
        row = {"visitor": f"v{draw.randrange(60)}", "state": draw.choice(["CA", "NY"]), "city": draw.choice("ABCD")}
        row |= {"name": draw.choice(ascii_letters), "age": draw.randrange(116), "spent": draw.randrange(500)}
        if not keep(day):
            fresh.append(",".join([day, *(str(row[name]) for name in COLUMNS)]))
    (folder / "visits.csv").write_text("\n".join([",".join(["when", *COLUMNS]), *kept, *fresh]) + "\n")
    return kept + fresh


def planned(folder: Path, query: Mapping[str, Any], *keys: tuple[str, Any], **source: Any) -> ReleasePlan:
    tables = document(query)
    tables["source"].update({"output": str(folder / "out"), **source})
    tables["privacy"].update(keys)
    tables["budget"]["epsilon"] = 1e6
    (folder / "file.toml").write_bytes(text_of(tables))
    return plan_of(str(folder / "file.toml"))


COUNT = {"name": "adults", "measure": "count", "where": "age >= 18", "epsilon": 0.5, "max_rows": 3}
