"""Tests of attacks: ways in which somebody once got more out of a ledger than it should give, or made it state something untrue."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.chain import GENESIS, canonical, digest
from dpcli.ledger.filters.filter import filter_for_cap
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from tests.command import dpcli
from tests.ledger.cases import every
from tests.ledger.conftest import Place
from tests.ledger.filters import setting
from tests.ledger.pipelines import pure

NOW = "2030-01-10T00:00:00Z"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = init(str(tmp_path / "l.db"), "visits", LedgerTerms("user", "add-remove", 1.0, 1e-6, filter="approx-dp", parameters={}))
    found.now = lambda: NOW
    return found


def test_a_file_with_two_names_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """SQLite would not find a journal under the other name, and could later roll back an acknowledged charge."""
    ledger.store.close()
    os.link(tmp_path / "l.db", tmp_path / "second.db")
    for name in ("l.db", "second.db"):
        with pytest.raises(LedgerError, match="one name, found 2"):
            open_ledger(str(tmp_path / name))


def test_a_run_that_starts_again_is_not_covered_by_its_first_charge(ledger: Ledger) -> None:
    ledger.reserve(pure(0.1), "long", 0.0)
    assert ledger.reserve(pure(0.1), "long", 0.0).repeated  # nothing has begun: a retry
    ledger.start("long")
    with pytest.raises(LedgerError, match="found one that was started: noise may have been drawn"):
        ledger.start("long")
    with pytest.raises(LedgerError, match="found a run that is started"):
        ledger.reserve(pure(0.1), "long", 0.0)
    ledger.commit("long")
    with pytest.raises(LedgerError, match="found a run that is committed"):
        ledger.reserve(pure(0.1), "long", 0.0)
    assert ledger.state().spent["epsilon"] == Decimal("0.1")


@pytest.mark.parametrize(
    "trap",
    [
        "CREATE TRIGGER zz BEFORE INSERT ON entry BEGIN SELECT RAISE(IGNORE); END",
        "ALTER TABLE entry RENAME TO real; CREATE VIEW entry AS SELECT * FROM real; "
        "CREATE TRIGGER zz INSTEAD OF INSERT ON entry BEGIN SELECT 1; END",
    ],
)
def test_a_charge_that_is_not_there_afterwards_is_not_acknowledged(ledger: Ledger, tmp_path: Path, trap: str) -> None:
    ledger.store.close()
    connection = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    connection.executescript(trap)
    connection.close()
    opened = open_ledger(str(tmp_path / "l.db"))
    with pytest.raises(LedgerError, match=r"written, but cannot be read back: the ledger's definitions were changed"):
        opened.spend(pure(0.1), "a", 0.0)


def test_terms_in_blank_words_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    stated = {"unit": "user", "adjacency": "add-remove", "epsilon": 1.0, "delta": 1e-6, "filter": "approx-dp", "parameters": {}}

    def refused(terms: dict[str, str]) -> None:
        with pytest.raises(InputError):
            init(str(tmp_path / "new.db"), "visits", LedgerTerms(**{**stated, **terms}))  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []

    every([{"unit": ""}, {"unit": " "}, {"fingerprint": ""}, {"unit": "a\nb"}, {"team": ""}], refused)


def test_what_underflows_is_not_free() -> None:
    def costs(name: str) -> None:
        found = filter_for_cap(name, 1.0, 1e-200, {})
        assert any(Decimal(value) > 0 for value in found.cost(pure(1e-170), 0.0).amounts.values())

    every(["rdp", "zcdp", "advanced", "gdp", "approx-dp"], costs)


def forged(path: Path, seq: int, **changes: object) -> None:
    """The rows rewritten with a consistent chain, one content changed."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT seq, body FROM entry ORDER BY seq").fetchall()
    previous, written = GENESIS, list[tuple[str, tuple[object, ...]]]()
    for number, body in rows:
        content = {**json.loads(body), "previous": previous, **(changes if number == seq else {})}
        text = json.dumps(content, sort_keys=True, separators=(",", ":")) if "nan" in str(changes).lower() else canonical(content)
        previous = digest(text)
        written.append(("UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (text, previous, number)))
    setting.past_guards(str(path), *written)


TERMS = {
    "unit": "user",
    "adjacency": "add-remove",
    "epsilon": 1.0,
    "delta": 1e-6,
    "filter": "approx-dp",
    "mode": "adaptive",
    "schema": "x",
}


FORGED: list[tuple[int, dict[str, object]]] = [
    (2, {"note": float("nan")}),
    (1, {"terms": {**TERMS, "epsilon": "much"}}),
    (1, {"terms": {**TERMS, "delta": "little"}}),
    (1, {"terms": {**TERMS, "filter": []}}),
    (1, {"terms": {**TERMS, "parameters": {"planet": 1}}}),
    (1, {"terms": {**TERMS, "mode": "declared"}}),
    (1, {"caps": {"epsilon": "1E+4900", "delta": "0"}}),
    (1, {"caps": {"epsilon": "1E+999999", "delta": "0"}}),
    (2, {"pipeline": "x"}),
    (2, {"pipeline": {"privacy": {}, "mechanism": ["x"]}}),
    (2, {"delta": "abc"}),
    (2, {"delta": None}),
]


def test_forged_contents_are_damage_and_no_crash(ledger: Ledger, tmp_path: Path) -> None:
    ledger.spend(pure(0.1), "a", 0.0)
    ledger.store.close()

    def damage(seq: int, changes: dict[str, object]) -> None:
        shutil.copy2(tmp_path / "l.db", path := tmp_path / "forged.db")
        forged(path, seq, **changes)
        for command in ("show", "log", "verify", "export", "anchor"):
            assert dpcli("budget", command, str(path)).code == 4, command

    every(FORGED, damage)


def test_a_path_of_any_bytes(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff?%#.db")
    flags = "--dataset d --unit user --adjacency add-remove --epsilon 1 --delta 0 --filter approx-dp"
    assert dpcli("budget", "init", path, *flags.split()).code == 0
    assert dpcli("budget", "show", path).code == 0


def test_an_anchor_is_a_file_of_its_own(ledger: Ledger, tmp_path: Path) -> None:
    ledger.store.close()
    os.mkfifo(tmp_path / "fifo")
    for anchor, words in (
        ("/dev/zero", "regular file"),
        (str(tmp_path / "fifo"), "regular file"),
        (str(tmp_path / "none"), "none"),
    ):
        result = dpcli("budget", "verify", str(tmp_path / "l.db"), "--anchor", anchor)
        assert result.code == 2, words


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["spend", "reserve"])
def test_two_people_under_one_key_are_two_runs(place: Place, kind: str) -> None:
    """A retry by the same person is charged once. Another person's run draws new noise, so it needs a charge of its own."""
    ana = init(place.url, setting.DATASET, setting.terms())
    bob = Ledger(open_ledger(place.url, setting.DATASET).store, setting.DATASET, who="bob")
    for ledger in (ana, bob):
        assert setting.charge(ana, "tuesday", kind=kind).repeated == (ledger is bob)
    with pytest.raises(LedgerError, match=f"expected a run of bob, found a run that was charged to {ana.who}"):
        setting.charge(bob, "tuesday", kind=kind)
    assert len(ana.entries()) == 2


@pytest.mark.long
def test_a_cap_of_next_to_nothing_can_be_looked_at(place: Place) -> None:
    ledger = init(place.url, setting.DATASET, setting.terms())
    setting.charge(ledger, "first", "0.5", kind="reserve")
    ledger.amend(1e-320, "nothing more", "the board", acknowledged=True)
    for form in ("text", "table", "json", "total", "markdown"):
        done = dpcli("budget", "show", place.url, "-f", form)
        assert (done.code, "inf" in done.out) == (0, True), (form, done)
    for command in ("log", "verify", "export"):
        assert dpcli("budget", command, place.url).code == 0


def test_a_cap_that_nothing_allows_does_not_silence_verify(place: Place) -> None:
    """An administrator wrote an impossible cap by hand: `verify` reports it and everything else."""
    from dpcli.ledger.verify import verify

    terms = LedgerTerms("example", "add-remove", 100.0, 1e-6, filter="rdp", parameters={"order": 2.0})
    ledger = init(place.url, setting.DATASET, terms)
    ledger._append(_ByHand({"kind": "amend", "epsilon": 1e-3, "caps": {"rdp": "9"}, "why": "x", "approver": "y"}), "")
    charged = {"key": "run", "pipeline": setting.TABLES, "delta": "0.0", "cost": {"rdp": "1E-9"}, "detail": "stated"}
    ledger._append(_ByHand({"kind": "spend", **charged}), "")
    wide, cheap = verify(ledger).problems
    assert "entry 2: no cap can be derived from epsilon 0.001" in wide and "entry 3" in cheap


@dataclass(frozen=True)
class _ByHand:
    content: dict[str, Any]

    def entry(self, state: LedgerState, now: str) -> dict[str, Any]:
        return self.content


@pytest.mark.parametrize("before", ["restored", "another"])
def test_a_log_beside_a_ledger_is_not_played_into_it(tmp_path: Path, before: str) -> None:
    """SQLite replays any write-ahead log of that name. One of an older copy would remove entries."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    ledger = init(str(path), setting.DATASET, setting.terms())
    setting.charge(ledger, "first", "0.5")
    shutil.copy2(path, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO entry VALUES ('x', 1, '{}', 'x')" if before == "restored" else "CREATE TABLE another (x)")
        setting.charge(ledger, "second", "0.4")
        ledger.store.close()
        whole = path.read_bytes()
        shutil.copy(f"{copy}-wal", f"{path}-wal")
    for command in (("show",), ("verify",), ("log",)):
        done = dpcli("budget", command[0], str(path))
        assert done.code == 4 and "found" in done.err and "-wal" in done.err
    assert path.read_bytes() == whole
    Path(f"{path}-wal").unlink()
    assert open_ledger(str(path)).state().spent["epsilon"] == Decimal("0.9")
