"""Tests of keys in a database: each login has its own, no other login can take them, and keys of earlier versions go on."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpcli as package
from dpcli.base.errors import InputError, LedgerError
from dpcli.federated.run_charges import charge_key, rest_key
from dpcli.ledger.chain import canonical
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import key_scope
from dpcli.ledger.stores.copying import move_dataset
from dpcli.ledger.stores.places import init, open_ledger, upgrade
from dpcli.ledger.verify import verify
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.blocks import client_rounds
from tests.ledger.cases import VECTORS
from tests.ledger.conftest import OWNER, Database
from tests.ledger.entries.versions import restore
from tests.ledger.filters.setting import DATASET, TABLES, charge, run, run_file, terms
from tests.ledger.pipelines import gaussian
from tests.ledger.postgres.people import by, by_hand, signed

ROLES = {"ada": "dpcli_admin", "sam": "dpcli_spender", "sue": "dpcli_spender"}


@pytest.fixture
def opened(database: Database) -> Database:
    init(database.url, DATASET, terms()).close()
    for who, role in ROLES.items():
        database.cluster.login(who, role)
    return database


def ask(database: Database, who: str, *words: str, folder: Path) -> tuple[int, str]:
    (folder / "run.toml").write_text(run_file(0.01))
    url = database.cluster.url(database.name, who)
    done = dpcli("budget", words[0], url, *words[1:], folder=folder)
    return done.code, done.out + done.err


def test_one_key_of_two_logins_is_two_runs_and_each_is_charged_once(opened: Database, tmp_path: Path) -> None:
    for who in ("sam", "sue"):
        for charged in (True, False):
            code, words = ask(opened, who, "spend", "run.toml", "--key", "night", folder=tmp_path)
            assert code == 0 and (f'charged "{who}//night"' in words) == charged, words
        assert (
            ask(opened, who, "spend", "run.toml", "--key", f"{who}//night", folder=tmp_path)[0] == 0
        )  # the whole name is the same
        assert ask(opened, who, "spend", "run.toml", "--key", "night", "--once", folder=tmp_path)[0] == 4
    entries = by(opened, "ada").entries()
    assert [(entry.key, entry.content["who"]) for entry in entries[1:]] == [("sam//night", "sam"), ("sue//night", "sue")]


def test_nobody_takes_a_name_of_another_login(opened: Database, tmp_path: Path) -> None:
    code, words = ask(opened, "sam", "spend", "run.toml", "--key", "sue//night", folder=tmp_path)
    assert code == 4 and "expected a key of sam, which begins with 'sam//'" in words and "found 'sue//night'" in words
    sam = by(opened, "sam", ROLES["sam"])
    content = {"kind": "spend", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0", "delta": "0"}}
    for key in ("sue//night", "sue///", "SAM//x", "sam/x//y"):
        with pytest.raises(Exception, match="expected a key of sam"):
            by_hand(opened, "sam", canonical(signed(sam, {**content, "key": key}, "sam")))
    by_hand(opened, "sam", canonical(signed(sam, {**content, "key": "night"}, "sam")))  # a bare one harms nobody
    assert ask(opened, "sue", "spend", "run.toml", "--key", "night", folder=tmp_path)[0] == 0


def test_a_reservation_is_moved_by_its_key_or_by_its_name(opened: Database, tmp_path: Path) -> None:
    for who in ("sam", "sue"):
        for key in ("one", "two"):
            assert ask(opened, who, "reserve", "run.toml", "--key", key, folder=tmp_path)[0] == 0
        assert ask(opened, who, "start", "one", folder=tmp_path)[0] == 0
    assert ask(opened, "sue", "void", "sam//two", "--reason", "mine", folder=tmp_path)[0] == 4
    assert ask(opened, "ada", "void", "sam//two", "--reason", "he left", folder=tmp_path)[0] == 0
    assert ask(opened, "sue", "commit", "one", folder=tmp_path)[0] == 0
    runs = by(opened, "ada").state().runs
    status = {key: runs[key].status for key in runs}
    assert status == {"sam//one": "started", "sam//two": "void", "sue//one": "committed", "sue//two": "reserved"}


@of_each("login", ["sam", "a/b", "a", "a%2Fb", "a//b", "%", "Läufer"])
def test_python_and_the_database_write_the_same_scope(opened: Database, login: str) -> None:
    with opened.cluster.connect(opened.name) as connection:
        written = connection.execute("SELECT dpcli.key_scope(%s)", (login,)).fetchone()[0]
    assert written == key_scope(login) and written.index("//") == len(written) - 2


def test_a_key_is_too_long_with_the_login(opened: Database) -> None:
    sam = by(opened, "sam", ROLES["sam"])
    assert len(sam.own_key("x" * 195)) == 200
    with pytest.raises(InputError, match="at most 195 characters, as the name of the run begins with the login, found 196"):
        sam.own_key("x" * 196)


def test_programs_have_their_own_keys_too(opened: Database) -> None:
    for who in ("sam", "sue"):
        budget = package.budget(opened.cluster.url(opened.name, who))
        budget.spend(run(0.01), "once")
        with pytest.raises(LedgerError, match="charged before"):
            budget.spend(run(0.01), "once")
        with budget.reserve(run(0.01), "night") as reserved:
            reserved.start()
    runs = by(opened, "ada").state().runs
    assert {run.key: run.status for run in runs.values()} == {
        f"{who}//{key}": "committed" for who in ("sam", "sue") for key in ("once", "night")
    }


def test_runs_of_an_earlier_version_keep_their_names(database: Database, tmp_path: Path) -> None:
    """Keys from before the upgrade have no login in them, and a retry after it is the same run."""
    restore(database, (VECTORS / "postgres-7.sql").read_bytes())
    with open_ledger(database.url, "clicks") as ledger:
        ledger.spend(gaussian(40.0), ledger.own_key("early"))
        ledger.reserve(gaussian(40.0), ledger.own_key("waiting"))
    upgrade(database.url)
    with open_ledger(database.url, "clicks") as ledger:
        assert ledger.spend(gaussian(40.0), ledger.own_key("early")).repeated
        assert ledger.own_key("late") == f"{OWNER}//late"
        ledger.start(ledger.key_of_run("waiting"))
        ada = by(database, "ada", dataset="clicks")
        assert ada.key_of_run("waiting") == "waiting" and ada.own_key("early") == "ada//early"
        assert not ada.spend(gaussian(40.0), ada.own_key("early")).repeated
        assert verify(ledger).problems == ()


def test_a_name_goes_on_in_a_file(opened: Database, tmp_path: Path) -> None:
    sam = by(opened, "sam", ROLES["sam"])
    charge(sam, sam.own_key("night"))
    path = str(tmp_path / "moved.db")
    move_dataset(opened.url, path, DATASET)
    with open_ledger(path, DATASET) as moved:
        file = Ledger(moved.store, DATASET, who="sam")
        assert charge(file, file.own_key("night")).repeated
        assert file.own_key("new") == "new"


def test_rounds_of_two_logins_under_one_key_do_not_meet(database: Database, tmp_path: Path) -> None:
    """Neither can stop the other's run. A run from before the upgrade continues under its key without a login."""
    path = client_rounds.written(tmp_path)
    urls = [database.cluster.url(database.name, database.cluster.login(who, ROLES[who])) for who in ("sam", "sue")]
    client_rounds.opened(database.url)
    for url in urls:
        assert package.rounds(path, url, "fed").round().key.endswith("//fed/round-000001")
        again = package.rounds(path, url, "fed", done=1)
        assert again.charged == 1 and again.round().number == 2 and again.charged == 2
    early = by(database, "sam", ROLES["sam"], client_rounds.DATASET)
    plan = again.plan
    early.spend(plan.charge(1, with_rest=False), charge_key("bare", 1, 1))
    if plan.rest is not None:
        early.spend(plan.rest, rest_key("bare"))
    assert package.rounds(path, urls[0], "bare", done=1).round().key == "bare/round-000002"
    assert package.rounds(path, urls[1], "bare").round().key == "sue//bare/round-000001"


