"""Tests of checkpoints: a reader who begins at one gets the same state as a reader of all entries, and a wrong one is noticed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, LedgerError
from dpcli.ledger import checkpoint
from dpcli.ledger.chain import canonical, digest
from dpcli.ledger.charges.past_runs import ForgetfulRuns
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init, open_ledger, open_store
from dpcli.ledger.stores.sqlite import SqliteStore
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.cases import every
from tests.ledger.deaths_and_damage.deaths import Deadly, killed
from tests.ledger.filters.folding import NOW, ODD, Counting, alike, folded
from tests.ledger.filters.setting import DATASET, charge, past_guards, run, run_file, terms


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint at every third entry."""
    monkeypatch.setattr(checkpoint, "EVERY", 3)


def whole(url: str, dataset: str = DATASET) -> LedgerState:
    with open_ledger(url, dataset) as ledger:
        return folded(ledger)


def begun(url: str) -> Ledger:
    return Ledger(open_store(url), DATASET, now=lambda: NOW)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two datasets; the first has runs of every kind, and a checkpoint with one entry after it."""
    path = str(tmp_path_factory.mktemp("made") / "ledger.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "EVERY", 3)
        fill(path)
    return path


@pytest.fixture
def place(often: None, made: str, tmp_path: Path) -> str:
    return again(made, tmp_path)


def again(made: str, folder: Path, name: str = "ledger") -> str:
    path = folder / f"{name}.db"
    shutil.copyfile(made, path)
    path.chmod(0o600)
    return str(path)


def fill(path: str) -> None:
    init(path, "other", terms(9.0)).close()
    with init(path, DATASET, terms()) as ledger:
        charge(ledger, "spent 0", "0.1")
        for key in ODD:
            charge(ledger, key, "0.1")
        for name in ("open", "started", "ended", "voided"):
            charge(ledger, name, "0.05", "reserve")
        ledger.start("started")
        ledger.start("ended")
        ledger.commit("ended")
        ledger.void("voided", "a reason")
        charge(ledger, "last", "0.01")
        while noted(path)["seq"] != ledger.state().head.seq - 1:
            charge(ledger, f"more {ledger.state().head.seq}", "0.01")
    with open_ledger(path, "other") as ledger:
        for i in range(5):
            charge(ledger, f"other {i}", "0.001")


def noted(path: str, dataset: str = DATASET) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT body FROM checkpoint WHERE dataset = ?", (dataset,)).fetchone()
    return dict(json.loads(found[0])) if found else {"seq": 0}


def rewritten(path: str, **changes: object) -> None:
    """A checkpoint that says something else, under a digest that fits."""
    body = canonical({**noted(path), **changes})
    past_guards(path, ("UPDATE checkpoint SET body = ?, digest = ? WHERE dataset = ?", (body, digest(body), DATASET)))


def test_the_number_of_rows_read_does_not_grow(often: None, tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    init(path, DATASET, terms()).close()
    counts = []
    for size in (9, 60):
        with begun(path) as ledger:
            while ledger.state().head.seq < size:
                charge(ledger, f"run {ledger.state().head.seq}", "0.001")
        store = Counting(open_store(path))
        with Ledger(store, DATASET) as ledger:
            charge(ledger, f"counted {size}", "0.001")
            ledger.state()
        counts.append(store.rows)
    assert counts[0] == counts[1] <= 3 + 3


FORGED: dict[str, dict[str, Any]] = {
    "spent": {"spent": {"epsilon": "0.001", "delta": "0"}},
    "caps": {"caps": {"epsilon": "9", "delta": "0"}},
    "reserved": {"reserved": {"epsilon": "0", "delta": "0"}},
    "under_way": {"under_way": {}},
    "charges": {"charges": 2},
    "epsilon": {"epsilon": 0.5},
    "largest": {"largest": 2.0},
    "latest": {"latest": NOW},
    "last": {"last": None},
    "version": {"version": 3},
    "schema": {"schema": "0" * 64},
}


def test_verify_finds_totals_that_are_not_those_of_the_entries(place: str, tmp_path: Path) -> None:
    """A forger can compute the digest too, so `verify` adds up all entries again."""

    def found(name: str) -> None:
        rewritten(path := again(place, tmp_path, name), **FORGED[name])
        with (
            open_ledger(path, DATASET) as ledger,
            pytest.raises(LedgerError, match="the totals in its checkpoint are not the sums of the entries"),
        ):
            verify(ledger)

    with open_ledger(place, DATASET) as ledger:
        assert verify(ledger).problems == ()
    every(FORGED, found)


SPELLINGS: dict[str, Callable[[int], object]] = {
    "a text": str, "a fraction": lambda seq: seq + 0.5, "a double": float, "nothing": lambda seq: None, "a list": lambda seq: [seq],
}  # fmt: skip
EDITED = {
    **{f"totals: {name}": lambda path, name=name: rewritten(path, **FORGED[name]) for name in FORGED},
    "an entry before them": lambda path: past_guards(
        path, 'UPDATE entry SET body = replace(body, \'"epsilon":"0.1"\', \'"epsilon":"0.0"\') WHERE seq = 3'
    ),
    "an entry before them, and its hash": lambda path: past_guards(
        path, ("UPDATE entry SET body = body || ' ', hash = ? WHERE dataset = ? AND seq = 3", ("0" * 64, DATASET))
    ),
}


def test_a_checkpoint_with_fitting_digests_is_found_by_verify(place: str, tmp_path: Path) -> None:
    def found(number: int, edit: str) -> None:
        EDITED[edit](path := again(place, tmp_path, f"edited {number}"))  # type: ignore[no-untyped-call]
        assert dpcli("budget", "verify", path, "--dataset", DATASET).code == 4

    every(enumerate(EDITED), found)


def test_an_anchored_charge_reads_from_the_checkpoint(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The anchor is checked without reading all entries, and one of another chain is still refused."""
    (tmp_path / "run.toml").write_text(run_file(0.001))
    anchor = json.loads(dpcli("budget", "anchor", place, "--dataset", DATASET, "-f", "json").out)
    more = (place, str(tmp_path / "run.toml"), "--dataset", DATASET, "--anchor", str(tmp_path / "anchor.json"))

    def refuse(ledger: Ledger) -> None:
        raise AssertionError("all entries are read")

    monkeypatch.setattr(Ledger, "replay", refuse)
    for changes, code in (({}, 0), ({"hash": "0" * 64}, 4), ({"seq": anchor["seq"] + 9}, 4), ({"seq": 2}, 4)):
        (tmp_path / "anchor.json").write_text(json.dumps({**anchor, **changes}))
        for kind in ("spend", "reserve"):
            assert dpcli("budget", kind, *more, "--key", f"{kind} {changes}").code == code, (kind, changes)


