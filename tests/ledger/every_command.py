"""A list of all commands that take a ledger, with the arguments by which a test calls each of them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.cli.commands import commands
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
# The values of the parameters that a command requires, by name.
VALUES = {
    **dict(zip((flag.strip("-") for flag in TERMS[::2]), TERMS[1::2], strict=True)),
    "filter": "approx-dp",
    "dataset": "visits",
    "key": "waiting",
    "why": "it was asked for",
    "blocks": "2026-01-01",
    "entry": "2",
    "share": "0.5",
    "per_day": "100",
    "finding": "entry 2",
}


def arguments_of(command: click.Command, ledger: str, file: Path, folder: Path) -> list[str]:
    """Return the arguments of a command with the ledger and its other required options."""
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


ALL = {
    words: command for words, command in commands() if any(parameter.name in ("ledger", "ledgers") for parameter in command.params)
}


def marks(words: tuple[str, ...]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs("torch")] if words[0] in ("train", "sweep") else []


def called(words: tuple[str, ...], folder: Path, ledger: str | None = None) -> Result:
    """Run a command about a ledger; None for the ledger in the folder."""
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