def test_the_keys_of_a_history_belong_to_the_login_that_imports_it(opened: Database, tmp_path: Path) -> None:
    sam = by(opened, "sam", ROLES["sam"])
    content = {"kind": "spend", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.001", "delta": "0"}}
    for key, made in (("taken", {}), ("cheap", {"made": "2026-01-01T00:00:00Z"})):
        by_hand(opened, "sam", canonical(signed(sam, {**content, **made, "key": key}, "sam")))
    (tmp_path / "run.toml").write_text(run_file(0.01))

    def imported(*keys: str) -> tuple[int, str]:
        (tmp_path / "history.csv").write_text("date,key,file\n" + "".join(f"2026-01-01,{key},run.toml\n" for key in keys))
        done = dpcli("budget", "import", opened.cluster.url(opened.name, "sue"), str(tmp_path / "history.csv"))
        return done.code, done.out + done.err

    for _ in range(2):  # the second time charges nothing
        assert imported("taken", "cheap")[0] == 0
        assert list(by(opened, "ada").state().runs) == ["taken", "cheap", "sue//taken", "sue//cheap"]
    code, words = imported("new", "sue//new")
    assert code == 2 and "expected a different key for each run, found the key of line 2: 'sue//new'" in words
    code, words = imported("x" * 196)
    assert code == 2 and "history.csv:2: --key: expected at most 195 characters" in words
    by_hand(opened, "sam", canonical(signed(sam, {**content, **made, "key": "sam//cheap"}, "sam")))
    for key in ("sam//new", "sam//cheap"):  # a run of sam, which costs less than it should, is none of sue
        code, words = imported(key)
        assert code == 2 and f"history.csv:2: key: expected one of sue, which begins with 'sue//', found '{key}'" in words, words
