"""Tests that no message shows a password of a URL, and that no file is made whose name contains one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.conftest import Database
from tests.ledger.every_command import ALL, TERMS, called, marks

SECRET = "s3cr3t-word"
AT = "127.0.0.1:1/db"
URLS = (
    f"postgresql://u:{SECRET}@{AT}",
    f"postgresql://{AT}?user=u&password={SECRET}",
    f"postgresql://{AT}?password={SECRET}&bogus=1",
    f"postgresql://{AT}?sslpassword={SECRET}&sslkey=/x",
    f"postgresql://{AT}?passfile=/{SECRET}",
    f"postgresql://{AT}?passfile=/x#{SECRET}",
    f"postgresql://u:p%zz{SECRET}@{AT}",
    f"postgresql://u:x@{SECRET}@{AT}",
    f"postgresql://u:{SECRET}/x@{AT}",
    f"postgresql://u:{SECRET}@127.0.0.1:port/db",
    f"postgresql+psycopg://u:{SECRET}@{AT}",
    f"POSTGRESQL://u:{SECRET}@{AT}",
    f"mysql://u:{SECRET}@h/db",
    f"host=127.0.0.1 password={SECRET} dbname=d",
    f"password = {SECRET} host=127.0.0.1",
    f"postgres://u:{SECRET}@[::1]:1/db",
    f"postgresql://u:%40%3A%2F{SECRET}@[::1:1/db",
    f"postgresql://{AT}?pass%77ord={SECRET}",
    f"postgresql:u:{SECRET}@{AT}",
    f"postgresql:/u:{SECRET}@{AT}",
    f"u:{SECRET}@{AT}",
)


def pairs(count: int, each: int) -> list[tuple[int, int]]:
    """Of so many commands each with so many of the URLs, in turn, so that each URL is tried."""
    return [(at, (at * each + more * (1 + len(URLS) // each)) % len(URLS)) for at in range(count) for more in range(each)]


WALKED = [words for words in ALL if not marks(words) or find_spec("torch") is not None]


def quoting(folder: Path) -> list[str]:
    """The files in which the password is, or that are named for it."""
    return [
        str(path) for path in folder.rglob("*") if SECRET in path.name or (path.is_file() and SECRET.encode() in path.read_bytes())
    ]


def quotes_none(words: tuple[str, ...], url: str, folder: Path) -> None:
    done = called(words, folder, url)
    assert SECRET not in done.out + done.err, done
    assert done.code in ((0, 2) if words == ("doctor",) else (2, 4)), done
    assert quoting(folder) == []


QUICK = [words for words in WALKED if words[0] == "budget"]


@of_each("at, url", pairs(len(QUICK), 5), lambda case: (" ".join(QUICK[case[0]]), URLS[case[1]]))
def test_no_command_shows_a_password(at: int, url: int, tmp_path: Path) -> None:
    quotes_none(QUICK[at], URLS[url], tmp_path)


@pytest.mark.long
@of_each("at, url", pairs(len(WALKED), 2), lambda case: (" ".join(WALKED[case[0]]), URLS[case[1]]))
def test_no_command_that_takes_a_ledger_shows_a_password(at: int, url: int, tmp_path: Path) -> None:
    quotes_none(WALKED[at], URLS[url], tmp_path)


@pytest.mark.nightly
@pytest.mark.long
@of_each("words, url", [(words, url) for words in WALKED for url in URLS])
def test_no_command_that_takes_a_ledger_shows_a_password_of_any_url(words: tuple[str, ...], url: str, tmp_path: Path) -> None:
    quotes_none(words, url, tmp_path)


# Units of the files that commands read, where it is not a user; those that draw noise for many answers take long.
UNITS = {"label": "example", "generate": "example", "prompt": "example", "sweep": "example", "train": "example", "fit": "author"}
UNITS |= {"release": "patient"}
DEAR = {"prompt": "long", "train": "long", "fit": "long", "release": "long", "generate": "nightly", "sweep": "nightly"}


def opened_for(words: tuple[str, ...], database: Database) -> str:
    """The URL, password and all, of a new ledger that has room for what a command would charge."""
    database.without_datasets()
    unit, name = UNITS.get(words[-1], "user"), "clicks" if words[-1] == "init" else "visits"
    terms = ("--unit", unit, "--adjacency", "add-remove", "--epsilon", "1000", "--delta", "1e-3", "--filter", "approx-dp")
    made = dpcli("budget", "init", database.url, "--dataset", name, *terms)
    assert made.code == 0, made
    database.cluster.login("with_password", "dpcli_admin")
    database.cluster.run(f"ALTER ROLE with_password PASSWORD '{SECRET}'")
    return database.cluster.url(database.name, "with_password", SECRET)


def keeps_none(walked: list[tuple[str, ...]], database: Database, folder: Path) -> None:
    """Neither in what it prints, nor in a run's folder or another file, nor in an entry; a ledger is used again, until it has moved."""
    url, unit, failed = "", "", list[object]()
    for words in sorted(walked, key=lambda words: (UNITS.get(words[-1], "user"), words[-1] == "copy", words)):
        if not url or words[-1] == "init" or UNITS.get(words[-1], "user") != unit:
            url, unit = opened_for(words, database), UNITS.get(words[-1], "user") if words[-1] != "init" else ""
        (place := folder / " ".join(words)).mkdir()
        done = called(words, place, url)
        sound = "DP103" not in done.err and done.code in (0, 1, 2, 3, 4) and "authentication failed" not in done.err
        if not sound or SECRET in done.out + done.err or quoting(place):
            failed.append((words, done, quoting(place)))
        with database.cluster.connect(database.name) as connection:
            rows = connection.execute("SELECT body FROM dpcli.entry").fetchall()
        if not rows or any(SECRET in body for (body,) in rows):
            failed.append((words, "in an entry", rows))
    assert failed == []


@pytest.mark.long
def test_no_command_keeps_a_password_that_opens_a_ledger(database: Database, tmp_path: Path) -> None:
    keeps_none([words for words in WALKED if words[-1] not in DEAR], database, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("tier", [pytest.param(tier, marks=getattr(pytest.mark, tier)) for tier in ("long", "nightly")])
def test_no_command_that_takes_its_time_keeps_a_password_that_opens_a_ledger(tier: str, database: Database, tmp_path: Path) -> None:
    keeps_none([words for words in WALKED if DEAR.get(words[-1]) == tier], database, tmp_path)


@of_each("name", ["./u:x@y.db", "a@b:c.db", "sub/u:x@y.db", "2026-01-01T00:00.db"])
def test_a_file_whose_name_holds_such_characters_is_still_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert dpcli("budget", "init", name, "--dataset", "d", *TERMS, folder=tmp_path).code == 0 and (tmp_path / name).is_file()
