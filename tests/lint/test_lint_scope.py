"""Tests of --select and --ignore, and of folders."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dpcli.base.registry import FORMATS
from dpcli.lint.catalogue import LEDGER_RULES, READER_RULES, RULES, rule
from dpcli.lint.rule_scope import scope_of
from tests.cases import of_each
from tests.command import Result, dpcli
from tests.gate.repositories import committed, git
from tests.gate.samples import GATE

ALL = (*RULES, *LEDGER_RULES)


@of_each("code", ALL)
def test_every_rule_can_be_selected_and_ignored_but_the_readers(code: str) -> None:
    alone = scope_of([code.lower()], [])
    assert {other for other in ALL if alone.includes(other)} == {code, *READER_RULES}
    if code in READER_RULES:
        assert dpcli("lint", "x.toml", "--ignore", code).code == 2
    else:
        assert {other for other in ALL if not scope_of([], [code]).includes(other)} == {code}
        assert not scope_of(["DP"], [code]).includes(code)
    assert scope_of([code], ["DP"]).includes(code) and scope_of(["DP"], []).includes(code)


def always_told(code: str) -> bool:
    """Whether the rule's bad file is an error that no gate may waive."""
    found = json.loads(linted(rule(code).bad, "-f", "json").out)["diagnostics"]
    return not rule(code).waivable and any((one["rule"], one["severity"]) == (code, "error") for one in found)


def linted(text: str, *flags: str) -> Result:
    return dpcli("lint", "-", *flags, stdin=text.encode())


@of_each("code", RULES)
def test_an_error_that_no_gate_may_waive_cannot_be_left_out(code: str) -> None:
    whole = linted(rule(code).bad)
    expected = always_told(code)
    other = "DP304" if code != "DP304" else "DP301"
    for flags in (("--ignore", "DP"), ("--select", other), ("--ignore", "DP1,DP2,DP3", "--select", other)):
        found = linted(rule(code).bad, *flags)
        assert (f" {code}: " in found.out) or not expected
        assert found.code == whole.code or not expected


@of_each("format_", sorted(FORMATS.keys() - {"total"}))
def test_every_format_says_what_was_left_out(format_: str) -> None:
    text = GATE.replace("delta = 1e-8", "delta = 1e-5").replace("epsilon = 3.0", "epsilon = 50.0")
    for flags in (("--ignore", "DP1"), ("--select", "DP304")):
        found = linted(text, *flags, "-f", format_)
        assert found.code == 0, found.err
        assert "DP105" in found.out
        assert "1 left out by --select or --ignore" in found.out or json.loads(found.out)["left_out_rules"] == {"DP105": 1}
    assert "left out" not in linted(text.replace("1e-5", "1e-8"), "--ignore", "DP1", "-f", format_).out.replace("left_out", "")


@of_each("code", lambda: [code for code in RULES if code not in READER_RULES and not always_told(code)])
def test_a_file_that_breaks_a_rule_is_in_order_without_it_and_says_so(code: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(rule(code).bad)
    whole, without = (dpcli("lint", "bad.toml", *more, "-f", "json", folder=tmp_path) for more in ((), ("--ignore", code)))
    told, left = json.loads(whole.out), json.loads(without.out)
    count = sum(one["rule"] == code for one in told["diagnostics"])
    assert count and told["left_out"] == 0
    assert left["left_out"] == count and [one for one in told["diagnostics"] if one["rule"] != code] == left["diagnostics"]
    assert f"; {count} left out by --select or --ignore" in dpcli("lint", "bad.toml", "--ignore", code, folder=tmp_path).out


@of_each("flag, code", [("--select", "DP39"), ("--ignore", "X"), ("--ignore", "DP202"), ("--select", ""), ("--ignore", "DP3,")])
def test_what_names_no_rule_is_refused(flag: str, code: str) -> None:
    result = dpcli("lint", "examples/dp-sgd.toml", flag, code)
    assert result.code == 2 and result.err.startswith(f"dpcli: {flag}: expected")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "README").write_text("")
    return committed(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pipelines, one of them hidden and in a linked folder too, a policy, a settings file of somebody else, and a broken file."""
    for name, text in {
        "a.toml": GATE,
        ".hidden/deep/b.toml": GATE.replace("3.0", "2.0"),
        "policy.toml": "format = 1\nepsilon = 5.0\n",
        "rules.toml": "rule = [1]\n",
        "pyproject.toml": '[project]\nname = "x"\n',
        ".git/c.toml": GATE,
        "notes.txt": GATE,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    os.symlink(".hidden", tmp_path / "linked")
    os.symlink("..", tmp_path / ".hidden" / "up")
    return tmp_path


def test_a_folder_is_every_file_of_ours_in_it_once(folder: Path) -> None:
    found = json.loads(dpcli("lint", ".", "a.toml", "-f", "json", folder=folder).out)["files"]
    assert found == ["./a.toml", "./policy.toml", "./.hidden/deep/b.toml"]
    judged = json.loads(dpcli("gate", ".", "-f", "json", folder=folder).out)["files"]
    assert [file["pipeline"]["path"] for file in judged] == ["./a.toml", "./.hidden/deep/b.toml"]


def test_a_broken_file_in_a_folder_is_no_pass(folder: Path) -> None:
    (folder / "z.toml").write_text("format = = 1\n")
    assert dpcli("lint", ".", folder=folder).code == 2
    assert dpcli("gate", ".", folder=folder).code == 2


@pytest.mark.parametrize("command", [("lint",), ("gate",), ("gate", "--base-ref", "HEAD")])
def test_a_folder_without_files_is_no_pass(command: tuple[str, ...], repository: Path) -> None:
    (repository / "empty").mkdir()
    result = dpcli(*command, "empty", folder=repository)
    assert result.code == 2 and "empty" in result.err and "a directory" in result.err


def test_a_folder_whose_pipelines_are_gone_is_judged(repository: Path) -> None:
    (repository / "old").mkdir()
    (repository / "old" / "x.toml").write_text(GATE)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "old")
    (repository / "old" / "x.toml").unlink()
    result = dpcli("gate", "old", "--base-ref", "HEAD", "-f", "text", folder=repository)
    assert result.code == 0 and "old/x.toml, a pipeline at HEAD, is deleted" in result.out
