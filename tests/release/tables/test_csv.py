"""Csv files and DuckDB's own as sources: nothing that a file defines changes what the plan says (engines/duckdb_engine.py)."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, GroupKey, Steps, Total, Totals
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.source_engine import open_source, require_source
from tests.cases import of_each

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

BYTES = 2**24  # so many that DuckDB would start to read in several places at once
SOURCE = Source(columns={"who": Column(type="text"), "note": Column(type="text")}, path="rows.csv", unit="who")
COUNT = Aggregation("who", None, (), (), 1, 10**9)
LINES = ("zed,5\n" * 20 + '"",""\n' + "first, and\nsecond\n") * 100 + "zed,5"


def units(folder: Path, where: str | None = None) -> Totals:
    with open_source(SOURCE, str(folder / "file.toml")) as engine:
        return engine.totals(replace(COUNT, where=where), b"k" * 32)


def test_lines_within_a_cell_are_no_rows(tmp_path: Path) -> None:
    count = BYTES // len(LINES)
    with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        file.write("who,note\n")
        file.writelines(f'u{number},"{LINES}"\n' for number in range(count))
    assert units(tmp_path) == {(): Total(count, count, ())}
    assert units(tmp_path, "who = 'zed'") == {(): Total(0, 0, ())}


def test_a_quote_that_does_not_end_hides_no_rows(tmp_path: Path) -> None:
    """Neither where the file is read in order."""
    (tmp_path / "rows.csv").write_text(f'who,note\nann,1\nbob,"{LINES.replace(chr(34), "")}"\ncem,"3\ndan,4\n')
    with pytest.raises(InputError, match=r"rows\.csv: a cell has misplaced or unclosed quotes"):
        units(tmp_path)


@of_each("row", [b"bob,\xff", b'bob,"1', b"bob", b"\x00"])
@of_each("header", ["who,note", '\ufeff"who",note,"\u00e4\r\n"'])
def test_what_is_wrong_with_a_row_is_not_told_before_it_is_paid_for(header: str, row: bytes, tmp_path: Path) -> None:
    """Before the charge, whatever the rows hold, there is no error: one would be an answer for nothing."""
    (tmp_path / "rows.csv").write_bytes(header.encode() + b"\r\nann,1\r\n" + row + b"\r\n")
    require_source(SOURCE, str(tmp_path / "file.toml"), (COUNT,))


def test_a_header_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"who,note,\xe9\nann,1,2\n")
    with pytest.raises(InputError, match="not a csv file in UTF-8"):
        require_source(SOURCE, str(tmp_path / "file.toml"), (COUNT,))


def test_a_long_cell_is_a_cell(tmp_path: Path) -> None:
    """That one row is long shall not make a release fail."""
    (tmp_path / "rows.csv").write_text(f'who,note\nann,1\nbob,"{"x" * 10**7}"\n')
    assert units(tmp_path) == {(): Total(2, 2, ())}


COLUMNS = {
    "who": Column(type="text"),
    "state": Column(type="text"),
    "age": Column(type="integer"),
    "born": Column(type="date", expression="day"),
    "day": Column(type="date"),
    "paid": Column(type="decimal"),
}
QUESTION = Aggregation(
    "who",
    "year(born) > 1900 and upper(state) <> 'X' and age + 1 > 0",
    (GroupKey("state", ("CA", "NY")), GroupKey("paid", bins=(0.0, 1.0, 2.0))),
    (Steps("age", 0, 100, 1.0, squared_about=50), Steps("paid", 0, 4, 0.5)),
    1,
    2,
)
CALLED = re.compile(r"\b([a-z_0-9]+)\(")
TABLE = (
    "CREATE TABLE rows AS SELECT 'ann' AS who, ['CA', 'NY'][1 + i % 2] AS state, 1000 AS age, date '2020-01-31' AS day, 1.5 AS paid "
    "FROM range(20) numbers(i)"
)


def made(folder: Path, name: str, *statements: str) -> None:
    import duckdb

    with duckdb.connect(str(folder / name)) as connection:
        for statement in statements:
            connection.execute(statement)


def source(name: str, table: str = "rows") -> Source:
    return Source(columns=COLUMNS, path=name, table=table, unit="who")


def totals(folder: Path, name: str, question: Aggregation = QUESTION, table: str = "rows") -> Totals:
    with open_source(source(name, table), str(folder / "file.toml")) as engine:
        return dict(engine.totals(question, b"k" * 32))


def functions(folder: Path, name: str) -> set[str]:
    """Every function that the plan calls."""
    with open_source(source(name), str(folder / "file.toml")) as engine:
        assert isinstance(engine, DuckDB)
        return set(CALLED.findall(engine._statement(QUESTION, b"k" * 32)))


def test_a_macro_of_the_file_is_never_called(tmp_path: Path) -> None:
    """One that is named as a function of the plan could leave the bounds out."""
    import duckdb

    made(tmp_path, "rows.duckdb", TABLE)
    expected = totals(tmp_path, "rows.duckdb")
    assert sum(total.rows for total in expected.values()) == 2 and Total(1, 2, (2 * 50 * 50, 2 * 3)) in expected.values()
    called, shadowed = functions(tmp_path, "rows.duckdb"), set()
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        for name in called:
            with suppress(duckdb.ParserException):  # a word of the grammar
                connection.execute(f"CREATE MACRO {name}(a) AS a, (a, b) AS a, (a, b, c) AS a")
                shadowed.add(name)
    assert {"least", "greatest", "sum", "count", "sha256", "floor"} <= shadowed
    assert totals(tmp_path, "rows.duckdb") == expected


SPELLINGS = "CREATE TABLE rows (who VARCHAR, state VARCHAR COLLATE NOCASE, folded VARCHAR COLLATE NOCASE)"
SPELLED = "INSERT INTO rows VALUES ('ann', 'ca', 'x'), ('bob', 'CA', 'X'), ('cem', 'Ca', NULL), ('dan', NULL, 'x')"
VIEWED = "CREATE VIEW seen AS SELECT who COLLATE NOACCENT AS folded, state FROM rows"


@of_each("state", ["state", "(state || '') COLLATE NOCASE AS state"])
def test_texts_are_compared_by_their_bytes(state: str, tmp_path: Path) -> None:
    """Whatever collation they have: else the spelling of a key would be that of somebody's row, and unknown ones would be found."""
    made(tmp_path, "rows.duckdb", SPELLINGS, SPELLED, f"CREATE VIEW own AS SELECT who, {state} FROM rows")

    def of(domain: tuple[str, ...] | None, where: str | None = None) -> Totals:
        return totals(tmp_path, "rows.duckdb", Aggregation("who", where, (GroupKey("state", domain),), (), 1, 2), "own")

    one, none = Total(1, 1, ()), Total(0, 0, ())
    assert of(("CA", "cA")) == {("CA",): one, ("cA",): none}
    assert of(None) == {("ca",): one, ("CA",): one, ("Ca",): one}
    assert of(None, "state = 'ca'") == {("ca",): one} and of(None, "state > 'a'") == {("ca",): one}


