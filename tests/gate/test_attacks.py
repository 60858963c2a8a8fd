"""Tests of attempts to get an undeserved pass, or a crash in place of a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpcli.gate import path_patterns
from dpcli.gate.path_patterns import matches
from tests.cases import of_each
from tests.command import ROOT, Result, dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE, OVER, conditions, judged, named, waiver

RISEN = GATE.replace("steps = 5_000", "steps = 20_000")
HEAD = ("--base-ref", "HEAD", "--max-increase", "0")
DAY = ("--as-of", "2030-06-01")


def gate(folder: Path, *arguments: str) -> Result:
    return dpcli("gate", *arguments, "-f", "text", folder=folder)


def baseline(folder: Path, path: str = "train.toml") -> dict[str, Any]:
    """What a gate inside of `folder` writes."""
    result = dpcli("gate", path, "-f", "json", folder=folder)
    found: dict[str, Any] = json.loads(result.out)
    (folder / "base.json").write_text(result.out)
    return found


def test_a_baseline_knows_a_file_by_any_spelling(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "link.toml").symlink_to("train.toml")
    asked = [
        name.format(repository) for name in ("train.toml", "{}/train.toml", "sub/../train.toml", "link.toml", "{}/sub/../link.toml")
    ]
    limit, passed = ("--max-increase", "0"), []
    for place, written in enumerate(("train.toml", "./train.toml", f"{repository}/train.toml", "sub/../train.toml")):
        (repository / "train.toml").write_text(GATE)
        baseline(repository, written)
        (repository / "train.toml").write_text(RISEN)
        passed += [
            (written, name) for name in asked[place % 2 :: 2] if gate(repository, name, "--baseline", "base.json", *limit).code != 1
        ]
        if gate(repository / "sub", f"{repository}/train.toml", "--baseline", "../base.json", *limit).code != 1:
            passed.append((written, "from sub"))
    assert passed == []


def test_two_entries_of_a_baseline_that_may_be_the_file(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "train.toml").write_text(RISEN)
    result = dpcli("gate", "train.toml", "sub/train.toml", "-f", "json", folder=repository)
    (repository / "base.json").write_text(result.out)
    assert gate(repository, "train.toml", "sub/train.toml", "--baseline", "base.json").code == 0
    asked = gate(repository / "sub", "train.toml", "--baseline", "../base.json")
    assert asked.code == 2
    assert "expected one entry, found 2; use the working directory in which the baseline was written" in asked.err


def test_a_file_that_was_invalid_is_no_new_file(repository: Path) -> None:
    (repository / "train.toml").write_text("format = 1\n")
    assert baseline(repository)["files"][0]["result"] is None
    git(repository, "commit", "-qam", "broken")
    (repository / "train.toml").write_text(RISEN)
    with_baseline = gate(repository, "train.toml", "--baseline", "base.json", "--max-increase", "0")
    assert with_baseline.code == 2
    assert "no comparison is possible, as the earlier gate computed no epsilon for this file" in with_baseline.err


@of_each(
    "where, value",
    [
        (("result", "epsilon_upper"), 10**400),
        (("result", "epsilon_upper"), "x"),
        (("result", "epsilon_upper"), -1.0),
        (("result", "epsilon_upper"), True),
        (("base_form", "statement"), ["delta"]),
        (("base_form", "statement", "delta"), "x"),
        (("base_form", "statement", "delta"), 2.0),
        (("base_form",), {}),
        (("base_form", "terms", "budget.epsilon"), "x"),
        (("base_form", "terms", "gate.max_increase"), "x"),
        (("base_form", "terms", "gate.max_increase"), 10**400),
        (("base_form", "terms"), 3),
        (("base_form", "terms", "budget.delta"), "x"),
        (("base_form", "mechanisms"), {"train": ["gaussian", "x"]}),
        (("base_form", "mechanisms"), 3),
        (("base_form", "horizon"), []),
        (("base_form", "horizon"), [float("inf"), 1]),
        (("base_form", "horizon"), [1, float("nan")]),
        (("base_form", "waivers"), [3]),
        (("pipeline", "path"), 3),
        (("pipeline", "path"), "\0"),
    ],
)
def test_a_baseline_of_wrong_values(repository: Path, where: tuple[str, ...], value: Any) -> None:
    found = baseline(repository)
    place = found["files"][0]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    (repository / "base.json").write_text(json.dumps(found))
    result = gate(repository, "train.toml", "--baseline", "base.json")
    assert result.code == 2, result.err
    assert "not written by dpcli gate -f json: " in result.err


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["committed", "staged", "uncommitted", "link in its place"])
def test_a_renamed_file_is_compared_with_what_it_was(repository: Path, how: str) -> None:
    (repository / "train.toml").rename(repository / "other.toml")
    (repository / "other.toml").write_text(RISEN.replace(" = ", "   =  "))
    if how == "link in its place":
        (repository / "train.toml").symlink_to("other.toml")
    if how in ("committed", "staged"):
        git(repository, "add", "-A")
    if how == "committed":
        git(repository, "commit", "-qm", "rename")
    found = named("increase", repository / "other.toml", "--base-ref", "HEAD~1" if how == "committed" else "HEAD")
    assert found["verdict"] == "fail"
    assert found["message"].startswith("renamed from train.toml: epsilon 1.3740 -> ")


def test_a_renamed_folder(repository: Path) -> None:
    (repository / "ads").mkdir()
    (repository / "ads" / "rank ing.toml").write_text(GATE)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "ads")
    (repository / "ads").rename(repository / "new")
    (repository / "ads").symlink_to("new")
    (repository / "new" / "rank ing.toml").write_text(RISEN)
    for folder in ("new", "ads"):
        assert named("increase", repository / folder / "rank ing.toml", "--base-ref", "HEAD")["verdict"] == "fail"


def test_links_are_followed_then_and_now(repository: Path) -> None:
    (repository / "dear.toml").write_text(RISEN)
    (repository / "link.toml").symlink_to("train.toml")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "link")
    assert gate(repository, "link.toml", *HEAD).code == 0
    (repository / "link.toml").unlink()
    (repository / "link.toml").symlink_to("dear.toml")
    assert gate(repository, "link.toml", *HEAD).code == 1
    (repository / "fresh.toml").symlink_to("train.toml")
    (repository / "train.toml").write_text(RISEN)
    assert gate(repository, "fresh.toml", *HEAD).code == 1
    (repository / "train.toml").unlink()
    (repository / "train.toml").symlink_to("dear.toml")
    assert gate(repository, "train.toml", *HEAD).code == 1


@pytest.mark.parametrize("nested", ["empty folder", "repository", "file"])
def test_a_repository_inside_has_no_patterns_of_its_own(repository: Path, nested: str) -> None:
    inner = repository / "x"
    (inner / "ads").mkdir(parents=True)
    (inner / "ads" / "p.toml").write_text(OVER)
    if nested == "empty folder":
        (inner / ".git").mkdir()
    elif nested == "file":
        (inner / ".git").write_text("gitdir: ../.git/modules/x\n")
    else:
        git(inner, "init", "-q")
    own = waiver("budget", epsilon="7.0").replace("[[gate.waiver]]", "[[waiver]]") + 'file = "ads/*.toml"\n'
    (repository / "policy.toml").write_text("format = 1\n" + own)
    for folder, path, policy in ((repository, "x/ads/p.toml", "policy.toml"), (inner, "ads/p.toml", "../policy.toml")):
        assert gate(folder, path, "--policy", policy, *DAY).code == 1
    (repository / "ads").mkdir()
    (repository / "ads" / "p.toml").write_text(OVER)
    assert gate(repository, "ads/p.toml", "--policy", "policy.toml", *DAY).code == 0
    # A policy from somewhere else: the repository around the working directory counts.
    (elsewhere := repository / ".git" / "policy.toml").write_text("format = 1\n" + own)
    assert gate(repository, "x/ads/p.toml", "--policy", str(elsewhere), *DAY).code == 1


def test_no_pattern_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is tried once; it would take for ever where parts are tried again."""
    tried: list[str] = []

    def counted(part: str, path: str, at: set[int]) -> set[int]:
        tried.append(part)
        return plain(part, path, at)

    plain = path_patterns._ends_after
    monkeypatch.setattr(path_patterns, "_ends_after", counted)
    for part in ("*a", "**a", "**/", "?*"):
        tried.clear()
        assert not matches(part * 60 + "b", "a" * 3000)
        assert "".join(tried) == part * 60 + "b"


