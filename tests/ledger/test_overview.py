"""Tests of `dpcli budget overview`: each row is right even if another dataset is damaged, and a long history costs no more time."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.ledger import dataset_overview as module
from dpcli.ledger.dataset_overview import CHANGED_DEFINITIONS, OLD_DEFINITIONS, DatasetSummary, UnreadableDataset, overview
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.plugin import BLOCKS, FILTERS
from dpcli.ledger.stores.places import init, open_store
from dpcli.ledger.stores.postgres import PostgresStore
from dpcli.ledger.stores.sqlite import SqliteStore
from tests.command import dpcli
from tests.ledger.conftest import Place
from tests.ledger.filters.families import FAMILIES, terms
from tests.ledger.filters.folding import Counting
from tests.ledger.filters.setting import charge
from tests.ledger.filters.setting import terms as plain
from tests.ledger.postgres.people import USUAL


def filled(url: str) -> None:
    """A dataset of every kind of block and one without, each used to another share."""
    for i, by in enumerate(("", *BLOCKS), 1):
        with init(url, f"data {by or 'whole'}", replace(terms(by) if by else plain(), schema="")) as ledger:
            if by:
                charge(ledger, "low", "0.01", window=FAMILIES[by][1][1:3])
            charge(ledger, "high", str(0.19 * i), window=FAMILIES[by][1][3:4] if by else ())
            charge(ledger, "waiting", "0.02", "reserve", window=FAMILIES[by][1][3:4] if by else ())


@pytest.mark.long
def test_the_fullest_first(place: Place) -> None:
    filled(place.url)
    unread, glances = overview([place.url, place.url])
    kinds = ["", *BLOCKS]
    assert unread == () and [glance.dataset for glance in glances] == [f"data {by or 'whole'}" for by in reversed(kinds)]
    for glance, (i, by) in zip(glances, reversed(list(enumerate(kinds, 1))), strict=True):
        assert glance.used == pytest.approx(0.19 * i + 0.02, rel=1e-12) and glance.reserved == 0.02
        assert glance.block == (FAMILIES[by][1][3] if by else None)
        assert glance.state.latest and glance.warnings == (("more than 80 % is used",) if i > 4 else ())


@pytest.fixture
def full(place: Place) -> Place:
    filled(place.url)
    return place


@pytest.mark.long
def test_a_damaged_dataset_hides_no_other(place: Place, tmp_path: Path) -> None:
    filled(place.url)
    place.by_force("UPDATE entry SET body = replace(body, '0.01', '0.00') WHERE dataset = 'data week'")
    other = str(tmp_path / "other.db")
    (tmp_path / "text.db").write_text("no database")
    init(other, "fine", replace(plain(), schema="")).close()
    result = dpcli("budget", "overview", place.url, other, str(tmp_path / "text.db"), "-f", "json")
    assert result.code == 4 and "data week" in result.err and "and 1 more" in result.err
    data = json.loads(result.out)
    assert data["schema"] == "dpcli/budget-overview/v1" and data["exit_code"] == 4
    wrong = [row for row in data["datasets"] if row["error"]]
    assert [row["dataset"] for row in wrong] == ["data week", None] and data["datasets"][: len(wrong)] == wrong
    assert [row["dataset"] for row in data["datasets"][2:]] == ["data hash", "data region", "data day", "data whole", "fine"]


def test_the_overview_warns(tmp_path: Path) -> None:
    url = str(tmp_path / "l.db")
    with init(url, "full", replace(plain(), schema="")) as ledger:
        charge(ledger, "all", "1")
    with init(url, "lowered", replace(plain(), schema="")) as ledger:
        charge(ledger, "half", "0.5")
        ledger.amend(0.25, "fewer runs", "ben", acknowledged=True)
    warnings = {glance.dataset: glance.warnings for glance in overview([url])[1]}
    assert warnings == {"full": ("used up",), "lowered": ("more is spent than the cap allows, as the cap was lowered",)}
    with closing(sqlite3.connect(url)) as connection, connection:
        connection.execute("CREATE TRIGGER another AFTER INSERT ON entry BEGIN SELECT 1; END")
    assert all(CHANGED_DEFINITIONS in glance.warnings for glance in overview([url])[1])


def test_definitions_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "l.db")
    with init(url, "old", replace(plain(), schema="")) as ledger:
        monkeypatch.setattr(type(ledger.store), "outdated", property(lambda store: "of an earlier version"))
        monkeypatch.setattr(type(ledger.store), "version", property(lambda store: 99))
        monkeypatch.setattr(module, "digest", lambda text: "another")
    assert overview([url])[1][0].warnings == ("of an earlier version", OLD_DEFINITIONS)


@pytest.mark.parametrize("name", FILTERS)
def test_the_overview_names_the_filter(name: str, tmp_path: Path) -> None:
    url = str(tmp_path / "l.db")
    opening = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "1e-6", "--filter", name)
    assert dpcli("budget", "init", url, "--dataset", "v", *opening).code == 0
    assert [glance.added_up_by for glance in overview([url])[1]] == [name]
    assert f"  {name}  " in dpcli("budget", "overview", url).out


def test_no_password_is_shown() -> None:
    url = "postgresql://ana:secret@nowhere.invalid:1/ledger?connect_timeout=1"
    (found,) = overview([url])[0]
    assert isinstance(found, UnreadableDataset) and "secret" not in found.ledger + found.why
    assert "secret" not in dpcli("budget", "overview", url).out


@pytest.mark.long
def test_the_number_of_rows_and_queries_does_not_grow(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dataset is read from its checkpoint on, with a constant number of rows and queries."""
    from dpcli.ledger import checkpoint

    monkeypatch.setattr(checkpoint, "EVERY", 4)
    every = 4
    stores: list[Counting] = []

    def counting(url: str) -> Any:
        stores.append(Counting(open_store(url)))
        return stores[-1]

    monkeypatch.setattr(module, "open_store", counting)
    init(place.url, "long", replace(plain(), schema="")).close()
    if "://" in place.url:  # a server notes them by itself
        place.by_hand(USUAL.replace("256", f"{every}"))
    asked = []
    for kind in (SqliteStore, PostgresStore):
        real = kind.after
        monkeypatch.setattr(kind, "after", lambda *given, real=real: asked.append(given) or real(*given))
    counts = []
    for size in (every + 1, 2 * every + 1):
        with Ledger(open_store(place.url), "long") as ledger:
            while ledger.state().head.seq < size:
                charge(ledger, f"run {ledger.state().head.seq}", "0.0001")
        asked.clear()
        (glance,) = overview([place.url])[1]
        assert isinstance(glance, DatasetSummary) and glance.state.head.seq == size
        counts.append((stores[-1].rows, len(asked)))
    assert counts[0] == counts[1] and counts[0][0] <= 4, counts


