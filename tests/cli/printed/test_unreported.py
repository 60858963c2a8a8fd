"""Tests of refused command lines: the reports that they ask for have the error, and no other file is overwritten."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import click
import pytest

from dpcli.base.registry import FORMATS
from dpcli.cli.error_reports import REPORTED
from dpcli.cli.printing import Settings
from dpcli.document.formats.facts import ci_reads_verdict
from tests.cases import of_each
from tests.cli.commands import COMMANDS, assert_says_error, own_formats
from tests.command import dpcli

REPORTING = [words for words in COMMANDS if words != ("plot",)]  # a picture is no report
JUDGED = [name for name in FORMATS if ci_reads_verdict(name)]
SPELLED = ("-o|{}", "-o{}", "-o={}", "--output|{}", "--output={}", "-qo|{}", "-vqo{}")
UNREADABLE = ("--nope", "-X", "-f|nonsense", "-o|nonsense=x")
# A published statement, and copies of what a damaged ledger may lose.
KEPT = {("report",), ("budget", "anchor"), ("budget", "export"), ("budget", "log")}


@of_each(("name", "spelling", "wrong"), list(product(JUDGED, SPELLED, UNREADABLE)))
def test_every_judged_report_in_every_spelling_holds_the_error(name: str, spelling: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.report"
    path.write_text("")
    line = ["gate", "x.toml", *spelling.format(f"{name}={path}").split("|"), *wrong.split("|")]
    assert dpcli(*line).code == 2, line
    assert_says_error(name, path.read_text())


@of_each("words", REPORTING)
def test_a_command_that_fails_leaves_no_earlier_report_in_any_format(words: tuple[str, ...], tmp_path: Path) -> None:
    """Broken by a bug while it runs, as every command may be."""
    names = [name for name in own_formats(words) if name in FORMATS]
    outputs = tuple(f"{name}={tmp_path / name}" for name in names)
    for name in names:
        (tmp_path / name).write_text("earlier pass")
    callback = COMMANDS[words].callback
    assert callback is not None
    with click.Context(COMMANDS[words], obj=Settings()), pytest.raises(TypeError) as raised:
        callback(format_="text", outputs=outputs, no_command_takes_this=1)
    assert REPORTED in raised.value.__notes__
    for name in names:
        left = (tmp_path / name).read_text() == "earlier pass"
        assert left == (words in KEPT and not ci_reads_verdict(name)), name


@of_each("name", ["junit", "sarif"])
@of_each(
    "line",
    [
        "gat p.toml -o {}",
        "-o {} gate p.toml",
        "-qo {} gate p.toml",
        "--quiet=1 gate p.toml -o {}",
        "--color nope gate p.toml -o {}",
        "gate p.toml --nope -o {} -o ./{}",
        "gate p.toml -o {} -o {} -o {}",
        "gate p.toml --nope -o {} --help",
        "diff p.toml -o {}",
    ],
)
def test_wherever_an_output_is_named(line: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "r").write_text("earlier pass")
    assert dpcli(*line.replace("{}", f"{name}=r").replace(f"./{name}=r", f"{name}=./r").split(), folder=tmp_path).code == 2
    assert "earlier pass" not in (tmp_path / "r").read_text()
    assert_says_error(name, (tmp_path / "r").read_text())


@of_each(
    "line",
    [
        "gate --nope r.xml -o r.xml",
        "gate --nope -pr.xml -o r.xml",
        "gate --nope --polcy=r.xml -o=r.xml",
        "gate --nope -qo r.xml -- r.xml",
        "gate p.toml --nope -o run=r.xml",  # a path that holds a "="
        "gate --nope -- -o r.xml",
    ],
)
def test_what_is_not_surely_an_output_stays(line: str, tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text("mine")
    assert dpcli(*line.split(), folder=tmp_path).code == 2
    assert (tmp_path / "r.xml").read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["r.xml"]


def test_a_path_that_cannot_be_written_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "r.xml").write_text("earlier pass")
    line = "gate p.toml --nope -o junit=folder -o junit=no/where.xml -o r.xml"
    assert dpcli(*line.split(), folder=tmp_path).code == 2
    assert_says_error("junit", (tmp_path / "r.xml").read_text())


def test_an_internal_error_before_the_command_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(COMMANDS["gate",], "make_context", broken)
    (tmp_path / "r.xml").write_text("earlier pass")
    assert dpcli("gate", "p.toml", "-o", "r.xml", folder=tmp_path).code == 70
    assert_says_error("junit", (tmp_path / "r.xml").read_text())


@pytest.mark.long
def test_standard_error_that_nobody_reads_changes_no_exit_code(tmp_path: Path) -> None:
    import subprocess
    import sys

    for line, code in (("gate missing.toml", 2), ("gate --nope", 2), ("gat", 2), ("budget show missing.db", 4)):
        read, written = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, "-m", "dpcli", *line.split()], stdout=subprocess.DEVNULL, stderr=written)
        os.close(written)
        assert done.returncode == code, line
