"""Tests of malicious pull requests: the workflows of `dpcli init` start for each, and their shell line refuses or reports it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.command import ROOT, dpcli
from tests.gate.repositories import committed, copied, git, shell, submodule
from tests.gate.samples import GATE, waiver

TEMPLATES = ROOT / "dpcli" / "templates"
FILE = "pipelines/rank ing.toml"
PIPELINE = GATE.replace("[privacy]\n", '[privacy]\ndataset = "clicks"\n')
OVER = PIPELINE.replace("steps = 5_000", "steps = 200_000")  # epsilon 6.921, cap 3
POLICY = """format = 1
require_dataset = ["clicks", "views"]

[[together]]
datasets = ["clicks"]
epsilon = 2.0
delta = 1e-8
"""
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 700\n"
WORKFLOWS = {
    "ci-github.yml": ".github/workflows/gate.yml",
    "ci-gitlab.yml": ".gitlab-ci.yml",
    "pre-commit.yaml": ".pre-commit-config.yaml",
}
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of a repository with a policy, all workflows, a pipeline, a link to one, and one in a repository inside."""
    folder = tmp_path_factory.mktemp("base")
    inner = committed(folder / "inner", it=PIPELINE.replace("clicks", "views"))
    work = committed(folder / "work", policy=POLICY, models__real=PIPELINE.replace("clicks", "views"))
    for name, place in WORKFLOWS.items():
        (work / place).parent.mkdir(parents=True, exist_ok=True)
        (work / place).write_text((TEMPLATES / name).read_text())
    (work / "pipelines").mkdir()
    (work / FILE).write_text(PIPELINE)
    (work / "pipelines" / "link.toml").symlink_to("../models/real.toml")
    (work / "README.md").write_text("A shop.\n")
    submodule(work, inner, "vendor")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "base")
    git(work, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(work, "checkout", "-qb", "change")
    return folder


@pytest.fixture
def work(base: Path, tmp_path: Path) -> Path:
    return copied(base, tmp_path) / "work"


def write(name: str, text: str = OVER) -> Change:
    def made(work: Path) -> None:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)

    return made


def edit(old: str, new: str, name: str = FILE) -> Change:
    def made(work: Path) -> None:
        text = (work / name).read_text()
        assert old in text
        (work / name).write_text(text.replace(old, new))

    return made


def both(*changes: Change) -> Change:
    return lambda work: [change(work) for change in changes]


def move(name: str, to: str) -> Change:
    return lambda work: git(work, "mv", name, to)


def removed(*names: str) -> Change:
    return lambda work: git(work, "rm", "-q", "--", *names)


def link(name: str, to: str) -> Change:
    def made(work: Path) -> None:
        (work / name).unlink(missing_ok=True)
        (work / name).symlink_to(to)

    return made


def inside(work: Path) -> None:
    """Another commit of the repository inside."""
    write("vendor/it.toml", OVER.replace("clicks", "views"))(work)
    git(work / "vendor", "commit", "-qam", "dearer")


def without_address(work: Path) -> None:
    """A repository inside of which .gitmodules says nothing: nobody can check it out."""
    commit = git(work / "vendor", "rev-parse", "HEAD").strip()
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{commit},hidden")
    (work / "hidden").mkdir()


