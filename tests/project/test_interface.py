"""What is promised: .github/docs/interface.txt has a line for each name that others rely on, and documents.json the JSON that they read.

`UPDATE_DOCS=1 pytest tests/project/test_interface.py` writes the lines anew. CONTRIBUTING says what a line that goes, or changes, asks for.
"""

from __future__ import annotations

import ast
import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest

import dpcli
from dpcli.base import errors
from dpcli.base.registry import ACCOUNTANTS, CHART_FORMATS, COMMANDS, FORMATS, MECHANISMS, PLOTS, SAMPLING
from dpcli.cli.main import cli
from dpcli.document.schemas import SCHEMAS
from dpcli.file.keys.annotations import keys_of
from dpcli.file.pipeline.key_places import tables
from dpcli.gate.policy import KEYS
from dpcli.ledger.planning.schedule import KEYS as SCHEDULE
from dpcli.ledger.plugin import FILTERS
from dpcli.lint.catalogue import ELSEWHERE, LEDGER_RULES, codes
from tests import json_documents
from tests.command import ROOT
from tests.command import dpcli as run
from tests.json_documents import definition, faults, widened
from tests.syntax_trees import tree

PLACE = ROOT / ".github" / "docs" / "interface.txt"


def promised() -> Iterator[str]:
    """Yield a line for each thing that is promised."""
    yield from python()
    yield from commands("dpcli", cli, click.Context(cli, info_name="dpcli", **cli.context_settings))
    yield from (
        f"exit code {error.exit_code}: {name}" for name, error in sorted(vars(errors).items()) if hasattr(error, "exit_code")
    )
    yield from (f"document {name}" for name in SCHEMAS)
    formats = json.loads(run("version", "-f", "json").out)["formats"]
    yield from (f"format {name} {number}" for name, number in formats.items())
    for kind, places in (("pipeline", tables()), ("policy", tables(KEYS)), ("schedule", tables(SCHEDULE))):
        for place in places:
            yield from (f"key of {kind}, {place.title}: {key.name}" for key in keys_of(place.members))
    for kind, names in (
        ("mechanism", MECHANISMS),
        ("sampling scheme", SAMPLING),
        ("accountant", ACCOUNTANTS),
        ("filter", FILTERS),
        ("rule", [*codes(), *ELSEWHERE, *LEDGER_RULES]),
        ("output format", FORMATS),
        ("plot", PLOTS),
        ("picture format", CHART_FORMATS),
    ):
        yield from (f"{kind} {name}" for name in names)


def commands(words: str, command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield each argument and flag of a command, and of those below it."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(f"{words} {name}", below, context)
    elif words.partition(" ")[2].partition(" ")[0] in COMMANDS:
        yield f"command {words}"
    for parameter in command.params:
        for flag in parameter.opts if isinstance(parameter, click.Option) else [str(parameter.make_metavar(context))]:
            yield f"command {words} {flag}"


def python() -> Iterator[str]:
    """Yield each name of `dpcli.__all__` with its signature, read from the source: nothing is imported."""
    (typed,) = (node for node in tree(Path(dpcli.__file__)).body if isinstance(node, ast.If))
    homes = {one.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for one in node.names}
    for name in dpcli.__all__:
        if name == "__version__":
            continue
        file = ROOT.joinpath(*str(homes[name]).split(".")).with_suffix(".py")
        (node,) = (node for node in tree(file).body if getattr(node, "name", "") == name)
        if isinstance(node, ast.ClassDef):
            yield f"python dpcli.{name}"
            yield from (f"python dpcli.{name}.{line}" for line in members(node))
        else:
            assert isinstance(node, ast.FunctionDef)
            yield f"python dpcli.{signature(node)}"


def members(node: ast.ClassDef) -> Iterator[str]:
    """Yield the public fields, properties and methods of a class, and how it is made."""
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_"):
            yield ast.unparse(one)
        elif isinstance(one, ast.FunctionDef) and (one.name == "__init__" or not one.name.startswith("_")):
            is_value = any("property" in ast.unparse(decorator) for decorator in one.decorator_list)
            yield f"{one.name}: {ast.unparse(one.returns)}" if is_value and one.returns else signature(one)


def signature(node: ast.FunctionDef) -> str:
    """Return a function's name, parameters and result."""
    return f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else None}"


@pytest.mark.long
def test_what_is_promised_is_there() -> None:
    lines = list(promised())
    assert len(lines) == len(set(lines)) > 1000
    if os.environ.get("UPDATE_DOCS"):
        PLACE.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    stated = PLACE.read_text("utf-8").splitlines()
    gone, new = [line for line in stated if line not in lines], [line for line in lines if line not in stated]
    assert not gone and not new, f"gone: {gone}; new: {new}; read CONTRIBUTING, 'What is promised', then UPDATE_DOCS=1 writes them"


@pytest.mark.long
def test_every_document_has_a_schema_that_is_valid() -> None:
    """As draft 2020-12, which editors and other languages read."""
    whole = json_documents.schema()
    jsonschema.Draft202012Validator.check_schema(whole)
    published = {node["properties"]["schema"]["const"] for name, node in whole["$defs"].items() if name != "error"}
    assert published == set(SCHEMAS) - json_documents.OF_FILES
    assert [one["$ref"] for one in whole["anyOf"]] == [f"#/$defs/{name}" for name in whole["$defs"]]


COMMAND_LINES = (
    "account examples/dp-sgd.toml",
    "calibrate-sigma --target-epsilon 3 --delta 1e-6 --batch-size 256 --dataset-size 60000 --steps 1406",
    "lint examples/gate.toml",
    "gate examples/gate.toml",
    "diff examples/dp-sgd.toml examples/mnist.toml",
    "explain examples/dp-sgd.toml",
    "report examples/dp-sgd.toml",
    "version",
)


@pytest.mark.long
def test_what_is_printed_is_what_is_published(tmp_path: Path) -> None:
    """By another program's reading of the schema. What every other test prints, `tests.command.dpcli` compares by its own."""
    whole = json_documents.schema()
    for line in COMMAND_LINES:
        document = json.loads(run(*line.split(), "-f", "json").out)
        name = definition(document["schema"])
        one = jsonschema.Draft202012Validator({**whole, "anyOf": [{"$ref": f"#/$defs/{name}"}]})
        assert not [error.message for error in one.iter_errors(document)], line
    written = tmp_path / "error.json"
    run("account", "absent.toml", "-o", str(written))
    assert jsonschema.Draft202012Validator(whole).is_valid(json.loads(written.read_text()))


def test_a_change_of_a_document_is_noticed() -> None:
    """A field that goes, one that comes, another type; what UPDATE_DOCS=1 then writes allows the change, and what was allowed before."""
    document = json.loads(run("version", "-f", "json").out)
    node = json_documents.schema()["$defs"][definition(document["schema"])]
    assert not list(faults(node, document, "it"))
    for change, words in (
        ({"exit_code": None}, "it.exit_code: expected integer, found null"),
        ({"exit_code": "0"}, "it.exit_code: expected integer, found string"),
        ({"more": 1.5}, "it: more is not listed"),
        ({"schemas": [1]}, "it.schemas[]: expected string, found integer"),
    ):
        changed = {**document, **change}
        assert list(faults(node, changed, "it")) == [words]
        wide = widened(copy.deepcopy(node), changed)
        assert not list(faults(wide, changed, "it")) and not list(faults(wide, document, "it")), words
    del document["platform"]
    assert list(faults(node, document, "it")) == ["it: lacks platform"]
