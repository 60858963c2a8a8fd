"""Whoever opens a ledger closes it: every command that takes one, whether it succeeds or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from dpcli.cli.budget.group import SUBCOMMANDS
from dpcli.cli.main import COMMANDS, cli
from tests.command import ROOT, Result, dpcli, needed
from tests.predict.samples import saved, written

TERMS = ("--unit", "user", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "1e-6", "--filter", "approx-dp")
FILE = """
format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 1
delta = 1e-6
[budget]
epsilon = 1.0
[[mechanism]]
name = "count"
type = "pure-dp"
epsilon = 0.1
"""
# What the parameters that a command requires are given, by name.
VALUES = {
    **dict(zip((flag.strip("-") for flag in TERMS[::2]), TERMS[1::2], strict=True)),
    "name": "approx-dp",
    "dataset": "visits",
    "key": "waiting",
    "why": "it was asked for",
    "blocks": "2026-01-01",
    "entry": "2",
    "share": "0.5",
}


def walked(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that takes a ledger, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from walked(command, *before, name)
        elif any(parameter.name in ("ledger", "ledgers") for parameter in command.params):
            yield (*before, name), command


def arguments_of(command: click.Command, ledger: str, file: Path, folder: Path) -> list[str]:
    """The arguments, the ledger, and what is required besides."""
    beside = {"target": "new.db", "history": "history.csv"}
    values = VALUES | {"ledger": ledger, "ledgers": ledger, "file": str(file), "files": str(file)}
    values |= {name: str(folder / place) for name, place in beside.items()}
    named = {one.name or "": one for one in command.params if needed(one) or isinstance(one, click.Argument)}
    named |= {one.name or "": one for one in command.params if one.name == "ledger" or "--filter" in one.opts}
    return [
        word
        for name, one in named.items()
        for word in ([values[name]] if isinstance(one, click.Argument) else [one.opts[0], values[name]])
    ]


ALL = dict(walked(cli))


def marks(words: tuple[str, ...]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs("torch")] if words[0] in ("train", "sweep") else []


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Every connection that is opened from now on, kept from being collected."""
    found: list[sqlite3.Connection] = []
    real = sqlite3.connect

    def connect(*arguments: Any, **settings: Any) -> sqlite3.Connection:
        found.append(real(*arguments, **settings))
        return found[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    return found


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def opened(path: Path, dataset: str) -> None:
    assert dpcli("budget", "init", str(path), "--dataset", dataset, *TERMS).code == 0


def called(words: tuple[str, ...], folder: Path, ledger: str | None = None) -> Result:
    """A command about a ledger; about the one in the folder where None."""
    (folder / "run.toml").write_text(FILE)
    (folder / "history.csv").write_text("date,key,file\n2024-01-01,past,run.toml\n")
    file = {
        "train": "digits.toml",
        "sweep": "digits-sweep.toml",
        "prompt": "prompt-pate.toml",
        "generate": "private-text.toml",
        "fit": "pmixed.toml",
        "release": "release.toml",
    }.get(words[-1])
    if words[0] == "pate":
        saved(folder)
        written(folder).rename(folder / "run.toml")
    if words[-1] == "plan":
        (folder / "plan.toml").write_text('format = 1\n[[run]]\nfile = "run.toml"\nfrom = 2026-01-01\n')
        file = str(folder / "plan.toml")
    own = ROOT / "examples" / file if file else folder / "run.toml"
    given = arguments_of(ALL[words], ledger or str(folder / "ledger.db"), own, folder)
    if words[0] == "comment":
        dpcli("gate", "run.toml", "-o", "json=before.json", folder=folder)
        given += ["--baseline", "before.json", "--dry-run"]
    given += {"amend": ["--approver", "ben"], "quota": ["--person", "ben"]}.get(words[-1], [])
    return dpcli(*words, *given, folder=folder)


def test_every_subcommand_of_budget_is_among_them() -> None:
    assert {words[1] for words in ALL if words[0] == "budget"} == set(SUBCOMMANDS)
    assert {words[0] for words in ALL} <= set(COMMANDS)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("state", ["there", "one of several", "of a later version", "missing"])
@pytest.mark.parametrize("words", [pytest.param(words, id=" ".join(words), marks=marks(words)) for words in ALL])
def test_a_command_closes_every_ledger_that_it_opens(
    words: tuple[str, ...], state: str, tmp_path: Path, connections: list[sqlite3.Connection]
) -> None:
    path = tmp_path / "ledger.db"
    if state != "missing":
        opened(path, "visits" if words[-1] != "init" else "clicks")
        (tmp_path / "run.toml").write_text(FILE)
        dpcli("budget", "reserve", str(path), str(tmp_path / "run.toml"), "--key", "waiting")
    if state == "one of several":
        opened(path, "purchases")
    if state == "of a later version":
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    assert not any(map(is_open, connections))
    before = len(connections)
    result = called(words, tmp_path)
    assert result.code in (0, 1, 2, 3, 4)
    assert len(connections) > before or state != "there", "it opened none: the test asks nothing"
    assert not any(map(is_open, connections)), result
