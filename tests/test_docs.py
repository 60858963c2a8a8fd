"""Documentation that cannot rot: README's commands and Python run, the manual is what the code would write, every name is there.

`UPDATE_DOCS=1 pytest tests/test_docs.py` rewrites README's outputs and the manual pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path
from unittest import mock

import pytest

from dpcli.cli.budget.group import SUBCOMMANDS
from dpcli.cli.main import COMMANDS, cli
from dpcli.cli.manual import pages
from dpcli.explain.glossary import TERMS
from dpcli.gate.policy_read import KEYS
from dpcli.keys.described import keys_of
from dpcli.lint.catalogue import codes
from dpcli.pipeline.key_places import tables
from dpcli.pipeline.table_places import TablePlace
from dpcli.registry import ACCOUNTANTS, FILTERS, FORMATS, MECHANISMS, SAMPLING, STYLES, TASKS
from tests.command import ROOT, dpcli

README = ROOT / "README.md"
UPDATE = bool(os.environ.get("UPDATE_DOCS"))
CONSOLE = re.compile(r"```console\n(?P<session>\$ dpcli .*?)```", re.S)
COMMAND = re.compile(r"^\$ dpcli (.*)$", re.M)


def test_readme_prints_what_it_says(tmp_path: Path) -> None:
    text = README.read_text()
    assert len(list(CONSOLE.finditer(text))) >= 6
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    fresh = CONSOLE.sub(lambda m: f"```console\n{session(m['session'], tmp_path)}```", text)
    if UPDATE:
        README.write_text(fresh)
    assert fresh == text or UPDATE


def session(block: str, folder: Path) -> str:
    """The commands of a block, one after the other in one folder, each with what it prints."""
    return "".join(f"$ dpcli {command}\n{output(command, folder)}" for command in COMMAND.findall(block))


def output(command: str, folder: Path) -> str:
    """What a command prints, with the time, the user and the hashes that differ from run to run replaced."""
    with mock.patch("dpcli.ledger.ledger.account_name", return_value="ana"):
        result = dpcli(*shlex.split(command), folder=folder)
    said = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-11-21T09:00:00Z", result.out + result.err)
    return re.sub(r"\b[0-9a-f]{64}\b|(?<=head )[0-9a-f]{16}\b", "5f2d8c40b1e7a936", said)


def test_readme_python_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.chdir(ROOT):
        exec(compile(code, "README.md", "exec"), {})
    assert out.getvalue().splitlines()[0] == "True rdp"
    assert out.getvalue().splitlines()[1].endswith("True True")


def test_readme_file_is_a_good_pipeline() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.S)
    assert dpcli("account", "-", "-f", "total", stdin=text.encode()).code == 0
    for command in ("account", "lint", "gate"):
        assert "warning" not in dpcli(command, "-", stdin=text.encode()).out.replace("0 warnings", "")


def test_manual_pages_are_what_the_code_would_write() -> None:
    folder = ROOT / "man"
    if UPDATE:
        for name, text in pages().items():
            (folder / name).write_text(text)
    assert {path.name: path.read_text() for path in folder.iterdir()} == pages()


def test_manual_pages_speak_toml_and_no_python() -> None:
    """No True, False or None, no default that is the repr of an object, and no text of one line that is called a table."""
    for name, text in pages().items():
        assert not re.search(r"\b(True|False|None)\b|default \w+\(|`spec`", text), name
        assert "who answers for it (table" not in text, name


@pytest.mark.parametrize("name", [*COMMANDS, *ACCOUNTANTS, *FILTERS, *FORMATS, *MECHANISMS, *SAMPLING, *SUBCOMMANDS])
def test_every_name_is_in_readme(name: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", README.read_text())


@pytest.mark.parametrize("name", [*COMMANDS, *ACCOUNTANTS, *FILTERS, *FORMATS, *codes()])
def test_every_name_is_in_the_manual(name: str) -> None:
    assert name.replace("-", "\\-") in (ROOT / "man" / "dpcli.1").read_text()


PLACES = [("dpcli-pipeline.5", place) for place in tables()] + [("dpcli-policy.5", place) for place in tables(KEYS)]


@pytest.mark.parametrize(("page", "place"), PLACES, ids=lambda value: getattr(value, "title", value))
def test_every_key_is_in_the_manual_under_its_table(page: str, place: TablePlace) -> None:
    """With what it takes, what it means and its default: each table's, and each word's that selects keys."""
    _, *found = (ROOT / "man" / page).read_text().replace("\\-", "-").split(f"\n.SH {place.title.upper()}\n")
    (section,) = (text.partition("\n.SH ")[0] for text in found)
    assert section.count("\n.TP\n") == len(place.members)
    for key in keys_of(place.members):
        assert f".TP\n.B {key.name}\n{key.doc} ({key.takes}; {key.default}).\n" in f"{section}\n".replace("\\&", "")


def test_no_task_style_type_or_scheme_is_missing_in_the_manual() -> None:
    assert [place.word for _, place in PLACES if place.word] == [*SAMPLING, *MECHANISMS, *STYLES, *TASKS]


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_is_the_same_in_the_table_and_on_the_command(name: str) -> None:
    import click

    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.short_help == COMMANDS[name][1]
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*ACCOUNTANTS, *MECHANISMS, *SAMPLING, *TASKS, *STYLES, *codes(), *TERMS])
def test_every_name_is_explained(name: str) -> None:
    result = dpcli("explain", name)
    assert result.code == 0
    assert len(result.out.strip().splitlines()) >= 3


def test_examples_folder_is_documented_by_its_files() -> None:
    for path in Path(ROOT / "examples").glob("*.toml"):
        assert path.read_text().startswith("# ")


def test_readme_counts_the_rules() -> None:
    from dpcli.lint.catalogue import ELSEWHERE, LEDGER_RULES, RULES

    assert f"{len(RULES)} lint rules, and explanations of {len(ELSEWHERE) + len(LEDGER_RULES)} failures" in README.read_text()
