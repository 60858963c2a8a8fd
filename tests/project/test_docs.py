"""Documentation that cannot rot: README's commands and Python run, the manual is what the code would write, every name is there.

`UPDATE_DOCS=1 pytest tests/project/test_docs.py` rewrites README's outputs and the manual pages.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import click
import pytest

from dpcli.base.registry import ACCOUNTANTS, CHART_FORMATS, COMMANDS, FORMATS, MECHANISMS, PLOTS, SAMPLING
from dpcli.cli.main import cli
from dpcli.document.formats.troff import ESCAPES, literal_text
from dpcli.explain.commands import man
from dpcli.explain.topics import TERMS, TOPICS, topic
from dpcli.file.keys.annotations import keys_of
from dpcli.file.pipeline.key_places import tables
from dpcli.file.pipeline.section import TablePlace
from dpcli.gate.policy import KEYS
from dpcli.ledger.planning.schedule import KEYS as SCHEDULE
from dpcli.ledger.plugin import FILTERS, SUBCOMMANDS
from dpcli.lint.catalogue import ELSEWHERE, LEDGER_RULES, codes
from dpcli.predict.commands.pmixed import SUBCOMMANDS as PMIXED
from dpcli.release.plugin import MEASURES
from dpcli.train.plugin import STYLES, TASKS
from tests.cases import of_each
from tests.command import ROOT, dpcli

README = ROOT / "README.md"
TEXTS = [README, *sorted((ROOT / "dpcli" / "explain").glob("*.md"), reverse=True)]
UPDATE = bool(os.environ.get("UPDATE_DOCS"))
FENCED = re.compile(r"^```(?P<kind>\w+)(?: (?P<name>\S+))?\n(?P<body>.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^\$ (.*)$", re.M)

# What differs from run to run, and what stands for it.
VARYING = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "2026-11-21T09:00:00Z",
    r"\b[0-9a-f]{64}\b|(?<=head )[0-9a-f]{16}\b": "5f2d8c40b1e7a936",
    r"\b[0-9a-f]{32}\b": "e810adfba0d248678cf5c85fed31d28d",
    r"accuracy 0\.9\d+(?! on 299)": "accuracy 0.9389",
    r"accuracy 0\.\d+ on 299": "accuracy 0.9064 on 299",
    r"(?m)^step [\d,]+ of [\d,]+, .* left\n": "",  # of a run that takes long, as on a busy machine
    r"about [\d.]+ s on this machine and [\d,]+ MB": "about 0.6 s on this machine and 439 MB",
}

FEWEST = {
    "README.md": 5,
    "certify.md": 2,
    "threats.md": 0,
    "definitions.md": 0,
    "glossary.md": 0,
}  # sessions in a text; people and words have none
DEAR = {"README.md", "certify.md", "gate.md", "tutorial.md", "training.md"}  # what their commands do takes seconds
DEAREST = {"private-prediction.md"}  # teachers and students are fitted, which takes a minute
named = of_each("path", TEXTS, told=lambda path: path.name)
ESCAPED = {*ESCAPES.values(), "\\&", "\\fB", "\\fP"}
OF_OTHERS = {"--nproc-per-node"}  # flags of torchrun


@named
def test_a_text_shows_no_path_of_this_machine(path: Path) -> None:
    assert not re.search(r"/tmp/|/home/|/root/|" + re.escape(str(ROOT)), path.read_text())


@functools.cache
def pages() -> dict[str, str]:
    return man.pages()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.nightly if path.name in DEAREST else pytest.mark.long if path.name in DEAR else ())
        for path in TEXTS
    ],
    ids=lambda path: path.name,
)
def test_a_text_prints_what_it_says(path: Path, tmp_path: Path) -> None:
    """Files are saved and commands run in the order of the text, in one folder."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("runs", "__pycache__"))
    (tmp_path / "tests" / "vectors").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "vectors" / "readme.toml", tmp_path / "tests" / "vectors")
    text = path.read_text()
    if "\n$ dpcli train " in text:
        pytest.importorskip("torch", reason="the text trains a model, and torch is not installed")
    fresh = FENCED.sub(lambda block: done(block, tmp_path), text)
    if UPDATE:
        path.write_text(fresh)
    assert fresh == text or UPDATE
    assert len(re.findall("^```console$", text, re.M)) >= FEWEST.get(path.name, 4)


def done(block: re.Match[str], folder: Path) -> str:
    """The block itself, a session with what it prints now."""
    if block["name"]:
        (folder / block["name"]).write_text(block["body"])
    if block["kind"] != "console":
        return block[0]
    session = "".join(f"$ {line}\n{output(line, folder)}" for line in COMMAND.findall(block["body"]))
    return f"```console\n{session}```"


def output(line: str, folder: Path) -> str:
    """What a command prints, with what differs from run to run replaced."""
    printed = own(line, folder) if line.startswith("dpcli ") else shell(line, folder)
    for pattern, constant in VARYING.items():
        printed = re.sub(pattern, constant, printed)
    return printed.replace(f"{folder.resolve()}/", "")