RAISED = edit("steps = 5_000", "steps = 200_000")
NAMES = (
    "new.TOML",
    "a b/new.toml",
    "a\nb.toml",
    "-o.toml",
    "--help.toml",
    "übung.toml",
    "$(touch owned).toml",
    "a';b\".toml",
    ":(top)x.toml",
)
WORKFLOW = "calls dpcli and differs from origin/main"
# What is changed, the exit code, and words of what is said.
PULLS: dict[str, tuple[Change, int, str]] = {
    "more steps": (RAISED, 1, "gate/increase"),
    "less noise in a list": (
        edit("noise_multiplier = 400.0", "noise_multiplier = [400.0, 50.0]"),
        1,
        "train: noise_multiplier 400.0 -> [400.0, 50.0]",
    ),
    "the target of a link": (write("models/real.toml", OVER.replace("clicks", "views")), 1, "file=models/real.toml"),
    "another target": (
        both(write("models/dear.toml"), link("pipelines/link.toml", "../models/dear.toml")),
        1,
        "file=pipelines/link.toml",
    ),
    "a link out of the repository": (link(FILE, "/etc/passwd"), 2, FILE),
    "a repository inside": (inside, 1, "file=vendor/it.toml"),
    "a repository inside that git is told to ignore": (
        both(inside, lambda work: git(work, "config", "-f", ".gitmodules", "submodule.vendor.ignore", "all")),
        1,
        "file=vendor/it.toml",
    ),
    "a repository inside that nobody can check out": (without_address, 0, "not checked out: its files are not judged"),
    **{f"a new file {name!a}": (write(name), 1, "epsilon 6.9") for name in NAMES},
    "a new file in a hidden folder": (write(".cache/x/new.toml"), 1, ".cache/x/new.toml"),
    "a new file of another ending": (write("conf/new.conf"), 1, "conf/new.conf"),
    "a new file that git is told to ignore": (
        both(write(".gitignore", "build/\n"), write("build/new.toml"), lambda work: git(work, "add", "-f", "build/new.toml")),
        1,
        "build/new.toml",
    ),
    "the same dataset again": (write("models/x.toml", PIPELINE), 1, "gate/together"),
    "the same dataset in capitals": (write("x.Toml", PIPELINE), 1, "gate/together"),
    "a new file without a dataset": (write("x.toml", GATE), 1, "gate/policy"),
    "a dataset renamed": (edit('"clicks"', '"views"'), 1, "privacy.dataset clicks -> views"),
    "renamed and dearer": (both(move(FILE, "x.toml"), edit("steps = 5_000", "steps = 200_000", "x.toml")), 1, "gate/increase"),
    "moved out of TOML": (both(move(FILE, "x.txt"), edit("steps = 5_000", "steps = 200_000", "x.txt")), 1, "x.txt"),
    "deleted": (removed(FILE), 0, f"{FILE}, a pipeline at origin/main, is deleted"),
    "a pointer of Git LFS": (write("models/x.toml", POINTER), 2, "a Git LFS pointer: check out the file itself"),
    "a pipeline that became a pointer": (write(FILE, POINTER), 2, "a Git LFS pointer: check out the file itself"),
    "new, and no TOML": (write("models/x.toml", f"{{% if x %}}\n{OVER}"), 2, "models/x.toml"),
    "no TOML any more": (write(FILE, "privacy\n"), 2, "expected = after a key"),
    "a byte order mark and other line breaks": (
        lambda work: (work / FILE).write_bytes(OVER.encode("utf-8-sig").replace(b"\n", b"\r\n")),
        2,
        FILE,
    ),
    "no difference that git shows": (
        both(RAISED, write(".gitattributes", "*.toml binary -diff linguist-generated\n")),
        1,
        "gate/increase",
    ),
    "the own cap raised": (edit("epsilon = 3.0", "epsilon = 9.0"), 1, "budget.epsilon 3 -> 9"),
    "the own limit raised": (both(RAISED, edit("max_increase = 0.25", "max_increase = 9.0")), 1, "gate.max_increase 0.25 -> 9"),
    "delta raised": (edit("delta = 1e-8", "delta = 1e-7"), 1, "delta 1e-08 -> 1e-07"),
    "adjacency changed": (edit('"add-remove"', '"zero-out"'), 1, "adjacency add-remove -> zero-out"),
    "unit coarsened": (edit('unit = "user"', 'unit = "session"'), 1, "unit user -> session"),
    "a mechanism called free": (
        edit('type = "gaussian"\nnoise_multiplier = 400.0\nsteps = 5_000', 'type = "post-processing"'),
        1,
        "gate/restatement",
    ),
    "a claim": (edit("sensitivity = 1.0", "sensitivity = 0.5"), 0, "gate/claim"),
    "a waiver of its author's": (
        both(
            RAISED,
            edit(
                "[gate]", waiver("increase", "2099-01-01", epsilon="9.0") + waiver("budget", "2099-01-01", epsilon="9.0") + "[gate]"
            ),
        ),
        1,
        "gate/together",
    ),
    "a waiver of what it may waive": (
        both(edit("steps = 5_000", "steps = 9_000"), edit("[gate]", waiver("increase", "2099-01-01", epsilon="9.0") + "[gate]")),
        1,
        "is not valid: the policy accepts no waivers in pipeline files",
    ),
    "the policy loosened": (edit("2.0", "9.0", "policy.toml"), 0, "policy.toml changed: its version at origin/main applies"),
    "the policy loosened for what it forbids": (both(edit("2.0", "9.0", "policy.toml"), write("x.toml", PIPELINE)), 1, "cap 2.0"),
    "the policy deleted": (both(removed("policy.toml"), write("x.toml", PIPELINE)), 1, "cap 2.0"),
    "the policy moved": (both(move("policy.toml", "old.toml"), write("x.toml", GATE)), 1, "gate/policy"),
    "a no that does not count": (
        edit('$GITHUB_STEP_SUMMARY"', '$GITHUB_STEP_SUMMARY" || true', WORKFLOWS["ci-github.yml"]),
        0,
        WORKFLOW,
    ),
    "a workflow that filters paths": (
        edit("  pull_request:\n", "  pull_request:\n    paths: [none]\n", WORKFLOWS["ci-github.yml"]),
        0,
        WORKFLOW,
    ),
    "a workflow deleted": (removed(WORKFLOWS["ci-github.yml"]), 0, WORKFLOW),
    "a workflow more": (write(".github/workflows/x.yaml", "jobs: { gate: { steps: [{ run: dpcli --version }] } }\n"), 0, WORKFLOW),
    "another job of GitLab": (edit("- dpcli gate", "- true || dpcli gate", WORKFLOWS["ci-gitlab.yml"]), 0, WORKFLOW),
    "another hook": (edit("--base-ref HEAD", "--base-ref HEAD --max-epsilon 99", WORKFLOWS["pre-commit.yaml"]), 0, WORKFLOW),
}
HARMLESS: dict[str, Change] = {
    "prose": edit("shop", "good shop", "README.md"),
    "a comment": edit("[gate]", "# of ours\n[gate]"),
    "other TOML": write("tool.toml", "[tool]\nname = 'privacy'\n"),
    "TOML that is broken on purpose": write("fixtures/broken.toml", "a = = 1\n"),
    "a template of another program's TOML": write(
        "{{ name }}/pyproject.toml",
        '[project]\nname = {{ name }}\n{% if privacy %}\n# [privacy]\nkeywords = ["privacy"]\n[tool.privacy]\n{% endif %}\n',
    ),
    "a link that a report once had the name of": link("dpcli.sarif", "README.md"),
    "another workflow": write(".github/workflows/docs.yml", "on: push\n"),
    "more noise": edit("noise_multiplier = 400.0", "noise_multiplier = 500.0"),
}


