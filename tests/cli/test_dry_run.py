"""Tests of dry runs: the exit code is that of the command, 1 if the file's budget does not suffice, and nothing is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.commands import COMMANDS
from tests.command import dpcli

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {  # by command
    ("generate",): "private-text.toml",
    ("prompt",): "prompt-pate.toml",
    ("release",): "release.toml",
    ("train",): "digits.toml",
}
OTHERS = {
    ("audit",): "it finds a lower bound, and spends nothing",
    ("sweep",): "its epsilons are its budgets",
}
QUICK = {("release",), ("train",)}  # the others import a language model's libraries
BUDGET = "\n[budget]\nepsilon = {}\n"


def file_of(words: tuple[str, ...], epsilon: str, folder: Path) -> str:
    """The example with another budget, beside what it reads."""
    for path in EXAMPLES.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    text = re.sub(r"(?m)^weight = .*$", "epsilon = 0.5", (EXAMPLES / FILES[words]).read_text())  # weights would share any budget
    (folder / "other.toml").write_text(re.sub(r"(?m)^\[budget\]\n([^\[\n].*\n)*", "", text) + BUDGET.format(epsilon))
    return "other.toml"


def test_every_command_with_a_dry_run_is_known() -> None:
    assert {words for words, command in COMMANDS.items() if any(one.name == "dry_run" for one in command.params)} == {
        *FILES,
        *OTHERS,
    }


@pytest.mark.sampled(0, 4)
@pytest.mark.long
@pytest.mark.needs("torch", "transformers", "sklearn", "duckdb")
@pytest.mark.parametrize(
    "words", [pytest.param(words, marks=() if words in QUICK else pytest.mark.long) for words in FILES], ids=" ".join
)
@pytest.mark.parametrize(("epsilon", "code"), [("0.001", 1), pytest.param("50.0", 0, marks=pytest.mark.long)])
def test_a_dry_run_is_denied_by_the_budget_of_the_file(words: tuple[str, ...], epsilon: str, code: int, tmp_path: Path) -> None:
    file = file_of(words, epsilon, tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    done = dpcli(*words, file, "--dry-run", "-f", "json", folder=tmp_path)
    assert done.code == json.loads(done.out)["exit_code"] == code, done
    assert ("OVER BUDGET" in done.err) == bool(code)
    assert ("over budget: nothing would be" in dpcli(*words, file, "--dry-run", folder=tmp_path).out) == bool(code)
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {*before} - {"__pycache__"}