DAMAGES: dict[str, Callable[[str], None]] = {
    "a total without a new digest": lambda path: past_guards(
        path,
        'UPDATE checkpoint SET body = replace(body, \'"spent":{"delta":"0","epsilon":"0.\', \'"spent":{"delta":"0","epsilon":"0.0\')',
    ),
    "of another dataset": lambda path: past_guards(
        path,
        f"UPDATE checkpoint SET (body, digest) = (SELECT body, digest FROM checkpoint WHERE dataset = 'other') WHERE dataset = '{DATASET}'",
    ),
    "its name is another's": lambda path: past_guards(path, "UPDATE checkpoint SET dataset = dataset || 'x'"),
    "cut off": lambda path: past_guards(path, "UPDATE checkpoint SET body = substr(body, 1, 100)"),
    "gone": lambda path: past_guards(path, "DELETE FROM checkpoint"),
    "of a later format": lambda path: rewritten(path, checkpoint=3),
    "of quotas that it does not hold": lambda path: rewritten(path, checkpoint=2),
    "no numbers": lambda path: rewritten(path, spent={"epsilon": "much", "delta": "0"}),
    "other amounts": lambda path: rewritten(path, spent={"rho": "0"}),
    "less than nothing": lambda path: rewritten(path, spent={"epsilon": "-1", "delta": "0"}),
    "no table": lambda path: rewritten(path, under_way=[1]),
    "amounts beyond all entries": lambda path: rewritten(path, caps={"epsilon": "1E+4000", "delta": "0"}),
    "a number beyond all doubles": lambda path: rewritten(path, largest="9" * 400),
    **{
        f"{spelling} for a number of an entry": lambda path, spelled=spelled: rewritten(  # type: ignore[misc]
            path, seq=spelled(noted(path)["seq"]), spent={"epsilon": "0", "delta": "0"}
        )
        for spelling, spelled in SPELLINGS.items()
    },
}