@of_each("blank", ["\\u3164", "\\u2800", "\\uFFA0 \\u115F", "...", "-"])
@of_each("key", ["reason", "approver"])
def test_a_waiver_needs_words(repository: Path, key: str, blank: str) -> None:
    file = repository / "train.toml"
    file.write_text(OVER + waiver("budget", epsilon="7.0", **{key: f'"{blank}"'}))
    result = gate(repository, "train.toml", *DAY)
    assert result.code == 2
    assert f"gate.waiver[1].{key}: expected text with a visible letter or digit" in result.out + result.err


@of_each("words", ['"アダ"', '"7"', '"å"', '"\\u3164 ada"'])
def test_words_of_any_script(repository: Path, words: str) -> None:
    (repository / "train.toml").write_text(OVER + waiver("budget", epsilon="7.0", approver=words, reason=words))
    assert gate(repository, "train.toml", *DAY).code == 0


@of_each("text", ["NOT STATED", "not  stated.", "NOT STATED (disclosure.contact)", "ＮＯＴ ＳＴＡＴＥＤ", "\\u3164"])
def test_a_disclosure_cannot_state_that_it_is_not_stated(repository: Path, text: str) -> None:
    good = (ROOT / "examples" / "disclosure.toml").read_text()
    line = next(line for line in good.splitlines() if line.startswith("contact = "))
    file = repository / "disclosed.toml"
    file.write_text(good.replace(line, f'contact = "{text}"'))
    result = dpcli("report", str(file), "--strict")
    assert result.code == 2
    assert "disclosure.contact: expected " in result.err


