"""dpcli gate: caps, bases, formats, and the pull request that overspends."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path

import pytest

from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate import samples

GATE = (ROOT / "examples" / "gate.toml").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository whose first commit holds a passing file."""
    (tmp_path / "train.toml").write_text(GATE)
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-qm", "base"),
    ):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    return tmp_path


@pytest.mark.long
def test_pull_request_that_raises_steps(repository: Path) -> None:
    file = repository / "train.toml"
    assert dpcli("gate", str(file), "--base-ref", "main").code == 0
    file.write_text(GATE.replace("steps = 5_000", "steps = 20_000"))
    result = dpcli("gate", str(file), "--base-ref", "main", "-f", "json")
    found = json.loads(result.out)
    assert result.code == found["exit_code"] == 1
    conditions = {c["name"]: c for c in found["files"][0]["conditions"]}
    assert conditions["increase"]["verdict"] == "fail"
    assert conditions["budget"]["verdict"] == "pass"
    (change,) = found["files"][0]["changes"]
    assert change["edits"] == [{"key": 'mechanism["train"].steps', "before": 5000, "after": 20000}]
    assert change["increase"] == found["files"][0]["epsilon_at_base_delta"] - found["files"][0]["base_epsilon"]
    file.write_text(GATE.replace("steps = 5_000", "steps = 200_000"))
    shown = dpcli("gate", str(file), "--base-ref", "main", "-f", "github").out
    assert "::error file=" in shown
    assert shown.count(",line=30,") == 2  # the steps, which cost it, and not the [budget] header
    assert "train: steps 5000 -> 200000 costs +3.8670 alone" in shown
    assert "noise_multiplier = " in shown


def test_new_file_has_nothing_to_compare_with(repository: Path) -> None:
    (repository / "new.toml").write_text(GATE)
    assert "new file" in dpcli("gate", str(repository / "new.toml"), "--base-ref", "main").out


def test_baseline_is_what_gate_wrote(tmp_path: Path) -> None:
    baseline = tmp_path / "base.json"
    assert dpcli("gate", "examples/gate.toml", "-o", f"json={baseline}").code == 0
    assert "(0)" in dpcli("gate", "examples/gate.toml", "--baseline", str(baseline)).out.replace("+0", "0")
    baseline.write_text("{}")
    assert dpcli("gate", "examples/gate.toml", "--baseline", str(baseline)).code == 2


ASKED: list[tuple[tuple[str, ...], int]] = [
    (("examples/gate.toml",), 0),
    (("examples/gate.toml", "--max-epsilon", "1.7"), 1),
    (("examples/mnist.toml",), 2),
    (("examples/mnist.toml", "--max-epsilon", "2.3816"), 1),
    (("examples/mnist.toml", "--max-epsilon", "2.3817"), 0),
    (("examples/gate.toml", "missing.toml"), 2),
    (("examples/gate.toml", "--max-epsilon", "2", "tests/vectors/readme.toml"), 2),
    (("examples/gate.toml", "--max-epsilon", "nan"), 2),
    (("examples/gate.toml", "--max-increase", "1"), 2),
    (("examples/gate.toml", "--base-ref", "no-such-ref"), 2),
    (("examples/gate.toml", "--base-ref", "--output=x"), 2),
]


@pytest.mark.parametrize("asked", [pytest.param(ASKED[1::3], id="some"), pytest.param(ASKED, id="all", marks=pytest.mark.long)])
def test_the_exit_code_is_the_verdict_whatever_the_format(asked: list[tuple[tuple[str, ...], int]]) -> None:
    for (arguments, code), format_ in product(asked, ("table", "text", "json", "sarif", "junit", "gitlab", "summary")):
        assert dpcli("gate", *arguments, "-f", format_).code == code, (arguments, format_)


def test_unknown_is_not_a_pass(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"
    file.write_text(GATE.replace("noise_multiplier = 0.8", "noise_multiplier = 1e-300"))
    assert dpcli("gate", str(file)).code == 3


def test_a_soundness_rule_fails_the_gate(tmp_path: Path) -> None:
    file = tmp_path / "delta.toml"
    file.write_text(GATE.replace("delta = 1e-8", "delta = 1e-5"))
    result = dpcli("gate", str(file), "--max-epsilon", "50")
    assert result.code == 1
    assert "DP105" in result.out


def test_junit_counts_what_failed(tmp_path: Path) -> None:
    (tmp_path / "pass.toml").write_text(samples.GATE)
    (tmp_path / "over.toml").write_text(samples.OVER)
    root = ET.fromstring(dpcli("gate", "pass.toml", "over.toml", "--max-epsilon", "3", "-f", "junit", folder=tmp_path).out.encode())
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_sarif_names_file_line_and_rule() -> None:
    found = json.loads(dpcli("gate", "examples/gate.toml", "--max-epsilon", "1.7", "-f", "sarif").out)
    assert found["version"] == "2.1.0"
    (result,) = found["runs"][0]["results"]
    assert result["ruleId"] == "gate/budget"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "examples/gate.toml", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == 13


def test_markdown_is_fit_for_a_comment() -> None:
    text = dpcli("gate", "examples/gate.toml", "-f", "markdown").out
    assert text.startswith("<!-- dpcli:gate -->\n\n**gate: pass (1 pass)**\n")
    assert "| pass | examples/gate.toml | - | 1.7269 | - | 3.0 | 1e-08 |" in text


@of_each("format_", ["text", "table", "json", "github", "gitlab", "sarif", "junit", "csv"])
def test_what_is_no_file_has_no_line(format_: str, tmp_path: Path) -> None:
    """And is named once, however it is shown."""
    found = dpcli("gate", str(tmp_path), "-f", format_)
    assert found.code == 2
    assert found.err == f"dpcli: {tmp_path}: gate/file: expected a pipeline file, found a directory\n"
    assert f"{tmp_path}:1" not in found.out and f"{tmp_path}: expected" not in found.out
