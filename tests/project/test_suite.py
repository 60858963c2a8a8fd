"""The tests themselves: what they send, what they wait for, and that a sample of a family leaves out no value of any parameter."""

from __future__ import annotations

import ast
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import pytest

from tests.cases import of_each, require_each
from tests.command import ROOT
from tests.conftest import is_usable
from tests.syntax_trees import nodes, tree

TESTS = ROOT / "tests"
PATIENT = 30.0  # seconds: a busy machine may need as many for what takes one alone


@functools.cache
def functions() -> tuple[tuple[str, ast.FunctionDef], ...]:
    """Every test, with where it stands."""
    return tuple(_functions())


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(ROOT)}::{node.name}", node


def names(node: ast.AST) -> set[str]:
    """Every attribute, name and text within."""
    return {getattr(one, "attr", None) or getattr(one, "id", None) or str(getattr(one, "value", "")) for one in ast.walk(node)}


@pytest.mark.long
def test_whoever_interrupts_sets_the_handler() -> None:
    """A shell ignores SIGINT for what it starts in the background, and so do the children of that."""
    sent = {where: node for where, node in functions() if names(node) & {"SIGINT", "SIGTERM"} and node.name not in SELF}
    assert len(sent) >= 5
    assert [where for where, node in sent.items() if "interruptible" not in names(node)] == []


@pytest.mark.long
def test_no_wait_ends_early() -> None:
    """No time-out below what a busy machine may need: one that ends a wait is there for a test that would hang."""
    short = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.keyword) and node.arg == "timeout" and isinstance(node.value, ast.Constant)
        if node.value.value is not None and node.value.value < PATIENT
    ]
    assert short == []


def test_the_handler_is_set_where_a_shell_had_ignored_it(interruptible: None) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SELF = (
    "test_whoever_interrupts_sets_the_handler",
    "test_the_handler_is_set_where_a_shell_had_ignored_it",
    "test_no_test_asserts_a_time",
)
FAMILY = """
import pytest
@pytest.mark.sampled
@pytest.mark.parametrize("a", range(7))
@pytest.mark.parametrize("b", "xyz")
@pytest.mark.parametrize("c", "pqr")
def test_triples(a, b, c): pass
@pytest.mark.sampled(3)
@pytest.mark.parametrize("a", range(20))
def test_few(a): pass
@pytest.mark.sampled(2, 5)
@pytest.mark.parametrize("a", [*range(19), pytest.param(19, marks=pytest.mark.nightly)])
def test_fewer(a): pass
@pytest.mark.long
@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize("a", range(6))
def test_not_quick(a): pass
@pytest.mark.sampled
@pytest.mark.parametrize(("a", "b"), [pytest.param(0, "x", marks=pytest.mark.nightly), (0, "y"), (1, "x"), (1, "y")])
def test_marked(a, b): pass
@pytest.mark.sampled(9)
@pytest.mark.parametrize("a", range(4))
def test_all(a): pass
@pytest.mark.long
def test_long(): pass
@pytest.mark.nightly
def test_nightly(): pass
def test_plain(): pass
"""


