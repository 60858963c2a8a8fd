"""No message quotes a password, wherever in a URL it stands, and no file is made that has one in its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import dpcli
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
