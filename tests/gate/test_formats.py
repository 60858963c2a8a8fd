"""Tests of the gate's formats as other programs read them: SARIF by its schema, JUnit, Code Quality, comments; also with hostile names.

tests/vectors/sarif-2.1.0.schema.json is the OASIS standard's own schema (sarif-2.1/schema/sarif-schema-2.1.0.json of the committee's
repository oasis-tcs/sarif-spec, errata 01), unchanged, under the OASIS policies that its LICENSE.md names.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dpcli.gate.verdicts import CONDITIONS
from dpcli.lint.catalogue import link_to_source, summary_of
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE, LARGE_DELTA, OVER, SAMPLED, waiver

SCHEMA = json.loads((ROOT / "tests" / "vectors" / "sarif-2.1.0.schema.json").read_text())
DAY = ("--as-of", "2030-06-20")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """A pass, a fail, a waived fail near its end, a rule's error, an unread file, and a warning."""
    texts = {
        "pass.toml": GATE,
        "fail.toml": OVER,
        "waived.toml": OVER + waiver("budget", epsilon="7.0"),
        "rule.toml": LARGE_DELTA,
        "broken.toml": "format = 1\nx = 2\n",
        "warned.toml": SAMPLED.replace('"poisson"', '"shuffle"').replace("= 0.8", "= 80.0"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tuple(str(tmp_path / name) for name in texts)


def shown(format_: str, *arguments: str) -> str:
    return dpcli("gate", *arguments, *DAY, "-f", format_).out


def sarif(*arguments: str) -> dict[str, Any]:
    """The log, held to the schema."""
    log: dict[str, Any] = json.loads(shown("sarif", *arguments))
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    return log


def test_the_schema_can_refuse() -> None:
    assert not jsonschema.Draft4Validator(SCHEMA).is_valid({"version": "2.1.0", "runs": [{"results": []}]})


def test_sarif_obeys_its_schema(files: tuple[str, ...]) -> None:
    (run,) = sarif(*files)["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    assert {"gate/budget", "gate/waiver", "DP105", "DP101", "DP002"} <= rules and "gate/file" not in rules


@of_each("wrong", [1, 2])
def test_what_is_wrong_with_a_file_is_counted_once(tmp_path: Path, wrong: int) -> None:
    file = tmp_path / "it.toml"
    file.write_text("".join(f"x{k} = 2\n" for k in range(wrong)) + GATE)
    said = dpcli("gate", str(file), *DAY).err
    assert said.startswith(f"dpcli: {file}:1:1: DP002: x0: ") and said.endswith(" (and 1 more)\n") == (wrong == 2), said


def test_every_rule_in_sarif_says_what_it_is_and_where_more_is_said(files: tuple[str, ...]) -> None:
    linted = json.loads(dpcli("lint", *files, "-f", "sarif").out)
    jsonschema.Draft4Validator(SCHEMA).validate(linted)
    for log in (sarif(*files), linted):
        for rule in log["runs"][0]["tool"]["driver"]["rules"]:
            words = rule["help"]["text"]
            if rule["id"].startswith("DP"):
                assert words == summary_of(rule["id"]) and words.startswith("what: ") and "\n\nfix: " in words
                assert rule.get("helpUri", "") == link_to_source(rule["id"])
            else:
                assert words.startswith(CONDITIONS[rule["id"].removeprefix("gate/")][1])


def test_every_condition_that_the_gate_can_make_has_a_meaning() -> None:
    names = set()
    for text in (path.read_text() for path in (ROOT / "dpcli").rglob("*.py")):
        for node in ast.walk(ast.parse(text)) if "Condition(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Condition", "_verdict_on_path"):
                name = node.args[node.func.id == "_verdict_on_path"]
                if isinstance(name, ast.Constant):  # others are passed on, as the rules of lint are
                    names.add(name.value)
    assert names == CONDITIONS.keys() - {"policy-change"}
    assert all(link_to_source(code).startswith("https://") for code in ("DP101", "DP005", "DP105"))


def test_a_waived_result_is_suppressed_with_its_justification(files: tuple[str, ...]) -> None:
    (run,) = sarif(files[2])["runs"]
    waived = [result for result in run["results"] if "suppressions" in result]
    assert [result["ruleId"] for result in waived] == ["gate/budget"]
    assert waived[0]["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "launch (approved by ada, until 2030-06-30)"}
    ]


def test_a_waiver_of_the_policy_is_external(files: tuple[str, ...], tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("format = 1\n" + waiver("budget", epsilon="7.0").replace("[[gate.waiver]]", "[[waiver]]"))
    (run,) = sarif(files[1], "--policy", str(policy))["runs"]
    assert [s["kind"] for r in run["results"] for s in r.get("suppressions", [])] == ["external"]


def test_fingerprints_survive_moved_lines_and_other_numbers(tmp_path: Path) -> None:
    path = tmp_path / "train.toml"

    def found() -> tuple[set[str], set[str], set[int]]:
        (run,) = sarif(str(path))["runs"]
        issues = json.loads(shown("gitlab", str(path)))
        assert [r["partialFingerprints"]["dpcli/v1"] for r in run["results"]] == [i["fingerprint"] for i in issues]
        lines = {issue["location"]["lines"]["begin"] for issue in issues}
        return {issue["fingerprint"] for issue in issues}, {issue["description"] for issue in issues}, lines

    path.write_text(OVER)
    before = found()
    path.write_text("# moved\n\n" + OVER.replace("200_000", "300_000"))
    after = found()
    assert before[0] == after[0]
    assert before[1] != after[1]
    assert before[2] != after[2]


def test_fingerprints_are_different_for_different_findings(files: tuple[str, ...]) -> None:
    issues = json.loads(shown("gitlab", *files, files[1]))
    prints = [issue["fingerprint"] for issue in issues]
    assert len(set(prints)) == len(prints)


def test_gitlab_has_what_gitlab_reads(files: tuple[str, ...]) -> None:
    for issue in json.loads(shown("gitlab", *files)):
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert re.fullmatch(r"[0-9a-f]{64}", issue["fingerprint"])
        assert issue["location"]["lines"]["begin"] >= 1
    assert json.loads(shown("gitlab", "./tests/vectors/readme.toml"))[0]["location"]["path"] == "tests/vectors/readme.toml"
    assert json.loads(shown("gitlab", "examples/gate.toml")) == []


def test_junit_counts(files: tuple[str, ...]) -> None:
    root = ET.fromstring(shown("junit", *files).encode())
    (suite,) = root
    cases = suite.findall("testcase")
    counts = {
        "tests": len(cases),
        "failures": len(suite.findall("*/failure")),
        "skipped": len(suite.findall("*/skipped")),
        "errors": len(suite.findall("*/error")),
    }
    for element in (root, suite):
        assert {name: int(element.get(name, "-1")) for name in counts} == counts
    assert (counts["failures"], counts["errors"]) == (2, 1)  # a file that cannot be read was not judged
    (skipped,) = suite.findall("*/skipped")
    assert "approved by ada until 2030-06-30 (10 days left)" in skipped.get("message", "")


def test_text_is_one_line_per_file_and_failing_condition(files: tuple[str, ...]) -> None:
    lines = shown("text", *files).splitlines()
    assert lines[-1] == "gate: INVALID (1 invalid, 2 fail, 1 waived, 2 pass); 3 warnings"
    assert f"{files[0]}: pass: epsilon 1.3740 of 3.0 at delta = 1e-08" in lines
    assert sum(line.startswith(f"{files[1]}:13:2: error gate/budget: epsilon 6.9211") for line in lines) == 1


def test_csv_is_a_row_per_file(files: tuple[str, ...]) -> None:
    rows = list(csv.reader(io.StringIO(shown("csv", *files))))
    assert rows[0][:6] == ["file", "verdict", "base_epsilon", "epsilon_upper", "increase", "cap_epsilon"]
    assert [row[1] for row in rows[1:]] == ["pass", "fail", "waived", "fail", "invalid", "pass"]


def test_a_comment_can_be_found_again_and_tells_what_each_change_costs(repository: Path) -> None:
    path = repository / "train.toml"
    path.write_text(OVER + waiver("budget", epsilon="7.0") + waiver("increase", epsilon="7.0"))
    text = shown("markdown", str(path), "--base-ref", "main")
    lines = text.splitlines()
    assert lines[0] == "<!-- dpcli:gate -->"
    assert lines[2] == "**gate: waived (1 waived); 2 warnings**"
    assert "|  | file | before | epsilon | change | cap | at delta |" in lines
    assert any("| 1.3740 | 6.9211 | +5.5472 | 3.0 | 1e-08 |" in line for line in lines)
    assert any("train: steps 5000 -\\> 200000 | 6.9211 | +5.5472 |" in line for line in lines)
    assert "<details><summary>waivers in force</summary>" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_the_summary_is_appended(tmp_path: Path, files: tuple[str, ...]) -> None:
    summary, comment = tmp_path / "summary.md", tmp_path / "comment.md"
    summary.write_text("what another step said\n")
    for _ in range(2):
        dpcli("gate", files[2], *DAY, "-o", f"summary={summary}", "-o", f"markdown={comment}")
    text = summary.read_text()
    assert text.startswith("what another step said\n## gate: waived")
    assert text.count("## gate: waived") == 2
    assert "<!-- dpcli" not in text
    assert comment.read_text().count("dpcli:gate") == 1


HOSTILE = "a<b>|`@all`&*_[x](y)\x1b[31m%0A::error::\n::set-env\u202e.toml"


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """A failing file whose path and whose waiver try everything."""
    path = tmp_path / HOSTILE
    path.write_text(OVER + waiver("budget", epsilon="6.5", approver='"@team <b>|`x` ::error::"', reason='"""a\n::error::b\n"""'))
    return str(path)


@of_each("format_", ["table", "text", "markdown", "summary", "github", "gitlab", "junit", "sarif"])
def test_no_control_characters_get_out(hostile: str, format_: str) -> None:
    text = shown(format_, hostile)
    assert not set(text) & {"\x1b", "\u202e"}
    assert "6.9211" in text


def test_hostile_names_stay_text(hostile: str) -> None:
    commands = shown("github", hostile).splitlines()
    assert len(commands) == 2
    assert all(line.startswith("::error ") for line in commands)
    comment = shown("markdown", hostile)
    assert "<b>" not in comment.replace("\\<b\\>", "")
    assert "@all" not in comment
    assert "@team" not in comment
    assert comment.count("<!-- dpcli:gate -->") == 1
    for line in comment.splitlines():
        if line.startswith("| ") and "---" not in line:
            assert len(re.findall(r"(?<!\\)\|", line)) in (5, 8)
    ET.fromstring(shown("junit", hostile).encode())
    (result,) = sarif(hostile)["runs"][0]["results"]
    assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    """A file name of bytes that are not UTF-8 is still written out as UTF-8."""
    path = str(tmp_path).encode() + b"/\xff.toml"
    Path(path.decode(errors="surrogateescape")).write_text(OVER)
    formats = ("text", "json", "jsonl", "markdown", "csv", "github", "gitlab", "junit", "sarif")
    outputs = [word for format_ in formats for word in ("-o", f"{format_}={tmp_path / format_}")]
    result = dpcli("gate", path.decode(errors="surrogateescape"), *outputs, "-f", "text")
    assert result.code == 1
    for format_ in formats:
        assert (tmp_path / format_).read_bytes().decode(), format_


def test_the_base_says_nothing_of_where_it_was_read(repository: Path) -> None:
    git(repository, "checkout", "-qb", "other")
    first = shown("json", str(repository / "train.toml"), "--base-ref", "main")
    assert first == shown("json", str(repository / "train.toml"), "--base-ref", "HEAD")


@of_each("format_", ["text", "table", "json", "github", "gitlab", "sarif", "junit", "csv"])
def test_what_is_no_file_has_no_line(format_: str, tmp_path: Path) -> None:
    """And is named once, however it is shown."""
    found = dpcli("gate", str(tmp_path), "-f", format_)
    assert found.code == 2
    assert found.err == f"dpcli: {tmp_path}: gate/file: expected a pipeline file, found a directory\n"
    assert f"{tmp_path}:1" not in found.out and f"{tmp_path}: expected" not in found.out