def recipe(name: str) -> Any:
    return YAML(typ="safe").load((TEMPLATES / name).read_text())


def github_starts(workflow: Any, paths: Sequence[str]) -> bool:
    """Whether a pull request that changes these paths starts the workflow when it is opened, pushed to, or gets another base."""
    trigger = workflow["on" if "on" in workflow else True]["pull_request"] or {}
    wanted = {"opened", "synchronize", "reopened", "edited"} <= {*trigger.get("types", ())} and "branches" not in trigger
    patterns = [pattern_of(each) for each in trigger.get("paths", ())]
    through = not patterns or any(one.fullmatch(path) for one in patterns for path in paths)
    return wanted and through and "paths-ignore" not in trigger and not any("if" in job for job in workflow["jobs"].values())


def pattern_of(glob: str) -> re.Pattern[str]:
    """As GitHub reads the patterns of `paths`: * within one folder, ** anywhere."""
    return re.compile(re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"), re.DOTALL)


def gitlab_starts(job: Any, paths: Sequence[str]) -> bool:
    """Whether a merge request starts the job: a rule without `changes`; none of the recipe has others."""
    return any(rule["if"] == '$CI_PIPELINE_SOURCE == "merge_request_event"' and rule.keys() == {"if"} for rule in job["rules"])


def hook_starts(hook: Any, paths: Sequence[str]) -> bool:
    """Whether pre-commit runs the hook for a commit of these paths, as a call without any of them."""
    return bool(hook.get("always_run")) and hook.get("pass_filenames") is False


def scripts() -> Iterator[tuple[str, dict[str, str]]]:
    """The shell line of each recipe that judges, with the variables that its system sets."""
    (step,) = [step for step in recipe("ci-github.yml")["jobs"]["gate"]["steps"] if "dpcli gate" in step.get("run", "")]
    yield step["run"], {"BASE": "main", "GITHUB_STEP_SUMMARY": "summary.md"}
    lines = recipe("ci-gitlab.yml")["privacy-budget"]["script"]
    assert lines[0].startswith("git fetch ")
    yield "\n".join(lines[1:]), {}
    (hook,) = recipe("pre-commit.yaml")["repos"][0]["hooks"]
    yield hook["entry"], {}


def asked(work: Path, script: str, variables: dict[str, str]) -> list[str]:
    """The words that a script calls dpcli with."""
    programs = work.parent / "words"
    programs.mkdir(exist_ok=True)
    (programs / "dpcli").write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    (programs / "dpcli").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
    result = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=work, env=environment, capture_output=True, check=True
    )
    return result.stdout.decode().split("\0")[:-1]


