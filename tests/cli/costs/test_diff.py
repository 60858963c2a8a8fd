"""Tests of dpcli diff."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import dpcli

MNIST = "examples/mnist.toml"


@pytest.fixture
def dearer(tmp_path: Path) -> str:
    text = (
        Path(MNIST).read_text().replace("noise_multiplier = 1.1", "noise_multiplier = 1.0").replace("epochs = 60", "steps = 15_000")
    )
    (tmp_path / "dearer.toml").write_text(text)
    return str(tmp_path / "dearer.toml")


def test_the_table_names_every_change_and_its_cost(dearer: str) -> None:
    result = dpcli("diff", MNIST, dearer)
    assert result.code == 0
    assert result.out.startswith("epsilon 2.3817 -> ")
    lines = result.out.splitlines()
    assert any(line.split()[:5] == ["train:", "noise_multiplier", "1.1", "1.0", "2.8227"] for line in lines)
    assert any(line.split()[:4] == ["and", "train:", "steps", "(none)"] for line in lines)
    assert any("interaction of the changes" in line for line in lines)


@pytest.mark.long
def test_exit_codes_are_asked_for(dearer: str, tmp_path: Path) -> None:
    assert dpcli("diff", "--exit-code", MNIST, dearer).code == 1
    assert dpcli("diff", "--exit-code", dearer, MNIST).code == 0
    assert dpcli("diff", "--exit-code", MNIST, MNIST).code == 0
    assert dpcli("diff", "--exit-code", MNIST, "examples/user-level.toml").code == 3
    assert dpcli("diff", MNIST, "examples/user-level.toml").code == 0
    assert dpcli("diff", MNIST, str(tmp_path / "none.toml")).code == 2
    assert dpcli("diff", MNIST).code == 2


def test_machine_form(dearer: str) -> None:
    found = json.loads(dpcli("diff", MNIST, dearer, "-f", "json").out)
    assert found["schema"] == "dpcli/diff/v1"
    assert (found["comparable"], found["delta"], found["exit_code"]) == (True, 1e-5, 0)
    before, after = (found[side]["result"]["epsilon_upper"] for side in ("before", "after"))
    assert found["increase"] == after - before
    single = [one["increase"] for one in found["changes"]]
    assert found["interaction"] == pytest.approx(found["increase"] - sum(single))
    assert [edit["key"] for edit in found["changes"][0]["edits"]] == ['mechanism["train"].noise_multiplier']
    assert found["changes"][1]["edits"][0] == {"key": 'mechanism["train"].epochs', "before": 60, "after": None}


def test_incomparable_epsilons_are_called_so() -> None:
    result = dpcli("diff", MNIST, "examples/user-level.toml")
    assert "NOT COMPARABLE: unit example -> user" in result.out.splitlines()[0]
    assert "both files are priced at delta = 1e-05" in result.out


def test_no_difference() -> None:
    assert dpcli("diff", MNIST, MNIST, "--delta", "1e-6").out.startswith("no difference: epsilon <= 2.6")
    assert "DP105" not in dpcli("diff", MNIST, MNIST, "--delta", "1e-6").out
    assert dpcli("diff", MNIST, MNIST).out.splitlines()[0] == "no difference: epsilon <= 2.3817 at delta = 1e-05"
    assert dpcli("diff", MNIST, MNIST, "-f", "total").out == "0.0\n"


def test_hostile_names_and_values_are_shown_escaped(dearer: str, tmp_path: Path) -> None:
    text = Path(MNIST).read_text().replace('name = "train"', 'name = "=\\u001b[31mx"\ndescription = "=1+1"')
    (tmp_path / "hostile.toml").write_text(text)
    for format_ in ("table", "markdown", "csv"):
        out = dpcli("diff", MNIST, str(tmp_path / "hostile.toml"), "-f", format_).out
        assert "\x1b" not in out
        assert ",=" not in out
