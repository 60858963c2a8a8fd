"""Mutants are programs, other ones than before; a test that notices one is told from tests that do not."""

from __future__ import annotations

import ast
import os
import random
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.mutants.__main__ import cases, drawn, rewrite, verdicts
from tests.mutants.operators import mutants

SOURCE = '''
def least(values: list[float], floor: float = 0.0) -> float:
    """Return the least value, at least `floor`."""
    if not values or floor > 1e9:
        raise ValueError(f"expected values, found {len(values) + 1}")
    values.sort()
    return max(min(values) - 1, -floor) if len(values) == 3 else floor * 2
'''


def test_each_operator_changes_what_it_names() -> None:
    shown = {(one.operator, one.shown(SOURCE)) for one in mutants(SOURCE)}
    assert shown == {
        ("connective", "not values or floor > 1e9 -> ((not values) and (floor > 1000000000.0))"),
        ("negation", "not values -> bool(values)"),
        ("comparison", "floor > 1e9 -> (floor >= 1000000000.0)"),
        ("constant", "1e9 -> 1000000001.0"),
        ("statement", "values.sort() -> pass"),
        ("extreme", "max(min(values) - 1, -floor) -> min(min(values) - 1, -floor)"),
        ("extreme", "min(values) -> max(values)"),
        ("arithmetic", "min(values) - 1 -> ((min(values)) + (1))"),
        ("constant", "1 -> 2"),
        ("sign", "-floor -> (floor)"),
        (
            "branch",
            "max(min(values) - 1, -floor) if len(values) == 3 else floor * 2 -> "
            "((floor * 2) if len(values) == 3 else (max(min(values) - 1, -floor)))",
        ),
        ("comparison", "len(values) == 3 -> (len(values) != 3)"),
        ("constant", "3 -> 4"),
        ("arithmetic", "floor * 2 -> ((floor) / (2))"),
        ("constant", "2 -> 3"),
    }


@pytest.mark.long
def test_a_mutant_is_another_program() -> None:
    """Mutants of files drawn at random: each can be compiled, has as many lines, and another syntax tree."""
    seed = secrets.randbits(32)
    generator = random.Random(seed)
    for path in generator.sample(sorted((ROOT / "dpcli").rglob("*.py")), 20):
        source = path.read_text("utf-8")
        chosen = mutants(source)
        for mutant in generator.sample(chosen, min(5, len(chosen))):
            changed = mutant.applied(source)
            where = f"seed {seed}: {path}:{mutant.line} {mutant.shown(source)}"
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), where


def test_a_change_is_run_within_the_second_in_which_the_file_was_compiled(tmp_path: Path) -> None:
    """Python compares the second and the size of a source with those that it has compiled."""
    path = tmp_path / "answer.py"
    for answer in ("1", "2", "1"):
        rewrite(path, f"print({answer})\n")
        os.utime(path, (1e9, 1e9))
        command = [sys.executable, "-c", "import answer"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == answer


@pytest.mark.nightly
@pytest.mark.long
def test_functions_of_every_folder_have_tests_that_import_them() -> None:
    by_room = cases(ROOT)
    folders = {path.name for path in (ROOT / "dpcli").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders - by_room.keys() <= {"__pycache__", "templates"}
    assert {case.file.split("/")[1] for case in drawn(by_room, len(by_room), 1)} == set(by_room)


@pytest.mark.long
def test_what_no_test_notices_survives(tmp_path: Path) -> None:
    (tmp_path / "dpcli").mkdir()
    (tmp_path / "dpcli" / "__init__.py").write_text("")
    (tmp_path / "dpcli" / "sums.py").write_text("def total(a, b):\n    return a + b\n\n\ndef unseen(a):\n    return a - 1\n")
    (tmp_path / "tests").mkdir()
    test = "from dpcli.sums import total, unseen\n\n\ndef test_total():\n    assert total(2, 3) == 5\n    assert unseen(1) is not None\n"
    (tmp_path / "tests" / "test_sums.py").write_text(test)
    (tmp_path / "pyproject.toml").write_text("")
    found = {
        case.mutant.shown("def total(a, b):\n    return a + b\n\n\ndef unseen(a):\n    return a - 1\n"): said
        for case, said in verdicts(tmp_path, cases(tmp_path)["sums.py"], 300.0)
    }
    assert found == {"a + b -> ((a) - (b))": "killed", "a - 1 -> ((a) + (1))": "survived", "1 -> 2": "survived"}
