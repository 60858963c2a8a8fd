"""The durable count of answers: T are granted and no more, whoever asks, wherever it is kept, however its processes die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.predict import sqlite_queries
from dpcli.predict.prediction_session import open_queries
from dpcli.predict.query_counts import AnswerCounter
from tests.cases import fresh_random
from tests.ledger.conftest import Database
from tests.ledger.spenders import lines, started
from tests.waiting import until

IDENTITY = "0123456789abcdef" * 4


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place without a count."""
    if request.param == "sqlite":
        yield str(tmp_path / "queries.db")
        return
    result: Database = request.getfixturevalue("database")
    yield f"{result.url}#answers"
    result.cluster.run("DROP SCHEMA IF EXISTS dpcli_queries CASCADE", database=result.name)


def made(place: str, total: int = 5) -> AnswerCounter:
    return open_queries(place, IDENTITY, total, new=True)


def test_every_answer_is_granted_once_and_none_after_the_last(place: str) -> None:
    budget = made(place)
    assert [budget.take(2), budget.take()] == [1, 3]
    with pytest.raises(Denied, match=r"3 of 5 answers are spent: 2 are left, 3 were requested"):
        budget.take(3)
    again = open_queries(place, IDENTITY, 5)
    assert again.taken() == 3  # a request that was denied took nothing
    assert again.take(2) == 4
    for _ in range(3):
        with pytest.raises(Denied):
            again.take()
    assert (again.taken(), again.total) == (5, 5)


@pytest.mark.parametrize(("identity", "total"), [("another" * 3, 5), (IDENTITY, 6), (IDENTITY, 4)])
@pytest.mark.parametrize("new", [False, True])
def test_another_system_or_number_is_refused(identity: str, total: int, new: bool, place: str) -> None:
    made(place)
    with pytest.raises(LedgerError, match=r"another system|answers in all"):
        open_queries(place, identity, total, new=new)


def test_a_count_that_is_missing_is_not_begun_again(place: str) -> None:
    with pytest.raises(LedgerError, match="no count of queries"):
        open_queries(place, IDENTITY, 5)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, 2**63])
def test_what_is_no_number_of_answers(count: int, place: str) -> None:
    budget = made(place)
    with pytest.raises(InputError):
        budget.take(count)
    with pytest.raises(InputError):
        open_queries(place, IDENTITY, count)
    assert budget.taken() == 0


def answering(place: str, folder: Path, name: str, total: int, new: bool = False) -> None:
    """Answer until it is denied: take, draw, write the answer down."""
    budget = open_queries(place, IDENTITY, total, new=new)
    with open(folder / name, "ab", buffering=0) as file, suppress(Denied):
        while True:
            number = budget.take()
            file.write(json.dumps({"number": number, "token": fresh_random().randbytes(2).hex()}).encode() + b"\n")
            os.fsync(file.fileno())


def answers(folder: Path) -> Counter[int]:
    """Return how often each number was answered."""
    return Counter(json.loads(line)["number"] for path in folder.iterdir() for line in lines(path) if line.endswith("}"))


