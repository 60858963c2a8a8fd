"""Tests with SIGKILL at random and at named points: no acknowledged entry is lost, none is charged twice, and the cap holds."""

from __future__ import annotations

import os
import signal
from decimal import Decimal
from pathlib import Path

import pytest

from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores import sqlite
from dpcli.ledger.stores.places import init, open_dataset, open_ledger, open_store
from dpcli.ledger.stores.sqlite import SqliteStore
from tests.ledger.conftest import Place
from tests.ledger.deaths_and_damage.deaths import Deadly, killed
from tests.ledger.filters.setting import DATASET, charge, terms
from tests.ledger.spenders import judged, struggle


@pytest.mark.nightly
def test_nothing_is_lost_or_overspent_while_processes_are_killed(place: Place, tmp_path: Path) -> None:
    init(place.url, DATASET, terms(0.3)).store.close()
    found = struggle(place.url, tmp_path, workers=6, seconds=1.0, pause=0.02, least=3)
    assert judged(place.url, found, Decimal("0.3")) == 300
    assert found.kills >= 3
    assert found.denied >= 6  # one may be killed after it noted that
    assert found.errors == []


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize(("point", "runs"), [("locked", 1), ("written", 1), ("about to commit", 1), ("committed", 2)])
def test_what_is_there_after_death_at(point: str, runs: int, place: Place) -> None:
    ledger = init(place.url, DATASET, terms())
    charge(ledger, "before")
    ledger.store.close()
    assert killed(lambda: charge(Ledger(Deadly(open_store(place.url), point), DATASET), "key"))
    after = open_ledger(place.url)
    assert len(after.state().runs) == runs
    assert charge(after, "key").repeated == (runs == 2)
    assert after.state().spent["epsilon"] == Decimal("0.02")
    after.store.close()


def test_death_while_a_ledger_is_opened_leaves_its_place_free(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")

    def fill(store: SqliteStore) -> None:
        open_dataset(store, DATASET, terms(9.0))
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed(lambda: sqlite.create(path, fill))
    assert not os.path.exists(path)
    assert init(path, DATASET, terms()).state().caps["epsilon"] == 1
