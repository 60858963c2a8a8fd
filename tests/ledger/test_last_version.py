"""Ledgers that the last version wrote (vectors/ledgers) are read, verified, charged and upgraded; `fill` says what is in them.

sqlite-2.db has a checkpoint after every fourth entry, made by that version with EVERY = 4; postgres-5.sql is by pg_dump, of an owner who
is no superuser.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.stores.places import init, open_ledger, open_store, upgrade
from dpcli.ledger.verify import verify
from dpcli.predict.query_counts import require_counting
from tests.command import ROOT, dpcli
from tests.ledger.conftest import Database
from tests.ledger.pipelines import gaussian, pure
from tests.ledger.setting import DATASET, terms
from tests.ledger.versions import fill, restore

VECTORS = ROOT / "tests" / "vectors" / "ledgers"
NAMES = {"visits": 11, "clicks": 3, "days": 7, "planned": 2}  # entries


@pytest.fixture
def last_file(tmp_path: Path) -> str:
    """The file, as it was written."""
    path = tmp_path / "last.db"
    shutil.copy(VECTORS / "sqlite-2.db", path)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def last_database(database: Database) -> Database:
    """The database, restored."""
    restore(database, (VECTORS / "postgres-5.sql").read_bytes())
    return database


@pytest.fixture(params=["last_file", "last_database"])
def last(request: pytest.FixtureRequest) -> str:
    """The URL of either."""
    found = request.getfixturevalue(request.param)
    return found if isinstance(found, str) else found.url


def test_the_last_ledger_is_what_this_version_writes(last: str, tmp_path: Path) -> None:
    """But for who, when, by which version, the hashes that follow from them, and a cost that this version rounds less far up."""
    own = str(tmp_path / "own.db")
    fill(own)
    for name, count in NAMES.items():
        with open_ledger(last, name) as ledger, open_ledger(own, name) as fresh:
            assert len(ledger.entries()) == count
            for old, new in zip(ledger.entries(), fresh.entries(), strict=True):
                assert said(old.content) == said(new.content)
                require_no_larger(old.content.get("terms", {}).get("certified"), new.content.get("terms", {}).get("certified"))
                require_close(amounts.read(old.content.get("cost", {})), amounts.read(new.content.get("cost", {})))
            require_close(ledger.state().spent, fresh.state().spent)
            assert ledger.state().caps == fresh.state().caps


def require_close(old: Mapping[str, Decimal], new: Mapping[str, Decimal]) -> None:
    assert old.keys() == new.keys()
    assert all(new[name] <= value <= new[name] * Decimal("1.000000000000004") for name, value in old.items())


def require_no_larger(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
    """What the declared runs cost together, by whichever accountant of this version: no more than it was, up to rounding."""
    assert (old is None) == (new is None)
    assert old is None or new is None or 0.0 < new["epsilon"] <= old["epsilon"] * (1.0 + 1e-12)


def said(content: object) -> dict[str, object]:
    """What does not depend on who writes it where and when."""
    assert isinstance(content, dict)
    found = {name: value for name, value in content.items() if name not in ("who", "when", "dpcli", "previous", "cost")}
    if "terms" in found:
        found["terms"] = {name: value for name, value in content["terms"].items() if name not in ("schema", "version", "certified")}
    return found


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("first", [(), ("upgrade",)], ids=["as it is", "upgraded"])
def test_the_last_ledger_is_read_verified_and_charged(last: str, first: tuple[str, ...]) -> None:
    for command in first:
        assert dpcli("budget", command, last).code == 0
    added = {name: 1 for name in NAMES if first and "://" in last}
    for name, count in NAMES.items():
        with open_ledger(last, name) as ledger:
            found = verify(ledger)
            assert (found.entries, found.problems) == (count + added.get(name, 0), ())
            assert bool(found.notes) == ("://" in last and not first)
        for command in ("show", "log", "export", "verify"):
            assert dpcli("budget", command, last, "--dataset", name).code == 0
    with open_ledger(last, "visits") as ledger:
        ledger.commit("under way")
        ledger.void("waiting", "it never began")
        ledger.spend(pure(0.95), "the rest", 0.0)
        with pytest.raises(Denied):
            ledger.spend(pure(0.001), "more", 0.0)
    with open_ledger(last, "clicks") as ledger:
        assert ledger.spend(gaussian(30.0), "plain").repeated
    with open_ledger(last, "days") as ledger:
        ledger.spend(gaussian(6.0), "five", window=("2026-03-02",))
        with pytest.raises(Denied, match="was retired"):
            ledger.spend(gaussian(6.0), "six", window=("2026-01-02",))
    with open_ledger(last, "planned") as ledger:
        ledger.spend(pure(0.5), "twice")
        with pytest.raises(Denied):
            ledger.spend(pure(0.5), "once more")
    for name in NAMES:
        with open_ledger(last, name) as ledger:
            assert verify(ledger).problems == ()


@pytest.mark.long
def test_an_upgrade_makes_the_definitions_of_a_new_ledger(last: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert upgrade(last) == (tuple(sorted(NAMES)) if "://" in last else ())
    assert upgrade(last) == ()
    upgraded = open_store(last).schema()
    if "://" in last:
        found: Database = request.getfixturevalue("last_database")
        found.cluster.run("DROP SCHEMA dpcli CASCADE", database=found.name)
        assert init(last, DATASET, terms()).store.schema() == upgraded
    else:
        assert init(str(tmp_path / "new.db"), DATASET, terms()).store.schema() == upgraded


def test_a_database_of_the_last_version_says_what_it_needs_before_a_dataset_moves(last_database: Database, tmp_path: Path) -> None:
    from dpcli.ledger.stores.copying import move_dataset

    target = str(tmp_path / "new.db")
    with pytest.raises(LedgerError, match="dpcli budget upgrade"):
        move_dataset(last_database.url, target, "days")
    upgrade(last_database.url)
    assert move_dataset(last_database.url, target, "days").verified.problems == ()


def test_a_database_of_the_last_version_counts_answers_once_it_is_upgraded(last_database: Database) -> None:
    with open_ledger(last_database.url, "visits") as ledger, pytest.raises(LedgerError, match="dpcli budget upgrade"):
        require_counting(ledger)
    upgrade(last_database.url)
    with open_ledger(last_database.url, "visits") as ledger:
        require_counting(ledger)
        assert [ledger.count("under way", "tokens", 2, 5) for _ in range(2)] == [2, 4]
        with pytest.raises(Denied, match="4 of 5 tokens are spent, found 2 asked for"):
            ledger.count("under way", "tokens", 2, 5)
        ledger.commit("under way")
        assert ledger.count("under way", "answers", 1, 5) == 1
    with open_ledger(last_database.url, "visits") as ledger:
        assert ledger.state().run("under way").counts == {"tokens": 4, "answers": 1}
        assert verify(ledger).problems == ()
