"""A window that moves from week to week is no weaker claim; one that gets wider, narrower or vanishes, or is cut otherwise, is a change."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.lazy import load
from dpcli.gate.bases import WIDEST, keeps_its_width
from dpcli.ledger.blocks.family import MOST
from dpcli.ledger.plugin import BLOCKS
from tests.cases import of_each
from tests.gate.changes import BASE, judged, put

Case = tuple[list[str] | None, list[str] | None]
MOVED: list[Case] = [
    (["2026-01-01..2026-01-28"], ["2026-01-08..2026-02-04"]),
    (["2026-01-01..2026-01-03"], ["2026-01-02", "2026-01-04", "2026-01-03"]),
    (["2026-02-01..2026-02-28"], ["2026-03-01..2026-03-28"]),
    (["2026-W50..2026-W53"], ["2027-W01..2027-W04"]),
    (["0..3"], ["8..10", "7"]),
    (["2026-01-01", "2026-01-01..2026-01-02"], ["2026-01-03..2026-01-04"]),  # stated twice, read once
]
OTHERWISE: list[Case] = [
    (["2026-01-01..2026-01-28"], ["2026-01-01..2026-01-29"]),
    (["2026-01-01..2026-01-28"], ["2026-01-02..2026-01-28"]),
    (["2026-02-01..2026-02-28"], ["2026-03-01..2026-03-31"]),  # a month
    (["2026-01-01..2026-01-28"], None),
    (None, ["2026-01-01..2026-01-28"]),
    (["2026-01-01..2026-01-04"], ["2026-W01..2026-W04"]),
    (["2026-01-01"], ["2026-01-01", "eu"]),
    (["0..3"], ["2026-01-01..2026-01-04"]),
    (["eu"], ["us"]),
    (["2026-01-01"], ["2026-02-30"]),
    (["2026-01-03..2026-01-01"], ["2026-01-03..2026-01-01", "2026-01-05"]),
    (["0001-01-01..9999-12-31"], ["0001-01-02..9999-12-31"]),
]


def told(folder: Path, case: Case) -> tuple[int, dict[str, Any]]:
    """The exit code, and what of the conditions names the window."""
    before, after = (put(BASE, ("privacy", "window"), window) for window in case)
    for document in (before, after):
        if document["privacy"]["window"] is None:
            del document["privacy"]["window"]
    code, out = judged(folder, before, after)
    conditions = json.loads(out.splitlines()[0])["conditions"]
    return code, {one["name"]: one for one in conditions if "privacy.window" in one["message"]}


@pytest.mark.long
@of_each("case", [*MOVED])
def test_a_window_that_moves_is_told_and_passes(case: Case, folder: Path) -> None:
    code, found = told(folder, case)
    assert code == 0 and [*found] == ["terms"] and found["terms"]["verdict"] == "pass", found
    assert "weakens nothing" in found["terms"]["message"] and ", ".join(case[1] or ()) in found["terms"]["message"]


@pytest.mark.long
@of_each("case", [*OTHERWISE])
def test_any_other_change_of_it_is_one_of_the_statement(case: Case, folder: Path) -> None:
    code, found = told(folder, case)
    assert code == 1 and [*found] == ["statement"] and found["statement"]["verdict"] == "fail", found


def test_windows_are_counted_as_they_are() -> None:
    """Against sets of days: however they are spelled."""
    draw, first = random.Random(1), date(2026, 1, 1)
    for _ in range(300):
        windows, sets = [], []
        for _ in range(2):
            days: set[date] = set()
            words = []
            for _ in range(draw.randrange(1, 4)):
                begin, length = first + timedelta(draw.randrange(12)), draw.randrange(4)
                days |= {begin + timedelta(i) for i in range(length + 1)}
                words.append(f"{begin}..{begin + timedelta(length)}" if length or draw.random() < 0.5 else f"{begin}")
            windows.append(", ".join(words))
            sets.append(days)
        assert keeps_its_width(*windows) == (len(sets[0]) == len(sets[1])), windows


def test_every_kind_with_an_order_moves() -> None:
    assert {by for by, target in BLOCKS.items() if load(target).ordered} == {"day", "week", "hash"}
    assert WIDEST == MOST
