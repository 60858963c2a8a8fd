"""Tests that every command which opens a ledger closes it, whether it succeeds or fails."""

from __future__ import annotations

import importlib.util
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.registry import COMMANDS
from dpcli.ledger.plugin import SUBCOMMANDS
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.every_command import ALL, FILE, TERMS, called, marks


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


def test_every_subcommand_of_budget_is_among_them() -> None:
    assert {words[1] for words in ALL if words[0] == "budget"} == set(SUBCOMMANDS)
    assert {words[0] for words in ALL} <= set(COMMANDS)


STATES = ("there", "one of several", "of a later version", "missing")
HERE = [words for words in ALL if not marks(words) or importlib.util.find_spec("torch")]
OF_A_SECTION = [("pmixed", "predict")]  # which stops first, as the file has no [pmixed]
QUICK = list(zip(HERE, itertools.cycle(STATES), strict=False))


@pytest.mark.long
@of_each("words, state", QUICK)
def test_a_command_closes_every_ledger_that_it_opens(
    words: tuple[str, ...], state: str, tmp_path: Path, connections: list[sqlite3.Connection]
) -> None:
    all_closed(words, state, tmp_path, connections)


@pytest.mark.nightly
@pytest.mark.long
@of_each("words, state", [case for case in itertools.product(HERE, STATES) if case not in QUICK])
def test_a_command_closes_every_ledger_whatever_it_finds(
    words: tuple[str, ...], state: str, tmp_path: Path, connections: list[sqlite3.Connection]
) -> None:
    all_closed(words, state, tmp_path, connections)


def all_closed(words: tuple[str, ...], state: str, tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
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
    assert len(connections) > before or state != "there" or words in OF_A_SECTION, "it opened none: the test asks nothing"
    assert not any(map(is_open, connections)), result
