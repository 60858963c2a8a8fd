"""Answers as text and as rows of data (documents/answers.py): a column for each key, whatever its name, in csv and parquet."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.document.document import Document
from dpcli.document.formats import csv
from dpcli.release.documents.answers import answer_lines, answer_table, interval_text, parquet_of, sheet_of
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from tests.cases import of_each

FINITE = st.floats(min_value=-1e14, max_value=1e14)


def answer(*rows: AnswerRow, by: tuple[str, ...] = (), confidence: float = 0.95) -> QueryAnswer:
    return QueryAnswer("q", "sum", by, rows, confidence, "the noise")


def test_sums_of_money_are_written_out() -> None:
    row = AnswerRow(("CA",), 65257900.0, 64658811.25, 65856988.75)
    assert list(answer_lines(answer(row, by=("state",)))) == ["q, state=CA: 65,257,900 (64,658,811 to 65,856,989, 95 %)"]
    assert answer_table(answer(row, by=("state",))).columns == ("state", "sum", "95 % interval")


def test_a_confidence_is_printed_as_it_is_stated() -> None:
    for confidence, said in ((0.9, "90 %"), (0.995, "99.5 %"), (0.9999, "99.99 %"), (0.07, "7 %")):
        assert answer_table(answer(AnswerRow((), 1, 0.0, 2.0), confidence=confidence)).columns[-1] == f"{said} interval"


def test_truth_is_written_as_in_csv() -> None:
    assert list(answer_lines(answer(AnswerRow((True,), False), by=("old",)))) == ["q, old=true: false"]


@given(FINITE, FINITE)
def test_a_printed_interval_holds_the_interval(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    shown_low, shown_high = (Decimal(end.replace(",", "")) for end in interval_text(AnswerRow((), 1.0, low, high)).split(" to "))
    assert shown_low <= Decimal(repr(low)) and Decimal(repr(high)) <= shown_high


NAMES = ("state", "age", "value", "Value", "QUERY", "chosen", "key.value", 'a "b" c', "a b", "lower", "é,")


def an_answer(query: str, by: tuple[str, ...]) -> QueryAnswer:
    key = tuple(f"of {name}" for name in by)
    return QueryAnswer(
        query, "count", by, (AnswerRow(key, 1), AnswerRow((*key[:-1], "more") if key else (), 2.5, 0.5, 4.5)), 0.9, "the noise"
    )


@pytest.mark.needs("duckdb")
@of_each("keys", [(), NAMES[:1], NAMES[:2], NAMES, NAMES[::-1]])
def test_every_key_has_a_column_of_its_own(keys: tuple[str, ...], tmp_path: Path) -> None:
    import duckdb

    sheet = sheet_of([an_answer("all", keys), an_answer("first", keys[:1]), an_answer("none", ())])
    assert len({name.lower() for name in sheet.columns}) == len(sheet.columns) == 6 + len(keys)
    own = sheet.columns[2:-4]
    assert sheet.rows[0][2:-4] == tuple(f"of {name}" for name in keys)  # in the order of by
    assert all(column.endswith(name) for column, name in zip(own, keys, strict=True))
    assert sheet.rows[-1][2:] == (*(None,) * len(keys), 2.5, 0.5, 4.5, 0.9)
    (tmp_path / "a.parquet").write_bytes(parquet_of(sheet))
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * FROM '{tmp_path / 'a.parquet'}'")
        assert [column[0] for column in found.description] == [*sheet.columns[:-3], "chosen", *sheet.columns[-3:]]
        assert [row[: 2 + len(keys)] for row in found.fetchall()] == [row[: 2 + len(keys)] for row in sheet.rows]
    lines = csv.render(Document("", {}, "pass", sheet=sheet)).splitlines()
    assert len(lines) == 1 + len(sheet.rows) and lines[0].startswith("query,measure,")


@pytest.mark.needs("duckdb")
def test_parquet_is_written_where_the_folder_of_temporary_files_has_a_quote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "o'brien").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "o'brien"))
    assert parquet_of(sheet_of([an_answer("all", ("state",))])).startswith(b"PAR1")


def test_a_key_with_a_name_of_its_own_keeps_it() -> None:
    assert sheet_of([an_answer("all", ("state", "age"))]).columns[2:4] == ("state", "age")
