"""Tests of ledgers that the last version wrote (vectors/ledgers): they are read, verified and charged, and databases are upgraded.

`fill` (versions.py) wrote them. sqlite-2.db has a checkpoint after every fourth entry, made by that version with EVERY = 4;
postgres-7.sql is by pg_dump, of an owner who is no superuser.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.stores import postgres, postgres_install
from dpcli.ledger.stores.copying import move_dataset
from dpcli.ledger.stores.places import open_ledger, upgrade
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.cases import VECTORS
from tests.ledger.conftest import Database, File
from tests.ledger.entries.versions import fill, restore
from tests.ledger.pipelines import gaussian, pure
from tests.waiting import PATIENCE

RENEW = "the database has the definitions of version 7: dpcli budget upgrade renews them"
NAMES = {"visits": 11, "clicks": 3, "days": 7, "planned": 2}  # entries


@pytest.fixture
def last_file(tmp_path: Path) -> str:
    path = tmp_path / "last.db"
    shutil.copy(VECTORS / "sqlite-2.db", path)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def last_database(database: Database) -> Database:
    restore(database, (VECTORS / "postgres-7.sql").read_bytes())
    return database


@pytest.fixture(params=["last_file", "last_database"])
def last(request: pytest.FixtureRequest) -> str:
    found = request.getfixturevalue(request.param)
    return found if isinstance(found, str) else found.url


def test_the_last_ledger_is_what_this_version_writes(last: str, tmp_path: Path) -> None:
    """Except for names, times, versions and hashes, and for costs that this version rounds up by less."""
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
def test_the_last_ledger_is_read_verified_and_charged(last: str) -> None:
    for name, count in NAMES.items():
        with open_ledger(last, name) as ledger:
            found = verify(ledger)
            assert (found.entries, found.problems) == (count, ())
            assert found.notes == ((RENEW,) if "://" in last else ())
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


@pytest.fixture
def later(last_database: Database) -> str:
    """The URL of the database, whose definitions are of the version before this one."""
    return last_database.url


@pytest.mark.long
def test_a_database_of_an_earlier_version_is_charged_and_upgraded_once(later: str, tmp_path: Path) -> None:
    with open_ledger(later, "visits") as ledger:
        ledger.commit("under way")
        assert any("dpcli budget upgrade" in note for note in verify(ledger).notes)
    with pytest.raises(LedgerError, match="dpcli budget upgrade"):
        move_dataset(later, str(tmp_path / "new.db"), "days")
    done = dpcli("budget", "upgrade", later)
    assert (done.code, done.out) == (0, f"the definitions are those of this version: recorded for {', '.join(sorted(NAMES))}\n")
    assert dpcli("budget", "upgrade", later).out == "the definitions are those of this version: nothing to do\n"
    for name, count in NAMES.items():
        with open_ledger(later, name) as ledger:
            found = verify(ledger)
            assert (found.entries, found.problems, found.notes) == (count + 1 + (name == "visits"), (), ())
            assert ledger.entries()[-1].kind == "upgrade"
    assert move_dataset(later, str(tmp_path / "new.db"), "days").verified.problems == ()


@pytest.mark.long
def test_a_run_that_began_before_an_upgrade_is_committed_after_it(later: str) -> None:
    with open_ledger(later, "visits") as ledger:
        ledger.state()
        upgrade(later)
        ledger.commit("under way")
        assert verify(ledger).problems == ()


@pytest.mark.long
def test_two_who_upgrade_at_once_both_find_it_done(later: str) -> None:
    first = postgres.PostgresStore(later)
    with ThreadPoolExecutor(1) as pool:
        with first._transaction() as connection:
            postgres_install.renew(connection, first.place)
            second = pool.submit(upgrade, later)
            time.sleep(0.5)  # it has seen the earlier version, and waits
            assert not second.done()
        assert second.result(PATIENCE) == tuple(sorted(NAMES))
    assert upgrade(later) == ()


def test_only_the_owner_upgrades(later: str, last_database: Database) -> None:
    sam = last_database.cluster.login("sam", "dpcli_spender")
    with pytest.raises(LedgerError, match="expected the owner of the schema"):
        upgrade(last_database.cluster.url(last_database.name, sam))


def test_what_was_made_before_the_first_release_is_not_read(last_database: Database, last_file: str) -> None:
    last_database.cluster.run(
        "ALTER TABLE dpcli.format DISABLE TRIGGER ALL", "UPDATE dpcli.format SET version = 5", database=last_database.name
    )
    File(last_file).by_hand("DROP TABLE head")
    for url in (last_database.url, last_file):
        for words in (("show",), ("upgrade",)):
            done = dpcli("budget", *words, url)
            assert done.code == 4 and "made before dpcli 0.1.0" in done.err


BY_HAND = {
    "last_file": (
        "DROP TRIGGER entry_never_changes",
        "CREATE TRIGGER more AFTER INSERT ON entry BEGIN SELECT 1; END",
        "CREATE TABLE mine (x)",
    ),
    "last_database": (
        "GRANT INSERT ON dpcli.entry TO dpcli_spender",
        "ALTER TABLE dpcli.entry DISABLE TRIGGER never",
        "ALTER TABLE dpcli.dataset NO FORCE ROW LEVEL SECURITY",
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "change"), [(name, change) for name, changes in BY_HAND.items() for change in changes])
def test_what_was_done_to_the_guards_is_not_noted_by_an_upgrade(name: str, change: str, request: pytest.FixtureRequest) -> None:
    """After an upgrade `verify` still reports that the guards were changed."""
    given = request.getfixturevalue(name)
    place = File(given) if isinstance(given, str) else given
    place.by_hand(change)
    for _ in range(2):
        with pytest.raises(LedgerError, match="were changed since"):
            verify(open_ledger(place.url, "visits"))
        assert dpcli("budget", "upgrade", place.url).code == 4
    assert len(open_ledger(place.url, "visits").entries()) == NAMES["visits"]
