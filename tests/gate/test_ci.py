"""Tests of the CI files of `dpcli init`: they are valid by the schemas of the CI systems, and have no known weakness."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tests.command import ROOT
from tests.gate.repositories import HARMLESS, changed, git, merge_request, shell
from tests.gate.samples import NO_BUDGET, OVER

CI = ROOT / "dpcli" / "templates"


def yaml(name: str) -> Any:
    return YAML(typ="safe").load((CI / name).read_text())


@pytest.mark.parametrize(
    ("name", "schema", "more"),
    [("ci-github.yml", "vendor.github-workflows", ()), ("ci-gitlab.yml", "vendor.gitlab-ci", ("--data-transform", "gitlab-ci"))],
)
def test_by_the_schema_of_the_system(name: str, schema: str, more: tuple[str, ...], tmp_path: Path) -> None:
    from check_jsonschema import main

    def checked(path: Path) -> int:
        return CliRunner().invoke(main, ["--builtin-schema", schema, *more, str(path)]).exit_code

    assert checked(CI / name) == 0
    spoilt = tmp_path / name
    spoilt.write_text(
        (CI / name).read_text().replace("permissions: {}", "permissions: all").replace("when: always", "when: sometimes")
    )
    assert checked(spoilt) == 1


def test_pre_commit_hooks_are_what_pre_commit_reads() -> None:
    """The keys that pre-commit requires of a hook, and the same hook in the manifest at the root of the project."""
    (repo,) = yaml("pre-commit.yaml")["repos"]
    manifest = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in manifest] == ["dpcli-lint", "dpcli-gate"]
    (hook,) = repo["hooks"]
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert {**hook, "language": "python"} == {key: value for key, value in manifest[1].items() if key != "description"}


def github(clone: Path, base: str = "main") -> subprocess.CompletedProcess[str]:
    """The workflow's own script, with what its `env` says."""
    steps = yaml("ci-github.yml")["jobs"]["gate"]["steps"]
    (step,) = [step for step in steps if "dpcli gate" in step.get("run", "")]
    assert step["env"] == {"BASE": "${{ github.base_ref }}"}
    return shell(clone, step["run"], BASE=base, GITHUB_STEP_SUMMARY=str(clone.parent / "summary.md"))


@pytest.mark.long
def test_github_tells_that_all_pipelines_are_deleted(clone: Path) -> None:
    git(clone, "rm", "-rq", "pipelines")
    result = github(clone)
    assert result.returncode == 0
    assert "::warning file=pipelines/ads/rank ing.toml" in result.stdout


@pytest.mark.long
def test_github_passes_where_there_never_was_a_pipeline(clone: Path) -> None:
    git(clone, "rm", "-rq", "pipelines")
    git(clone, "commit", "-qm", "none")
    git(clone, "push", "-q", "origin", "HEAD:main")
    result = github(clone)
    assert (result.returncode, result.stdout) == (0, "::notice title=dpcli::gate: pass\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("base", ["$(touch ../owned)", "`touch ../owned`", '"; touch ../owned; "', "no-such-branch"])
def test_a_branch_name_is_never_a_command(clone: Path, base: str) -> None:
    changed(clone, HARMLESS)
    assert github(clone, base).returncode == 128  # of git, which knows no such branch
    assert not (clone.parent / "owned").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "code"), [(HARMLESS, 0), (OVER, 1), ("x", 2)])
def test_gitlab(clone: Path, text: str, code: int) -> None:
    changed(clone, text)
    script = "\n".join(yaml("ci-gitlab.yml")["privacy-budget"]["script"])
    result = shell(clone, script, **merge_request(clone))
    assert result.returncode == code, result.stderr
    reports = yaml("ci-gitlab.yml")["privacy-budget"]["artifacts"]["reports"]
    assert all([*clone.glob(pattern)] for pattern in reports.values())


def test_gitlab_reads_the_base_from_the_project_that_the_request_goes_to(clone: Path) -> None:
    """The author of a fork has made its main branch, which origin is, what the change is."""
    changed(clone, OVER)
    git(clone, "init", "-q", "--bare", "--template=", str(clone.parent / "fork.git"))
    git(clone, "remote", "set-url", "origin", str(clone.parent / "fork.git"))
    git(clone, "push", "-q", "origin", "HEAD:main")
    script = "\n".join(yaml("ci-gitlab.yml")["privacy-budget"]["script"])
    result = shell(clone, script, **merge_request(clone, "fork"))
    assert result.returncode == 1 and "gate/increase" in result.stdout, result.stderr


@pytest.mark.long
def test_gitlab_writes_its_reports_to_no_place_that_a_change_has_chosen(clone: Path) -> None:
    """Nor does it take a pipeline away that goes by the name of a report."""
    job = yaml("ci-gitlab.yml")["privacy-budget"]
    outside = clone.parent / "outside"
    outside.write_text("kept")
    (clone / "dpcli-here").mkdir()
    for pattern in job["artifacts"]["reports"].values():
        for name in (pattern.replace("*", "here"), pattern.rpartition("/")[2]):
            (clone / name).symlink_to(outside)
    (clone / "dpcli-here" / "x.xml").write_text(OVER)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "links")
    result = shell(clone, "\n".join(job["script"]), **merge_request(clone))
    assert result.returncode == 1 and "dpcli-here/x.xml" in result.stdout, result.stderr
    assert outside.read_text() == "kept"


@pytest.mark.long
def test_gitlab_without_pipelines(clone: Path) -> None:
    git(clone, "rm", "-rq", "pipelines")
    script = "\n".join(yaml("ci-gitlab.yml")["privacy-budget"]["script"])
    assert shell(clone, script, **merge_request(clone)).returncode == 0


def test_the_hook_reads_the_policy_as_it_was_and_takes_a_first_commit(folder: Path) -> None:
    (hook,) = yaml("pre-commit.yaml")["repos"][0]["hooks"]
    work = folder / "work"
    git(folder, "init", "-q", "--template=", "-b", "main", str(work))
    (work / "policy.toml").write_text("format = 1\nepsilon = 3.0\n")
    (work / "a.toml").write_text(NO_BUDGET)
    git(work, "add", ".")
    first = shell(work, hook["entry"])
    assert first.returncode == 0 and "new file" in first.stdout, first.stderr
    git(work, "commit", "-qm", "first")
    (work / "a.toml").write_text(NO_BUDGET.replace("steps = 5_000", "steps = 200_000"))
    for policy in ("format = 1\nepsilon = 3.0\n", "format = 1\nepsilon = 9.0\n"):
        (work / "policy.toml").write_text(policy)
        result = shell(work, hook["entry"])
        assert result.returncode == 1 and "cap 3.0" in result.stdout, result.stderr
