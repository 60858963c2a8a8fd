"""The tests themselves: what they send, what they wait for, and that a sample of a family leaves out no value of any parameter."""

from __future__ import annotations

import ast
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import ROOT

TESTS = ROOT / "tests"
PATIENT = 30.0  # seconds: a busy machine may need as many for what takes one alone


@functools.cache
def functions() -> tuple[tuple[str, ast.FunctionDef], ...]:
    """Every test, with where it stands."""
    return tuple(_functions())


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(ROOT)}::{node.name}", node


def names(node: ast.AST) -> set[str]:
    """Every attribute, name and text within."""
    return {getattr(one, "attr", None) or getattr(one, "id", None) or str(getattr(one, "value", "")) for one in ast.walk(node)}


def test_whoever_interrupts_sets_the_handler() -> None:
    """A shell ignores SIGINT for what it starts in the background, and so do the children of that."""
    sent = {where: node for where, node in functions() if names(node) & {"SIGINT", "SIGTERM"} and node.name not in SELF}
    assert len(sent) >= 5
    assert [where for where, node in sent.items() if "interruptible" not in names(node)] == []


def test_no_wait_ends_early() -> None:
    """No time-out below what a busy machine may need: one that ends a wait is there for a test that would hang."""
    short = [
        f"{where}:{node.lineno}"
        for where, test in functions()
        for node in ast.walk(test)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "timeout" and isinstance(word.value, ast.Constant) and word.value.value < PATIENT
    ]
    assert short == []


def test_the_handler_is_set_where_a_shell_had_ignored_it(interruptible: None) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SELF = ("test_whoever_interrupts_sets_the_handler", "test_the_handler_is_set_where_a_shell_had_ignored_it")
FAMILY = """
import pytest
@pytest.mark.sampled
@pytest.mark.parametrize("a", range(7))
@pytest.mark.parametrize("b", "xyz")
def test_pairs(a, b): pass
@pytest.mark.sampled(3)
@pytest.mark.parametrize("a", range(20))
def test_few(a): pass
@pytest.mark.long
def test_long(): pass
def test_plain(): pass
"""


@pytest.mark.parametrize("everything", [False, True])
def test_a_sample_has_every_value(everything: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "test_family.py").write_text(FAMILY)
    chosen = ["-m", "long or not long"] if everything else []
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *chosen, "test_family.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    cases = [line.partition("::")[2] for line in found.splitlines() if "::" in line]
    pairs = [case.removeprefix("test_pairs[").removesuffix("]").split("-") for case in cases if "pairs" in case]
    assert {b for b, _ in pairs} == set("xyz")
    assert {a for _, a in pairs} == set("0123456")
    assert len(pairs) == (21 if everything else 7)
    assert sum("few" in case for case in cases) == (20 if everything else 3)
    assert ("test_long" in cases) is everything
    assert "test_plain" in cases