def test_a_budget_at_a_larger_delta_than_promised(repository: Path) -> None:
    file = repository / "train.toml"
    silent = "\n".join(line for line in GATE.splitlines() if not line.startswith("dataset_size")) + "\n"
    file.write_text(silent.replace("[budget]\n", "[budget]\ndelta = 0.4\n"))
    found = {c["name"]: c for c in conditions(file)}
    assert found["delta"]["verdict"] == "fail"
    assert found["delta"]["message"] == "budget.delta: expected at most privacy.delta = 1e-08, found 0.4"
    assert found["delta"]["line"] == file.read_text().splitlines().index("delta = 0.4") + 1
    assert judged(file)["exit_code"] == 1
    assert judged(file, "--delta", "0.3")["exit_code"] == 0  # somebody outside of the file answers for it
    (repository / "policy.toml").write_text("format = 1\ndelta = 1e-7\n")
    assert judged(file, "--policy", repository / "policy.toml")["exit_code"] == 0
    file.write_text(silent.replace("[budget]\n", "[budget]\ndelta = 1e-8\n"))
    assert judged(file)["exit_code"] == 0


@of_each("epsilon, rate", [("12", "99.9994"), ("746", "100"), ("1e5", "100")])
def test_no_rate_is_above_one(repository: Path, epsilon: str, rate: str) -> None:
    file = repository / "train.toml"
    file.write_text(GATE.replace("epsilon = 3.0", f"epsilon = {epsilon}"))
    assert f"at a 1 % false-positive rate it permits a {rate} % hit rate" in dpcli("lint", str(file), "-f", "text").out


@of_each("runs", [(), ("--horizon", "50", "--horizon-epsilon", "1")])
def test_what_loses_nothing_passes_however_often(repository: Path, runs: tuple[str, ...]) -> None:
    file = repository / "train.toml"
    head, *_ = GATE.partition("[[mechanism]]")
    file.write_text(head + '[[mechanism]]\nname = "a"\ntype = "post-processing"\nsteps = 50\n')
    found = judged(file, *runs)
    assert (found["exit_code"], found["files"][0]["result"]["epsilon_upper"]) == (0, 0.0)
