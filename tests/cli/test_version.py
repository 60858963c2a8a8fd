"""Tests of dpcli version: the lines that a report states, and the formats in its JSON."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator

import jsonschema
import pytest

import dpcli as package
from dpcli.disclosure.documents.disclosure import FORMS
from dpcli.document.schemas import SCHEMAS
from dpcli.ledger.stores import postgres_install, sqlite_file
from tests.command import ROOT, dpcli
from tests.syntax_trees import nodes

WORDS = {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}
MACHINE = {
    "type": "object",
    "required": ["schema", "version", "python", "platform", "packages", "extras", "formats", "schemas", "exit_code"],
    "additionalProperties": False,
    "properties": {
        "schema": {"const": "dpcli/version/v1"},
        "version": {"const": package.__version__},
        "python": {"const": platform.python_version()},
        "platform": {"const": platform.platform()},
        "packages": {**WORDS, "required": ["click", "numpy", "scipy", "rich"]},
        "extras": WORDS,
        "formats": {
            "type": "object",
            "required": ["file", "ledger_sqlite", "ledger_postgresql"],
            "additionalProperties": {"type": "integer", "minimum": 1},
        },
        "schemas": {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": r"^dpcli/[a-z-]+/v[1-9]\d*$"}},
        "exit_code": {"const": 0},
    },
}


def machine() -> dict[str, object]:
    """What -f json prints."""
    found: dict[str, object] = json.loads(dpcli("version", "-f", "json").out)
    return found


def test_the_text_is_a_line_for_each_version() -> None:
    lines = [f"dpcli {package.__version__}", f"python {platform.python_version()}"]
    lines += [f"{name} {importlib.metadata.version(name)}" for name in ("click", "numpy", "scipy", "rich")]
    for flags in ((), ("-f", "text")):
        result = dpcli("version", *flags)
        assert (result.code, result.out.splitlines(), result.err) == (0, lines, "")


def test_the_machine_form() -> None:
    jsonschema.validate(machine(), MACHINE)


def test_the_formats_are_those_that_are_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def accepted(number: int) -> bool:
        text = (ROOT / "examples" / "dp-sgd.toml").read_text().replace("format = 1", f"format = {number}")
        return dpcli("account", "-", "-f", "total", stdin=text.encode()).code == 0

    newest = machine()["formats"]
    assert isinstance(newest, dict) and accepted(newest["file"]) and not accepted(newest["file"] + 1)
    monkeypatch.setattr(sqlite_file, "VERSION", 8)
    monkeypatch.setattr(postgres_install, "VERSION", 9)
    assert machine()["formats"] == {**newest, "ledger_sqlite": 8, "ledger_postgresql": 9}


@pytest.mark.long
def test_every_schema_of_the_code_is_listed() -> None:
    assert set(stated()) == set(SCHEMAS) and machine()["schemas"] == list(SCHEMAS) == sorted(SCHEMAS)


def stated() -> Iterator[str]:
    """Each schema that a module states as a text of its own, and those that are made of the name of a form."""
    for path in (ROOT / "dpcli").rglob("*.py"):
        if path.name != "schemas.py":
            values = (node.value for node in nodes(path) if isinstance(node, ast.Constant))
            yield from (text for text in values if isinstance(text, str) and re.fullmatch(r"dpcli/[a-z-]+/v\d+", text))
    yield from (f"dpcli/{name}/v1" for name in FORMS)


def test_a_package_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of an extra, and one without which little runs: `dpcli doctor` says what is then to be done."""
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("duckdb", "rich"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.2.3" if name == "torch" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = machine()
    extras, packages = found["extras"], found["packages"]
    assert isinstance(extras, dict) and "duckdb" not in extras and extras["torch"] == "1.2.3"
    assert isinstance(packages, dict) and list(packages) == ["click", "numpy", "scipy"]
