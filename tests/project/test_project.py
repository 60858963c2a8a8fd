"""The files about the project itself: what runs before a commit is what CI runs, and the changelog names the version."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import dpcli
from tests.command import ROOT
from tests.syntax_trees import nodes


def test_hooks_before_a_commit_are_what_ci_runs_besides_the_tests() -> None:
    """Each hook takes nothing from a network: a tool of the project's own environment, with nothing but the line that CI has."""
    (repo,) = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if re.match(r"\.venv/bin/(ruff|mypy)\b", line)]
    assert [hook["entry"] for hook in repo["hooks"]] == lines
    for hook in repo["hooks"]:
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)
        assert hook["id"] and hook["name"]


def test_no_script_loses_the_failure_of_a_program_that_it_reads_from() -> None:
    """Bash forgets the exit code of what stands in <( ), whatever `set` says: what is then installed is what nobody listed."""
    scripts = [ROOT / ".ci" / "run", *(path for path in (ROOT / ".github").rglob("*") if path.suffix in (".sh", ".yml"))]
    assert len(scripts) > 5 and [path.name for path in scripts if "<(" in path.read_text()] == []


def test_the_newest_section_of_the_changelog_is_of_this_version() -> None:
    newest = (ROOT / ".github" / "CHANGELOG.md").read_text().split("\n## ")[1]
    assert dpcli.__version__ in newest.splitlines()[0]


def test_a_citation_names_this_version_and_its_licence() -> None:
    citation = YAML(typ="safe").load((ROOT / ".github" / "CITATION.cff").read_text())
    assert (citation["cff-version"], citation["type"], citation["version"]) == ("1.2.0", "software", dpcli.__version__)
    assert citation["license"] == "Apache-2.0" and citation["title"] and citation["authors"] and citation["message"]


TEXTS = (ROOT / ".github" / "CONTRIBUTING.md", ROOT / "tests" / "README.md")
named = pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)


@named
def test_every_path_in_a_text_exists(path: Path) -> None:
    text = path.read_text()
    found = set(re.findall(r"\b(?:dpcli|tests|examples)/[\w./-]*\w(?:/|\b)", text))
    found |= {f"tests/{name}" for name in re.findall(r"`(\w+(?:/|\.py))`", text)} if path.parent.name == "tests" else set()
    assert found
    for name in found - {name for name in found if re.search(r"/v\d+$", name)}:  # the schema of a document is no path
        assert (ROOT / name).exists(), name
    for module in re.findall(r"python -m (tests\.[\w.]+)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


@pytest.mark.nightly
@named
def test_every_name_of_code_in_a_text_exists(path: Path) -> None:
    """A class, a function, a table or an attribute between backticks, with its arguments where they are shown."""
    for name, arguments in re.findall(r"`([A-Za-z_]\w+)(?:\(([^`]*)\))?`", path.read_text()):
        assert name in names(), name
        shown = {argument.strip() for argument in arguments.split(",")} - {"", "..."}
        assert not shown or any(shown <= parameters for parameters in names()[name]), (name, arguments)


@cache
def names() -> dict[str, list[set[str]]]:
    """Everything that the package and its tests define or give a name, and the parameters of what takes some; words of its files."""
    found: dict[str, list[set[str]]] = {word: [] for word in (*dpcli.__all__, "dpcli", "format", "schema", "area", "exam", "brute")}
    for path in [*(ROOT / "dpcli").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for node in nodes(path):
            match node:
                case ast.FunctionDef(name=name, args=arguments):
                    found.setdefault(name, []).append({each.arg for each in arguments.args})
                case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    found.setdefault(name, [])
    return found
