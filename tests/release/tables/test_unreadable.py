"""A table that turns out to be unreadable after the charge: the same words whatever is wrong, wherever, on every engine."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.stores.places import init
from dpcli.release.release_plan import plan_of
from dpcli.release.release_run import release
from tests.cases import fresh_random
from tests.inline import text_of
from tests.ledger.filters.setting import DATASET, terms
from tests.release.tables.files import document
from tests.release.tables.places import cluster_of

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")

HIDDEN = "s3cret-of-ann"
QUERY = {"name": "q", "measure": "count", "where": "age > 0", "epsilon": 0.5, "max_rows": 1}
COLUMNS = {"visitor": {"type": "text"}, "age": {"type": "integer", "min": 0, "max": 115}}
LINES = {
    "too many cells": f"{HIDDEN},1,2\n".encode(),
    "too few cells": f"{HIDDEN}\n".encode(),
    "a quote that does not end": f'"{HIDDEN},1\n'.encode(),
    "cut within quotes": f'{HIDDEN},"3'.encode(),
    "not UTF-8": HIDDEN.encode() + b"\xe3,1\n",
    "a line as long as none may be": HIDDEN.encode() + b"," + b"1" * (2**24 + 9) + b"\n",
}
READ_BY_SPARK = ("not UTF-8", "a line as long as none may be", "cut within quotes")


def csv(folder: Path, line: bytes) -> dict[str, Any]:
    rows = b"".join(b"v%d,%d\n" % (number, number % 90) for number in range(fresh_random().randrange(30_000)))
    (folder / "visits.csv").write_bytes(b"visitor,age\n" + rows + line)
    return {"path": "visits.csv"}


def damaged(folder: Path) -> dict[str, Any]:
    """A gzip file that breaks behind what is read of it before the charge: at a block of a type that there is not."""
    rows = b"".join(b"v%d,%d\n" % (number, number % 90) for number in range(150_000 + fresh_random().randrange(30_000)))
    header = gzip.compress(b"")[:10]
    (folder / "visits.csv.gz").write_bytes(gzip.compress(b"visitor,age\n" + rows) + header + b"\xff" * 100)
    return {"path": "visits.csv.gz"}


def cut(folder: Path) -> dict[str, Any]:
    """A parquet file whose end is there, which tells its columns, and whose rows are not."""
    import duckdb

    path = folder / "visits.parquet"
    where = f"CASE WHEN range < {fresh_random().randrange(50_000)} THEN range ELSE 7 END"
    duckdb.sql(f"COPY (SELECT '{HIDDEN}' || range AS visitor, {where} AS age FROM range(60000)) TO '{path}' (FORMAT parquet)")
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = fresh_random().randbytes(len(data) // 2 - 4)
    path.write_bytes(bytes(data))
    return {"path": "visits.parquet"}


def view(cluster: Any, wrong: str) -> dict[str, Any]:
    """A view that fails at a row."""
    name = cluster.database()
    row = fresh_random().randrange(1000)
    cluster.run(
        f"CREATE VIEW visits AS SELECT '{HIDDEN}' || n AS visitor, CASE WHEN n = {row} THEN {wrong} ELSE 1 END AS age "
        "FROM generate_series(0, 999) n",
        database=name,
    )
    return {"url": cluster.url(name), "table": "visits"}


def refused(folder: Path, place: dict[str, Any]) -> str:
    """What is said, twice: after the start, and when it is asked for again."""
    tables = document(QUERY)
    tables["privacy"]["delta"] = 0
    tables["source"] = {**place, "unit": "visitor", "columns": COLUMNS, "output": str(folder / "out")}
    (folder / "file.toml").write_bytes(text_of(tables))
    with pytest.raises(InputError) as caught:
        release(plan_of(str(folder / "file.toml")))
    with pytest.raises(LedgerError, match="was charged"):
        release(plan_of(str(folder / "file.toml")))
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return str(caught.value).replace(str(folder), "")


def cases(request: pytest.FixtureRequest, engine: str) -> Iterator[Callable[[Path], dict[str, Any]]]:
    if engine == "postgres":
        cluster = cluster_of("postgres", request)
        for wrong in ("1 / (n - n)", "(n || 'x')::int", "2147483647 + n + 1"):
            yield lambda folder, wrong=wrong: view(cluster, wrong)  # type: ignore[misc]
        return
    own = {"engine": "spark"} if engine == "spark" else {}
    cluster_of(engine, request)
    for kind, line in LINES.items():
        if engine != "spark" or kind not in READ_BY_SPARK:
            yield lambda folder, line=line: {**csv(folder, line), **own}  # type: ignore[misc]
    yield lambda folder: {**cut(folder), **own}
    if engine != "spark":
        yield damaged


@pytest.mark.parametrize("engine", ["duckdb", "postgres", pytest.param("spark", marks=pytest.mark.nightly)])
def test_what_cannot_be_read_is_told_in_the_same_words(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    said = set()
    for number, case in enumerate(cases(request, engine)):
        (folder := tmp_path / str(number)).mkdir()
        said.add(refused(folder, case(folder)))
    (one,) = said
    assert "stays charged" in one and "private" in one and not re.search(r"\d", one.replace("UTF-8", "")), one
    shown = capfd.readouterr()
    assert HIDDEN not in shown.out + shown.err + one


def test_a_gzip_file_that_breaks_in_its_first_line_is_refused_before_the_charge(tmp_path: Path) -> None:
    (tmp_path / "visits.csv.gz").write_bytes(gzip.compress(b"")[:10] + b"\xff" * 100)
    tables = document(QUERY)
    tables["privacy"]["delta"] = 0
    tables["source"] = {"path": "visits.csv.gz", "unit": "visitor", "columns": COLUMNS, "output": str(tmp_path / "out")}
    (tmp_path / "file.toml").write_bytes(text_of(tables))
    with pytest.raises(InputError, match="not a csv file in UTF-8"):
        release(plan_of(str(tmp_path / "file.toml")))
    assert not (tmp_path / "out").exists()


def test_the_charge_stands(tmp_path: Path) -> None:
    """To give it back would say for nothing whether every row can be read."""
    tables = document(QUERY, by_unit=False)
    tables["privacy"]["delta"] = 0
    tables["source"] = {**csv(tmp_path, LINES["too few cells"]), "columns": COLUMNS, "output": str(tmp_path / "out")}
    (tmp_path / "file.toml").write_bytes(text_of(tables))
    with init(str(tmp_path / "ledger.db"), DATASET, terms(5.0)) as ledger:
        with pytest.raises(InputError, match="stays charged"):
            release(plan_of(str(tmp_path / "file.toml")), ledger)
        assert [run.status for run in ledger.state().runs.values()] == ["started"]
