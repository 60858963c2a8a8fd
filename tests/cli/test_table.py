"""How a table is laid out for a screen: nothing is lost, numbers are whole, columns stand below each other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.document.document import Document, Table
from dpcli.formats.columns import GAP, NARROW, columns_of, fitted, table_lines
from dpcli.formats.folded import cells, folded
from dpcli.formats.table import render

WORDS = st.text(st.sampled_from("ab/_-éß漢字ｗ\u0301 "), max_size=60)
CELLS = st.one_of(WORDS, st.floats(allow_nan=False).map(str))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    count = draw(st.integers(1, 5))
    columns = tuple(draw(st.lists(st.text("abc", min_size=1, max_size=20), min_size=count, max_size=count)))
    rows = draw(st.lists(st.tuples(*[CELLS] * count), max_size=4))
    return Table("", columns, tuple(rows), frozenset(draw(st.sets(st.integers(0, count - 1)))))


def bare(text: str) -> str:
    return "".join(text.split())


@given(WORDS, st.integers(2, 40))
def test_a_folded_text_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = folded(text, width)
    assert bare("".join(lines)) == bare(text)
    assert all(cells(line) <= width for line in lines) and lines
    if all(cells(word) <= width for word in text.split()):  # then no word is broken
        assert " ".join(lines).split() == text.split()


def test_letters_of_two_cells_and_of_none() -> None:
    assert [cells(text) for text in ("abc", "漢字", "e\u0301", "é", "ｗ", "\u200b", "─")] == [3, 4, 1, 1, 2, 0, 1]
    assert folded("漢字漢字", 5) == ["漢字", "漢字"]


@given(tables(), st.integers(40, 120))
def test_a_table_fits_or_is_as_wide_as_its_numbers(table: Table, width: int) -> None:
    columns = columns_of(table, width)
    widths = fitted(columns, width)
    whole = sum(widths) + GAP * len(widths) - 1
    assert whole <= max(width, sum(column.least for column in columns) + GAP * len(columns))
    for i, (column, found) in enumerate(zip(columns, widths, strict=True)):
        assert found >= min(NARROW, column.natural) if column.folds else found == column.natural
        if i in table.numeric:
            assert found == max(cells(text) for text in (table.columns[i], *(row[i] for row in table.rows)))


@given(tables(), st.integers(40, 120))
def test_a_table_shows_every_cell_in_its_column(table: Table, width: int) -> None:
    widths = fitted(columns_of(table, width), width)
    starts = [1 + sum(widths[:i]) + GAP * i for i in range(len(widths))]
    texts: dict[int, list[str]] = {}
    for line, row in table_lines(table, width):
        if row is None:
            assert set(line) <= {" ", "─"}
            continue
        for i, (start, size) in enumerate(zip(starts, widths, strict=True)):
            texts.setdefault(row, [""] * len(widths))[i] += within(line, start, size)
    for k, row_of in enumerate([table.columns, *table.rows], -1):
        assert [bare(text) for text in texts[k]] == [bare(text) for text in row_of]


def within(line: str, start: int, size: int) -> str:
    """The letters of a line from one cell to another; a mark belongs to the letter before it."""
    at, found = 0, ""
    for letter in line:
        if start <= at < start + size or (not cells(letter) and start < at <= start + size):
            found += letter
        at += cells(letter)
    return found


@pytest.mark.parametrize("verdict", ["pass", "warn", "fail", "unknown", ""])
def test_colours_change_no_letter(verdict: str) -> None:
    table = Table("title", ("a", "b"), (("1", "x"), ("2", "y " * 80)), frozenset({0}), ("note",), frozenset({1}))
    document = Document("headline", {}, verdict, tables=(table,), notes=("end",), title="top")  # type: ignore[arg-type]
    plain, coloured = render(document, 60), render(document, 60, color=True)
    assert "\x1b" not in plain and coloured.count("\x1b[") == 2 * coloured.count("\x1b[0m") > 10
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert all(line == line.rstrip() for line in plain.split("\n"))


def test_what_acts_on_a_terminal_is_shown_as_an_escape() -> None:
    table = Table("t\x1b[31m", ("a",), (("\x1b[2J",),), footnotes=("\x07",))
    text = render(Document("h\n\x1b]", {}, tables=(table,), notes=("\u202e",)), color=False)
    assert not set(text) & {"\x1b", "\x07", "\u202e"} and "\\x1b[2J" in text
