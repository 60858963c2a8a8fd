"""Tests that no command and no format prints the password of an address that a file has in a wrong place."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.file.toml.shown import public, shown, without_passwords
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.repositories import git

WORD = "HUNTER2"
URL = f"postgresql://joe:{WORD}@db.example/shop"
CLINIC = (ROOT / "examples" / "clinic-weeks.toml").read_text()
PATH = 'path = "clinic-weeks.csv"'
GOOD = CLINIC.replace(PATH, f'url = "{URL}"\ntable = "visits"')
FAULTS = {
    "none": f'url = "{URL}"\ntable = "visits"',
    "another-scheme": f'url = "mysql://joe:{WORD}@db/shop"\ntable = "visits"',
    "unknown-key": f'urll = "{URL}"',
    "no-quote": f'url = "{URL}',
    "a-list": f'url = ["{URL}"]',
    "twice": f'url = "{URL}"\nurl = "{URL}"',
    "as-a-path": f'path = "{URL}"',
    "as-settings": f'path = "host=db user=joe password={WORD}"',
}
DIFF = ("text", "json", "jsonl", "csv", "html")
GATE = ("text", "json", "html", "sarif", "junit", "github")


@pytest.mark.long
@of_each("fault", FAULTS)
def test_no_command_shows_a_password_of_a_broken_file(tmp_path: Path, fault: str) -> None:
    (tmp_path / "p.toml").write_text(CLINIC.replace(PATH, FAULTS[fault]))
    for command in (("lint",), ("account",), ("report",), ("gate",), ("gate", "-f", "json"), ("lint", "-f", "sarif"), ("release",)):
        found = dpcli(*command, "p.toml", folder=tmp_path)
        assert found.code != 70
        assert found.out + found.err
        assert WORD not in found.out + found.err


@pytest.mark.long
def test_no_format_shows_a_password_that_a_change_takes_out_or_puts_in(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "p.toml").write_text(GOOD)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    (tmp_path / "p.toml").write_text(GOOD.replace("db.example", "db2.example").replace("joe", "ann"))
    asked = [("diff", "main:p.toml", "p.toml", "-f", form) for form in DIFF]
    asked += [("gate", "p.toml", "--base-ref", "main", "-f", form) for form in GATE]
    for words in (*asked, ("comment", "github", "p.toml", "--base-ref", "main", "--dry-run")):
        found = dpcli(*words, folder=tmp_path)
        assert found.code == 0, found.err
        assert found.out
        assert WORD not in found.out + found.err


@of_each("before", ["", " ", "see "])
def test_an_address_is_shown_to_the_end_of_its_scheme_wherever_it_stands(before: str) -> None:
    assert shown(before + URL) == f'"{before}postgresql://..."'
    assert public(f"{before}https://example.org/a") == f"{before}https://example.org/a"


def test_a_message_keeps_all_but_the_password() -> None:
    assert without_passwords(f"no {URL}, found") == "no postgresql://joe:...@db.example/shop, found"
    assert without_passwords(f"host=db password={WORD} port=1") == "host=db password=... port=1"
    assert without_passwords("expected postgresql://user@host:port/database") == "expected postgresql://user@host:port/database"