def test_what_has_moved_is_not_counted_as_live(tmp_path: Path) -> None:
    from dpcli.ledger.stores.copying import move_dataset

    source, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    for name, epsilon in (("gone", "0.9"), ("here", "0.1")):
        with init(source, name, replace(plain(), schema="")) as ledger:
            charge(ledger, "run", epsilon)
    move_dataset(source, target, "gone")
    found = json.loads(dpcli("budget", "overview", source, "-f", "json").out)["datasets"]
    assert [(row["dataset"], row["moved_to"]) for row in found] == [("here", None), ("gone", target)]
    assert found[1]["warnings"][0].startswith(f"has moved to {target} (entry ")
    text = dpcli("budget", "overview", source).out
    assert "1 dataset, the fullest here" in text and "1 that moved to another ledger" in text and f"has moved to {target}" in text
    assert dpcli("budget", "overview", source, "-f", "total").out == "1\n"
    both = json.loads(dpcli("budget", "overview", source, target, "-f", "json").out)["datasets"]
    assert [(row["dataset"], row["moved_to"]) for row in both] == [("gone", None), ("here", None), ("gone", target)]


@pytest.mark.long
def test_a_page_has_the_balance_and_the_pictures_of_each_dataset(place: Place, tmp_path: Path) -> None:
    """Each part is the page of `dpcli budget show`. Names are escaped, and an unreadable dataset is reported."""
    names = ("<b>clicks & more</b>", "visits", "never charged", "damaged")
    for name in names:
        with init(place.url, name, replace(plain(), schema="")) as ledger:
            for i in range(3 if name != "never charged" else 0):
                charge(ledger, f"<i>{i}</i> of {name}", "0.1")
            if name == "visits":
                ledger.amend(0.25, "fewer runs", "ben", acknowledged=True)
    place.by_force("UPDATE entry SET body = replace(body, '0.1', '0.0') WHERE dataset = 'damaged'")
    path = tmp_path / "x.html"
    assert dpcli("budget", "overview", place.url, "-o", str(path)).code == 4
    page = path.read_text("utf-8")
    assert page.count('<section class="part">') == 3 and page.count("</svg>") == 2
    assert "<b>" not in page and "<i>" not in page and "<script" not in page
    assert "&lt;b&gt;clicks &amp; more&lt;/b&gt;" in page and "cannot be read" in page
    assert page.count("emaining budget after each entry") == 2
    cells = re.sub("</?span[^>]*>", "", page)
    assert all(f">{left} %<" in cells for left in ("100.0", "90.0", "80.0", "70.0", "0")), cells
    assert "more is spent than the cap allows" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    assert "<section" not in dpcli("budget", "overview", place.url, "-f", "text").out
