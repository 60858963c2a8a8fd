"""Grids of squares, as of the blocks of a ledger, in every format of charts, and a picture that needs no colour to be read."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.lazy import load
from dpcli.base.registry import CHART_FORMATS
from dpcli.document.chart import Chart, Grid
from dpcli.document.charts.describe import describe
from dpcli.document.charts.grid_scene import FIRST_DARK
from dpcli.document.charts.labels import Box
from dpcli.document.charts.scene import scene
from dpcli.document.charts.shapes import DARK, LIGHT
from dpcli.document.charts.shapes import STEPS as INKS
from dpcli.document.charts.terminal_grid import mark
from dpcli.ledger.documents.ledger_pictures import CLOSED, EMPTY, MOST_NAMED, MOST_STRIPS, STEPS, WEEKS_PER_STRIP, block_chart
from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.state import LedgerState
from tests.document.drawn import SVG, boxes, luminance
from tests.ledger.filters.families import FAMILIES, opening, terms

FIRST = date(2026, 1, 28)


def blocks_of(by: str, places: Sequence[int]) -> list[str]:
    """Blocks some way into the calendar, or among those that are listed."""
    kind = terms(by).family.kind  # type: ignore[union-attr]
    if kind.listed:
        return [sorted(kind.listed, key=kind.rank)[place % len(kind.listed)] for place in places]
    return [str(kind.of_day(FIRST + timedelta((1 if by == "day" else 7) * place))) for place in places]


def used(by: str, tenths: dict[int, int], retired: Sequence[int] = ()) -> LedgerState:
    """A balance in which some blocks have so many tenths of their caps used, and some are retired."""
    state = opening(terms(by))
    blocks = dict(zip(blocks_of(by, list(tenths)), tenths.values(), strict=True))
    state.spent = {
        f"{name}@{block}": Decimal(share) / 10 * (name == "epsilon") for block, share in blocks.items() for name in state.caps
    }
    state.retired = frozenset(blocks_of(by, retired))
    return state


def picture(state: LedgerState) -> tuple[Chart, Grid]:
    found = block_chart(state)
    assert found is not None and found.grid is not None
    return found, found.grid


STATES = {
    "tenths": st.dictionaries(st.integers(0, 150), st.integers(0, 11), min_size=1, max_size=40),
    "retired": st.lists(st.integers(0, 150), max_size=5),
}


@pytest.mark.parametrize("by", BLOCKS)
@given(**STATES)
def test_every_block_is_drawn_as_it_is(by: str, tenths: dict[int, int], retired: list[int]) -> None:
    state = used(by, tenths, retired)
    found, grid = picture(state)
    squares = {square.label: square for square in grid.squares}
    assert len(squares) == len(grid.squares) == len({(square.column, square.row) for square in grid.squares})
    shares = dict(zip(blocks_of(by, list(tenths)), tenths.values(), strict=True))
    assert {*shares, *state.retired} <= set(squares) and not found.notes
    for block, square in squares.items():
        assert square.value == (pytest.approx(shares[block] / 10) if block in shares else None)
        assert square.closed == (block in state.retired) == (CLOSED in square.printed)
        assert (EMPTY in square.printed) == (block not in shares)
        assert grid.marked(square) == (shares.get(block, 0) >= 10)
        if block in shares:
            assert grid.step(square.value or 0.0) == min(shares[block] // 2, 5)
    kind = state.open_terms().family.kind  # type: ignore[union-attr]
    if by == "day":  # a column is a week, and a row is a day of it
        weekdays = {heading.row: heading.text for heading in grid.headings if heading.column < 0 and not heading.text.isdigit()}
        for block, square in squares.items():
            assert weekdays[square.row] == date.fromisoformat(block).strftime("%a")
        ranks = sorted(map(kind.rank, squares))
        assert ranks == list(range(ranks[0], ranks[-1] + 1))
    if by == "week":
        years = {heading.row: heading.text for heading in grid.headings if heading.column < 0}
        assert all(f"{years[square.row]}-W{square.column + 1:02}" == block for block, square in squares.items())


@pytest.mark.parametrize("by", BLOCKS)
@given(**STATES)
def test_the_picture_in_every_format(by: str, tenths: dict[int, int], retired: list[int]) -> None:
    found, grid = picture(used(by, tenths, retired))
    text = load(CHART_FORMATS["svg"])(found)
    root = ElementTree.fromstring(text)
    titles = Counter(path.findtext(f"{SVG}title") for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None)
    assert titles == Counter(f"{square.label}: {square.printed}" for square in grid.squares)
    full = sum(map(grid.marked, grid.squares))
    assert len(list(root.iter(f"{SVG}circle"))) == full + 1  # and in the legend
    drawn = scene(found)
    sheet, covered = Box(0.0, 0.0, drawn.width, drawn.height), boxes(drawn.words)
    assert all(box.within(sheet) for box in covered)
    for left, right in combinations(range(len(covered)), 2):
        assert not covered[left].overlaps(covered[right]), (drawn.words[left].text, drawn.words[right].text)
    for points in (each.points for each in (*drawn.fills, *drawn.strokes)):
        assert all(sheet.covers(point) for point in points)
    rows = list(csv.reader(io.StringIO(load(CHART_FORMATS["csv"])(found))))[1:]
    assert [(name.removeprefix("'"), value, closed == "true") for name, value, closed in rows] == [
        (square.label, "" if square.value is None else repr(square.value), square.closed) for square in grid.squares
    ]
    layers = {layer["name"]: layer for layer in json.loads(load(CHART_FORMATS["vega-lite"])(found))["layer"]}
    assert [row["value"] for row in layers["squares"]["data"]["values"]] == [square.value for square in grid.squares]
    assert len(layers["marked"]["data"]["values"]) == full
    assert f"{len(grid.squares)} squares" in describe(found)
    for width in (40, 72, 100, 160):
        lines = load(CHART_FORMATS["terminal"])(found, width=width, encoding="ascii").splitlines()
        assert max(map(len, lines)) <= width
    marks = Counter(mark(grid, square) for square in grid.squares)
    assert marks["x"] == sum(square.closed for square in grid.squares) and sum(marks.values()) == len(grid.squares)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Glyph")  # of names in scripts that the machine's fonts may lack
@pytest.mark.parametrize("by", BLOCKS)
def test_the_picture_as_png(by: str) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("the plot extra is not installed")
    found, _ = picture(used(by, {0: 10, 1: 3}, [2]))
    assert load(CHART_FORMATS["png"])(found).startswith(b"\x89PNG")


def test_a_terminal_shows_the_whole_of_it() -> None:
    """Digits for the steps, in the rows of the days."""
    found, _ = picture(used("day", {place: place % 11 for place in range(14)}, [14]))
    lines = load(CHART_FORMATS["terminal"])(found, encoding="ascii").splitlines()
    body = [line for line in lines if line[:5].strip() in ("2026", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")]
    assert body == [
        "2026 Feb",
        " Mon   2 0",
        " Tue   3 1",
        " Wed 0 3 x",
        " Thu 0 4",
        " Fri 1 4",
        " Sat 1 #",
        " Sun 2 0",
    ]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_steps_are_told_apart_without_colours(palette: dict[object, str]) -> None:
    """By how light they are, which print in grey and every kind of colour blindness keep; and the words on them can be read."""
    lights = [luminance(palette[ink]) for ink in INKS]
    assert len(STEPS) == len(INKS)
    assert lights == sorted(lights, reverse=palette is LIGHT)
    for one, other in pairwise(lights):
        low, high = sorted((one, other))
        assert (high + 0.05) / (low + 0.05) >= 1.3
    for i, light in enumerate(lights):
        words = luminance(palette["paper" if i >= FIRST_DARK else "text"])
        low, high = sorted((light, words))
        assert (high + 0.05) / (low + 0.05) >= 4.5, i


@pytest.mark.parametrize("by", ["day", "week"])
def test_the_ends_of_the_calendar(by: str) -> None:
    """Years apart: what lies between them is not drawn, and what has no room is told."""
    state = used(by, {0: 3})
    ends = {"day": ("0001-01-01", "9999-12-31"), "week": ("0001-W01", "9999-W52")}[by]
    for block in ends:
        state.spent |= {f"epsilon@{block}": Decimal("0.5")}
    found, grid = picture(state)
    assert (
        set(ends) <= {square.label for square in grid.squares} and len(grid.squares) <= 3 * 7 * WEEKS_PER_STRIP and not found.notes
    )
    many = {f"{year:04}-W01" if by == "week" else f"{year:04}-07-01" for year in range(1900, 1950)}
    for block in many:
        state.spent |= {f"epsilon@{block}": Decimal("0.5")}
    found, grid = picture(state)
    hidden = {*many, *ends} - {square.label for square in grid.squares}
    assert (
        hidden
        and found.notes == (f"{len(hidden)} blocks are not shown",)
        and "9999" in max(square.label for square in grid.squares)
    )
    assert len(grid.squares) <= 7 * WEEKS_PER_STRIP * MOST_STRIPS
    assert scene(found).height < 3000.0


@pytest.mark.long
def test_parts_of_a_hash_that_are_too_many() -> None:
    state = opening(replace(terms("hash"), blocks={"by": "hash", "column": "user", "max_blocks": 1, "count": 10**6}))
    state.spent = {f"epsilon@{block}": Decimal("0.1") for block in range(0, 10**6, 2_000)}
    found, grid = picture(state)
    assert len(grid.squares) == MOST_NAMED and found.notes == ("200 blocks are not shown",)


def test_nothing_to_draw() -> None:
    for by in BLOCKS:
        empty = block_chart(opening(terms(by)))
        assert (empty is None) == (by in ("day", "week"))
        if empty is not None and empty.grid is not None:
            assert all(square.value is None for square in empty.grid.squares)
            assert len(empty.grid.squares) == len(terms(by).family.kind.listed)  # type: ignore[union-attr]
    from tests.ledger.filters.setting import terms as plain

    assert block_chart(opening(plain())) is None
    assert set(FAMILIES) == set(BLOCKS)
