"""Command lines that cannot be read: the reports they ask for hold the error, and nothing else is written over."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import click
import pytest

from dpcli.base.registry import FORMATS
from dpcli.cli.options import REPORTED, DocumentFormat, Settings
from dpcli.document.formats.facts import judges
from tests.cases import of_each
from tests.cli.commands import COMMANDS, assert_says_error, own_formats
from tests.command import dpcli

REPORTING = [words for words in COMMANDS if words != ("plot",)]  # a picture is no report
SPELLED = ("-o|{}", "-o{}", "-o={}", "--output|{}", "--output={}", "-qo|{}", "-vqo{}")
UNREADABLE = ("--nope", "-X", "-f|nonsense", "-o|nonsense=x")
KEPT = {("budget", "anchor"), ("budget", "export"), ("budget", "log")}  # copies of what a damaged ledger may lose


def formats_of(words: tuple[str, ...]) -> DocumentFormat:
    return next(one.type for one in COMMANDS[words].params if isinstance(one.type, DocumentFormat))


def assert_no_pass(words: tuple[str, ...], name: str, path: Path) -> None:
    """The report is of the error, or is a copy that outlives it."""
    if judges(name):
        assert_says_error(name, path.read_text())
    elif words in KEPT:
        assert path.read_text() == ""
    else:
        assert any(word in path.read_text() for word in ("No such option", "expected", "is not one of", "takes 2 values")), name


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)])
@of_each("words", REPORTING)
def test_every_report_of_every_command_in_every_spelling_holds_the_error(words: tuple[str, ...], few: bool, tmp_path: Path) -> None:
    """In json and junit all of them; of the other formats a third, each spelling and each mistake among them; in a quick run a few."""
    names = [name for name in own_formats(words) if name in FORMATS]
    lines = [*product(names, SPELLED, UNREADABLE)]
    chosen = lines[REPORTING.index(words) % 19 :: 19]  # other ones of each command
    if not few:
        chosen = [case for place, case in enumerate(lines) if place % 3 == 0 or case[0] in ("json", "junit")]
    for name, spelling, wrong in chosen:
        path = tmp_path / f"{name}.report"
        path.write_text("")
        line = [*words, "x.toml", *spelling.format(f"{name}={path}").split("|"), *wrong.split("|")]
        assert dpcli(*line).code == 2, line
        assert_no_pass(words, name, path)


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
        assert left == (words in KEPT and not judges(name)), name


def test_what_outlives_an_error_says_so() -> None:
    assert {words for words in REPORTING if formats_of(words).outlives_errors} == KEPT


@of_each("line", ["budget anchr l.db", "budgt anchor l.db", "budget --nope export l.db", "budget export l.db --nope"])
def test_a_copy_of_a_ledger_outlives_a_misspelt_command(line: str, tmp_path: Path) -> None:
    (tmp_path / "copy.json").write_text("copy")
    assert dpcli(*line.split(), "-o", "copy.json", folder=tmp_path).code == 2
    assert (tmp_path / "copy.json").read_text() == "copy"


@of_each("name", ["junit", "sarif", "json", "html"])
@of_each(
    "line",
    [
        "gat p.toml -o {}",
        "-- gat p.toml -o {}",
        "-- gate p.toml --nope -o {}",
        "-o {} gate p.toml",
        "-qo {} gate p.toml",
        "--quiet=1 gate p.toml -o {}",
        "--color nope gate p.toml -o {}",
        "budget -- show --nope -o {}",
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
    if judges(name):
        assert_says_error(name, (tmp_path / "r").read_text())


@of_each(
    "line",
    [
        "gate --nope r.xml -o r.xml",
        "gate --nope -pr.xml -o r.xml",
        "gate --nope --polcy=r.xml -o=r.xml",
        "gate --nope -qo r.xml -- r.xml",
        "gate p.toml --nope -o run=r.xml",  # a path that holds a "="
        "gate p.toml --max-epsilon -o r.xml",  # -o is the value of what stands before it
        "gate --nope -- -o r.xml",
        "schema -o r.xml",
    ],
)
def test_what_is_not_surely_an_output_stays(line: str, tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text("mine")
    assert dpcli(*line.split(), folder=tmp_path).code == 2
    assert (tmp_path / "r.xml").read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["r.xml"]


def test_a_misspelt_format_is_told_in_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("earlier pass")
    assert dpcli("gate", "p.toml", "-o", "juint=r", folder=tmp_path).code == 2
    assert_says_error("junit", (tmp_path / "r").read_text())


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