def own(line: str, folder: Path) -> str:
    words, _, saved = line.partition(" > ")
    with mock.patch("dpcli.ledger.entry_log.account_name", return_value="ana"):
        result = dpcli(*shlex.split(words)[1:], folder=folder)
    if saved:
        (folder / saved).write_text(result.out)
    return (result.out if not saved else "") + result.err


def shell(line: str, folder: Path) -> str:
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=True).stdout


def blocks(kind: str) -> list[str]:
    """The blocks of a kind in all texts."""
    return [block["body"] for path in TEXTS for block in FENCED.finditer(path.read_text()) if block["kind"] == kind]


def test_python_runs() -> None:
    out = io.StringIO()
    for code in (body for body in blocks("python") if "import dpcli" in body):
        with contextlib.redirect_stdout(out), contextlib.chdir(ROOT):
            exec(compile(code, "tutorial.md", "exec"), {})
    first, priced, calibrated, at_once, imported, planned = out.getvalue().splitlines()
    assert (first, priced, at_once, imported) == ("True 1e-06", "True 1e-05 rdp", "True True", "True")
    assert calibrated.endswith("True True")
    assert planned.startswith("True within ")


@of_each("text", lambda: [body for body in blocks("toml") if "[privacy]" in body and "[train]" not in body])
def test_a_file_in_a_text_is_a_good_pipeline(text: str) -> None:
    assert dpcli("account", "-", "-f", "total", stdin=text.encode()).code == 0
    for command in ("account", "lint", "gate"):
        assert "warning" not in dpcli(command, "-", stdin=text.encode()).out.replace("0 warnings", "")


def test_readme_shows_the_example_that_it_prices() -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.S)
    assert (ROOT / "examples" / "dp-sgd.toml").read_text().partition("\n")[2] == shown


def test_readme_links_to_what_there_is() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README.read_text())
    assert len(links) >= 5
    for link in links:
        assert (ROOT / link).is_file(), link


def context_of_cli() -> click.Context:
    """As it is when the program runs: click keeps on a command the help options that it is first asked for."""
    return click.Context(cli, info_name="dpcli", **cli.context_settings)


def parsed(words: list[str]) -> list[str]:
    """The flags that a command line has; raises what click says of a command or a flag that does not exist, or of a missing one."""
    context = context_of_cli()
    command: click.Command = cli
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        context, command = click.Context(found, parent=context, info_name=name), found
    parser = command.make_parser(context)
    values, _, _ = parser.parse_args(list(words))
    return list(values)


@of_each("line", lambda: [line for body in blocks("sh") for line in body.splitlines() if "dpcli " in line and "GRANT" not in line])
def test_a_command_that_a_text_does_not_run_exists(line: str) -> None:
    words = shlex.split(line)
    assert parsed(words[words.index("dpcli") + 1 :])


@named
def test_every_flag_and_command_in_a_text_exists(path: Path) -> None:
    text = path.read_text()
    known = {flag for _, command in commands() for parameter in command.params for flag in parameter.opts}
    for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", FENCED.sub("", text))) - OF_OTHERS:
        assert flag in known, flag
    for name in re.findall(r"`dpcli ([a-z][a-z-]*)", text):
        assert name in COMMANDS, name


def commands() -> list[tuple[str, click.Command]]:
    """Every command and subcommand, as it is typed."""
    context = context_of_cli()
    found = [(name, command) for name in COMMANDS if (command := cli.get_command(context, name))]
    groups = [(name, group) for name, group in found if isinstance(group, click.Group)]
    below = [(f"{name} {sub}", group.get_command(context, sub)) for name, group in groups for sub in group.list_commands(context)]
    return [("", cli), *found, *((name, command) for name, command in below if command)]


@of_each("name", pages)
def test_a_page_refers_to_pages_that_exist(name: str) -> None:
    for other, section in re.findall(r"\b(dpcli[\w-]*)\(([1-8])\)", unescaped(name)):
        assert f"{other}.{section}" in pages()


def test_manual_pages_are_what_the_code_would_write() -> None:
    folder = ROOT / "man"
    if UPDATE:
        for name, text in pages().items():
            (folder / name).write_text(text)
    assert {path.name: path.read_text() for path in folder.iterdir()} == pages()


@of_each("name", pages)
def test_a_page_is_plain_roff(name: str) -> None:
    """No text is taken for a request, none needs more than ASCII, and bold text has no asterisks left."""
    assert not re.search(r"\*\*\w", re.sub(r"(?s)\n\.nf\n.*?\n\.fi\n", "", pages()[name]))
    known = (".TH ", ".SH ", ".PP", ".TP", ".B ", ".nf", ".fi")
    for line in pages()[name].splitlines():
        assert line.isascii()
        assert line.startswith(known) or line[:1] not in (".", "'"), line
        assert set(re.findall(r"\\(?:\[u[0-9A-F]{4,6}\]|\(\w\w|f\w|.)", line)) <= ESCAPED | set(
            re.findall(r"\\\[u[0-9A-F]{4,6}\]", line)
        ), line


