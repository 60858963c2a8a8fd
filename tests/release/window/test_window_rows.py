"""The rows of a window: release and the other readers agree, whatever the column of the blocks holds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.ledger.blocks.rows import RowWindow, rows_from_content, rows_of_blocks
from dpcli.ledger.plugin import BLOCKS
from dpcli.release.aggregate import Aggregation, GroupKey
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.source_engine import open_source
from dpcli.train.tasks.files import csv_table, json_lines, parquet_table
from tests.cases import fresh_random, of_each
from tests.release.tables.places import Table, as_csv
from tests.release.window.windows import DAYS, TOLD, block_of, family, windows

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

SECRET = bytes(16)
ODD = ["{} ", " {}", "\t{}", "{}\n", "{}T23:59:59", "{} 00:00+02:00", "{}t00:00", "{}Z", "{}x", "{}-", "+{}", "0{}", "{}T", "'{}'"]


def text(by: str, draw: random.Random) -> Any:
    """What a column of text may hold."""
    if by == "region":
        return draw.choice([None, "", "EU", "eu ", " eu", "e\u0301", "\u00e9\u0301", "asia", "eu", "us west", "it's", "\u00e9"])
    day = draw.choice(DAYS)
    return draw.choice(
        [None, "", "soon", "2020-02-30", "0000-01-01", "10000-01-01", "2020-1-05", "20201228", "\uff12020-12-28"]
        + [f"{day}"] * 8
        + [draw.choice(ODD).format(day) for _ in range(6)]
    )


def moment(draw: random.Random) -> datetime | None:
    """Also before 1970, and the last instant of a day."""
    day = draw.choice([*DAYS, date(1969, 12, 31), date(1, 1, 1) + timedelta(700_000)])
    last = timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999)
    return draw.choice([None, datetime(day.year, day.month, day.day) + draw.choice([timedelta(0), last, timedelta(hours=7)])])


def arrow(kind: str, by: str, count: int, draw: random.Random) -> Any:
    """A column of a .parquet file."""
    import pyarrow as pa

    if kind in ("string", "dictionary"):
        found = pa.array([text(by, draw) for _ in range(count)], pa.string())
        return found.dictionary_encode() if kind == "dictionary" else found
    if kind in ("int64", "uint8"):
        return pa.array([draw.choice([None, 7, 12, 20]) for _ in range(count)], getattr(pa, kind)())
    if kind == "days":
        far = [-(2**31) + 2, 2**31 - 2, -719_163, 2_932_896, 2_932_897]  # beyond the years 1 to 9999, and their ends
        return pa.array(
            [draw.choice([None, *far, *((day - date(1970, 1, 1)).days for day in DAYS)]) for _ in range(count)], pa.date32()
        )
    if kind == "date64":
        return pa.array([draw.choice([None, *DAYS]) for _ in range(count)], pa.date64())
    return pa.array([moment(draw) for _ in range(count)], pa.timestamp(kind))


KINDS = {
    "date": ("string", "dictionary", "days", "date64", "s", "ms", "us", "ns"),
    "text": ("string", "dictionary", "int64", "uint8"),
}


def of_release(where: Path, rows: RowWindow) -> set[str]:
    source = Source(columns={"id": Column(type="text")}, path=where.name, engine="duckdb")
    asked = Aggregation(None, None, (GroupKey("id"),), (), 1, 1)
    with open_source(source, str(where.parent / "file.toml"), rows) as engine:
        return {str(key[0]) for key in engine.totals(asked, SECRET)}


def of_training(read: Callable[[str, RowWindow], tuple[list[str], list[list[Any]]]], where: Path, only: RowWindow) -> set[str]:
    """As a release has it, no row is an answer too."""
    try:
        names, rows = read(str(where), only)
    except InputError as problem:
        if "there are no rows" not in str(problem):
            raise
        return set()
    return {row[names.index("id")] for row in rows}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", TOLD)
def test_they_agree_about_csv_and_jsonl(by: str, tmp_path: Path) -> None:
    seed = fresh_random().randrange(2**32)
    draw, kept = random.Random(seed), 0
    for window in [*windows(by, draw), *windows(by, draw)]:
        rows = rows_of_blocks(family(by), window)
        assert rows is not None and rows_from_content(json.loads(json.dumps(rows.content())), rows.blocks) is not None
        held = [{"id": f"r{number}", "when": text(by, draw)} for number in range(200)]
        as_csv(Table({"id": "text", "when": "text"}, held), tmp_path / "rows.csv")
        found = of_release(tmp_path / "rows.csv", rows)
        assert of_training(csv_table, tmp_path / "rows.csv", rows) == found, seed
        assert {row["id"] for row in held if rows.holds(row["when"])} == found, seed
        kept += len(found)
        others: list[Any] = [
            {"id": "x"},
            {"id": "y", "when": 20201228},
            {"id": "z", "when": [1]},
            [1],
            7,
            {"id": "b", "when": True},
        ]
        (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in held + others))
        if found:
            assert {row["id"] for row in json_lines(str(tmp_path / "rows.jsonl"), rows)} == found, seed
    assert kept, seed


def refusal(read: Callable[..., set[str]], *asked: Any) -> bool:
    """Whether the column is refused; with its name, where it is."""
    try:
        return read(*asked) is None
    except InputError as problem:
        return '"when"' in str(problem)


PARQUET = pytest.mark.needs("pyarrow")


@pytest.mark.long
@PARQUET
@of_each("by, kind", [(by, kind) for by in TOLD for kind in KINDS[load(BLOCKS[by]).column_type]])
def test_they_agree_about_parquet(by: str, kind: str, tmp_path: Path) -> None:
    """Also where a value is none that Python knows: it is not looked at."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    seed = fresh_random().randrange(2**32)
    draw, where = random.Random(seed), tmp_path / "rows.parquet"
    for window in windows(by, draw) if "int" not in kind else [("7",), ("12", "20")]:
        own = family(by) if "int" not in kind else type(family(by))("region", "when", 1, ("7", "12", "20"))
        rows = rows_of_blocks(own, window)
        assert rows is not None
        pq.write_table(pa.table({"id": [f"r{number}" for number in range(200)], "when": arrow(kind, by, 200, draw)}), where)
        assert of_training(parquet_table, where, rows) == of_release(where, rows), (seed, window)


@PARQUET
@of_each("by", TOLD)
def test_they_refuse_the_same_types(by: str, tmp_path: Path) -> None:
    """A column of other values, a time with a zone among them, is refused: no row is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, where, refused = random.Random(1), tmp_path / "rows.parquet", 0
    for kind in (
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.float64(),
        pa.bool_(),
        pa.int32(),
        pa.decimal128(9, 2),
        pa.date32(),
        pa.string(),
    ):
        pq.write_table(pa.table({"id": ["a"], "when": pa.nulls(1, kind)}), where)
        rows = rows_of_blocks(family(by), next(iter(windows(by, draw))))
        assert rows is not None
        answers = [refusal(of_release, where, rows), refusal(of_training, parquet_table, where, rows)]
        assert answers[0] == answers[1], kind
        refused += answers[0]
    assert refused >= 4


def test_every_day_has_the_block_of_the_calendar() -> None:
    """The oracle of the engines' test, in the words of the class."""
    draw = random.Random(2)
    for by in TOLD:
        for window in windows(by, draw):
            rows = rows_of_blocks(family(by), window)
            assert rows is not None
            for value in [text(by, draw) for _ in range(300)]:
                odd = isinstance(value, str) and not value.isascii()
                if not odd and by != "region" and "\n" not in str(value):
                    assert rows.holds(value) == (block_of(by, value) in window), value
