"""Tables in memory (engines/given_engine.py): counted as by plain Python, whatever they hold, and read once, after the charge."""

from __future__ import annotations

import datetime
import decimal
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, GroupKey, Steps, quoted
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.given_table import given_table, text_of
from dpcli.release.engines.source_engine import open_source
from dpcli.release.engines.sql_engine import SqlEngine
from tests.cases import by_tier, fresh_random
from tests.release.privacy import brute
from tests.release.privacy.aggregations_drawn import AGE, PAID, STATE, TYPES, VIP, WHO, aggregation, table
from tests.release.tables.places import SECRET, Table, as_csv

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
Rows = Sequence[Mapping[str, Any]]
BOUNDS = {
    "who": Column(type="text"),
    "n": Column(type="integer", min=0, max=50),
    "x": Column(type="decimal", min=-9, max=99, step=0.5),
}
SUMS = (Steps("n", 0, 50, 1.0), Steps("x", -18, 198, 0.5))
QUESTION = Aggregation("who", None, (GroupKey("who"),), (), 9, 9)


@contextmanager
def opened(given: object, columns: Mapping[str, Column], unit: str | None = None) -> Iterator[SqlEngine]:
    with open_source(Source(columns=columns, unit=unit), "file.toml", None, given_table(given)) as engine:
        yield engine


def of_pandas(rows: Rows) -> Any:
    """As a program has them that states the types."""
    import pandas

    types = {WHO: "str", STATE: "category", AGE: "Int64", PAID: "float64", VIP: "boolean"}
    return pandas.DataFrame({name: pandas.Series([row[name] for row in rows], dtype=types[name]) for name in TYPES})  # type: ignore[call-overload]


def of_objects(rows: Rows) -> Any:
    """As they come from a list of rows: every column holds objects, and the index repeats."""
    import pandas

    columns = {name: pandas.Series([row[name] for row in rows], dtype=object) for name in TYPES}
    return pandas.DataFrame(columns).set_index(pandas.Index([7] * len(rows), name=WHO))


def of_polars(rows: Rows) -> Any:
    import polars

    types = {WHO: polars.Categorical(), STATE: polars.String(), AGE: polars.Int128(), PAID: polars.Float64(), VIP: polars.Boolean()}
    return polars.DataFrame({name: polars.Series([row[name] for row in rows], dtype=types[name]) for name in TYPES})


def of_arrow(rows: Rows) -> Any:
    import pyarrow

    types = {"text": pyarrow.string(), "integer": pyarrow.int64(), "decimal": pyarrow.float64(), "boolean": pyarrow.bool_()}
    columns = {name: pyarrow.array([row[name] for row in rows], type=types[kind]) for name, kind in TYPES.items()}
    return pyarrow.table({**columns, WHO: columns[WHO].dictionary_encode()})


def of_relation(rows: Rows) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET default_collation = 'NOCASE'")  # a setting of the caller changes no answer
    kinds = {"text": "VARCHAR", "integer": "HUGEINT", "decimal": "DOUBLE", "boolean": "BOOLEAN"}
    names = ", ".join('"{}" {}'.format(name.replace('"', '""'), kinds[kind]) for name, kind in TYPES.items())
    connection.execute("RESET default_collation")
    connection.execute(f"CREATE TABLE rows ({names})")
    if rows:
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", [[row[name] for name in TYPES] for row in rows])
    connection.execute("SET default_collation = 'NOCASE'")
    return connection.table("rows")


def of_spark(rows: Rows) -> Any:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

    types = {"text": StringType(), "integer": LongType(), "decimal": DoubleType(), "boolean": BooleanType()}
    schema = StructType([StructField(name, types[kind]) for name, kind in TYPES.items()])  # type: ignore[arg-type]
    return SparkSession.builder.getOrCreate().createDataFrame([tuple(row[name] for name in TYPES) for row in rows], schema)


