"""Rows of csv files whose cells are long or have several lines: none is broken, and none is taken for rows of another unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, Total, Totals
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.open_source import opened, require_source
from tests.cases import of_each

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

BYTES = 2**24  # so many that DuckDB would start to read in several places at once
SOURCE = Source(columns={"who": Column(type="text"), "note": Column(type="text")}, path="rows.csv", unit="who")
COUNT = Aggregation("who", None, (), (), 1, 10**9)
LINES = ("zed,5\n" * 20 + '"",""\n' + "first, and\nsecond\n") * 100 + "zed,5"


def units(folder: Path, where: str | None = None) -> Totals:
    with opened(SOURCE, str(folder / "file.toml")) as engine:
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
    with pytest.raises(InputError, match=r"rows\.csv: a cell has quotes within it"):
        units(tmp_path)


@of_each("row", [b"bob,\xff", b'bob,"1', b"bob", b"\x00"])
@of_each("header", ["who,note", '\ufeff"who",note,"\u00e4\r\n"'])
def test_what_is_wrong_with_a_row_is_not_told_before_it_is_paid_for(header: str, row: bytes, tmp_path: Path) -> None:
    """Before the charge, whatever the rows hold, there is no error: one would be an answer for nothing."""
    (tmp_path / "rows.csv").write_bytes(header.encode() + b"\r\nann,1\r\n" + row + b"\r\n")
    require_source(SOURCE, str(tmp_path / "file.toml"), (COUNT,))


def test_a_header_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"who,note,\xe9\nann,1,2\n")
    with pytest.raises(InputError, match="expected a csv file in UTF-8"):
        require_source(SOURCE, str(tmp_path / "file.toml"), (COUNT,))


def test_a_long_cell_is_a_cell(tmp_path: Path) -> None:
    """That one row is long shall not make a release fail."""
    (tmp_path / "rows.csv").write_text(f'who,note\nann,1\nbob,"{"x" * 10**7}"\n')
    assert units(tmp_path) == {(): Total(2, 2, ())}
