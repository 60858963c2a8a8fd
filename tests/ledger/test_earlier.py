"""Ledgers of the first version (vectors/ledger-v1.db, and ledger-v1.sql by pg_dump) are read, go on, and are upgraded.

The dump also holds two datasets of 0.1 out of 1 that a spender had stopped for good by hand: "bricked" has an entry described at delta = 5,
which no client of that version reads again; "stopped" has one dated in 9999, after which nothing could be voided.
"""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.copying import move_dataset
from dpcli.ledger.stores.places import init, open_ledger, open_store, upgrade
from dpcli.ledger.stores.postgres import PostgresStore
from dpcli.ledger.stores.postgres_install import renew
from dpcli.ledger.stores.sqlite_file import ADDED
from dpcli.ledger.verify import verify
from tests.command import ROOT, dpcli
from tests.ledger.conftest import OWNER, Database, File
from tests.ledger.pipelines import gaussian, pure
from tests.ledger.setting import DATASET, run, terms
from tests.ledger.versions import restore
from tests.waiting import PATIENCE

VECTORS = ROOT / "tests" / "vectors"
NAMES = {"visits": 10, "clicks": 3, "planned": 2}  # entries


@pytest.fixture
def old_file(tmp_path: Path) -> str:
    """The file, as it was written."""
    path = tmp_path / "old.db"
    shutil.copy(VECTORS / "ledger-v1.db", path)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def old_database(database: Database) -> Database:
    """The database, restored."""
    restore(database, (VECTORS / "ledger-v1.sql").read_bytes())
    return database


@pytest.fixture(params=["old_file", "old_database"])
def old(request: pytest.FixtureRequest) -> str:
    """The URL of either."""
    found = request.getfixturevalue(request.param)
    return found if isinstance(found, str) else found.url


@pytest.mark.long
def test_an_old_ledger_is_read_and_goes_on(old: str) -> None:
    for name, count in NAMES.items():
        ledger = open_ledger(old, name)
        assert len(ledger.entries()) == count
        found = verify(ledger)
        assert (found.entries, found.problems) == (count, ())
        for command in ("show", "log", "export"):
            assert dpcli("budget", command, old, "--dataset", name).code == 0
    assert 0.549 < open_ledger(old, "visits").state().spent["epsilon"] <= 0.55
    open_ledger(old, "visits").spend(pure(0.01), "afterwards", 0.0)
    open_ledger(old, "clicks").spend(gaussian(50.0), "afterwards")
    open_ledger(old, "planned").spend(pure(0.5), "afterwards")
    with pytest.raises(Denied):
        open_ledger(old, "planned").spend(pure(0.5), "once more")


@pytest.mark.long
def test_an_old_database_is_upgraded_once(old_database: Database) -> None:
    url = old_database.url
    assert [note for note in verify(open_ledger(url, "visits")).notes if "dpcli budget upgrade" in note]
    done = dpcli("budget", "upgrade", url)
    assert (done.code, done.out) == (
        0,
        "the checks are those of this version: noted in bricked, clicks, planned, stopped, visits\n",
    )
    assert dpcli("budget", "upgrade", url).out == "the checks are those of this version: nothing to do\n"
    for name, count in NAMES.items():
        found = verify(open_ledger(url, name))
        assert (found.entries, found.problems, found.notes) == (count + 1, (), ())
        assert open_ledger(url, name).entries()[-1].kind == "upgrade"
    new = Database(old_database.cluster, old_database.cluster.database())
    init(new.cluster.url(new.name), DATASET, terms()).store.close()
    assert open_store(new.cluster.url(new.name)).schema() == open_store(url).schema()
    new.cluster.drop(new.name)


@pytest.mark.long
def test_two_who_upgrade_at_once_both_find_it_done(old_database: Database) -> None:
    first = PostgresStore(old_database.url)
    with ThreadPoolExecutor(1) as pool:
        with first._transaction() as connection:
            renew(connection, first.place)
            second = pool.submit(upgrade, old_database.url)
            time.sleep(0.5)  # it has seen the earlier version, and waits
            assert not second.done()
        assert second.result(PATIENCE) == ("bricked", "clicks", "planned", "stopped", "visits")
    assert upgrade(old_database.url) == ()


def test_definitions_that_somebody_else_changed_are_not_upgraded(old_database: Database) -> None:
    upgrade(old_database.url)
    old_database.cluster.run("GRANT INSERT ON dpcli.entry TO dpcli_spender", database=old_database.name)
    with pytest.raises(LedgerError, match="no version of dpcli did that"):
        upgrade(old_database.url)
    with pytest.raises(LedgerError, match="were changed since"):
        verify(open_ledger(old_database.url, "visits"))


@pytest.mark.long
def test_an_old_file_moves_to_a_database_once_it_is_upgraded(old_file: str, database: Database) -> None:
    with pytest.raises(LedgerError, match="dpcli budget upgrade"):
        move_dataset(old_file, database.url, "visits")
    upgrade(old_file)
    for name, count in NAMES.items():
        with open_ledger(old_file, name) as ledger:
            spent, entries = ledger.state().spent, [entry.row for entry in ledger.entries()]
        found = move_dataset(old_file, database.url, name).verified
        assert (found.entries, found.problems, found.notes) == (count + 4, (), ())  # upgraded, moved, named, copied
        with open_ledger(database.url, name) as ledger:
            assert ledger.state().spent == spent and [entry.row for entry in ledger.entries()][: len(entries)] == entries