KINDS: dict[str, tuple[Callable[[Rows], Any], str]] = {
    "pandas": (of_pandas, "pandas"),
    "objects": (of_objects, "pandas"),
    "polars": (of_polars, "polars"),
    "arrow": (of_arrow, "pyarrow"),
    "relation": (of_relation, "duckdb"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("questions_of_many", by_tier(4, None, 12))
def test_every_table_in_memory_gives_what_plain_python_gives(kind: str, questions_of_many: int) -> None:
    make, package = KINDS[kind]
    pytest.importorskip(package, reason=f"{package} is not installed")
    seed = fresh_random().randrange(2**32)
    draw = random.Random(seed)
    for count, questions in ((0, 1), (1, 1), (60, questions_of_many)):
        rows = table(draw, count)
        with opened(make(rows), Table(TYPES, rows).columns, WHO) as engine:
            drawn = [aggregation(draw) for _ in range(questions)]
            engine.limit_columns([asked.aggregation for asked in drawn])
            for asked in drawn:
                assert dict(engine.totals(asked.aggregation, SECRET)) == brute.totals(asked, rows, SECRET), (seed, kind, asked)


@pytest.mark.needs("pyarrow")
def test_no_column_is_copied_that_no_query_reads() -> None:
    rows = table(random.Random(0), 30)
    units, sums, none = (
        Aggregation(WHO, None, (), (), 1, 9),
        Aggregation(WHO, quoted(VIP), (), (Steps(quoted(AGE), 0, 115, 1.0),), 1, 9),
        Aggregation(None, None, (), (), 1, 1),
    )
    names = list(TYPES)
    for questions, columns in (((units,), {WHO}), ((units, sums), {WHO, AGE, VIP}), ((none,), {names[0]})):
        with opened(of_arrow(rows), Table(TYPES, rows).columns, WHO) as engine:
            engine.limit_columns(questions)
            found = [engine.totals(each, SECRET) for each in questions]
            copied = engine._rows("SELECT column_name FROM duckdb_columns() WHERE table_name = 'given'")
        assert {names[int(name[1:])] for (name,) in copied} == columns, questions
        assert found[-1][()].rows > 0


@pytest.mark.nightly
@pytest.mark.needs("pyspark")
def test_a_frame_of_spark_gives_what_plain_python_gives(spark_session: Any) -> None:
    seed = fresh_random().randrange(2**32)
    draw = random.Random(seed)
    for count, questions in ((0, 1), (40, 3)):
        rows = table(draw, count)
        with opened(of_spark(rows), Table(TYPES, rows).columns, WHO) as engine:
            drawn = [aggregation(draw) for _ in range(questions)]
            engine.limit_columns([asked.aggregation for asked in drawn])
            for asked in drawn:
                assert dict(engine.totals(asked.aggregation, SECRET)) == brute.totals(asked, rows, SECRET), (seed, asked)


# What a column of objects may hold, and its text in a csv; None where it has none.
ODD: list[tuple[Any, str | None]] = [
    (None, None),
    (float("nan"), None),
    (True, "true"),
    (7, "7"),
    (10**30, "1000000000000000000000000000000"),
    (10**5000, None),
    (-0.0, "0"),
    (3.0, "3"),
    (1e300, "1e+300"),
    (decimal.Decimal("4.00"), "4"),
    (decimal.Decimal("NaN"), None),
    (decimal.Decimal("sNaN"), None),
    (2.5, "2.5"),
    (float("inf"), "inf"),
    (decimal.Decimal("12.50"), "12.50"),
    (datetime.date(2024, 2, 29), "2024-02-29"),
    (datetime.datetime(2024, 2, 29, 23, 59), "2024-02-29T23:59:00"),
    (datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.UTC), "2024-02-29T01:00:00+00:00"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ("text", "text"),
    ("", ""),
    ("\udc80", None),
    (b"bytes", None),
    ([1, 2], None),
    (object, None),
]


class Refusing(int):
    """A number that raises an error whatever it is asked."""

    def __int__(self) -> int:
        raise ValueError("of this person")

    bit_length = __str__ = __repr__ = __int__  # type: ignore[assignment]


@pytest.mark.needs("numpy")
def test_a_value_has_the_text_of_a_csv_or_none() -> None:
    import numpy as np

    for value, text in [*ODD, (np.int8(-5), "-5"), (np.bool_(False), "false"), (np.float64(0.1), "0.1"), (Refusing(3), None)]:
        assert text_of(value) == text, repr(type(value))


@pytest.mark.needs("pandas")
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("column", ["n", "x", "who"])
def test_no_value_of_one_row_decides_how_others_are_read(column: str) -> None:
    """Not even in a table in which that row comes first, or last after many. DuckDB, asked to read objects, makes them all null."""
    import pandas

    values = {"n": [*range(9)], "x": [0.5 * each for each in range(9)], "who": [f"u{each}" for each in range(9)]}
    aggregation = Aggregation("who", "who <> 'odd'", (GroupKey("who"),), SUMS, 99, 99)
    for odd in [*(value for value, _ in ODD), pandas.NA, pandas.NaT, pandas.Timestamp("2024-02-29")]:
        for place in (0, 9):
            rows = {name: list(each) for name, each in values.items()}
            for name, each in rows.items():
                each.insert(place, odd if name == column else "odd" if name == "who" else 1)
            if column == "who":
                rows["who"][place] = odd
            with opened(pandas.DataFrame(rows, dtype=object), BOUNDS, "who") as engine:
                totals = {key: total for key, total in engine.totals(aggregation, SECRET).items() if str(key[0]).startswith("u")}
            assert {key: (total.rows, total.sums) for key, total in totals.items()} == {
                (f"u{each}",): (1, (each, each)) for each in range(9)
            }, (column, place, type(odd))


@pytest.mark.long
@pytest.mark.needs("pandas")
def test_odd_objects_count_as_in_a_csv(tmp_path: Path) -> None:
    import pandas

    types = {"who": "text", "n": "integer", "x": "decimal", "yes": "boolean", "day": "date"}
    for value, text in ODD:
        if isinstance(value, list) or value is object:
            continue
        texts = [
            {"who": "a", **dict.fromkeys(["n", "x", "yes", "day"], text)},
            {"who": "b", "n": "3", "x": "4", "yes": "t", "day": "2024-01-01"},
        ]
        objects = [{**texts[0], **dict.fromkeys(["n", "x", "yes", "day"], value)}, texts[1]]
        as_csv(Table(types, texts), tmp_path / "rows.csv")
        columns = {**BOUNDS, "yes": Column(type="boolean"), "day": Column(type="date")}
        questions = [
            Aggregation("who", where, (GroupKey("who"),), values, 9, 9)
            for where, values in (
                (None, ()),
                ("n is not null", ()),
                ("x is not null", ()),
                ("yes", ()),
                ("not yes", ()),
                ("day > date '2024-02-01'", ()),
                (None, SUMS[:1]),
                (None, SUMS[1:]),
            )
        ]
        found = []
        with opened(pandas.DataFrame(objects, dtype=object), columns, "who") as engine:
            found.append([dict(engine.totals(each, SECRET)) for each in questions])
        with open_source(Source(columns=columns, path="rows.csv", unit="who"), str(tmp_path / "file.toml")) as engine:
            found.append([dict(engine.totals(each, SECRET)) for each in questions])
        assert found[0] == found[1], (value, text)


@pytest.mark.needs("pandas")
def test_the_index_is_no_column_and_its_labels_may_repeat() -> None:
    import pandas

    frame = pandas.DataFrame({"who": ["a", "a", "b"], "n": [1, 2, 3]}, index=pandas.Index(["z", "z", "z"], name="x"))
    with opened(frame, BOUNDS, "who") as engine:
        assert engine.totals(Aggregation("who", None, (), SUMS[:1], 1, 9), SECRET)[()].sums == (6,)
        with pytest.raises(InputError, match='expected a column "x"'):
            engine.check(Aggregation("who", None, (), SUMS[1:], 1, 9))


@pytest.mark.needs("pandas")
def test_names_that_repeat_are_refused_where_they_are_declared() -> None:
    import pandas

    frame = pandas.DataFrame([["a", 1, 2, 3]], columns=["who", "n", "n", "N"])
    with opened(frame, BOUNDS, "who") as engine, pytest.raises(InputError, match='one column "n", found 2'):
        engine.check(QUESTION)
    others = pandas.DataFrame([["a", 5, 1, 2, 3]], columns=["who", "n", "m", "m", "N"])
    with opened(others, BOUNDS, "who") as engine:
        assert engine.totals(Aggregation("who", None, (), SUMS[:1], 1, 9), SECRET)[()].sums == (5,)


def frames_of_times() -> Iterator[tuple[str, Any]]:
    """A day with a time zone, as each library has it."""
    at = datetime.datetime(2024, 2, 29, 23, tzinfo=datetime.UTC)
    for package in ("pandas", "polars"):
        library = pytest.importorskip(package, reason=f"{package} is not installed")
        yield package, library.DataFrame({"day": [at]})
    import duckdb

    yield "duckdb", duckdb.connect().sql("select timestamptz '2024-02-29 23:00:00+00' as day")


@pytest.mark.long
@pytest.mark.needs("pandas", "polars")
def test_a_column_with_a_time_zone_is_refused_by_its_type_before_any_row_is_read() -> None:
    for package, frame in frames_of_times():
        with opened(frame, {"day": Column(type="date"), "who": Column(type="text")}) as engine, pytest.raises(InputError) as error:
            engine.check(Aggregation(None, "day > date '2024-01-01'", (), (), 1, 1))
        assert "day" in str(error.value) and "2024" not in str(error.value), package


@pytest.mark.needs("pandas")
def test_categories_count_as_their_values(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame({"who": pandas.Categorical(["b", None, "a", "b"]), "n": pandas.Categorical([5, 7, None, 9])})
    with opened(frame, BOUNDS, "who") as engine:
        found = engine.totals(Aggregation("who", None, (GroupKey("who"),), SUMS[:1], 9, 9), SECRET)
    assert {key: (total.rows, total.sums) for key, total in found.items()} == {("b",): (2, (14,))}


@pytest.mark.needs("pandas", "pyarrow")
def test_columns_of_16_bits_are_read_beside_columns_of_arrow() -> None:
    import numpy as np
    import pandas
    import pyarrow

    texts = pandas.array(["a", "b"], dtype=pandas.ArrowDtype(pyarrow.string()))
    frame = pandas.DataFrame({"who": texts, "n": np.array([2.0, 3.0], dtype=np.float16)})
    with opened(frame, BOUNDS, "who") as engine:
        found = engine.totals(Aggregation("who", None, (GroupKey("who"),), SUMS[:1], 9, 9), SECRET)
    assert {key: (total.rows, total.sums) for key, total in found.items()} == {("a",): (1, (2,)), ("b",): (1, (3,))}


@pytest.mark.needs("pandas")
def test_columns_without_texts_are_refused_by_their_type() -> None:
    import numpy as np
    import pandas

    columns = (
        pandas.cut([1, 2, 3], [0, 2, 4]),
        pandas.period_range("2024-01", periods=3, freq="M"),
        pandas.to_timedelta([1, 2, 3], unit="s"),
        np.array([1j, 2.0, 3.0]),
    )
    for column in columns:
        with opened(pandas.DataFrame({"who": column}), BOUNDS) as engine, pytest.raises(InputError, match='"who"'):
            engine.check(Aggregation(None, None, (GroupKey("who"),), (), 9, 9))


@pytest.mark.needs("duckdb")
@pytest.mark.parametrize("kind", ["{0}[]", "STRUCT(a {0})", "MAP(VARCHAR, {0})", "UNION(a {0}, b INTEGER)"])
def test_no_refusal_of_a_nested_type_names_values(kind: str) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE names AS ENUM ('Ann', 'Bob')")
        relation = connection.sql(f"SELECT CAST(NULL AS {kind.format('names')}) AS who")
        with opened(relation, BOUNDS) as engine, pytest.raises(InputError) as refused:
            engine.check(Aggregation(None, None, (GroupKey("who"),), (), 9, 9))
    assert "Ann" not in str(refused.value)


def wide() -> Iterator[tuple[str, Any]]:
    """Integers of more than 64 bits beside one of 62 and a small one."""
    values = [2**127 - 1, -(2**127) + 1, 2**64 - 1, 2**62, 5]
    import duckdb

    texts = ", ".join(f"({each}::HUGEINT)" for each in values)
    yield "duckdb", duckdb.connect().sql(f"select 'a' || n % 1000 as who, n from (values {texts}) t(n)")
    for package, make in (
        ("pandas", lambda library: library.Series(values, dtype=object)),
        ("polars", lambda library: library.Series("n", values, dtype=library.Int128)),
    ):
        library = pytest.importorskip(package, reason=f"{package} is not installed")
        yield package, library.DataFrame({"who": list("abcde"), "n": make(library)})


@pytest.mark.needs("pandas", "polars")
def test_integers_of_more_than_64_bits_are_missing_and_others_exact() -> None:
    columns = {"who": Column(type="text"), "n": Column(type="integer", min=0, max=2**52)}
    for package, frame in wide():
        with opened(frame, columns, "who") as engine:
            found = engine.totals(Aggregation("who", f"n = {2**62} or n = 5", (), (), 1, 9), SECRET)[()]
            known = engine.totals(Aggregation("who", "n is not null", (), (), 1, 9), SECRET)[()]
        assert (found.rows, known.rows) == (2, 2), package


@pytest.mark.needs("pandas")
def test_a_change_of_the_table_is_not_seen_by_later_queries() -> None:
    import pandas

    frame = pandas.DataFrame({"who": ["a", "b"], "n": [1, 2]})
    asked = Aggregation("who", None, (), SUMS[:1], 1, 9)
    with opened(frame, BOUNDS, "who") as engine:
        engine.check(asked)
        frame.loc[0, "n"] = 40  # before the charge
        before = engine.totals(asked, SECRET)[()].sums
        frame.loc[:, "n"] = 30
        frame["n"] = ["x", "y"]
        del frame["who"]
        assert before == engine.totals(asked, SECRET)[()].sums == (42,)


UNITS, ROWS, CAP = 40, 20, 8


def test_no_unit_of_a_relation_that_is_drawn_anew_counts_more_rows_than_it_may() -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"create table t as select 'u' || (i // {ROWS}) as who, i % {ROWS} as n from range({UNITS * ROWS}) r(i)")
    relation = connection.sql("select * from t where random() < 0.5")
    asked = Aggregation("who", None, (GroupKey("who"), GroupKey("", steps=SUMS[0])), (), 1, CAP)
    with opened(relation, BOUNDS, "who") as engine:
        for _ in range(12):
            found = engine.totals(asked, fresh_random().randbytes(32))
            units = {key[0] for key in found}
            assert all(sum(total.rows for key, total in found.items() if key[0] == unit) <= CAP for unit in units)


@pytest.mark.nightly
@pytest.mark.needs("pyspark")
def test_all_queries_see_the_same_rows_of_a_spark_frame_that_is_drawn_anew(spark_session: Any) -> None:
    """Java's random numbers are drawn anew each time that Spark reads the frame, unlike its own rand(), which has a fixed seed."""
    drawn = "cast(java_method('java.lang.Math', 'random') as double)"
    frame = spark_session.range(UNITS * ROWS).selectExpr(f"concat('u', id div {ROWS}) as who", "id % 4 as n", f"{drawn} as x")
    columns = {
        "who": Column(type="text"),
        "n": Column(type="integer", min=0, max=3),
        "x": Column(type="decimal", min=0, max=1, step=0.5),
    }
    asked = Aggregation("who", "x < 0.5", (GroupKey("n"),), (Steps("x", 0, 2, 0.5),), 1, 1)
    with opened(frame, columns, "who") as engine:
        first, second = (dict(engine.totals(asked, SECRET)) for _ in range(2))
    assert first == second and 0 < sum(total.rows for total in first.values()) <= UNITS


def test_a_relation_is_run_after_the_charge_and_its_rows_are_kept_for_all_queries() -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("create sequence s; create table t as select 'a' as who from range(3)")
    connection.execute("create view v as select who, nextval('s') as n from t")
    with opened(connection.table("v"), BOUNDS, "who") as engine:
        engine.check(Aggregation("who", None, (), SUMS[:1], 1, 9))
        assert connection.execute("select nextval('s')").fetchall() == [(1,)]
        first, second = (engine.totals(Aggregation("who", None, (), SUMS[:1], 1, 9), SECRET)[()] for _ in range(2))
    assert first == second and first.rows == 3


def test_a_unit_of_a_relation_whose_collation_ignores_case_is_refused() -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("create table t (who varchar collate nocase, n bigint)")
    with opened(connection.table("t"), BOUNDS, "who") as engine, pytest.raises(InputError, match="compared by their bytes"):
        engine.check(QUESTION)


def test_what_is_no_table_is_refused_without_its_content() -> None:
    for given in ([{"who": "secret"}], {"who": ["secret"]}, "secret.csv", None, 3):
        with pytest.raises(InputError, match="expected a DataFrame") as error:
            given_table(given)
        assert "secret" not in str(error.value)


@pytest.mark.needs("polars", "pyarrow")
def test_tables_that_can_be_read_once_or_are_not_computed_are_refused() -> None:
    import polars
    import pyarrow

    for given in (polars.LazyFrame({"who": []}), polars.Series([1]), pyarrow.table({"who": ["a"]}).to_reader()):
        with pytest.raises(InputError, match="expected a DataFrame"):
            given_table(given)


@pytest.mark.needs("pandas")
def test_a_table_without_a_declared_column_is_refused() -> None:
    import pandas

    with opened(pandas.DataFrame({"other": [1]}), BOUNDS) as engine, pytest.raises(InputError, match="found none"):
        engine.check(Aggregation(None, None, (), (), 1, 1))


@pytest.mark.needs("pandas")
@pytest.mark.long
def test_a_table_of_many_parts_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    from dpcli.release.engines import given_table as tables

    monkeypatch.setattr(tables, "PART_ROWS", 7)
    frame = pandas.DataFrame({"who": [f"u{each % 10}" for each in range(100)], "n": [None] * 50 + [1] * 50})
    with opened(frame.astype(object), BOUNDS, "who") as engine:
        assert engine.totals(Aggregation("who", None, (), SUMS[:1], 1, 99), SECRET)[()].sums == (50,)


def test_the_table_is_not_in_a_repr() -> None:
    import duckdb

    with duckdb.connect() as connection:
        given = given_table(connection.sql("select 'secret' as who"))
        assert "secret" not in repr(given) and "secret" not in repr(given.parts((0,)))  # type: ignore[union-attr]
