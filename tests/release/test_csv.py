"""Rows of csv files whose cells are long or have several lines: none is broken, and none is taken for rows of another unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.errors import InputError
from dpcli.release.aggregate import Aggregation, Total, Totals
from dpcli.release.columns import Column
from dpcli.release.engines.open import opened
from dpcli.release.settings import Source

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

BYTES = 2**24  # so many that DuckDB would start to read in several places at once
COLUMNS = {"who": Column(type="text"), "note": Column(type="text")}
LINES = ("zed,5\n" * 20 + '"",""\n' + "first, and\nsecond\n") * 100 + "zed,5"


def units(folder: Path, where: str | None = None) -> Totals:
    with opened(Source(columns=COLUMNS, path="rows.csv", unit="who"), str(folder / "file.toml")) as engine:
        return engine.totals(Aggregation("who", where, (), (), 1, 10**9), b"k" * 32)


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
    with pytest.raises(InputError, match=r"rows\.csv: expected quotes around whole cells"):
        units(tmp_path)


def test_a_long_cell_is_a_cell(tmp_path: Path) -> None:
    """That one row is long shall not make a release fail."""
    (tmp_path / "rows.csv").write_text(f'who,note\nann,1\nbob,"{"x" * 10**7}"\n')
    assert units(tmp_path) == {(): Total(2, 2, ())}