def test_totals_that_are_damaged_or_foreign_are_not_used(place: str, tmp_path: Path) -> None:
    truth = whole(place)

    def passed_over(damage: str) -> None:
        DAMAGES[damage](path := again(place, tmp_path, damage))
        with open_ledger(path, DATASET) as ledger:
            alike(ledger.state(), truth)
            with suppress(LedgerError):  # what a fitting digest was made for is a finding; nothing else is raised
                assert verify(ledger).problems == ()
            for i in range(checkpoint.EVERY):
                charge(ledger, f"goes on {i}", "0.001", "reserve")
            assert noted(path)["seq"] > truth.head.seq  # made anew
            assert verify(ledger).notes == ()

    every(DAMAGES, passed_over)


LOSSES = {
    "the last entry": "DELETE FROM entry WHERE dataset = '{d}' AND seq = {end}",
    "the last entry, and that it was": "DELETE FROM entry WHERE dataset = '{d}' AND seq >= {seq};"
    "UPDATE head SET seq = {seq} - 1 WHERE dataset = '{d}'",
    "the entry of the totals": "DELETE FROM entry WHERE dataset = '{d}' AND seq = {seq}",
    "the first entry": "DELETE FROM entry WHERE dataset = '{d}' AND seq = 1",
    "all entries": "DELETE FROM entry WHERE dataset = '{d}'",
    "where the entries end": "DELETE FROM head WHERE dataset = '{d}'",
    "the entry of the totals, put elsewhere": "UPDATE entry SET dataset = 'third' WHERE dataset = '{d}' AND seq = {seq}",
}


def test_entries_that_were_there_are_missed(place: str, tmp_path: Path) -> None:
    with open_ledger(place, DATASET) as ledger:
        end = ledger.state().head.seq

    def missed(loss: str) -> None:
        path = again(place, tmp_path, loss)
        past_guards(path, *LOSSES[loss].format(d=DATASET, seq=noted(path)["seq"], end=end).split(";"))
        for ask in (lambda ledger: ledger.state(), lambda ledger: charge(ledger, "more"), verify):
            with pytest.raises(LedgerError), open_ledger(path, DATASET) as ledger:
                ask(ledger)

    every(LOSSES, missed)


def test_a_missing_number_of_the_last_entry_is_named(place: str) -> None:
    past_guards(place, LOSSES["where the entries end"].format(d=DATASET))
    with pytest.raises(LedgerError, match="the number of its last entry is missing"), open_ledger(place, DATASET) as ledger:
        ledger.state()


def test_another_history_under_the_same_totals_is_refused(place: str) -> None:
    seq = noted(place)["seq"]
    with open_ledger(place, DATASET) as ledger:
        (row,) = ledger.store.after(DATASET, seq - 1, 1)
    body = canonical({**json.loads(row.body), "why": "another"})
    past_guards(place, ("UPDATE entry SET body = ?, hash = ? WHERE dataset = ? AND seq = ?", (body, digest(body), DATASET, seq)))
    with pytest.raises(LedgerError, match="is not the entry that the checkpoint names"):
        open_ledger(place, DATASET).state()


def test_keys_are_known_for_ever(place: str) -> None:
    """Keys from before the checkpoint: a repeated run is charged once, another run is refused, and an ended run stays as it is."""
    for key in ("spent 0", *ODD):
        assert charge(open_ledger(place, DATASET), key, "0.1").repeated
    before = whole(place).spent
    for key, kind in (("spent 0", "reserve"), ("ended", "spend"), ("voided", "reserve"), ("started", "reserve"), ("open", "spend")):
        with pytest.raises(LedgerError, match=f'key "{key}": expected'):
            charge(open_ledger(place, DATASET), key, "0.05", kind)
    for key, move in (("started", "void"), ("ended", "void"), ("voided", "start"), ("voided", "commit"), ("spent 0", "void")):
        with pytest.raises(LedgerError), open_ledger(place, DATASET) as ledger:
            ledger.void(key, "a reason") if move == "void" else getattr(ledger, move)(key)
    assert whole(place).spent == before
    open_ledger(place, DATASET).void("open", "a reason")
    assert whole(place).spent["epsilon"] == before["epsilon"] - Decimal("0.05")