@of_each("table", ["rows", "seen"])
def test_a_unit_of_several_spellings_is_refused(table: str, tmp_path: Path) -> None:
    made(tmp_path, "rows.duckdb", SPELLINGS, SPELLED, VIEWED)
    columns = {"folded": Column(type="text")}
    found = Source(columns=columns, path="rows.duckdb", table=table, unit="folded")
    with pytest.raises(InputError, match=r'compared by their bytes, found "folded" \(VARCHAR with a collation\)'):
        require_source(found, str(tmp_path / "file.toml"), (Aggregation("folded", None, (), (), 1, 1),))


def test_a_view_of_what_is_gone_is_found_before_anything_is_charged(tmp_path: Path) -> None:
    made(tmp_path, "rows.duckdb", TABLE, "CREATE VIEW seen AS FROM rows", "DROP TABLE rows")
    with pytest.raises(InputError, match="cannot be read to its end"):
        require_source(source("rows.duckdb", "seen"), str(tmp_path / "file.toml"), (Aggregation("who", None, (), (), 1, 1),))


@of_each("name", ["other.duckdb", "data.duckdb"])
def test_a_file_may_be_called_like_a_schema(name: str, tmp_path: Path) -> None:
    """A view of it may call its macros, and have names without that of a schema."""
    others = (
        "CREATE SCHEMA other",
        "CREATE MACRO least(a, b) AS a",
        "CREATE VIEW seen AS SELECT *, least(age, 0) AS old FROM rows",
    )
    made(tmp_path, "made.db", TABLE, *others, "CREATE TABLE other.rows AS FROM rows", "CREATE TABLE other.own AS FROM rows")
    (tmp_path / "made.db").rename(tmp_path / name)
    count = Aggregation("who", None, (), (), 1, 2)
    assert [totals(tmp_path, name, count, table) for table in ("rows", "other.rows", "own", "seen")] == [{(): Total(1, 2, ())}] * 4
