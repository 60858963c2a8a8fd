"""How the package speaks: rules that every sentence, name and message of it keeps, and each of them broken on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import ROOT
from tests.wording import faults, shared_names

PACKAGE = sorted((ROOT / "dpcli").rglob("*.py"))


def test_every_sentence_name_and_message_keeps_the_rules() -> None:
    assert [str(fault) for path in PACKAGE for fault in faults(path)] == []


def test_no_two_files_have_one_name() -> None:
    assert shared_names(PACKAGE) == {}


def test_no_folder_is_long() -> None:
    folders = {path.parent for path in PACKAGE}
    assert {str(folder): len(list(folder.glob("*.py"))) for folder in folders if len(list(folder.glob("*.py"))) > 21} == {}


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('"""What a file says."""\n', "fragment"),
        ('def size(n: int) -> int:\n    """Whether it is large."""\n    return n\n', "fragment"),
        ('class Size:\n    """Those that count."""\n', "fragment"),
        ("found = 1\n", "empty name"),
        ("def told() -> None: ...\n", "empty name"),
        ("def size(beside: int) -> int:\n    return beside\n", "empty name"),
        ("for whole in (1, 2):\n    pass\n", "empty name"),
        ('raise ValueError("expected a number, found another")\n', "hidden value"),
        ('raise ValueError(f"expected {1}, found none")\n', "hidden value"),
    ],
)
def test_a_broken_rule_is_seen(code: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(code)
    assert [fault.rule for fault in faults(path)] == [rule]


def test_a_shared_name_is_seen() -> None:
    paths = [
        Path("a/plan.py"),
        Path("b/plan.py"),
        Path("a/plugin.py"),
        Path("b/plugin.py"),
        Path("a/commands/gate.py"),
        Path("gate.py"),
    ]
    assert shared_names(paths) == {"plan": ["a", "b"]}
