"""Tests of `dpcli budget correct`: it charges what a price lacks, and `verify` counts both charges, in a file and in a database."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import canonical
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.conftest import ON_BOTH, Database, Place
from tests.ledger.filters.setting import DATASET, TABLES, charge, run, run_file, terms
from tests.ledger.postgres.people import by, by_hand, signed, written


@pytest.mark.long
@ON_BOTH
def test_what_is_missing_is_charged_and_verified(place: Place, tmp_path: Path) -> None:
    with init(place.url, DATASET, terms()) as ledger:
        for key, cost in (("wrong file", "0.01"), ("cheap", "0.001"), ("dear", "0.5"), ("tiny", "0.0001")):
            charge(ledger, key, cost)
        charge(ledger, "waiting", "0.01", kind="reserve")
        (cheap, tiny) = verify(ledger).problems  # their file costs 0.01

    def correct(key: str, epsilon: float, why: str) -> tuple[int, str]:
        (tmp_path / "run.toml").write_text(run_file(epsilon))
        done = dpcli("budget", "correct", place.url, key, str(tmp_path / "run.toml"), "--reason", why)
        return done.code, done.out + done.err

    for key, epsilon, why, code, words in (
        ("wrong file", 0.3, "the job ran another file", 0, 'charged "'),
        ("wrong file", 0.3, "again", 0, "was charged before"),
        ("none", 0.3, "x", 4, "expected the key of a run"),
        ("waiting", 0.3, "x", 4, "expected a run that was started, found one that is reserved"),
        ("dear", 0.5, "x", 2, "a price is never lowered"),
        ("dear", 0.6, " ", 2, "--reason"),
        ("dear", 0.9, "x", 1, "entry 4 lacks 0.4"),
        ("wrong file", 0.2, "x", 4, "expected the run that entry 7 charged under it"),
        ("tiny", 0.005, "it was less", 0, "charged"),  # less than its own file costs: the finding stays
        ("cheap", 0.01, "a wrong price", 0, "charged"),
    ):
        result = correct(key, epsilon, why)
        assert result[0] == code and words in result[1], (key, epsilon, result)
    with open_ledger(place.url, DATASET) as ledger:
        assert ledger.state().spent["epsilon"] == Decimal("0.3") + Decimal("0.5") + Decimal("0.01") + Decimal("0.005") + Decimal(
            "0.01"
        )
        verified, own = verify(ledger), ledger.own_key("correction of entry 2")
        assert verified.problems == (tiny,) and verified.acknowledged == ((cheap, 9),)
        assert correct(own, 0.31, "more still")[0] == 0 and ledger.state().spent["epsilon"] == Decimal(
            "0.835"
        )  # a correction of a correction
        assert verify(ledger).problems == (tiny,)
    log = dpcli("budget", "log", place.url).out
    assert 'corrects "wrong file": the job ran another file' in " ".join(log.split()), log
    shown = dpcli("budget", "show", place.url).out
    assert "correction of entry 2" in shown and "like the last run" not in shown


def test_only_an_administrator_corrects(database: Database, tmp_path: Path) -> None:
    with init(database.url, DATASET, terms()) as ledger:
        charge(ledger, "run")
        charge(ledger, "waiting", kind="reserve")
    content = {"kind": "spend", "key": "more", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.1", "delta": "0"}}
    for who, role, change, words in (
        ("sam", "dpcli_spender", {"corrects": "run"}, "correct needs the role dpcli_admin"),
        ("ada", "dpcli_admin", {"corrects": "waiting"}, "expected the key of a run that was started"),
        ("ada", "dpcli_admin", {"corrects": "no run"}, "expected the key of a run that was started"),
        ("ada", "dpcli_admin", {"corrects": "run", "kind": "reserve"}, "expected the key of a run that was started"),
    ):
        with pytest.raises(Exception, match=words):
            by_hand(database, who, canonical(signed(by(database, who, role), {**content, **change}, who)))


@pytest.mark.long
def test_two_administrators_charge_what_is_missing_once(database: Database) -> None:
    with init(database.url, DATASET, terms()) as ledger:
        charge(ledger, "run", "0.01")
    right = run(0.3)
    receipt = by(database, "ada", "dpcli_admin").correct("run", right, "another file")
    with pytest.raises(InputError, match=r'corrected by entry 3 already; correct "correction of entry 2"'):
        by(database, "eve", "dpcli_admin").correct("run", right, "another file")
    assert receipt.entry is not None and by(database, "ada").state().spent["epsilon"] == Decimal("0.3")
    charge(by(database, "sam", "dpcli_spender"), "correction of entry 4")  # which keeps nobody from correcting entry 4
    taken = by(database, "ada").correct("correction of entry 4", right, "another file").entry
    assert taken is not None and taken.key == "ada//correction of entry 4"


def test_what_stands_in_the_way_of_a_correction_is_told(tmp_path: Path) -> None:
    path, days = str(tmp_path / "ledger.db"), ("2026-01-01", "2026-01-02")
    with init(path, DATASET, replace(terms(), blocks=BlockFamily("day", "event_date", 1).content())) as ledger:
        charge(ledger, "run", "0.01", window=days)
        with pytest.raises(Denied, match=r"entry 2 lacks 1.99.* \(a cap of epsilon 2.0\d* suffices\)"):
            ledger.correct("run", run(2.0), "another file")


@pytest.mark.long
@ON_BOTH
def test_a_run_on_a_retired_block_is_corrected(place: Place) -> None:
    """A retired block accepts no further run. A correction is none: it records what the earlier run cost."""
    days = ("2026-01-01", "2026-01-02")
    with init(place.url, DATASET, replace(terms(), blocks=BlockFamily("day", "event_date", 1).content())) as ledger:
        charge(ledger, "cheap", "0.001", window=days)
        ledger.retire(days[:1], "deleted")
        (problem,) = verify(ledger).problems
        with pytest.raises(Denied, match="was retired"):
            charge(ledger, "further", "0.001", window=days)
        with pytest.raises(Denied, match=r"entry 2 lacks 1.99.* \(a cap of epsilon 2.0\d* suffices\)"):
            ledger.correct("cheap", run(2.0), "another file")
        ledger.correct("cheap", run(0.01), "the right file")
    with open_ledger(place.url, DATASET) as ledger:
        assert verify(ledger).problems == () and verify(ledger).acknowledged == ((problem, 4),)
        assert ledger.state().spent == {f"epsilon@{day}": Decimal("0.01") for day in days} | {f"delta@{day}": 0 for day in days}


@pytest.mark.long
def test_a_forged_correction_is_found(tmp_path: Path) -> None:
    """A correction of a run that was not started cannot be read. One on other blocks does not count."""
    family = BlockFamily("day", "event_date", 1).content()
    path = str(tmp_path / "ledger.db")
    days = ("2026-01-01", "2026-01-02")
    with init(path, DATASET, replace(terms(), blocks=family)) as ledger:
        charge(ledger, "run", "0.001", window=days[:1])
        charge(ledger, "waiting", kind="reserve", window=days[:1])
        content = {"kind": "spend", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.009", "delta": "0"}, "detail": ""}
        written(ledger, {**content, "key": "more", "window": list(days[1:]), "corrects": "run"}, "eve")
        first, second = verify(Ledger(ledger.store, DATASET)).problems
        assert '"run"' in first and "charged on other blocks than entry 2" in second
        written(ledger, {**content, "key": "most", "window": list(days[:1]), "corrects": "waiting"}, "eve")
    with pytest.raises(Exception, match="corrects a run that was not started"), open_ledger(path, DATASET) as ledger:
        ledger.state()


@pytest.mark.long
def test_two_administrators_at_the_same_moment_charge_what_is_missing_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has read the ledger before the first one charges."""
    with init(database.url, DATASET, terms()) as ledger:
        charge(ledger, "run", "0.01")
    ada, eve, faster = by(database, "ada", "dpcli_admin"), by(database, "eve", "dpcli_admin"), Ledger._charge

    def slower(*request: Any) -> Any:
        monkeypatch.undo()
        ada.correct("run", run(0.3), "another file")
        return faster(eve, *request)

    monkeypatch.setattr(eve, "_charge", slower)
    with pytest.raises(LedgerError, match="a new run needs a key of its own"):
        eve.correct("run", run(0.3), "another file")
    assert ada.state().spent["epsilon"] == Decimal("0.3")