def proposed(work: Path, change: Change) -> list[str]:
    """Commit the change, and return the paths that it touches as a forge sees them."""
    change(work)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "change")
    return git(work, "diff", "--name-only", "-z", "origin/main", "HEAD").split("\0")[:-1]


@pytest.mark.sampled(2, 4)
@pytest.mark.parametrize("name", PULLS)
def test_a_hostile_pull_request_is_refused_or_told(work: Path, name: str) -> None:
    change, code, words = PULLS[name]
    paths = proposed(work, change)
    assert paths and github_starts(recipe("ci-github.yml"), paths)
    assert gitlab_starts(recipe("ci-gitlab.yml")["privacy-budget"], paths)
    script, variables = next(scripts())
    result = dpcli(*asked(work, script, variables), folder=work)
    assert (result.code, words in result.out) == (code, True), result.out + result.err
    assert "::error" in result.out if code else "::warning" in result.out
    assert not (work / "owned").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_pull_request_passes_without_a_word(work: Path, name: str) -> None:
    proposed(work, HARMLESS[name])
    script, variables = next(scripts())
    result = dpcli(*asked(work, script, variables), folder=work)
    assert result.code == 0 and "::warning" not in result.out and "::error" not in result.out, result.out


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(
    "name", ["more steps", "a new file 'a\\nb.toml'", "a repository inside", "the policy loosened for what it forbids"]
)
def test_the_shell_line_of_every_recipe_says_so(work: Path, name: str) -> None:
    """With the real program, before the change is committed for the hook, and after it for the forges."""
    change, code, _ = PULLS[name]
    github, gitlab, hook = scripts()
    change(work)
    git(work, "add", "-A")
    assert shell(work, hook[0], **hook[1]).returncode == code
    git(work, "commit", "-qm", "change")
    git(work, "fetch", "-q", ".", "origin/main")
    for script, variables in (github, gitlab):
        result = shell(work, script, **variables)
        assert result.returncode == code, result.stdout + result.stderr


def test_a_filter_of_paths_would_not_start(work: Path) -> None:
    """The judge of triggers can say no: patterns of paths miss links, repositories inside and other places."""
    workflow = recipe("ci-github.yml")
    workflow["on"]["pull_request"]["paths"] = ["pipelines/**.toml", "policy.toml"]
    missed = [["models/real.toml"], ["vendor"], ["models/x.toml"], ["pipelines/new.TOML"], [".github/workflows/gate.yml"]]
    assert [github_starts(workflow, paths) for paths in [[FILE], ["policy.toml"], *missed]] == [True, True, *[False] * 5]
    (hook,) = recipe("pre-commit.yaml")["repos"][0]["hooks"]
    assert hook_starts(hook, [FILE]) and not hook_starts({**hook, "always_run": False}, [FILE])
    job = recipe("ci-gitlab.yml")["privacy-budget"]
    assert not gitlab_starts({**job, "rules": [{**job["rules"][0], "changes": ["pipelines/**/*.toml"]}]}, [FILE])
