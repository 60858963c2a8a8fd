"""The files that CI systems run: the action, the workflow that others call, the recipes of `dpcli init`. None runs a text."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.command import ROOT
from tests.comments.forges import ME, TOKEN, FakeForge, serving
from tests.gate.repositories import HARMLESS, changed, git, merge_request, shell
from tests.gate.samples import GATE, OVER

ACTION = ROOT / ".github" / "actions" / "gate" / "action.yml"
CALLED = ROOT / ".github" / "workflows" / "privacy-budget.yml"
EXAMPLE = ROOT / "dpcli" / "templates" / "ci-github.yml"
RISEN = GATE.replace("= 400.0\n", "= 380.0\n")
Ran = subprocess.CompletedProcess[str]


def yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


PATTERN = re.compile(r"/(?:\*\*/?\*?|\*|\.\*)\\?\.toml")
AT_BASE = re.compile(r"origin/[\w$]+:([\w/.-]+\.toml)")


def test_every_document_gates_every_pipeline_under_one_policy() -> None:
    """Nothing that a reader copies looks in one folder alone, or for small letters alone: a new pipeline anywhere is judged."""
    manuals = [*(ROOT / "dpcli" / "explain").glob("*.md"), *(ROOT / "man").iterdir(), ROOT / "README.md"]
    called = [ROOT / ".pre-commit-hooks.yaml", *(ROOT / ".github").rglob("*.y*ml"), *(ROOT / "dpcli" / "templates").glob("*.y*ml")]
    lines = [line for path in manuals for line in path.read_text().splitlines() if line.startswith(("dpcli gate", "dpcli comment"))]
    lines += [line for path in called for line in path.read_text().splitlines()]
    gates = [line for line in lines if "dpcli gate" in line or "dpcli comment" in line]
    policies = [found for line in lines for found in AT_BASE.findall(line.replace("\\-", "-"))]
    assert len(gates) > 10 and not [line for line in gates if PATTERN.search(line)], gates
    assert "default: pipelines" not in "".join(lines)
    assert set(policies) == {"policy.toml"} and len(policies) > 3, policies


def test_github_pins_what_it_uses_and_gives_each_job_what_it_needs() -> None:
    jobs = yaml(CALLED)["jobs"]["gate"], yaml(EXAMPLE)["jobs"]["gate"]
    uses = [[step["uses"] for step in job["steps"] if "uses" in step] for job in jobs]
    assert uses[0] == uses[1]
    assert jobs[0]["permissions"] == jobs[1]["permissions"]
    assert set(jobs[0]["permissions"]) == {"contents", "pull-requests"}


def action(clone: Path, forge: FakeForge, **inputs: str) -> Ran:
    """The steps of the action but for the installation, with the inputs' defaults."""
    stated = yaml(ACTION)["inputs"]
    given = {name: inputs.get(name, {"base": "origin/main", "token": TOKEN}.get(name, stated[name]["default"])) for name in stated}
    (step,) = [step for step in yaml(ACTION)["runs"]["steps"] if "env" in step]
    variables = {}
    for name, value in step["env"].items():
        asked = value.removeprefix("${{ ").removesuffix(" }}")
        variables[name] = given[asked.removeprefix("inputs.")] if asked.startswith("inputs.") else inputs.get("fork", "false")
    places = {"GITHUB_ACTION_PATH": str(ACTION.parent), "RUNNER_TEMP": str(clone.parent / "runner")}
    program = clone.parent / "runner" / "dpcli" / "bin" / "dpcli"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dpcli "$@"\n')
    program.chmod(0o755)
    summary = str(clone.parent / "summary.md")
    return shell(clone, step["run"], **{**forge.environment, **places, "GITHUB_STEP_SUMMARY": summary, **variables})


def steps(path: Path) -> Callable[..., Ran]:
    """The steps of a workflow that judge and comment, each whatever the one before it said; a failure of one is the job's."""

    def run(clone: Path, forge: FakeForge, **inputs: str) -> Ran:
        given = {"files": "", "policy": "", **inputs}
        codes, out, err = [], "", ""
        for step in yaml(path)["jobs"]["gate"]["steps"]:
            comments = "dpcli comment" in step.get("run", "")
            if not (comments or "dpcli gate" in step.get("run", "")) or (comments and inputs.get("fork") == "true"):
                continue
            variables = {}
            for name, value in step["env"].items():
                for word, text in (
                    ("inputs.files", given["files"]),
                    ("inputs.policy", given["policy"]),
                    ("github.base_ref", "main"),
                ):
                    value = value.replace(f"${{{{ {word} }}}}", text)
                variables[name] = value.replace("${{ github.token }}", TOKEN)
            ran = shell(clone, step["run"], **{**forge.environment, "GITHUB_STEP_SUMMARY": str(clone.parent / "s.md"), **variables})
            codes.append(ran.returncode)
            out, err = out + ran.stdout, err + ran.stderr
        code = next((code for code in codes if code), 0)
        return subprocess.CompletedProcess([], code, out, err)

    return run


