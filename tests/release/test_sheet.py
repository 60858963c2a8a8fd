"""Answers as rows of data: a column for each key, whatever its name, in csv as in parquet."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.document.document import Document
from dpcli.document.formats import csv
from dpcli.release.documents.release import parquet_of, sheet_of
from dpcli.release.query_answer import AnswerRow, QueryAnswer
from tests.cases import of_each

NAMES = ("state", "age", "value", "Value", "QUERY", "chosen", "key.value", 'a "b" c', "a b", "lower", "é,")


def answer(query: str, by: tuple[str, ...]) -> QueryAnswer:
    key = tuple(f"of {name}" for name in by)
    return QueryAnswer(query, "count", by, (AnswerRow(key, 1), AnswerRow((*key[:-1], "more"), 2.5, 0.5, 4.5)), 0.9, "the noise")


@pytest.mark.needs("duckdb")
@of_each("keys", [(), NAMES[:1], NAMES[:2], NAMES, NAMES[::-1]])
def test_every_key_has_a_column_of_its_own(keys: tuple[str, ...], tmp_path: Path) -> None:
    import duckdb

    sheet = sheet_of([answer("all", keys), answer("first", keys[:1]), answer("none", ())])
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


def test_a_key_with_a_name_of_its_own_keeps_it() -> None:
    assert sheet_of([answer("all", ("state", "age"))]).columns[2:4] == ("state", "age")
