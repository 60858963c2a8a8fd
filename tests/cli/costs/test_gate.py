"""dpcli gate: exit codes, whatever the format, and what it says of a file; tests/gate has the rest."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from tests.cases import of_each
from tests.command import dpcli

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


def test_another_json_is_no_baseline(tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text("{}")
    assert dpcli("gate", "examples/gate.toml", "--baseline", str(tmp_path / "base.json")).code == 2


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
