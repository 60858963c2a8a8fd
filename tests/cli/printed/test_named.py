"""Tests that no command overwrites what its pipeline file names: data, scores, votes, and the file itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dpcli.base.errors import InputError
from dpcli.cli.groups import LazyGroup
from dpcli.cli.main import cli
from dpcli.cli.outputs import require_no_input
from dpcli.train.run.outcome import RESULT_FILES, left_by_run
from tests.cases import of_each
from tests.command import ROOT, dpcli, needed

SHOP = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
[source]
path = "shop.csv"
columns = { age = { type = "integer", min = 0, max = 115 } }
[[query]]
name = "people"
measure = "count"
epsilon = 1.0
"""
LEARNT = (ROOT / "examples" / "digits.toml").read_text().replace('"digits"', '"shop.csv"')
DATA = b"age\n34\n"
PATTERN = SHOP.replace("shop.csv", "*.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.csv").write_bytes(DATA)
    (tmp_path / "shop.toml").write_text(SHOP)
    return tmp_path


def reporting(group: LazyGroup, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that takes -o, with its words."""
    for name in group.list_commands(context := click.Context(group)):
        command = group.get_command(context, name)
        if isinstance(command, LazyGroup):
            yield from reporting(command, *names, name)
        elif command is not None and any("-o" in one.opts for one in command.params):
            yield (*names, name), command


def arguments_of(command: click.Command) -> Iterator[str]:
    """The file, as each argument that the command takes, and as each option that it must have."""
    for one in command.params:
        if isinstance(one, click.Argument):
            yield "shop.toml"
        elif needed(one):
            yield from (one.opts[-1], "1" if one.type.name in ("float", "integer") else "shop.toml")


REPORTING = {
    words: given for words, command in reporting(cli) if (given := tuple(arguments_of(command)))
}  # which of them read a file


@pytest.mark.long
@of_each("words", REPORTING)
def test_no_command_writes_over_what_the_file_names(words: tuple[str, ...], folder: Path) -> None:
    """Whether it could read the file, refused it, or took it for something else; nor an error over either."""
    for output in ("json=shop.csv", "svg=shop.csv", "shop.csv", "json=./shop.toml"):
        given = [*words, *REPORTING[words], "-o", output]
        dpcli(*given, folder=folder)
        dpcli(*given, "--unknown", folder=folder)
        assert (folder / "shop.csv").read_bytes() == DATA and (folder / "shop.toml").read_text() == SHOP, given


@of_each("text", [SHOP, LEARNT, SHOP + "[gate\n", SHOP.replace("epsilon = 1.0", "epsilon = nan"), PATTERN])
@of_each("given", ["account.toml", "-"])
def test_whatever_table_names_it(text: str, given: str, folder: Path) -> None:
    (folder / "account.toml").write_text(text)
    result = dpcli("account", given, "-o", "csv=shop.csv", stdin=text.encode() if given == "-" else b"", folder=folder)
    assert result.code == 2 and (folder / "shop.csv").read_bytes() == DATA
    assert "[gate" in text or "nan" in text or f"found a file that {given} names" in result.err


def test_what_it_does_not_name_is_written_over(folder: Path) -> None:
    for path in ("report.csv", "report.json"):
        for _ in range(2):
            assert dpcli("account", "shop.toml", "-o", path, folder=folder).code == 0
        assert (folder / path).stat().st_size > 100


def test_what_a_pattern_would_take_is_not_written(folder: Path) -> None:
    (folder / "shop.toml").write_text(PATTERN)
    assert dpcli("account", "shop.toml", "-o", "new.csv", folder=folder).code == 2
    assert not (folder / "new.csv").exists()


def test_it_is_refused_before_anything_is_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcli.analysis.account.account", None)
    assert "found a file that shop.toml names" in dpcli("account", "shop.toml", "-o", "shop.csv", folder=folder).err


@of_each("name", RESULT_FILES)
def test_no_file_of_a_run_is_written_over(tmp_path: Path, name: str) -> None:
    """However it is spelled, by what is asked of the run; a report beside them may be written again."""
    run = tmp_path / "run"
    run.mkdir()
    for file in RESULT_FILES:
        (run / file).write_text("as it was left")
    (tmp_path / "link").symlink_to(run)
    os.link(run / name, tmp_path / "hard")
    (run / "report.md").write_text("of yesterday")
    for path in (f"run/{name}", f"link/../run/./{name}", f"link/{name}", str(run / name), "hard"):
        assert left_by_run(str(run), str(tmp_path / path))
        with contextlib.chdir(tmp_path), pytest.raises(InputError, match="found a file of the run in run"):
            require_no_input(path, ["run"])
    require_no_input(str(run / "report.md"), [str(run)])
