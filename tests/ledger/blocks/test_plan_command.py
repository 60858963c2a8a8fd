"""Tests of the command `dpcli budget plan` and of pictures: every format and every kind of block, in a file and in PostgreSQL."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.cli.outputs import PICTURES_ALONE
from dpcli.ledger.plugin import BLOCKS as KINDS_OF_BLOCKS
from dpcli.ledger.stores.places import init, open_ledger
from tests.cases import of_each
from tests.command import Result, dpcli
from tests.ledger.conftest import Database, Place
from tests.ledger.filters.families import FAMILIES, terms
from tests.ledger.filters.setting import DATASET, charge, run_file
from tests.ledger.filters.setting import terms as plain
from tests.ledger.postgres.people import by as by_name

BLOCKS = tuple(KINDS_OF_BLOCKS)
KINDS = ("", *BLOCKS)
PLAN = """format = 1
[[run]]
file = "runs/weekly.toml"
every = "week"
from = 2027-12-30
count = {count}
{window}
"""


def schedule(folder: Path, by: str, count: int, epsilon: float = 0.3) -> str:
    """A schedule of one run that is repeated; its file is in a folder beside it."""
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "runs" / "weekly.toml").write_text(run_file(epsilon))
    window = {"": "", "day": 'window = "last 28 days"', "week": 'window = "last 4 weeks"'}.get(
        by, f"window = {json.dumps(list(FAMILIES[by or 'day'][1][:2]), ensure_ascii=False)}"
    )
    path = folder / "plan.toml"
    path.write_text(PLAN.format(count=count, window=window))
    return str(path)


def opened(url: str, by: str, name: str = DATASET) -> None:
    with init(url, name, replace(terms(by) if by else plain(), schema="")) as ledger:
        charge(ledger, "before", "0.05", window=FAMILIES[by][1][:1] if by else ())


def asked(url: str, path: str, *more: str) -> Result:
    return dpcli("budget", "plan", url, path, *more)


@pytest.mark.long
@of_each("by", KINDS)
def test_all_fit_or_one_does_not(by: str, place: Place, tmp_path: Path) -> None:
    name = f"data by {by or 'none'}"
    opened(place.url, by, name)
    with open_ledger(place.url, name) as ledger:
        head = ledger.state().head
    fits = asked(place.url, schedule(tmp_path, by, 3), "--dataset", name)
    assert (fits.code, fits.err) == (0, "") and f"{name}: all 3 runs fit; " in fits.out, fits
    full = asked(place.url, schedule(tmp_path, by, 9), "--dataset", name)
    assert full.code == 1 and full.err == f"dpcli: the run of {tmp_path}/runs/weekly.toml on 2028-01-20 does not fit\n"
    assert "does not fit is" in full.out and "too little" in full.out and "would fit: count = 3 (now 9), 3 runs in all" in full.out
    assert "the first refusal is on 2028-01-20, after 3 runs" in full.out
    data = json.loads(asked(place.url, schedule(tmp_path, by, 9), "--dataset", name, "-f", "json").out)
    assert data["schema"] == "dpcli/budget-plan/v1" and data["exit_code"] == 1 and data["fitting_before_refused"] == 3
    assert data["first_refused"]["day"] == "2028-01-20" == data["runs"][3]["day"] and not data["runs"][3]["fits"]
    assert ("blocks" in data) == bool(by)
    if by:
        assert max(block["runs"] for block in data["blocks"]) == 3
        assert data["share_after"] == max(block["share"] for block in data["blocks"])
    with open_ledger(place.url, name) as ledger:
        assert ledger.state().head == head


def assert_drawn(ending: str, by: str, url: str, folder: Path) -> None:
    opened(url, by)
    now, then = folder / f"now{ending}", folder / f"then{ending}"
    shown = dpcli("budget", "show", url, "-o", str(now))
    assert shown.code == 0 and shown.out == dpcli("budget", "show", url).out
    assert asked(url, schedule(folder, by, 3), "-o", str(then)).code == 0
    assert now.read_bytes() != then.read_bytes()
    if ending == ".svg":
        titles = [ElementTree.parse(path).getroot()[0].text or "" for path in (now, then)]
        expected = ["now", "at the end of the plan"] if by else ["remaining budget", "remaining budget during the plan"]
        assert all(words in title for words, title in zip(expected, titles, strict=True))


def endings() -> list[tuple[str, str]]:
    """Every ending and every kind of block: pictures without pixels of each."""
    drawn = [ending for ending in PICTURES_ALONE if ending != ".png" or importlib.util.find_spec("matplotlib") is not None]
    return [(ending, by) for ending in drawn for by in (KINDS if ending == ".svg" else ("", "day"))]


@pytest.mark.long
@of_each("ending, by", endings)
def test_pictures_by_the_ending(ending: str, by: str, tmp_path: Path) -> None:
    assert_drawn(ending, by, str(tmp_path / "l.db"), tmp_path)


def test_a_picture_of_a_database(database: Database, tmp_path: Path) -> None:
    assert_drawn(".svg", "day", database.url, tmp_path)


@of_each("by", KINDS)
def test_a_page_has_its_pictures(by: str, tmp_path: Path) -> None:
    url = str(tmp_path / "l.db")
    opened(url, by)
    assert dpcli("budget", "show", url, "-o", str(tmp_path / "x.html")).code == 0
    assert (tmp_path / "x.html").read_text().count("<svg") == (2 if by else 1)


def test_nothing_to_draw_yet(tmp_path: Path) -> None:
    url = str(tmp_path / "l.db")
    init(url, DATASET, replace(terms("day"), schema="")).close()
    result = dpcli("budget", "show", url, "-o", str(tmp_path / "x.svg"))
    assert result.code == 2 and "nothing was charged to visits yet" in result.err and not (tmp_path / "x.svg").exists()


def test_no_file_of_the_plan_is_written_over(tmp_path: Path) -> None:
    url = str(tmp_path / "l.db")
    opened(url, "")
    path = schedule(tmp_path, "", 3)
    for place in (path, str(tmp_path / "runs" / "weekly.toml"), url):
        before = Path(place).read_bytes()
        for name in ("json", "svg"):
            assert asked(url, path, "-o", f"{name}={place}").code == 2
        assert Path(place).read_bytes() == before


def test_a_declared_set(tmp_path: Path) -> None:
    url, path = str(tmp_path / "l.db"), schedule(tmp_path, "", 3, 0.1)
    opening = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "0", "--mode", "declared")
    declared = f"{tmp_path}/runs/weekly.toml:2"
    assert dpcli("budget", "init", url, "--dataset", "v", *opening, "--declare", declared).code == 0
    result = asked(url, path)
    assert result.code == 1 and "2 of 3 runs fit" in result.out and "would fit: count = 2 (now 3), 2 runs in all" in result.out
    assert "100.0 % of the declared runs are made at the end" in result.out


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    url, path = str(tmp_path / "l.db"), schedule(tmp_path, "", 3)
    assert asked(url, path).code == 4
    opened(url, "")
    for text, said in {
        'format = 1\n[[run]]\nfile = "gone.toml"\nfrom = 2026-01-01\n': "gone.toml",
        'format = 1\n[[run]]\nfile = "runs/weekly.toml"\nfrom = 2026-01-01\nwindow = "last 2 days"\n': "is not cut into blocks",
        "format = 1\n": "at least one [[run]] table",
    }.items():
        Path(path).write_text(text)
        result = asked(url, path)
        assert result.code == 2 and said in result.err, result
    (tmp_path / "runs" / "weekly.toml").write_text(run_file(0.1).replace('"example"', '"user"\nmax_contributions = 1'))
    refused = asked(url, schedule_kept(tmp_path))
    assert refused.code == 2 and 'privacy.unit: expected "example"' in refused.err


def schedule_kept(folder: Path) -> str:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(count=1, window=""))
    return str(path)


@pytest.mark.long
@of_each("by", KINDS)
def test_a_ledger_with_quotas_and_of_two_persons(by: str, place: Place, tmp_path: Path) -> None:
    """A plan says whether runs fit within the cap. It does not know who will make them, so it warns about quotas."""
    name = f"data by {by or 'none'}"
    init(place.url, name, replace(terms(by) if by else plain(), schema="", two_person=True)).close()
    with by_name(place, "ada", dataset=name) as ada, by_name(place, "eve", dataset=name) as eve:
        for share in ("0.1", "0.2"):
            found = ada.quota("person", "ada", share, why="a fair share").entry
            assert found is not None
            if share == "0.1":
                eve.approve(found.row.seq, "it is fair")
        charge(ada, "before", "0.05", window=FAMILIES[by][1][:1] if by else ())
    plans = [asked(place.url, schedule(tmp_path, by, count), "--dataset", name) for count in (3, 9)]
    assert [plan.code for plan in plans] == [0, 1] and "can exceed the quota" in plans[0].out, plans[0].out
    (tmp_path / "run.toml").write_text(run_file(0.01))
    if by:
        assert dpcli("budget", "windows", place.url, str(tmp_path / "run.toml"), "--dataset", name).code == 0
    seen = dpcli("budget", "overview", place.url, "-f", "json")
    (row,) = (row for row in json.loads(seen.out)["datasets"] if row["dataset"] == name)
    assert seen.code == 0 and "1 proposal waits for another person's approval" in " ".join(row["warnings"]), row