RUNNERS = {"action": action, "workflow": steps(CALLED), "example": steps(EXAMPLE)}


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> Callable[..., Ran]:
    found: Callable[..., Ran] = RUNNERS[request.param]
    return found


@pytest.mark.long
@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(("text", "code", "count"), [(HARMLESS, 0, 0), (RISEN, 0, 1), (OVER, 1, 1), ("x", 2, 1)])
def test_github_judges_and_comments(clone: Path, runner: Callable[..., Ran], text: str, code: int, count: int) -> None:
    changed(clone, text)
    with serving(FakeForge("github")) as forge:
        result = runner(clone, forge)
    assert result.returncode == code, result.stderr
    assert "title=dpcli" in result.stdout
    assert len(forge.bodies()) == count
    assert all("`pipelines/ads/rank ing.toml`" in body for body in forge.bodies())
    assert TOKEN not in result.stdout + result.stderr


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", RUNNERS)
def test_a_pull_request_from_a_fork_is_judged_and_not_commented(clone: Path, kind: str) -> None:
    changed(clone, OVER)
    conditions = [
        str(step.get("if")) for path in (CALLED, EXAMPLE) for step in yaml(path)["jobs"]["gate"]["steps"] if "comment" in str(step)
    ]
    assert all("head.repo.full_name == github.repository" in one for one in conditions) and len(conditions) == 2
    with serving(FakeForge("github")) as forge:
        assert RUNNERS[kind](clone, forge, fork="true").returncode == 1
    assert forge.requests == []


@pytest.mark.parametrize("comment", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_the_action_comments_unless_it_is_told_not_to(clone: Path, comment: str) -> None:
    changed(clone, RISEN)
    with serving(FakeForge("github")) as forge:
        assert action(clone, forge, comment=comment).returncode == 0
    assert len(forge.bodies()) == (comment == "true")


@pytest.mark.long
def test_a_comment_that_fails_fails_the_job(clone: Path, runner: Callable[..., Ran]) -> None:
    changed(clone, RISEN)
    with serving(FakeForge("github", canned_answers={("POST", "comments"): (403, b"{}", {})})) as forge:
        assert runner(clone, forge).returncode == 2


@pytest.mark.long
@pytest.mark.parametrize("kind", ["action", pytest.param("workflow", marks=pytest.mark.long)])
def test_a_policy_and_patterns_are_inputs(clone: Path, kind: str) -> None:
    (clone / "policy.toml").write_text("format = 1\nepsilon = 0.5\n")
    (clone / "other").mkdir()
    (clone / "other" / "b c.toml").write_text(GATE.replace("ads-ranking", "b").replace("400.0", "401.0"))
    git(clone, "add", ".")
    changed(clone, HARMLESS)
    with serving(FakeForge("github")) as forge:
        patterns = "pipelines/**/*.toml\nother/*.toml\nnone/*.toml\n"
        result = RUNNERS[kind](clone, forge, files=patterns, policy="HEAD:policy.toml")
    assert result.returncode == 1
    assert result.stdout.count("cap 0.5") == 2
    (body,) = forge.bodies()
    assert "`other/b c.toml`" in body and "`pipelines/ads/rank ing.toml`" in body


HOSTILE = ("$(touch ../owned)", "`touch ../owned`", '"; touch ../owned; "', "--help", "\n-h")
QUICK = {("action", HOSTILE[2]), ("workflow", HOSTILE[0]), ("action", "--help")}


@pytest.mark.sampled(1, 5)
@pytest.mark.parametrize(
    ("kind", "hostile"),
    [
        pytest.param(kind, hostile, marks=() if (kind, hostile) in QUICK else pytest.mark.long)
        for kind in ("action", "workflow")
        for hostile in HOSTILE
    ],
)
def test_no_input_is_a_command(clone: Path, kind: str, hostile: str) -> None:
    changed(clone, HARMLESS)
    with serving(FakeForge("github")) as forge:
        RUNNERS[kind](clone, forge, files=hostile, policy=hostile)
    assert all("gate: INVALID" in body for body in forge.bodies())
    assert not (clone.parent / "owned").exists() and not (clone / "owned").exists()


@pytest.mark.long
def test_gitlab_comments_after_the_verdict(clone: Path) -> None:
    """With the exit code of the verdict: a server does not look at that of what comes after."""
    job = yaml(ROOT / "dpcli" / "templates" / "ci-gitlab.yml")["privacy-budget"]
    changed(clone, OVER)
    with serving(FakeForge("gitlab")) as forge:
        variables = {**forge.environment, **merge_request(clone)}
        assert shell(clone, "\n".join(job["script"]), **variables).returncode == 1
        assert forge.requests == []
        shell(clone, "\n".join(job["after_script"]), **variables)
        (body,) = forge.bodies()
        assert "**gate: FAIL" in body and forge.comments[0]["author"]["username"] == ME
        forge.requests.clear()
        assert shell(clone, "\n".join(job["after_script"]), **{**variables, "GITLAB_TOKEN": ""}).returncode == 0
        assert forge.requests == []
