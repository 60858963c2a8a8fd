"""Tests of dpcli report: both streams, exit codes, formats, and the modules that it loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases import of_each
from tests.command import ROOT, dpcli

FULL = "examples/disclosure.toml"
GAUSSIAN = """format = 1
name = "once"
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-5
releases = "outputs"
[[mechanism]]
name = "once"
type = "gaussian"
noise_multiplier = 2.0
"""


def report(text: str, *arguments: str) -> int:
    result = dpcli("report", "-", *arguments, stdin=text.encode())
    assert bool(result.err) == (result.code != 0)
    return result.code


@pytest.mark.nightly
@pytest.mark.long
def test_strict_refuses_what_is_not_stated() -> None:
    assert report(GAUSSIAN, "--strict") == 1
    assert report(GAUSSIAN.replace("1e-5", "0.0"), "--strict") == 3
    assert dpcli("report", FULL, "--strict", "-f", "text").code == 0
    assert dpcli("report", FULL, "--strict", "--registry", "-f", "text").code == 0
    text = (ROOT / FULL).read_text()
    silent = text.replace('contact = "privacy@shop.example"\n', "").encode()
    result = dpcli("report", "-", "--strict", "--registry", "-f", "text", stdin=silent)
    assert (result.code, result.err) == (1, "dpcli: 25 of 26 items stated; NOT STATED: contact\n")


@pytest.mark.long
@of_each("format_", ["table", "text", "markdown", "html", "json", "jsonl"])
@of_each("form", [(), ("--registry",)])
def test_every_format_and_form(format_: str, form: tuple[str, ...]) -> None:
    result = dpcli("report", "-", "-f", format_, *form, stdin=GAUSSIAN.encode())
    assert (result.code, result.err) == (0, "")
    assert "once" in result.out


@pytest.mark.long
def test_outputs_are_written_beside_what_is_printed(tmp_path: Path) -> None:
    path, machine = tmp_path / "r.html", tmp_path / "r.json"
    result = dpcli("report", "-", "-f", "text", "-o", f"html={path}", "-o", f"json={machine}", stdin=GAUSSIAN.encode())
    assert result.code == 0
    assert path.read_text().startswith("<!DOCTYPE html>") and "<svg" in path.read_text()
    assert json.loads(machine.read_text())["schema"] == "dpcli/report/v1"
    assert result.out.splitlines()[-1].startswith("epsilon <= ")


def test_the_registry_form_has_its_own_schema() -> None:
    found = json.loads(dpcli("report", "-", "--registry", "-f", "json", stdin=GAUSSIAN.encode()).out)
    assert found["schema"] == "dpcli/registry/v1"
    assert {item["id"] for item in found["items"]} >= {"controller", "purpose", "unit", "guarantee", "mechanisms", "implementation"}


def test_delta_may_be_given() -> None:
    found = json.loads(dpcli("report", "-", "--delta", "1e-9", "-f", "json", stdin=GAUSSIAN.encode()).out)
    assert found["delta"] == 1e-9
    assert "at delta = 1e-09" in next(item["answer"] for item in found["items"] if item["id"] == "guarantee")
    result = dpcli("report", "-", stdin=GAUSSIAN.replace("delta = 1e-5\n", "").encode())
    assert result.code == 2
    assert "expected a delta in the file or by --delta" in result.err


def test_a_date_that_is_none_is_refused() -> None:
    assert dpcli("report", FULL, "--date", "yesterday").code == 2


def test_what_a_rule_warns_of_is_reported() -> None:
    text = GAUSSIAN.replace("delta = 1e-5", "dataset_size = 20_000\ndelta = 1e-5")
    assert "warning DP105" in dpcli("report", "-", "-f", "text", stdin=text.encode()).out


def test_a_blank_answer_counts_as_a_mistake_and_not_as_stated() -> None:
    result = dpcli("report", "-", stdin=(GAUSSIAN + '[disclosure]\npurpose = " "\n').encode())
    assert result.code == 2
    assert "disclosure.purpose: expected text that is not empty" in result.err
