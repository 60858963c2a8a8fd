"""No message quotes a password, wherever in a URL it stands, and no file is made that has one in its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.ledgers import ALL, called, marks
from tests.command import dpcli
from tests.ledger.conftest import Database
from tests.ledger.setting import run_file

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
TERMS = (
    "--dataset",
    "d",
    "--unit",
    "user",
    "--adjacency",
    "add-remove",
    "--epsilon",
    "1",
    "--delta",
    "1e-6",
    "--filter",
    "approx-dp",
)
FILES = ("a.db", "b.db", "run.toml", "schedule.toml", "h.csv")
COMMANDS = (
    ("init", "URL", *TERMS),
    ("spend", "URL", "run.toml", "--key", "k"),
    ("reserve", "URL", "run.toml", "--key", "k"),
    *((name, "URL", "k") for name in ("start", "commit")),
    ("void", "URL", "k", "--reason", "r"),
    ("amend", "URL", "--epsilon", "1", "--reason", "r", "--approver", "a"),
    *((name, "URL") for name in ("show", "log", "verify", "anchor", "export", "upgrade", "overview")),
    ("plan", "URL", "schedule.toml"),
    ("import", "URL", "h.csv"),
    ("retire", "URL", "--window", "2024-01-01", "--reason", "r"),
    ("copy", "URL", "b.db"),
    ("copy", "a.db", "URL"),
)


@pytest.mark.parametrize("url", URLS)
def test_no_command_shows_a_password(url: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(run_file(0.001))
    (tmp_path / "schedule.toml").write_text('format = 1\n[[run]]\nfile = "run.toml"\nfrom = 2030-01-01\n')
    (tmp_path / "h.csv").write_text("date,key,epsilon,unit,adjacency\n2024-01-01,k,0.1,user,add-remove\n")
    assert dpcli("budget", "init", str(tmp_path / "a.db"), *TERMS).code == 0
    for words in COMMANDS:
        done = dpcli("budget", *(url if word == "URL" else str(tmp_path / word) if word in FILES else word for word in words))
        assert done.code not in (0, 1) and SECRET not in done.out + done.err, (words[0], done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "h.csv", "run.toml", "schedule.toml"]


WALKED = [pytest.param(words, id=" ".join(words), marks=marks(words)) for words in ALL]


def quoting(folder: Path) -> list[str]:
    """The files in which the password is, or that are named for it."""
    return [
        str(path) for path in folder.rglob("*") if SECRET in path.name or (path.is_file() and SECRET.encode() in path.read_bytes())
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("words", WALKED)
def test_no_command_that_takes_a_ledger_shows_a_password(words: tuple[str, ...], url: str, tmp_path: Path) -> None:
    done = called(words, tmp_path, url)
    assert SECRET not in done.out + done.err, done
    assert done.code in ((0, 2) if words == ("doctor",) else (2, 4)), done
    assert quoting(tmp_path) == []


def opened_for(words: tuple[str, ...], database: Database, unit: str) -> str:
    """The URL, password and all, of a ledger that has room for what a command would charge."""
    database.cluster.run("DROP SCHEMA IF EXISTS dpcli CASCADE", database=database.name)
    terms = ("--unit", unit, "--adjacency", "add-remove", "--epsilon", "1000", "--delta", "1e-3", "--filter", "approx-dp")
    made = dpcli("budget", "init", database.url, "--dataset", "clicks" if words[-1] == "init" else "visits", *terms)
    assert made.code == 0, made
    database.cluster.login("with_password", "dpcli_admin")
    database.cluster.run(f"ALTER ROLE with_password PASSWORD '{SECRET}'")
    return database.cluster.url(database.name, "with_password", SECRET)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("words", WALKED)
def test_no_command_keeps_a_password_that_opens_a_ledger(words: tuple[str, ...], database: Database, tmp_path: Path) -> None:
    """Neither in what it prints, nor in a run's folder or another file, nor in an entry."""
    done = called(words, tmp_path, opened_for(words, database, "user"))
    if (other := re.search(r'found "(\w+)" \(DP103', done.err)) is not None:  # the file of this command has a unit of its own
        (tmp_path / "again").mkdir()
        done = called(words, tmp_path / "again", opened_for(words, database, other[1]))
    assert "DP103" not in done.err, done
    assert done.code in (0, 1, 2, 3, 4) and "authentication failed" not in done.err, done
    assert SECRET not in done.out + done.err, done
    assert quoting(tmp_path) == []
    with database.cluster.connect(database.name) as connection:
        rows = connection.execute("SELECT body FROM dpcli.entry").fetchall()
    assert rows and not any(SECRET in body for (body,) in rows)


@pytest.mark.parametrize("name", ["./u:x@y.db", "a@b:c.db", "sub/u:x@y.db", "2026-01-01T00:00.db"])
def test_a_file_whose_name_holds_such_characters_is_still_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert dpcli("budget", "init", name, *TERMS, folder=tmp_path).code == 0 and (tmp_path / name).is_file()
