"""Tests of the reason that a charge records: the command, the file and the name of the pipeline, in the same words everywhere."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import dpcli as package
from dpcli.file.pipeline.read import parse
from dpcli.ledger.stores.places import init
from dpcli.sessions.charged import reason
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.filters.setting import DATASET, run, terms

COMMANDS = ("train", "predict", "release", "sweep")
FILE = b"""
format = 1
%s[privacy]
unit = "example"
adjacency = "add-remove"
[[mechanism]]
name = "x"
type = "pure-dp"
epsilon = 1.0
"""
CHARGES = {"session charge": 3, "charge_run": 3, "SweepCharges": 1, "reserve": None}  # where they take it; None: by name


def charges() -> list[tuple[str, ast.expr]]:
    """The reason of every charge that a command makes, with its place."""
    found = []
    for file in (path for name in COMMANDS for path in Path(package.__path__[0], name).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            name = getattr(getattr(call, "func", None), "id", getattr(getattr(call, "func", None), "attr", ""))
            if not isinstance(call, ast.Call):
                continue
            if name == "charge" and call.args and getattr(call.args[0], "id", "") == "session":
                name = "session charge"
            if name not in CHARGES:
                continue
            named = [word.value for word in call.keywords if word.arg == "why"]
            at = CHARGES[name]
            found += [(f"{file.name}:{call.lineno}", why) for why in named or ([] if at is None else call.args[at : at + 1])]
    return found


@pytest.mark.long
def test_every_command_that_charges_says_it_in_the_same_words() -> None:
    found = charges()
    assert len(found) >= 7
    own = [
        place
        for place, why in found
        if not {"reason", "why"} & {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(why)}
    ]
    assert own == []


@pytest.mark.parametrize(("name", "said"), [(b"", ""), (b'name = "clicks-week"\n', " (clicks-week)")], ids=["nameless", "named"])
def test_a_name_is_said_where_there_is_one(name: bytes, said: str) -> None:
    assert reason("pate label", "folder/week.toml", parse(FILE % name, "week.toml")) == f"dpcli pate label week.toml{said}"


@of_each("command, form", [(command, form) for command in ("show", "log") for form in ("text", "table", "json", "csv", "markdown")])
def test_show_and_log_tell_it_in_every_format(command: str, form: str, tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    with init(path, DATASET, terms(1.0)) as ledger:
        ledger.spend(run(), "d5f1ae46b9f24c40", why="dpcli release week.toml (clicks-week)")
        ledger.spend(run(), "by-hand")
    result = dpcli("budget", command, path, "-f", form)
    assert result.code == 0, result.err
    assert "clicks-week" in result.out.replace("\n", "")
    if (command, form) == ("show", "json"):
        assert [one["why"] for one in json.loads(result.out)["runs"]] == ["dpcli release week.toml (clicks-week)", None]