def collected(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """Return the ids of the tests that pytest collects in a folder, in an environment without CI."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "PYTHONPATH": str(ROOT), **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.long
def test_the_three_runs_share_out_a_sample(tmp_path: Path) -> None:
    """Quick runs have every value of every parameter, quick and long ones every pair of values, all three every case once."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "test_family.py").write_text(FAMILY)
    runs = [collected(tmp_path, *mark, "test_family.py") for mark in ([], ["-m", "long and not nightly"], ["-m", "nightly"])]
    names = [[case.partition("::")[2] for case in run] for run in runs]
    every = collected(tmp_path, "-m", "", "test_family.py")
    assert len(every) == 63 + 20 + 20 + 6 + 4 + 4 + 3
    assert sorted(name for run in names for name in run) == sorted(case.partition("::")[2] for case in every)
    assert [[name for name in run if "[" not in name] for run in names] == [["test_plain"], ["test_long"], ["test_nightly"]]
    for function, shares in {"few": [3, 17, 0], "fewer": [2, 5, 13], "not_quick": [0, 4, 2], "all": [4, 0, 0]}.items():
        assert [sum(name.startswith(f"test_{function}[") for name in run) for run in names] == shares, function
    marked = [["test_marked[0-y]", "test_marked[1-x]"], ["test_marked[1-y]"], ["test_marked[0-x]"]]
    assert [[name for name in run if "marked" in name] for run in names] == marked
    triples = [[name[len("test_triples[") : -1].split("-") for name in run if "triples" in name] for run in names]
    assert [{case[k] for case in triples[0]} for k in range(3)] == [set("pqr"), set("xyz"), set("0123456")]
    both = triples[0] + triples[1]
    for j, k in combinations(range(3), 2):
        assert len({(case[j], case[k]) for case in both}) == len({case[j] for case in both}) * len({case[k] for case in both})
    assert len(triples[0]) <= 9
    assert len(both) <= 28 < len(both) + len(triples[2]) == 63


@pytest.mark.long
def test_no_test_that_is_long_as_a_whole_says_how_many_cases_are_quick() -> None:
    """`sampled(2, 5)` of it would be read as seven cases, and run five: it is `sampled(0, 5)`, or nothing where all are long."""
    wrong = []
    for where, test in functions():
        marks = [ast.unparse(one).removeprefix("pytest.mark.") for one in test.decorator_list]
        if {"long", "nightly"} & set(marks):
            wrong += [where for mark in marks if mark.startswith("sampled(") and not mark.startswith("sampled(0")]
    assert wrong == []


@pytest.mark.long
def test_a_test_without_a_case_is_an_error(tmp_path: Path) -> None:
    """A list that has become empty would leave a test that skips for ever."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "test_none.py").write_text('import pytest\n@pytest.mark.parametrize("a", [])\ndef test_none(a): pass\n')
    with pytest.raises(AssertionError, match="Empty parameter set in 'test_none'"):
        collected(tmp_path, "test_none.py")


@pytest.mark.long
def test_no_id_depends_on_chance_time_or_environment(tmp_path: Path) -> None:
    """Two processes collect the same ids, with other hashes, another home, time zone, working directory and process number."""
    (tmp_path / "home").mkdir()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(collected, ROOT, "-m", "", str(TESTS), PYTHONHASHSEED="1")
        second = pool.submit(
            collected,
            ROOT,
            "-m",
            "",
            str(TESTS),
            PYTHONHASHSEED="2",
            HOME=str(tmp_path / "home"),
            TZ="Pacific/Apia",
            LANG="C",
            USER="nobody",
        )
    assert len(first.result()) > 5000
    assert first.result() == second.result()
    assert len(set(first.result())) == len(first.result())


def imported_tests(node: ast.AST) -> list[str]:
    """The tests, or files of tests, that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{'tests.' if node.level else ''}{node.module}.{alias.name}" for alias in node.names]
    else:
        return []
    return [name for name in names if name.startswith("tests.") and ".test_" in name]


@pytest.mark.long
def test_no_test_imports_another() -> None:
    """What tests share stands in a helper or a fixture: a test that is imported is collected twice, or cannot be moved."""
    for line in ("import tests.cli.test_x as x", "from tests import test_x", "from . import test_x", "from .test_x import y"):
        assert imported_tests(ast.parse(line).body[0]), line
    assert [(path, name) for path in sorted(TESTS.rglob("*.py")) for node in nodes(path) for name in imported_tests(node)] == []


CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "monotonic_ns", "perf_counter_ns", "process_time_ns"}


@pytest.mark.long
def test_no_test_asserts_a_time() -> None:
    """A busy machine takes longer: what is asserted is a number of operations; how long they take, the benchmarks report."""
    found = []
    for where, test in functions():
        durations = {
            target.id
            for node in ast.walk(test)
            if isinstance(node, ast.Assign) and clocked(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        found += [
            f"{where}:{node.lineno}"
            for node in ast.walk(test)
            if isinstance(node, ast.Assert) and (clocked(node.test) or durations & names(node.test))
        ]
    assert found == []
    assert [where for where, test in functions() if "RLIMIT_CPU" in names(test) and test.name not in SELF] == []


def clocked(expression: ast.expr) -> bool:
    """Whether an expression is a difference of times."""
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and names(node) & CLOCKS for node in ast.walk(expression)
    )


def test_a_case_that_skips_hides_no_other() -> None:
    ran: list[int] = []

    def skips_some(number: int, failing: int) -> None:
        ran.append(number)
        if number < 2:
            pytest.skip("no such thing")
        assert number != failing, "as it should"

    skipped = of_each("number", range(4))(skips_some)
    with pytest.raises(BaseExceptionGroup, match="1 of 4 fail, of number: 3"):
        skipped(failing=3)
    with pytest.raises(pytest.skip.Exception, match="2 of 4, of number: 0: no such thing; 1: no such thing"):
        skipped(failing=9)
    for failing, error, words in (
        (3, AssertionError, "1 of 4 fail:\n3: "),
        (9, pytest.skip.Exception, "2 of 4: 0: no such thing; 1: "),
    ):
        with pytest.raises(error, match=words):
            require_each(range(4), lambda number: skips_some(number, failing))  # noqa: B023 (called at once)
    assert ran == [*range(4)] * 4


def test_temporary_files_are_where_there_is_room_and_programs_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def holds(gigabytes: int, flags: int) -> bool:
        blocks = gigabytes << 18  # of 4 KiB
        monkeypatch.setattr(os, "statvfs", lambda folder: os.statvfs_result((4096, 4096, *[blocks] * 6, flags, 255)))
        return is_usable(tmp_path)

    assert (holds(5, os.ST_NOSUID), holds(3, 0), holds(5, os.ST_NOSUID | os.ST_NOEXEC)) == (True, False, False)
    assert not is_usable(tmp_path / "absent")