@pytest.mark.parametrize(
    ("lost", "key", "moves"),
    [("start", "started", "void"), ("void", "voided", "commit"), ("commit", "ended", "void"), ("reserve", "ended", "void")],
)
def test_a_move_that_the_index_has_lost_is_not_undone(lost: str, key: str, moves: str, place: str) -> None:
    """If a damaged index hides the start or end of a run, the run cannot be voided."""
    truth = whole(place).spent

    class Blind(SqliteStore):
        def rows_of_key(self, dataset: str, key: str) -> Any:
            return [row for row in super().rows_of_key(dataset, key) if json.loads(row.body)["kind"] != lost]

    with Ledger(Blind(place), DATASET) as ledger, pytest.raises(LedgerError):
        ledger.void(key, "a reason") if moves == "void" else getattr(ledger, moves)(key)
    assert whole(place).spent == truth


@pytest.mark.parametrize("one_of", [4, pytest.param(1, marks=pytest.mark.long)])
def test_one_flipped_bit_never_makes_a_total_smaller(one_of: int, place: str) -> None:
    """In a long file, of which a reader reads only the entries after the checkpoint."""
    content, truth, counts = Path(place).read_bytes(), whole(place), {"as before": 0, "refused": 0}
    pages = range(0, len(content), 4096)
    flips = [(at, 1 << at % 8) for at in range(0, len(content), 97)]
    flips += [(page + 100 * (page == 0) + at, 1 << bit) for page in pages for at in range(14) for bit in (0, 3, 7)]
    for at, bit in flips[::one_of]:
        flipped = bytearray(content)
        flipped[at] ^= bit
        Path(place).write_bytes(flipped)
        with suppress(LedgerError), open_ledger(place, DATASET) as ledger:
            found = ledger.state()
            assert canonical(checkpoint_content(found)) == canonical(checkpoint_content(truth)), f"bit {bit} of byte {at}"
            counts["as before"] += 1
            continue
        counts["refused"] += 1
    assert min(counts.values()) > 20 // one_of


@pytest.mark.parametrize("words", [("verify",), ("log",), ("export",)])
def test_no_room_for_what_is_kept_meanwhile_is_said(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = str(tmp_path / "l.db"), ForgetfulRuns.__init__
    with init(path, DATASET, terms()) as ledger:
        for i in range(40):
            charge(ledger, f"{i:200}", "0.001")

    def small(runs: ForgetfulRuns) -> None:
        made(runs)
        runs._ended.execute("PRAGMA max_page_count = 2")

    monkeypatch.setattr(ForgetfulRuns, "__init__", small)
    done = dpcli("budget", *words, path)
    assert (done.code, done.out) == (
        4,
        "",
    ) and "temporary file for the keys of ended runs cannot be used: database or disk is full" in done.err
    assert open_ledger(path).state().charges == 40


def test_denials_are_the_same_to_the_last_digit(place: str) -> None:
    left = whole(place).left()["epsilon"]
    with pytest.raises(Denied):
        charge(open_ledger(place, DATASET), "too much", str(left + Decimal("1E-19")))
    assert not charge(open_ledger(place, DATASET), "all of it", str(left)).repeated


def test_commands_print_the_same_with_and_without_a_checkpoint(place: str, tmp_path: Path) -> None:
    """Byte for byte."""
    (tmp_path / "run.toml").write_text(run_file(0.001))
    copy = str(tmp_path / "copy.db")
    shutil.copy(place, copy)
    past_guards(copy, "DELETE FROM checkpoint")
    for words in (
        ("show",),
        ("show", "-f", "json"),
        ("show", "-f", "csv"),
        ("show", "-f", "total"),
        ("log",),
        ("export",),
        ("verify",),
    ):
        one, two = (dpcli("budget", words[0], path, "--dataset", DATASET, *words[1:]) for path in (place, copy))
        assert one == two and one.code == 0, (one, two)


def test_a_gate_reads_once_for_all_its_files(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.ledger.planning.quote import quotes

    asked = []
    after = SqliteStore.after
    monkeypatch.setattr(SqliteStore, "after", lambda *given: asked.append(given) or after(*given))
    counts = []
    for files in (1, 20):
        asked.clear()
        assert len(quotes(place, DATASET, [(run(0.001), 1)] * files)) == files
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_a_death_between_the_note_and_the_commit_leaves_neither(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 1)
    before = noted(place)
    assert killed(lambda: charge(Ledger(Deadly(open_store(place), "noted"), DATASET), "key", "0.01"))
    with open_ledger(place, DATASET) as ledger:
        assert noted(place) == before
        alike(ledger.state(), folded(ledger))
        assert not charge(ledger, "key", "0.01").repeated
        assert noted(place)["seq"] == ledger.state().head.seq
        assert verify(ledger).notes == ()
