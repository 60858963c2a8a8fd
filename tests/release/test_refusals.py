"""Data that cannot be read, and questions that cannot be added up, are refused without a word of the data."""

from __future__ import annotations

import gc
import os
import traceback
from dataclasses import replace
from pathlib import Path
from types import NoneType

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, GroupKey, Steps, Totals
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.source_engine import open_source, require_source
from tests.cases import of_each
from tests.ledger.postgres.cluster import Cluster
from tests.release.tables.places import Table, cluster_of, everywhere, source_of

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

HIDDEN = "s3cret-of-ann"
COLUMNS = {"who": Column(type="text"), "age": Column(type="integer")}
COUNT = Aggregation("who", None, (), (), 1, 1)


def total(source: Source, folder: Path, question: Aggregation = COUNT) -> Totals:
    with open_source(source, str(folder / "file.toml")) as engine:
        return engine.totals(question, b"k" * 32)


def refused(source: Source, folder: Path, question: Aggregation = COUNT) -> str:
    """The message; nothing that hangs on the error has a word of the data."""
    with pytest.raises(InputError) as caught:
        total(source, folder, question)
    error = caught.value
    assert error.__cause__ is None and isinstance(
        error.__context__, NoneType | OSError | UnicodeError
    )  # of a path, or of the question
    assert HIDDEN not in "".join(traceback.format_exception(error)) and error.exit_code == 2
    return str(error)


def source(path: str, engine: str = "duckdb") -> Source:
    return Source(columns=COLUMNS, path=path, unit="who", engine=engine)  # type: ignore[arg-type]


@pytest.mark.long
def test_spark_reads_them_as_one_character(tmp_path: Path, spark_session: object) -> None:
    """It has no way to refuse them; the row counts."""
    (tmp_path / "rows.csv").write_bytes(b"who,age\n" + b"u,1\n" * 50 + b"v\xff,1\n")
    assert total(source("rows.csv", "spark"), tmp_path)[()].units == 2


PATHS = {
    "missing.csv": "cannot be read: No such file",
    "*.csv": "no such file",
    "folder.csv": "found a folder",
    "pipe.csv": "found a pipe or device",
    "/dev/zero": "files that end in",
    "rows.xlsx": "files that end in",
    "folder": "write FOLDER/*.parquet",
    "http://example.org/rows.csv": "found an address",
    "a\0b.csv": "NUL",
    "m?xed.*": "one kind",
    "unreadable.parquet": "a file cannot be read",
    "unreadable.duckdb": "DuckDB cannot open the file",
    "empty.csv": 'one column "age" in the first line, found none',
    "twice.csv": 'one column "age" in the first line, found 2',
    "others[12].csv": "the columns in its first line differ from the columns of",
    "latin.csv": "in UTF-8",
}


