"""Parquet files as sources: no value of a column makes a release fail, whatever types the files give it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, GroupKey, Totals
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.source_engine import open_source, require_source
from tests.cases import of_each
from tests.release.tables.places import written

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

SOURCE = Source(columns={"who": Column(type="text"), "age": Column(type="integer")}, path="*.parquet", unit="who")
BY_AGE = Aggregation("who", None, (GroupKey("age", None),), (), 1, 1)
OTHERS = {  # than INTEGER: of most, some values can be cast to it, and others fail
    "VARCHAR": "'x'",
    "BIGINT": "30000000000",
    "DOUBLE": "1e300",
    "DECIMAL(18,2)": "2.5",
    "INTEGER[]": "[1]",
    "STRUCT(age INTEGER)": "{'age': 1}",
}
WIDTHS = ((38, 38), (38, 37), (38, 36), (38, 10), (38, 0), (19, 19), (18, 18), (18, 2), (9, 9), (4, 4))
FRACTIONS = ("0", "-0.5", "0.5", "1", "-1", "-9.5", "-99.5", "100", "-1e-37", "-9223372036854775808", "9223372036854775808", "1e37")


def totals(folder: Path) -> Totals:
    with open_source(SOURCE, str(folder / "file.toml")) as engine:
        return engine.totals(BY_AGE, b"k" * 32)


@of_each("kind", OTHERS)
def test_files_that_give_a_column_another_type_are_refused_before_a_row_is_read(kind: str, tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", "'ann' AS who, 1::INTEGER AS age")
    written(tmp_path, "b.parquet", f"'bob' AS who, ({OTHERS[kind]})::{kind} AS age")
    with pytest.raises(InputError, match=r'\*\.parquet: expected "age" of one type in every file, found INTEGER and'):
        require_source(SOURCE, str(tmp_path / "file.toml"), (BY_AGE,))


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", "'ann' AS who, 1 AS age, {'age': 'x', 'who': [1]} AS other")
    written(tmp_path, "b.parquet", "2 AS age, 'x' AS new, {'age': 'x', 'who': [1]} AS other, 'bob' AS who")
    assert {key: total.units for key, total in totals(tmp_path).items()} == {(1,): 1, (2,): 1}
    written(tmp_path, "c.parquet", "'cem' AS who")
    with pytest.raises(InputError, match="found INTEGER and none"):
        require_source(SOURCE, str(tmp_path / "file.toml"), (BY_AGE,))


@pytest.mark.long
@of_each("width, scale", WIDTHS)
def test_a_decimal_fraction_is_an_integer_or_missing(width: int, scale: int, tmp_path: Path) -> None:
    fitting = [Decimal(each) for each in FRACTIONS if fits(Decimal(each), width, scale)]
    written(
        tmp_path,
        "a.parquet",
        *(f"'u{place}' AS who, '{each:f}'::DECIMAL({width},{scale}) AS age" for place, each in enumerate(fitting)),
    )
    whole = {int(each) for each in fitting if each == each.to_integral_value() and -(2**63) <= each < 2**63}
    assert {key for (key,) in totals(tmp_path)} == whole


def fits(value: Decimal, width: int, scale: int) -> bool:
    """Whether a DECIMAL of this width holds it exactly."""
    return value.as_tuple().exponent >= -scale and abs(value) < Decimal(10) ** (width - scale)  # type: ignore[operator]
