"""Tests that a ledger's refusal of blocks is printed in words of the command: no hint names a flag that it lacks."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from dpcli.cli.main import cli
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE

STATED = GATE.replace("[privacy]\n", '[privacy]\ndataset = "clicks"\n{}')
TERMS = "--epsilon 10 --delta 1e-6 --unit user --adjacency add-remove --blocks day --column day --max-blocks 3 --filter zcdp"
RUN = 'format = 1\n[[run]]\nfile = "run.toml"\nevery = "day"\nfrom = 2026-01-01\nto = 2026-01-03\n{}'
# Commands of a ledger and a file, and one that is given blocks alone; those that start a session all take --window.
ASKING = {
    "gate": ("run.toml", "--ledger", "l.db"),
    "comment github": ("run.toml", "--ledger", "l.db", "--base-ref", "HEAD", "--dry-run"),
    "comment gitlab": ("run.toml", "--ledger", "l.db", "--base-ref", "HEAD", "--dry-run"),
    "budget plan": ("l.db", "schedule.toml"),
    "budget import": ("l.db", "history.csv"),
    "budget spend": ("l.db", "run.toml", "--key", "a"),
    "budget reserve": ("l.db", "run.toml", "--key", "a"),
}
GIVEN = {
    "budget retire": ("l.db", "nonsense", "--reason", "gone"),
    "budget windows": ("l.db", "run.toml", "--within", "nonsense"),
    "budget spend": ("l.db", "run.toml", "--key", "a", "--window", "nonsense"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with a ledger of blocks, and every file that a command may ask it about."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "nothing")
    assert dpcli("budget", "init", "l.db", "--dataset", "clicks", *TERMS.split(), folder=tmp_path).code == 0
    return tmp_path


def put(folder: Path, window: str) -> None:
    (folder / "run.toml").write_text(STATED.format(window))
    (folder / "schedule.toml").write_text(RUN.format(""))
    (folder / "history.csv").write_text("date,key,file\n2026-01-01,k,run.toml\n")


def flags_of(words: str) -> set[str]:
    """What a command takes, as its help lists it."""
    command: click.Command = cli
    for word in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return {flag for one in command.params for flag in one.opts if flag.startswith("--")}


def check(folder: Path, words: str, arguments: tuple[str, ...]) -> str:
    done = dpcli(*words.split(), *arguments, folder=folder)
    assert done.code == 2, done.out + done.err
    (line,) = [line for line in done.err.splitlines() if "expected" in line]
    assert set(re.findall(r"--[a-z][a-z-]*", line)) <= flags_of(words), line
    assert "--window" in flags_of(words) or "flag" not in line
    return line


@pytest.mark.long
@of_each("words", ASKING)
@of_each("window", ["", 'window = ["nonsense"]\n', 'window = ["2026-02-02..2026-01-01"]\n'])
def test_a_window_that_is_missing_or_none_is_asked_for_where_it_can_be_stated(folder: Path, words: str, window: str) -> None:
    put(folder, window)
    line = check(folder, words, ASKING[words])
    assert "window" in line
    if not window:
        assert 'expected the blocks of "clicks" that the run reads' in line and "under [privacy]" in line


QUOTED = "--window: b, or by this flag of a command that charges a run."


@of_each("words", [words for words in ASKING if not words.startswith("comment")])
@of_each("stated", ["dataset", "window"])
def test_what_a_file_states_is_quoted_as_it_has_it(folder: Path, words: str, stated: str) -> None:
    put(folder, f'window = ["{QUOTED}"]\n' if stated == "window" else 'window = ["2026-01-01"]\n')
    if stated == "dataset":
        (folder / "run.toml").write_text((folder / "run.toml").read_text().replace('"clicks"', f'"{QUOTED}"'))
    done = dpcli(*words.split(), *ASKING[words], folder=folder)
    assert done.code == 2 and QUOTED[:56] in done.err, done.err  # a window is quoted in part


@of_each("words", GIVEN)
def test_blocks_that_are_given_are_refused_by_the_name_they_were_given_under(folder: Path, words: str) -> None:
    put(folder, "")
    line = check(folder, words, GIVEN[words])
    assert "--w" in line or "BLOCKS: expected a day" in line


def test_the_words_that_are_exchanged_are_the_ledgers(folder: Path) -> None:
    """Where the ledger says it otherwise, a command without the flag would point at it."""
    from dpcli.file.pipeline.datasets import FLAG_HINT, WINDOW_FLAG

    put(folder, "")
    said = dpcli("budget", "spend", "l.db", "run.toml", "--key", "a", folder=folder).err
    assert WINDOW_FLAG in said and FLAG_HINT in said