@of_each("path", PATHS)
def test_a_path_that_is_no_table(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("rows.xlsx", "unreadable.parquet", "unreadable.duckdb", "mixed.csv", "mixed.parquet"):
        (tmp_path / name).write_text(f"{HIDDEN},{HIDDEN}\n")
    if path.startswith("*"):
        path = "none-here*.csv"
        assert refused(source(path), tmp_path) == "source.path: none-here*.csv: no such file"
        return
    (tmp_path / "empty.csv").write_text(f"{HIDDEN}\n")
    (tmp_path / "twice.csv").write_text("who,age,age\n")
    (tmp_path / "others1.csv").write_text("who,age\n")
    (tmp_path / "others2.csv").write_text(f"who,{HIDDEN}\n")
    (tmp_path / "latin.csv").write_bytes(f"{HIDDEN}\xe9\n".encode("latin-1"))
    words = refused(source(path), tmp_path)
    assert PATHS[path] in words
    read = ("unreadable.parquet", "unreadable.duckdb", "empty.csv", "twice.csv", "others[12].csv", "latin.csv")
    assert words.startswith("source.path: ") == (path not in read), words


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", everywhere("spark-csv"))
@of_each(
    "stated, said",
    [
        ("Dept", "none: did you mean 'dept'?"),
        ("dep", "none: did you mean 'dept'?"),
        ("year", "none: the columns are 'who', 'age', 'dept'"),
    ],
)
def test_a_column_of_another_name_is_told(
    place: str, stated: str, said: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """On every engine, and no value with it."""
    cluster = cluster_of(place, request)
    table = Table({"who": "text", "age": "integer", "dept": "text"}, [{"who": HIDDEN, "age": 1, "dept": HIDDEN}])
    found = source_of(place, table, tmp_path, cluster, "who")
    columns = {stated if name == "dept" else name: column for name, column in found.columns.items()}
    asked = Aggregation("who", None, (GroupKey(stated, ("x",)),), (), 1, 1)
    message = refused(replace(found, columns=columns), tmp_path, asked)
    assert f'column "{stated}"' in message and message.endswith(f"found {said}"), message


def test_a_first_line_that_may_be_a_record_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"{HIDDEN},31,ages\nu,1,x\n")
    assert refused(source("rows.csv"), tmp_path).endswith('one column "age" in the first line, found none')


def test_files_that_a_pattern_names_are_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "a [b] it's"
    folder.mkdir()
    for number in range(3):
        (folder / f"part-{number}.csv").write_text(f'\ufeffwho,"a ""b""",age\r\nu{number},"x,\r\ny",{number}\r\n', newline="")
    assert total(source("part-*.csv"), folder)[()].units == 3
    assert total(source("a [[]b] it's/part-1.csv"), tmp_path)[()].units == 1
    assert total(source("part-1.csv"), folder)[()].units == 1


def test_a_separator_other_than_the_comma(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("who\tage\nann\t1\nbob\t2\n")
    assert total(source("rows.tsv"), tmp_path)[()].units == 2


QUESTIONS = {
    "expected a column of type text or integer": Aggregation("half", None, (), (), 1, 1),
    "max_groups: expected": Aggregation("who", None, (), (), 0, 1),
    "max_rows: expected": Aggregation("who", None, (), (), 1, 0),
    "domain of different values": Aggregation("who", None, (GroupKey("who", ("a", "a")),), (), 1, 1),
    "values of type text": Aggregation("who", None, (GroupKey("who", (1,)),), (), 1, 1),
    "values of type integer": Aggregation("who", None, (GroupKey("age", (True, False)),), (), 1, 1),
    "Unicode": Aggregation("who", None, (GroupKey("who", ("\ud800",)),), (), 1, 1),
    "keys of text, integers or booleans": Aggregation("who", None, (GroupKey("half", None),), (), 1, 1),
    "finite edges": Aggregation("who", None, (GroupKey("age", bins=(0.0, 0.0)),), (), 1, 1),
    "38 digits": Aggregation("who", None, (), (Steps("age", 0, 2**53, 1.0, squared_about=0),), 1, 1),
    "2^53 steps": Aggregation("who", None, (), (Steps("age", 0, 2**54, 1.0),), 1, 1),
    "step: expected": Aggregation("who", None, (), (Steps("age", 0, 1, 0.0),), 1, 1),
    "a number to add up": Aggregation("who", None, (), (Steps("who", 0, 1, 1.0),), 1, 1),
    "declared keys": Aggregation("who", None, (GroupKey("age", tuple(range(2000))), GroupKey("age", tuple(range(2000)))), (), 1, 1),
}


@of_each("expected", QUESTIONS)
def test_a_question_that_cannot_be_answered_exactly(expected: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"who,age\n{HIDDEN},1\n")
    columns = {**COLUMNS, "half": Column(type="decimal", expression="age / 2")}
    assert expected in refused(Source(columns=columns, path="rows.csv", unit="who"), tmp_path, QUESTIONS[expected])


@pytest.mark.long
def test_what_is_spilled_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spill"))
    (tmp_path / "spill").mkdir()
    (tmp_path / "rows.csv").write_text(f"who,age\n{HIDDEN},1,2\n")
    refused(source("rows.csv"), tmp_path)
    (tmp_path / "no.duckdb").write_text(HIDDEN)
    refused(source("no.duckdb"), tmp_path)
    gc.collect()
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_server_is_read_and_nothing_else(release_cluster: Cluster, tmp_path: Path) -> None:
    name = release_cluster.database()
    release_cluster.run(
        'CREATE TABLE "Rows; --" (who text, age int)',
        f"INSERT INTO \"Rows; --\" VALUES ('{HIDDEN}', 1)",
        "CREATE TABLE written (who text)",
        "CREATE FUNCTION note() RETURNS text LANGUAGE sql VOLATILE SET search_path = public AS "
        "$$ INSERT INTO written VALUES ('x') RETURNING who $$",
        "CREATE VIEW writing AS SELECT note() AS who, 1 AS age",
        "CREATE VIEW failing AS SELECT who, (who || 'x')::int AS age FROM \"Rows; --\"",
        'CREATE VIEW timed AS SELECT who, now() AS age FROM "Rows; --"',
        "CREATE SCHEMA other; CREATE TABLE other.rows (who text, age int)",
        database=name,
    )

    def table(name_of_table: str, password: str = "") -> Source:
        return Source(columns=COLUMNS, url=release_cluster.url(name, password=password), table=name_of_table, unit="who")

    assert total(table("Rows; --"), tmp_path)[()].units == 1
    assert total(table("other.rows"), tmp_path)[()].units == 0
    assert "SQLSTATE 25006" in refused(table("writing"), tmp_path)
    aged = Aggregation("who", "age > 0", (), (), 1, 1)
    assert "SQLSTATE 22P02" in refused(table("failing"), tmp_path, aged)
    assert "found timestamp with time zone" in refused(table("timed"), tmp_path, aged)
    assert 'no table "rows; --"' in refused(table("rows; --"), tmp_path)
    with release_cluster.connect(name) as connection:
        assert connection.execute("SELECT count(*) FROM written").fetchone() == (0,)


def test_a_unit_that_a_server_spells_in_several_ways(release_cluster: Cluster, tmp_path: Path) -> None:
    """They would be several units; as a key or in a condition, such a text is compared by its bytes."""
    name = release_cluster.database()
    release_cluster.run(
        "CREATE EXTENSION citext",
        "CREATE COLLATION folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE DOMAIN mail AS citext",
        "CREATE TABLE rows (email citext, sent mail, folded text COLLATE folding, who text, age int)",
        "INSERT INTO rows VALUES ('Ann', 'Ann', 'Ann', 'ann', 1), ('ann', 'ann', 'ann', 'ann', 1)",
        "CREATE VIEW seen AS SELECT who COLLATE folding AS folded, lower(email)::text AS email, age FROM rows",
        database=name,
    )

    def of(unit: str, table: str = "rows") -> Source:
        columns = {**COLUMNS, **{each: Column(type="text") for each in ("email", "sent", "folded")}}
        return Source(columns=columns, url=release_cluster.url(name), table=table, unit=unit)

    for unit, table in (("email", "rows"), ("sent", "rows"), ("folded", "rows"), ("folded", "seen")):
        count = Aggregation(unit, None, (), (), 1, 1)
        with pytest.raises(InputError, match=f'compared by their bytes, found "{unit}"'):
            require_source(of(unit, table), str(tmp_path / "file.toml"), (count,))
    assert total(of("email", "seen"), tmp_path, Aggregation("email", None, (), (), 1, 1))[()].units == 1
    by_spelling = Aggregation("who", None, (GroupKey("folded", None), GroupKey("email", None)), (), 2, 1)
    assert set(total(of("who"), tmp_path, by_spelling)) == {("Ann", "Ann"), ("ann", "ann")}


def test_the_password_of_a_url_is_not_shown(release_cluster: Cluster, tmp_path: Path) -> None:
    url = release_cluster.url("no_such_database", password=HIDDEN)
    found = Source(columns=COLUMNS, url=url, table="rows", unit="who")
    assert "no database with that name" in refused(found, tmp_path)
    with pytest.raises(InputError):
        require_source(found, str(tmp_path / "file.toml"), ())
