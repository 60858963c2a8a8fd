"""A narrow screen: no number and no verdict loses a digit or a letter, in any table."""

from __future__ import annotations

import random

import pytest

from dpcli.document.document import Document, Table
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
