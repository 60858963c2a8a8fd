"""Tests of `dpcli budget windows` (ledger/blocks/room.py) and of the calendar of blocks: a run fits where they say that it does."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import Denied, InputError
from dpcli.file.pipeline.read import load, parse
from dpcli.ledger.blocks.family import stretch_spelling
from dpcli.ledger.blocks.room import block_room, window_words
from dpcli.ledger.budget import budget
from dpcli.ledger.documents.ledger_answers import receipt
from dpcli.ledger.documents.ledger_blocks import calendar
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.planning.quote import quotes
from dpcli.ledger.planning.schedule import trailing_of
from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.stores.places import init
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.conftest import Place
from tests.ledger.filters.families import FAMILIES, terms
from tests.ledger.filters.setting import DATASET, charge, run, run_file
from tests.ledger.filters.setting import terms as plain


def filled(url: str, by: str, used: list[int], retired: int) -> Ledger:
    """Six blocks, each with so many tenths of its cap used; one of them retired."""
    ledger, blocks = init(url, DATASET, replace(terms(by), schema="")), FAMILIES[by][1]
    for i, tenths in enumerate(used):
        if tenths:
            charge(ledger, f"run {i}", str(tenths / 10), window=[blocks[i]])
    ledger.retire([blocks[retired]], "gone")
    return ledger


@given(
    by=st.sampled_from(sorted(BLOCKS)),
    used=st.lists(st.integers(0, 10), min_size=6, max_size=6),
    cost=st.integers(1, 10),
    retired=st.integers(0, 5),
)
def test_a_window_that_is_said_to_have_room_has(
    by: str, used: list[int], cost: int, retired: int, tmp_path_factory: object
) -> None:
    ledger = filled(str(tmp_path_factory.mktemp("room") / "l.db"), by, used, retired)  # type: ignore[attr-defined]
    blocks = FAMILIES[by][1]
    found = block_room(ledger, run(cost / 10), blocks)
    room = {block for i, block in enumerate(blocks) if i != retired and used[i] + cost <= 10}
    assert [block for stretch in found.stretches for block in stretch] == [b for b in found.within if b in room]
    assert set(found.within) == set(blocks) and found.share == cost / 10
    rank = ledger.state().open_terms().family.kind.rank  # type: ignore[union-attr]
    for stretch in found.stretches:
        assert [rank(block) for block in stretch] == list(range(rank(stretch[0]), rank(stretch[-1]) + 1))
        assert ledger.window([stretch_spelling(stretch)]) == tuple(sorted(stretch))
    assert (found.widest is None) == (found.latest is None) == (not room)
    if found.widest is not None and found.latest is not None:
        assert len(found.widest) == max(len(stretch) for stretch in found.stretches)
        assert found.latest[-1] == max(room, key=rank)
        with pytest.raises(Denied):
            ledger.spend(run(cost / 10), "too wide", window=blocks if len(room) < 6 else [blocks[retired]])
        ledger.spend(run(cost / 10), "widest", window=[stretch_spelling(found.widest)])
    ledger.close()


@pytest.mark.sampled
@pytest.mark.parametrize("by", BLOCKS)
@pytest.mark.parametrize("cost", [0.3, 1.5])
def test_unlisted_blocks_before_and_after_are_unused(by: str, cost: float, tmp_path: Path) -> None:
    """Kinds such as days have blocks without end. All before the first and after the last charged block are unused."""
    url, blocks, file = str(tmp_path / "l.db"), FAMILIES[by][1], tmp_path / "run.toml"
    file.write_text(run_file(cost))
    with filled(url, by, [0, 2, 0, 9, 0, 0], 4) as ledger:
        kind = ledger.state().open_terms().family.kind  # type: ignore[union-attr]
        found, within = block_room(ledger, run(cost)), block_room(ledger, run(cost), blocks)
        assert (within.before, within.after) == (None, None)
        assert (found.before, found.after) == ((None, None) if kind.listed else (blocks[1], blocks[4]))
        assert found.fits_unused == (cost <= 1.0)
        for form in ("text", "table"):
            said = " ".join(dpcli("budget", "windows", url, str(file), "-f", form).out.split())
            takes = "the run fits in each of them" if cost <= 1.0 else "the cap of a block is too small for the run"
            assert (f"blocks before {blocks[1]} and after {blocks[4]} were never charged: {takes}" in said) != bool(kind.listed)
        for flag in ("--within", "--window"):
            looked = dpcli("budget", "windows", url, str(file), flag, blocks[3], "-f", "json")
            assert json.loads(looked.out)["never_charged"] == {"before": None, "after": None, "takes": cost <= 1.0}
        for block in () if kind.listed else (blocks[0], blocks[5]):
            with pytest.raises(Denied) if cost > 1.0 else nullcontext():
                ledger.spend(run(cost), block, window=[block])


@pytest.mark.long
def test_the_commands(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(run_file(0.25))
    opening = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "0", "--filter", "approx-dp")
    cut = ("--blocks", "day", "--column", "event_date")
    refused = dpcli("budget", "init", place.url, "--dataset", "v", *opening, *cut)
    assert refused.code == 2 and "--max-blocks: state the number of blocks" in refused.err
    assert dpcli("budget", "init", place.url, "--dataset", "v", *opening, *cut, "--max-blocks", "2").code == 0
    assert "no block was charged yet" in dpcli("budget", "show", place.url).out
    assert dpcli("budget", "windows", place.url, str(file)).code == 2
    spend = ("budget", "spend", place.url, str(file), "--key")
    assert dpcli(*spend, "a").code == 2
    assert dpcli(*spend, "a", "--window", "2026-01-01..2026-01-03").code == 0
    assert dpcli(*spend, "b", "--window", "2026-01-03..2026-01-05").code == 0
    denied = dpcli(*spend, "c", "--window", "2026-01-02..2026-01-04")
    assert denied.code == 1 and "on 1 of the 3 blocks of its window (2026-01-03)" in denied.out
    assert dpcli("budget", "retire", place.url, "2026-01-04", "--reason", "deleted").code == 0
    found = dpcli("budget", "windows", place.url, str(file))
    assert found.code == 0 and "widest --window 2026-01-01..2026-01-02 (2 blocks), latest --window 2026-01-05;" in found.out
    none = dpcli("budget", "windows", place.url, str(file), "--within", "2026-01-03..2026-01-04", "-f", "json")
    assert none.code == 1 and json.loads(none.out)["widest"] is None
    shown = dpcli("budget", "show", place.url).out
    assert "2025-12-29  . . . 5 5 # x\n2026-01-05  5 . . . . . .\n" in shown
    assert dpcli("budget", "verify", place.url).code == 0


@pytest.mark.parametrize("by", BLOCKS)
def test_every_block_is_in_the_picture(by: str, tmp_path: Path) -> None:
    ledger = filled(str(tmp_path / "l.db"), by, [0, 1, 5, 9, 10, 3], 5)
    marks = [mark for line in calendar(ledger.state())[2:] for mark in line.split("  ")[-1].split()]
    assert sorted(mark for mark in marks if mark != ".") == ["#", "1", "5", "9", "x"]
    ledger.close()


def test_a_dataset_without_blocks_has_no_windows(tmp_path: Path) -> None:
    ledger = init(str(tmp_path / "l.db"), DATASET, replace(plain(), schema=""))
    assert calendar(ledger.state()) == ()
    with pytest.raises(InputError, match="not cut into blocks"):
        block_room(ledger, run())
    ledger.close()


def stating(window: str, epsilon: float = 0.25) -> str:
    """A file that says which blocks it reads."""
    return run_file(epsilon).replace('releases = "outputs"\n', f'releases = "outputs"\nwindow = {window}\n')


def test_a_file_that_states_its_window(tmp_path: Path) -> None:
    """It is charged on that window only. A contradicting --window is refused, and so is a dataset without blocks."""
    url, file = str(tmp_path / "l.db"), tmp_path / "run.toml"
    ledger = init(url, DATASET, replace(terms(), schema=""))
    file.write_text(stating('["2026-01-01..2026-01-02", "2026-01-05"]'))
    spend = ("budget", "spend", url, str(file), "--key")
    assert dpcli("account", str(file), "-f", "total").out == dpcli("account", "-", "-f", "total", stdin=run_file(0.25).encode()).out
    assert dpcli(*spend, "a").code == 0
    assert dpcli(*spend, "a", "--window", "2026-01-05", "--window", "2026-01-01..2026-01-02").code == 0
    refused = dpcli(*spend, "b", "--window", "2026-01-01")
    assert refused.code == 2 and "contradicts the window of" in refused.err
    budget(url).spend(str(file), "c")
    assert {run.window for run in ledger.state().runs.values()} == {("2026-01-01", "2026-01-02", "2026-01-05")}
    assert len(ledger.state().runs) == 2 and verify(ledger).problems == ()
    for asked in (ledger.spend, ledger.reserve):
        with pytest.raises(InputError, match="contradicts the window of"):
            asked(load(str(file)), "elsewhere", window=["2026-03-01"])
    with pytest.MonkeyPatch.context() as patch:  # as a program of somebody else's would
        patch.setattr(ledger, "stated_window", lambda pipeline, given: tuple(given))
        ledger.spend(load(str(file)), "elsewhere", window=["2026-03-01"])
    assert [text for text in verify(ledger).problems if "other blocks than those of the window" in text]
    file.write_text(stating("[]"))
    assert dpcli("account", str(file)).code == 2
    plainly = str(tmp_path / "plain.db")
    init(plainly, DATASET, replace(plain(), schema="")).close()
    file.write_text(stating('["2026-01-01"]'))
    assert "not cut into blocks" in dpcli("budget", "spend", plainly, str(file), "--key", "a").err
    ledger.close()


@given(
    used=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    windows=st.lists(st.tuples(st.sets(st.integers(0, 3), min_size=1), st.integers(1, 4)), min_size=1, max_size=4),
    retired=st.integers(0, 5),
)
def test_a_gate_asks_for_all_files_together(
    used: list[int], windows: list[tuple[set[int], int]], retired: int, tmp_path_factory: object
) -> None:
    """Files that the gate says fit together are then accepted by the ledger one after another."""
    url = str(tmp_path_factory.mktemp("gate") / "l.db")  # type: ignore[attr-defined]
    ledger, blocks = filled(url, "day", [*used, 0, 0], retired), FAMILIES["day"][1]
    files = [parse(stating(json.dumps([blocks[i] for i in sorted(w)]), cost / 10).encode(), "run.toml") for w, cost in windows]
    answers = quotes(url, DATASET, [(file, 1) for file in files])
    spent = [*used]
    for window, cost in windows:
        spent = [tenths + cost * (i in window) for i, tenths in enumerate(spent)]
    for answer, (window, _) in zip(answers, windows, strict=True):
        assert not isinstance(answer, Exception)
        assert answer.fits == (retired not in window and all(spent[i] <= 10 for i in window)), answer
    if all(not isinstance(answer, Exception) and answer.fits for answer in answers):
        for i, file in enumerate(files):
            assert not ledger.spend(file, f"file {i}", window=ledger.stated_window(file)).repeated
    (refused,) = quotes(url, DATASET, [(run(0.1), 1)])
    assert isinstance(refused, InputError) and "--window: expected the blocks" in str(refused)
    ledger.close()


@pytest.mark.parametrize(("by", "far"), [("day", ("0001-01-01", "9999-12-30", "9999-12-31")), ("week", ("0001-W01", "9999-W51"))])
def test_a_block_of_long_ago_makes_no_list_of_all_since(by: str, far: tuple[str, ...], tmp_path: Path) -> None:
    """A spender may charge a block in the year 1; the answer must not list the days since then."""
    with init(str(tmp_path / "l.db"), DATASET, replace(terms(by), schema="")) as ledger:
        for block in far:
            charge(ledger, block, "0.1", window=[block])
        found = block_room(ledger, run(0.1))
        assert found.within == far[1:] and found.latest is not None and found.latest == far[1:]


@pytest.mark.parametrize("by", BLOCKS)
@pytest.mark.parametrize("stated", ["last 1 day", "last 9 days", "last 2 weeks"])
def test_the_last_days_are_those_before_the_day_of_the_ledgers_clock(by: str, stated: str, tmp_path: Path) -> None:
    """ "last 28 days" gives the same blocks as in a schedule on that day, and other blocks on another day."""
    with init(str(tmp_path / "l.db"), DATASET, replace(terms(by), schema="")) as ledger:
        family = ledger.state().open_terms().family
        assert family is not None
        for day in (date(2030, 3, 1), date(2030, 3, 2)):
            ledger.now = lambda day=day: f"{day}T23:59:59Z"
            if family.kind.of_day(day) is None:
                with pytest.raises(InputError, match="the blocks are not days or weeks"):
                    ledger.spend(run(0.01), str(day), window=[stated])
                continue
            trailing = trailing_of(stated, family.kind)
            assert trailing is not None
            blocks = tuple(trailing.blocks(family.kind, day))
            assert block_room(ledger, run(0.01), [stated]).within == blocks
            done = receipt(ledger, lambda day=day: ledger.spend(run(0.01), str(day), window=[stated]))
            assert ledger.state().run(str(day)).window == blocks and str(day) not in blocks
            assert f"window: {window_words(ledger.state(), blocks)}; " in done.notes[0]
        with pytest.raises(InputError, match="--window: expected"):
            ledger.retire([stated], "a moving window closes nothing")


def test_a_file_states_no_window_that_moves(tmp_path: Path) -> None:
    with init(str(tmp_path / "l.db"), DATASET, replace(terms("day"), schema="")) as ledger:
        one = run(0.01)
        moving = replace(one, privacy=replace(one.privacy, window=("last 7 days",)))
        with pytest.raises(InputError, match=r'"last 7 days" is accepted by --window and in schedules'):
            ledger.spend(moving, "moving")
        assert not ledger.state().runs


def test_a_release_of_the_last_days_is_begun_on_the_blocks_that_they_are(tmp_path: Path) -> None:
    from dpcli.sessions.priced import FilePlan
    from dpcli.sessions.window import over_window

    with init(str(tmp_path / "l.db"), DATASET, replace(terms("day"), schema="")) as ledger:
        ledger.now = lambda: "2030-03-01T00:00:00Z"
        plan = over_window(FilePlan("run.toml", run(0.01)), ledger, ["last 3 days"])
        assert plan.pipeline.privacy.window == ("2030-02-26..2030-02-28",)
