"""Tables on a narrow screen (document/formats/table.py): no number and no verdict loses a digit or a letter."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dpcli.document.document import Document, Table
from dpcli.document.formats import table as table_format
from dpcli.document.formats.table import render

COLUMNS = ("", "file", "before", "epsilon", "change", "cap", "at delta")


@pytest.mark.parametrize("numeric_last", [True, False])
@pytest.mark.parametrize("width", [20, 40, 45, 60, 80, 200])
def test_nothing_is_cropped(width: int, numeric_last: bool) -> None:
    draw = random.Random(width)
    rows = tuple(tuple("".join(draw.choices("ab01.-", k=draw.randint(1, 30))) for _ in COLUMNS) for _ in range(5))
    table = Table("", COLUMNS, rows, frozenset({2, 3, 4, 5, *([6] if numeric_last else [])}))
    shown = render(Document("head", {}, tables=(table,)), width=width)
    for row in rows:
        assert all(row[i] in shown for i in table.numeric), shown
    letters = sorted("".join(shown.split()).replace("─", ""))
    assert letters == sorted("".join("".join(("head", *COLUMNS, *map("".join, rows))).split()))


@pytest.mark.parametrize("name", ["東京東京東京", "\x1b" * 6])  # wider on a screen than it has characters
def test_a_name_that_is_wider_than_its_characters_takes_no_digit(name: str) -> None:
    table = Table("", ("file", "epsilon", "delta"), ((name, "1.23456789", "1.23456e-05"),), frozenset({1, 2}))
    shown = render(Document("head", {}, tables=(table,)), width=20)
    assert "1.23456789" in shown
    assert "1.23456e-05" in shown


@pytest.mark.long
def test_rows_of_one_line_are_laid_out_as_rich_lays_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_format, "PART", 8)
    quick, used = table_format._lines_of_rows, list[bool]()

    def counted(*values: Any) -> str | None:
        result = quick(*values)
        used.append(result is not None)
        return result

    for _ in range(30):
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        longest = [draw.choice([1, 3, 8, 20, 60, 150]) for _ in range(draw.randint(1, 7))]
        cells = [tuple("".join(draw.choices("ab de  日é.<[", k=draw.randint(0, most))) for most in longest) for _ in range(30)]
        numeric = frozenset(i for i in range(len(longest)) if draw.random() < 0.3)
        table = Table("", tuple(f"h{i}" for i in range(len(longest))), tuple(cells), numeric, frozenset({9}))
        document, width, color = Document("head", {}, tables=(table,)), draw.choice([40, 80, 140, 300]), draw.random() < 0.5
        monkeypatch.setattr(table_format, "_lines_of_rows", counted)
        shown = render(document, width, color)
        monkeypatch.setattr(table_format, "_lines_of_rows", lambda *values: None)
        assert shown == render(document, width, color), (seed, width, color)
    assert {True, False} == set(used)