def test_manual_pages_speak_toml_and_no_python() -> None:
    """No True, False or None, no default that is the repr of an object, and no text of one line that is called a table."""
    for name, text in pages().items():
        assert not re.search(r"\b(True|False|None)\b|default \w+\(|`spec`", text), name
        assert "is responsible for the exception (table" not in text, name


def test_readme_is_short() -> None:
    assert len(README.read_text().split()) <= 1440


@of_each("name", [*COMMANDS, *SUBCOMMANDS])
def test_every_command_is_in_readme(name: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", README.read_text())


@functools.cache
def unescaped(name: str) -> str:
    """A page of the manual with its characters as they are read."""
    text = re.sub(r"\\fB(.*?)\\fP", r"`\1`", pages()[name])
    for escaped, character in (("\\&", ""), *((escaped, character) for character, escaped in ESCAPES.items())):
        text = text.replace(escaped, character)
    return re.sub(r"\\\[u([0-9A-F]+)\]", lambda code: chr(int(code[1], 16)), text)


def terms(name: str) -> set[str]:
    """The words that a page of the manual defines."""
    return set(re.findall(r"^\.TP\n\.B (.+)$", unescaped(name), re.M))


@of_each(
    "manual_page, names",
    [
        (
            "dpcli.1",
            [*(f"dpcli {name}" for name in COMMANDS), *ACCOUNTANTS, *FILTERS, *FORMATS, *codes(), *ELSEWHERE, *LEDGER_RULES],
        ),
        ("dpcli-budget.1", [f"dpcli budget {name}" for name in SUBCOMMANDS]),
        ("dpcli-pmixed.1", [f"dpcli pmixed {name}" for name in PMIXED]),
        ("dpcli-tutorial.7", [*MECHANISMS, *SAMPLING, *ACCOUNTANTS, *FORMATS, *PLOTS, *CHART_FORMATS]),
        ("dpcli-ledger.7", FILTERS),
        ("dpcli-glossary.7", TERMS),
    ],
)
def test_every_name_is_in_the_manual(manual_page: str, names: Iterable[str]) -> None:
    assert set(names) - terms(manual_page) == set()


@functools.cache
def places() -> list[tuple[str, TablePlace]]:
    """Every table of every kind of file, with the page that describes it."""
    kinds = (("dpcli-pipeline.5", tables()), ("dpcli-policy.5", tables(KEYS)), ("dpcli-schedule.5", tables(SCHEDULE)))
    return [(page, place) for page, found in kinds for place in found]


@of_each("page, place", places, told=lambda case: case[1].title)
def test_every_key_is_in_the_manual_under_its_table(page: str, place: TablePlace) -> None:
    """With what it takes, what it means and its default: each table's, and each word's that selects keys."""
    _, *found = unescaped(page).split(f"\n.SH {place.title.upper()}\n")
    (section,) = (text.partition("\n.SH ")[0] for text in found)
    assert section.count("\n.TP\n") == len(place.members)
    for key in keys_of(place.members):
        assert f".TP\n.B {key.name}\n{key.doc} ({key.takes}; {key.default}).\n" in f"{section}\n"


def test_no_task_style_type_or_scheme_is_missing_in_the_manual() -> None:
    assert [place.selector_value for _, place in places() if place.selector_value] == [
        *SAMPLING,
        *MECHANISMS,
        *MEASURES,
        *STYLES,
        *TASKS,
    ]


@of_each("name", COMMANDS)
def test_short_help_is_the_same_in_the_table_and_on_the_command(name: str) -> None:
    command = cli.get_command(context_of_cli(), name)
    assert command is not None
    assert command.short_help == COMMANDS[name][1]
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help  # type: ignore[attr-defined]


@of_each("name", [*ACCOUNTANTS, *MECHANISMS, *SAMPLING, *TASKS, *STYLES, *codes(), *TERMS, *TOPICS])
def test_every_name_is_explained(name: str) -> None:
    result = dpcli("explain", name)
    assert result.code == 0
    assert len(result.out.strip().splitlines()) >= 3


def test_a_page_of_the_manual_shows_no_table_and_no_heading_as_text() -> None:
    """Tables are set as columns, and headings of a third level do not exist."""
    for name in TOPICS:
        for section in topic(name).sections:
            blocks = [*section.paragraphs, *(definition for _, definition in section.terms)]
            assert not [block for block in blocks if literal_text(block) is None and re.search(r"(?m)^ *(\| |#+ )", block)], (
                name,
                section.title,
            )


def test_examples_folder_is_documented_by_its_files() -> None:
    for path in Path(ROOT / "examples").glob("*.toml"):
        assert path.read_text().startswith("# ")