@pytest.mark.long
def test_an_old_database_moves_to_a_file_with_all_that_is_wrong_in_it(old_database: Database, tmp_path: Path) -> None:
    upgrade(old_database.url)
    done = dpcli("budget", "copy", old_database.url, str(tmp_path / "new.db"))
    assert done.code == 1 and "which promises nothing" in done.out
    assert open_store(str(tmp_path / "new.db")).datasets() == ("bricked", "clicks", "planned", "stopped", "visits")
    third = Database(old_database.cluster, old_database.cluster.database())
    old_database.cluster.run(f"GRANT CREATE ON DATABASE {third.name} TO {OWNER}")
    done = dpcli("budget", "copy", str(tmp_path / "new.db"), third.url, "--dataset", "bricked")
    assert done.code == 4 and "refused by the database: entry 2: expected delta" in done.err  # what no client of before reads again
    with open_ledger(str(tmp_path / "new.db"), "bricked") as ledger:
        ledger.spend(run(0.01), "stays here")
    third.cluster.drop(third.name)


BY_HAND = {
    "old_file": (
        "DROP TRIGGER entry_never_changes",
        "DROP TRIGGER entry_never_goes",
        "CREATE TRIGGER more AFTER INSERT ON entry BEGIN SELECT 1; END",
        "CREATE VIEW head AS SELECT dataset, 1 AS seq FROM entry",
        "CREATE TABLE mine (x)",
    ),
    "old_database": (
        "GRANT INSERT ON dpcli.entry TO dpcli_spender",
        "ALTER TABLE dpcli.entry DISABLE TRIGGER never",
        "DROP TRIGGER never ON dpcli.entry",
        "ALTER TABLE dpcli.dataset NO FORCE ROW LEVEL SECURITY",
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("place", "change"), [(place, change) for place, changes in BY_HAND.items() for change in changes])
def test_what_was_done_to_the_guards_before_an_upgrade_is_not_noted_by_it(
    place: str, change: str, request: pytest.FixtureRequest
) -> None:
    """`verify` says that they were changed, and goes on to say it."""
    found = request.getfixturevalue(place)
    url = found if isinstance(found, str) else found.url
    (File(url) if isinstance(found, str) else found).by_hand(change)
    before = [len(open_ledger(url, name).entries()) for name in NAMES]
    for _ in range(2):
        with pytest.raises(LedgerError, match="were changed since"):
            verify(open_ledger(url, "visits"))
        assert dpcli("budget", "upgrade", url).code == 4
    assert [len(open_ledger(url, name).entries()) for name in NAMES] == before


def test_no_definitions_that_pass_for_those_of_the_latest_version_are_noted(old_file: str) -> None:
    """A file of the first version in which somebody made things by the names of the second."""
    for name, statement in ADDED.items():
        weaker = statement.replace("max(seq, NEW.seq)", "1").replace(" NOT NULL", "").replace("ON entry (dataset, ", "ON entry (")
        assert weaker != statement
        File(old_file).by_hand(weaker)
        if name == "entry_is_the_last":
            assert open_store(old_file).version == 2
    with pytest.raises(LedgerError, match="no version of dpcli did that"):
        upgrade(old_file)


def test_only_the_owner_upgrades(old_database: Database) -> None:
    sam = old_database.cluster.login("sam", "dpcli_spender")
    with pytest.raises(LedgerError, match="expected the owner of the schema"):
        upgrade(old_database.cluster.url(old_database.name, sam))


@pytest.mark.long
@pytest.mark.parametrize("before", [True, False], ids=["as it is", "upgraded"])
def test_what_a_spender_had_stopped_goes_on(old_database: Database, before: bool) -> None:
    url = old_database.url
    if not before:
        upgrade(url)
    bricked, stopped = open_ledger(url, "bricked"), open_ledger(url, "stopped")
    for name in ("bricked", "stopped"):
        for command in ("show", "log", "export"):
            assert dpcli("budget", command, url, "--dataset", name).code == 0
    (problem,) = verify(bricked).problems
    assert "delta = 5, which promises nothing" in problem
    bricked.spend(run(0.01), "afterwards")
    assert stopped.void("long", "it never started").state.spent["epsilon"] < 1
    assert not [entry for entry in stopped.entries() if entry.key == "long" and entry.content["when"] > "9"]


def test_the_reason_of_somebody_else(tmp_path: Path) -> None:
    """A file cannot tell people apart, but it notes who says that it is somebody else's."""
    ledger = init(str(tmp_path / "l.db"), DATASET, terms())
    bob = Ledger(ledger.store, DATASET, who="bob")
    for key in "abc":
        ledger.reserve(run(0.1), key)
    for move in (lambda: bob.start("a"), lambda: bob.commit("b"), lambda: bob.void("c", " ")):
        with pytest.raises(InputError, match="--reason: state why"):
            move()
    assert bob.start("a", "ana is on leave").entry.content["who"] == "bob"  # type: ignore[union-attr]
    assert bob.void("c", "ana is on leave").state.run("c").status == "void"
    ledger.commit("b", "it ran")