def waited(children: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_processes_share_the_answers(place: str, tmp_path: Path) -> None:
    """Processes begin together, on a place that none of them has made."""
    folder, total = tmp_path / "answers", 40
    folder.mkdir()
    ended = waited([started(lambda name=f"w{i}": answering(place, folder, name, total, new=True)) for i in range(4)])  # type: ignore[misc]
    assert ended == [0] * 4
    assert answers(folder) == Counter(range(1, total + 1))


@pytest.mark.parametrize("moments", [4, pytest.param(30, marks=pytest.mark.nightly)])
def test_death_gives_no_free_answer(moments: int, place: str, tmp_path: Path) -> None:
    """Killed between any two instructions: an answer may be lost, no number is answered twice, and none beyond the last."""
    folder, total, chance = tmp_path / "answers", 12 * moments, fresh_random()
    folder.mkdir()
    made(place, total)
    for moment in range(moments):
        before = answers(folder).total()
        child = started(lambda name=f"w{moment}": answering(place, folder, name, total))  # type: ignore[misc]
        while answers(folder).total() < min(before + 2, total - moments):
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert waited([child])[0] in (-signal.SIGKILL, 0)
        budget = open_queries(place, IDENTITY, total)
        assert answers(folder).total() <= budget.taken() <= answers(folder).total() + moment + 1
    answering(place, folder, "last", total)
    result = answers(folder)
    assert set(result.values()) == {1}
    assert set(result) <= set(range(1, total + 1)) and len(result) >= total - moments
    budget = open_queries(place, IDENTITY, total)
    with pytest.raises(Denied):
        budget.take()


def test_a_lock_that_is_not_given_back_ends_the_wait(place: str, request: pytest.FixtureRequest) -> None:
    made(place)
    if "#" in place:
        import psycopg

        holder = psycopg.connect(place.partition("#")[0])
        holder.execute("SELECT FROM dpcli_queries.budget FOR UPDATE")
    else:
        holder = sqlite3.connect(place, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
    with closing(holder), pytest.raises(LedgerError, match="locked by another"):
        open_queries(place, IDENTITY, 5, seconds=0.1).take()


# In a file


@pytest.fixture
def path(tmp_path: Path) -> str:
    result = str(tmp_path / "run" / "queries.db")
    os.mkdir(tmp_path / "run")
    budget = made(result)
    budget.take(3)
    return result


def edited(path: str, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def replaced(path: str, make: Callable[[str], object]) -> None:
    os.unlink(path)
    make(path)
    os.chmod(path, 0o600)


DAMAGES: dict[str, tuple[Callable[[str], object], str]] = {
    "emptied": (lambda path: os.truncate(path, 0), "an empty file has no count"),
    "cut": (lambda path: os.truncate(path, 4096), "damaged"),
    "text": (lambda path: Path(path).write_text("no count" * 1000), "damaged"),
    "folder": (lambda path: replaced(path, os.mkdir), "found a directory"),
    "linked": (lambda path: (os.rename(path, f"{path}.real"), os.symlink(f"{path}.real", path)), "found a symbolic link"),
    "twice": (lambda path: os.link(path, f"{path}.too"), "hard links"),
    "pipe": (lambda path: replaced(path, os.mkfifo), "found a named pipe"),
    "open to all": (lambda path: os.chmod(path, 0o666), "chmod 600"),
    "of another program": (
        lambda path: replaced(path, lambda new: edited(new, "CREATE TABLE budget (taken)")),
        "not a count of queries",
    ),
    "later": (lambda path: edited(path, "PRAGMA user_version = 2"), "a later version"),
    "with a log": (lambda path: Path(f"{path}-wal").write_bytes(b"log"), "-wal"),
    "set back": (lambda path: edited(path, "DROP TRIGGER count_never_goes_back", "UPDATE budget SET taken = 1"), "damaged"),
    "row removed": (lambda path: edited(path, "DROP TRIGGER count_never_goes", "DELETE FROM budget"), "damaged"),
    "removed": (os.unlink, "no count of queries here"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_file_that_cannot_be_relied_on_grants_nothing(name: str, path: str) -> None:
    damage, message = DAMAGES[name]
    budget = open_queries(path, IDENTITY, 5)
    damage(path)
    for ask in (budget.take, lambda: open_queries(path, IDENTITY, 5)):
        with pytest.raises(LedgerError, match=message) as result:
            ask()
        assert str(result.value).startswith(path)


def test_by_the_guards_alone_nothing_goes_back(path: str) -> None:
    for statement in (
        "UPDATE budget SET taken = 2",
        "UPDATE budget SET total = 9",
        "DELETE FROM budget",
        "UPDATE budget SET taken = 6",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            edited(path, statement)


def test_a_network_file_system_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.predict import sqlite_queries as sqlite

    monkeypatch.setattr(sqlite, "network_file_system", lambda path: "nfs4")
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\)"):
        open_queries(path, IDENTITY, 5)
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\)"):
        made(f"{path}.new")


def test_a_copied_folder_is_refused_and_a_renamed_one_goes_on(path: str, tmp_path: Path) -> None:
    """Two copies would grant every answer twice; one file under another name grants none twice."""
    run, copy, renamed = tmp_path / "run", tmp_path / "copy", tmp_path / "renamed"
    shutil.copytree(run, copy)
    with pytest.raises(LedgerError, match=r"a copy of .*another file.*--moved"):
        open_queries(str(copy / "queries.db"), IDENTITY, 5)
    run.rename(renamed)
    budget = open_queries(str(renamed / "queries.db"), IDENTITY, 5)
    assert budget.take() == 4
    with pytest.raises(LedgerError, match="a copy of"):
        open_queries(str(copy / "queries.db"), IDENTITY, 5)


def test_a_copy_in_place_of_the_file_is_refused_by_whoever_has_it_open(path: str) -> None:
    """A backup that is put back grants again what was granted since."""
    shutil.copy2(path, f"{path}.backup")
    budget = open_queries(path, IDENTITY, 5)
    budget.take()
    os.replace(f"{path}.backup", path)
    with pytest.raises(LedgerError, match="a copy of"):
        budget.take()


def test_another_machine_is_refused_until_somebody_says_that_it_was_moved(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_queries, "hashed_machine_id", lambda: "another")
    with pytest.raises(LedgerError, match="on another machine"):
        open_queries(path, IDENTITY, 5)
    budget = open_queries(path, IDENTITY, 5, moved=True)
    assert budget.take() == 4
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="on another machine"):  # it cannot be at both
        open_queries(path, IDENTITY, 5)


def test_a_leftover_of_a_count_that_is_gone_begins_no_new_one(tmp_path: Path) -> None:
    path = tmp_path / "queries.db"
    Path(f"{path}-journal").write_bytes(b"left")
    with pytest.raises(LedgerError, match=r"queries\.db-journal"):
        made(str(path))


def test_the_file_is_its_owners_alone(path: str) -> None:
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(path)) == ["queries.db"]


def test_where_it_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be created: No such file"):
        made(str(tmp_path / "missing" / "queries.db"))
    with pytest.raises(InputError, match="expected a path"):
        made("mysql://here")


# In a database


@pytest.mark.parametrize(
    "url", ["postgresql://u:pa#ss@host/db", "postgresql://u@host/db", "postgresql://u@host/db#", "postgresql://u@host/db#a b"]
)
def test_a_count_in_a_database_needs_a_name_and_no_password_is_told(url: str) -> None:
    with pytest.raises(InputError, match="#name") as result:
        made(url)
    assert "pa#ss" not in str(result.value)


@pytest.fixture
def base(database: Database) -> Iterator[Database]:
    yield database
    database.cluster.run("DROP SCHEMA IF EXISTS dpcli_queries CASCADE", database=database.name)


@pytest.mark.long
def test_a_database_counts_several_systems_by_name(base: Database) -> None:
    first, second = made(f"{base.url}#first", 3), open_queries(f"{base.url}#second", "other", 9, new=True)
    assert first.take(3) == second.take(2) == 1
    assert (first.taken(), second.taken()) == (3, 2)


def test_a_database_guards_its_count(base: Database) -> None:
    import psycopg

    made(f"{base.url}#a").take(3)
    for statement in ("UPDATE budget SET taken = 2", "UPDATE budget SET total = 9", "DELETE FROM budget", "TRUNCATE budget"):
        with pytest.raises(psycopg.Error, match="never goes back"):
            base.cluster.run(f"SET search_path = dpcli_queries; {statement}", database=base.name)


def test_a_user_who_may_not_count(base: Database) -> None:
    user = base.cluster.login("no_counter")
    with pytest.raises(LedgerError, match="permission denied"):
        made(f"{base.cluster.url(base.name, user)}#a")
    made(f"{base.url}#a")
    with pytest.raises(LedgerError, match="permission denied"):
        open_queries(f"{base.cluster.url(base.name, user)}#a", IDENTITY, 5)


def message(task: Callable[[], object]) -> str:
    """Return the refusal, if there is one."""
    try:
        task()
    except LedgerError as error:
        return str(error)
    return ""


def test_a_server_that_promises_nothing_is_refused(base: Database) -> None:
    budget = made(f"{base.url}#a")
    base.cluster.run("ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
    try:
        assert until(lambda: "full_page_writes off" in message(budget.taken))
    finally:
        base.cluster.run("ALTER SYSTEM RESET full_page_writes", "SELECT pg_reload_conf()")
