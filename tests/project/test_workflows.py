"""The project's own workflows: what starts them, what they may do, and that each line of shell does its work and fails where that fails."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import dpcli
from tests.command import ROOT

GITHUB = ROOT / ".github"
ACTION = GITHUB / "actions" / "gate" / "action.yml"
EXAMPLE = ROOT / "dpcli" / "templates" / "ci-github.yml"
WORKFLOWS = {path.stem: path for path in sorted((GITHUB / "workflows").glob("*.yml"))}
OWN = ("nightly", "pages", "release", "tests")  # those that are not called from elsewhere
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = dpcli.__version__


@cache
def yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml(WORKFLOWS[name])["jobs"]
    return found


@dataclass(frozen=True)
class Step:
    """A step that runs a script: where it stands, by which shell, and the values of its variables."""

    where: str
    script: str
    shell: tuple[str, ...]
    variables: Mapping[str, str] = field(hash=False)


STRICT = ("bash", "--noprofile", "--norc", "-eo", "pipefail")  # what GitHub makes of `shell: bash`
PLAIN = ("bash", "-e")  # and of no shell at all


@cache
def steps() -> dict[str, Step]:
    """Every step with a script, of workflows, action and example, by "file/job/name"."""
    found = [step for path in (*WORKFLOWS.values(), EXAMPLE) for step in scripts(path)]
    found += [step_of("action", "runs", one, one["shell"]) for one in yaml(ACTION)["runs"]["steps"] if "run" in one]
    return {step.where: step for step in found}


def scripts(path: Path) -> Iterator[Step]:
    document = yaml(path)
    shell = document.get("defaults", {}).get("run", {}).get("shell", "")
    for name, job in document["jobs"].items():
        for one in job["steps"]:
            if "run" in one:
                yield step_of(path.stem, name, one, one.get("shell", shell))


def step_of(file: str, job: str, one: Mapping[str, Any], shell: str) -> Step:
    return Step(f"{file}/{job}/{one['name']}", one["run"], STRICT if shell == "bash" else PLAIN, one.get("env", {}))


# What starts each, and what each job may write.

TRIGGERS = {
    "nightly": {"schedule": [{"cron": "17 3 * * *"}], "workflow_dispatch": None},
    "pages": {"release": {"types": ["published"]}, "workflow_dispatch": None},
    "release": {"push": {"tags": ["v*"]}},
    "tests": {"push": {"branches": ["main"]}, "pull_request": None},
}
WRITES = {
    "release/attest": {"id-token", "attestations"},
    "release/publish": {"id-token"},
    "release/announce": {"contents"},
    "pages/deploy": {"pages", "id-token"},
    "privacy-budget/gate": {"pull-requests"},
}


def test_what_starts_each_workflow() -> None:
    """Every change, every night, every tag of a version, every release; no filter by path, which would let a change pass unseen."""
    assert {name: yaml(WORKFLOWS[name])["on"] for name in OWN} == TRIGGERS
    assert set(WORKFLOWS) == {*OWN, "privacy-budget"} and set(yaml(WORKFLOWS["privacy-budget"])["on"]) == {"workflow_call"}


def test_each_job_may_do_what_it_needs_and_ends() -> None:
    writes = {}
    for name, path in WORKFLOWS.items():
        document = yaml(path)
        assert document["permissions"] == {}, name
        for job, stated in document["jobs"].items():
            where = f"{name}/{job}"
            assert "concurrency" in document or "concurrency" in stated, where
            assert name not in OWN or stated["timeout-minutes"] <= 350, where
            writes[where] = {scope for scope, level in stated["permissions"].items() if level != "read"}
            checkouts = [one for one in stated["steps"] if one.get("uses", "").startswith("actions/checkout@")]
            assert all(one["with"]["persist-credentials"] is False for one in checkouts), where
    assert {where: scopes for where, scopes in writes.items() if scopes} == WRITES


def test_what_signs_runs_no_code_of_the_repository() -> None:
    """Whoever may ask for the identity of the workflow takes what was built over as it is, and after it was built."""
    release = jobs("release")
    for name in ("attest", "publish"):
        assert not any("run" in one or "checkout" in one["uses"] for one in release[name]["steps"]), name
    assert [release[name]["needs"] for name in ("attest", "publish", "announce")] == ["build", "attest", "publish"]
    assert not any("checkout" in one.get("uses", "") for one in release["announce"]["steps"])
    (deploy,) = jobs("pages")["deploy"]["steps"]
    assert "uses" in deploy
    assert release["publish"]["environment"]["name"] == "pypi"


def test_every_action_is_pinned_to_one_commit_whose_version_is_told() -> None:
    pins: dict[str, set[str]] = {}
    for path in (*WORKFLOWS.values(), ACTION, EXAMPLE):
        for line in path.read_text().splitlines():
            if used := re.match(r" *(?:- )?uses: (.*)", line):
                pinned = re.fullmatch(r"([\w.-]+/[\w./-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)", used[1])
                assert pinned, line
                pins.setdefault(pinned[1], set()).add(pinned[2])
    assert len(pins) >= 6 and {name: found for name, found in pins.items() if len(found) > 1} == {}


def test_pythons_are_those_that_the_project_names() -> None:
    """The matrix is what the classifiers say, from the lowest Python on without a gap; the lowest dependencies are tried on the lowest."""
    pythons = jobs("tests")["tests"]["strategy"]["matrix"]["python"]
    lowest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    classifiers = [one.removeprefix("Programming Language :: Python :: ") for one in PYPROJECT["project"].get("classifiers", ())]
    assert [one for one in classifiers if re.fullmatch(r"3\.\d+", one)] in (pythons, [])
    assert pythons == [f"3.{minor}" for minor in range(int(lowest.removeprefix("3.")), int(pythons[-1].removeprefix("3.")) + 1)]
    for name in ("lint", "lowest"):
        (version,) = [
            one["with"]["python-version"] for one in jobs("tests")[name]["steps"] if "python-version" in one.get("with", {})
        ]
        assert version == lowest, name


def test_the_manual_calls_the_action_and_the_hooks_as_they_are() -> None:
    text = (ROOT / "dpcli" / "explain" / "gate.md").read_text()
    (step,), hooks = (YAML(typ="safe").load(block) for block in re.findall(r"(?ms)^```yaml\n(.*?)^```$", text))
    place, version = step["uses"].split("@")
    assert ROOT / place.removeprefix("OWNER/dpcli/") == (GITHUB / "actions" / "gate") and version == f"v{VERSION}"
    assert set(step["with"]) < set(yaml(ACTION)["inputs"])
    (repo,) = hooks["repos"]
    assert repo["rev"] == f"v{VERSION}"
    assert [hook["id"] for hook in repo["hooks"]] == [hook["id"] for hook in yaml(ROOT / ".pre-commit-hooks.yaml")]


def test_lint_is_what_runs_before_a_commit() -> None:
    (repo,) = yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    lines = [hook["entry"].removeprefix(".venv/bin/") for hook in repo["hooks"]]
    assert steps()["tests/lint/Lint and types"].script.splitlines() == lines


# Which tests a command selects.

FAMILY = """
import pytest
from hypothesis import given, strategies
def test_plain(): pass
@pytest.mark.long
def test_long(): pass
@pytest.mark.nightly
def test_nightly(): pass
@pytest.mark.nightly
@pytest.mark.long
def test_both(): pass
@given(strategies.integers())
def test_law(n): pass
"""
SELECTED = {
    "tests/tests/All tests but the nightly ones": {"plain", "long", "law"},
    "nightly/nightly/Tests": {"nightly", "both"},
    "nightly/laws/Tests": {"law"},
}


@pytest.mark.long
def test_each_job_selects_its_tests(tmp_path: Path) -> None:
    """By the command of the workflow, the settings of the project and its conftest."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "test_family.py").write_text(FAMILY)
    for where, names in SELECTED.items():
        words = shlex.split(steps()[where].script)
        assert words[:5] == ["python", "-m", "pytest", "-n", "2"], where
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--collect-only", *words[5:]]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        out = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r"::test_(\w+)", out)) == names, where


def test_nights_draw_fresh_cases() -> None:
    assert yaml(WORKFLOWS["nightly"])["env"] == {"CI": ""}
    assert steps()["nightly/laws/Tests"].variables == {"HYPOTHESIS_PROFILE": "thorough"}


# The lines of shell.

VALUES = {
    "github.ref_name": f"v{VERSION}",
    "github.token": "a-token",
    "github.base_ref": "main",
    "inputs.files": "examples/gate.toml",
    "inputs.policy": "policy.toml",
    "inputs.requirement": "dpcli @ git+https://example.org/dpcli",
    "inputs.base": "origin/main",
    "inputs.comment": "true",
    "inputs.sarif": "findings.sarif",
    "inputs.token": "a-token",
    "github.event.pull_request.head.repo.full_name != github.repository": "false",
}
PROGRAMS = ("python", "python3", "pip", "twine", "actionlint", "ruff", "mypy", "dpcli", "gh", "git")

# In place of every program: it notes how it was called, fails where it is the call that should, and does what the lines after it rely on.
PROGRAM = """#!/bin/bash
name=${{0##*/}}
{{ printf '%s' "$name"; printf ' %q' "$@"; printf '\\n'; }} >>'{state}/calls'
mapfile -t calls <'{state}/calls'
if [ "${{#calls[@]}}" = "$(<'{state}/fails')" ]; then exit 7; fi
case "$name $*" in
  git\\ *) exec '{git}' "$@" ;;
  *" -m venv "*) mkdir -p "${{@: -1}}/bin"; for each in python pip dpcli; do ln -sf '{state}/program' "${{@: -1}}/bin/$each"; done ;;
  "python3 .ci/readme") cat '{state}/readme' ;;
  "python .ci/lowest "*) echo numpy==1.26 ;;
  "python -m build --outdir "*) mkdir -p "$4"; touch "$4"/dpcli-{version}.tar.gz "$4"/dpcli-{version}-py3-none-any.whl ;;
  "python -m build") mkdir -p dist; touch dist/dpcli-{version}.tar.gz dist/dpcli-{version}-py3-none-any.whl ;;
  "python -c "*) exec '{python}' "$@" ;;
  "gh run list "*) cat '{state}/passed' ;;
  "dpcli --version") echo 'dpcli {version}' ;;
  "dpcli gate "*" --max-epsilon "*) exit 1 ;;
  "dpcli account "*" -f total") echo 2.6002477 ;;
esac
"""


def quick_start() -> list[str]:
    """The commands on README's first screen."""
    return re.findall(r"^    (\S.*)$", (ROOT / "README.md").read_text().partition("\n## ")[0], re.M)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    calls: list[str]


class Runner:
    """A checkout of a released commit, and programs that only note how they are called."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.state, self.temporary = folder / "checkout", folder / "state", folder / "a temporary folder"
        for path in (self.checkout / ".github", self.state / "bin", self.temporary):
            path.mkdir(parents=True)
        (self.state / "readme").write_text("\n".join(quick_start()) + "\n")
        (self.state / "passed").write_text("1\n")
        program = self.state / "program"
        program.write_text(PROGRAM.format(state=self.state, git=shutil.which("git"), python=sys.executable, version=VERSION))
        program.chmod(0o755)
        for place in (self.state / "bin", self.temporary / "dpcli" / "bin"):
            place.mkdir(parents=True, exist_ok=True)
            for name in PROGRAMS:
                (place / name).symlink_to(program)
        (self.checkout / "dpcli").mkdir()
        shutil.copy(ROOT / "dpcli" / "__init__.py", self.checkout / "dpcli")
        self.changelog(f"## {VERSION} (2026-12-01)")
        self.git("init", "-q", "-b", "main")
        self.commit()
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")

    def changelog(self, heading: str) -> None:
        (self.checkout / ".github" / "CHANGELOG.md").write_text(f"# Changes\n\n{heading}\n\n* a word\n\n## 0.0.1 (2020-01-01)\n")

    def git(self, *words: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *name, *words], cwd=self.checkout, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-qm", "a change", "--allow-empty")

    def run(self, where: str, fails: int = 0, values: Mapping[str, str] = VALUES) -> Ran:
        """The step, as GitHub would run it. fails: the call of a program that fails, from 1 on."""
        step = steps()[where]
        (self.state / "fails").write_text(str(fails))
        (self.state / "calls").write_text("")
        for place in (self.checkout / "dist", self.checkout / "notes", self.temporary / "committed", self.temporary / "again"):
            shutil.rmtree(place, ignore_errors=True)
        (self.checkout / "dist").mkdir()
        for ending in ("-py3-none-any.whl", ".tar.gz"):
            (self.checkout / "dist" / f"dpcli-{VERSION}{ending}").touch()
        script = self.state / "script.sh"
        script.write_text(step.script)
        variables = {name: re.sub(r"\$\{\{ (.*?) \}\}", lambda one: values[one[1]], text) for name, text in step.variables.items()}
        environment = {
            "PATH": f"{self.state / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.temporary),
            "CI": "true",
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_REPOSITORY": "OWNER/dpcli",
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
            "GITHUB_ACTION_PATH": str(ACTION.parent),
            **variables,
        }
        ran = subprocess.run(
            [*step.shell, str(script)], cwd=self.checkout, env=environment, capture_output=True, text=True, check=False
        )
        return Ran(ran.returncode, ran.stdout + ran.stderr, (self.state / "calls").read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_no_line_is_made_of_an_expression() -> None:
    """What somebody else chose, such as a branch's name, reaches the shell as a variable; and each script is one that bash can read."""
    assert len(steps()) > 25
    assert [where for where, step in steps().items() if "${{" in step.script] == []
    assert [where for where, step in steps().items() if where.startswith(OWN) and step.shell != STRICT] == []
    wrong = {}
    for where, step in steps().items():
        read = subprocess.run(["bash", "-n"], input=step.script, capture_output=True, text=True, check=False)
        wrong[where] = read.stderr
    assert {where: error for where, error in wrong.items() if error} == {}


GOES_ON = ("action/runs/Gate",)  # comments on what the gate stopped, and leaves with the gate's exit code


@pytest.mark.long
def test_a_step_passes_where_all_passes_and_fails_where_any_program_fails(runner: Runner) -> None:
    """Each call of each program fails in turn: the step fails, and nothing after that call is made."""
    wrong, calls = [], 0
    shutil.copytree(ROOT / "examples", runner.checkout / "examples", ignore=shutil.ignore_patterns("runs"))
    for where in steps():
        whole = runner.run(where)
        if whole.code or not whole.calls:
            wrong.append(f"{where}: exit code {whole.code}, {whole.calls}: {whole.out}")
        for number, call in enumerate(whole.calls, 1):
            ran = runner.run(where, fails=number)
            if not ran.code:
                wrong.append(f"{where}: passes where this fails: {call}")
            elif ran.calls != whole.calls[:number] and where not in GOES_ON:
                wrong.append(f"{where}: goes on where this fails: {call}")
        calls += len(whole.calls)
    assert wrong == [] and calls > 50


def called(runner: Runner, where: str) -> list[list[str]]:
    return [shlex.split(call) for call in runner.run(where).calls]


def test_the_lowest_dependencies_are_installed_beside_the_project_and_its_tests(runner: Runner) -> None:
    asked, installed = called(runner, "tests/lowest/Install the lowest version of each dependency")
    assert asked[:2] == ["python", ".ci/lowest"]
    lowest = str(runner.temporary / "lowest.txt")
    assert installed == ["python", "-m", "pip", "install", "-q", "-r", lowest, "-e", ".[test-core]"]
    assert Path(lowest).read_text() == "numpy==1.26\n"
    (words,) = called(runner, "tests/lowest/Quick tests of what depends on them")
    assert words[:5] == ["python", "-m", "pytest", "-n", "2"] and len(words) > 10
    assert [path for path in words[5:] if not (ROOT / path).exists()] == []


README_STEP = "tests/readme/Set up and price, then pass the tests"


def test_readmes_commands_run_as_they_stand(runner: Runner) -> None:
    """What the commands call is what is between their `&&`, in order."""
    _, *calls = called(runner, README_STEP)
    words = [shlex.split(part) for line in quick_start() for part in line.split(" && ")]
    assert [[Path(first).name, *more] for first, *more in words] == calls and len(calls) == 5


def test_readmes_commands_run_without_what_a_runner_sets(runner: Runner) -> None:
    """Nothing but a path and a home, no standard input of the step's; the first that fails is the last that runs."""
    lines = ["env >seen", "echo \"$0: '$HOME'\" && cat >typed", "test -s typed", "touch late"]
    (runner.state / "readme").write_text("\n".join(lines) + "\n")
    assert runner.run(README_STEP).code != 0
    seen = {line.partition("=")[0] for line in (runner.checkout / "seen").read_text().splitlines()}
    assert seen - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME"}
    assert (runner.checkout / "typed").read_text() == "" and not (runner.checkout / "late").exists()
    (runner.state / "readme").write_text("")
    assert runner.run(README_STEP).code != 0


TAG = "release/build/The tag is the version, has a section in the changelog, and is on main"


def test_a_release_is_of_the_tag_that_the_project_says(runner: Runner) -> None:
    right, dated, other = f"v{VERSION}", f"## {VERSION} (2026-12-01)", f"dpcli/__init__.py says {VERSION}\n"
    refused = {
        (VERSION, dated): f"tag {VERSION}, but {other}",
        (f"{right}.1", dated): f"tag {right}.1, but {other}",
        ("v*", dated): f"tag v*, but {other}",
        (right, f"## Unreleased ({VERSION})"): f'the newest section is "## Unreleased ({VERSION})"',
        (right, "## 9.9.9 (2026-12-01)"): 'the newest section is "## 9.9.9 (2026-12-01)"',
        (right, f"## {VERSION}"): f'expected "## {VERSION} (DATE)"',
    }
    for (tag, heading), message in {(right, dated): "", **refused}.items():
        runner.changelog(heading)
        ran = runner.run(TAG, values={**VALUES, "github.ref_name": tag})
        assert (ran.code, "::error::" in ran.out) == (int(bool(message)), bool(message)), (tag, heading, ran.out)
        assert message in ran.out, (tag, heading)


def test_a_release_is_of_main_where_the_tests_passed(runner: Runner) -> None:
    assert runner.run(TAG).code == 0
    runner.commit()
    ran = runner.run(TAG)
    assert ran.code == 1 and "is not on main" in ran.out
    where = "release/build/The tests passed on main"
    for answer in ("", "null\n", "0\n"):
        (runner.state / "passed").write_text(answer)
        ran = runner.run(where)
        assert ran.code == 1 and "has not passed on main" in ran.out, answer
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=runner.checkout, capture_output=True, text=True, check=True
    ).stdout.strip()
    words = shlex.split(ran.calls[1])
    assert words[words.index("--commit") + 1] == head and words[words.index("--repo") + 1] == "OWNER/dpcli"
    assert WORKFLOWS["tests"].name in words


def test_what_is_built_is_checked_and_installed(runner: Runner) -> None:
    wheel, source = (f"dist/dpcli-{VERSION}{ending}" for ending in ("-py3-none-any.whl", ".tar.gz"))
    tools, build, clone, again, check = called(runner, "release/build/Build twice")
    assert build == ["python", "-m", "build"] and check == ["twine", "check", "--strict", wheel, source]
    assert clone[:2] == ["git", "clone"] and again == [*build, "--outdir", str(runner.temporary / "again"), clone[-1]]
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", one) for one in tools[5:]) and len(tools) == 7
    where = "release/build/What was built is what the tag says, and runs"
    assert runner.run(where, values={**VALUES, "github.ref_name": "v9.9.9"}).code != 0


def test_two_builds_that_differ_are_no_release(runner: Runner) -> None:
    program = runner.state / "program"
    program.write_text(program.read_text().replace('mkdir -p "$4"; touch', 'mkdir -p "$4"; echo other >"$4"/other; touch'))
    ran = runner.run("release/build/Build twice")
    assert ran.code == 1 and "other" in ran.out and not any(call.startswith("twine") for call in ran.calls)


def test_the_notes_are_the_newest_section_of_the_changelog(runner: Runner) -> None:
    where = "release/build/Notes, a bill of materials, and hashes"
    assert runner.run(where).code == 0
    assert (runner.checkout / "notes" / "notes.md").read_text().split() == ["*", "a", "word"]
    (runner.checkout / ".github" / "CHANGELOG.md").write_text(f"# Changes\n\n## {VERSION} (2026-12-01)\n\n## 0.0.1 (2020-01-01)\n")
    assert runner.run(where).code != 0


def test_the_version_is_one() -> None:
    """What is built is either told the version of the package, or looks it up there."""
    project = PYPROJECT["project"]
    assert project.get("version", VERSION) == VERSION and ("version" in project) != ("version" in project.get("dynamic", ()))


@pytest.mark.nightly
def test_core_commands_run_without_modules_that_only_unix_has(runner: Runner) -> None:
    """What is tried on Windows, with this package, and as if its modules for files and users were absent."""
    shutil.copytree(ROOT / "examples", runner.checkout / "examples", ignore=shutil.ignore_patterns("runs"))
    program = runner.state / "bin" / "dpcli"
    program.unlink()
    absent = "sys.modules.update(dict.fromkeys(('fcntl', 'grp', 'pwd', 'resource', 'termios')))"
    code = f"import sys; sys.path.insert(0, '{ROOT}'); {absent}; from dpcli.cli.start import run; run()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    ran = [runner.run(where) for where in steps() if where.startswith("tests/platforms/") and not where.endswith("Install")]
    assert [(one.code, one.out) for one in ran if one.code] == [] and len(ran) == 2


# What other programs say of these files.

SCHEMAS = {
    "vendor.github-workflows": [*WORKFLOWS.values(), EXAMPLE],
    "vendor.github-actions": [ACTION],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
}


def test_every_file_obeys_the_schema_of_github() -> None:
    from check_jsonschema import main
    from click.testing import CliRunner

    for schema, paths in SCHEMAS.items():
        found = CliRunner().invoke(main, ["--builtin-schema", schema, *map(str, paths)])
        assert paths and found.exit_code == 0, found.output


def findings(*paths: Path) -> set[tuple[str, str]]:
    """What zizmor finds, as its strictest persona: each rule, with the name of a file."""
    strict = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", "--color", "never", "--strict-collection"]
    found = subprocess.run([*strict, "--persona", "auditor", *map(str, paths)], capture_output=True, text=True, check=False)
    places = re.findall(r"^\w+\[([a-z-]+)\]: .*\n *--> (.+?):\d", found.stdout, re.M)
    assert bool(found.returncode) == bool(places), found.stdout + found.stderr
    return {(rule, Path(path).name) for rule, path in places}


@pytest.mark.needs("zizmor")
def test_no_weakness_that_zizmor_knows(tmp_path: Path) -> None:
    """None in any workflow, the action or what dependabot is told; and each of them is read, as one that is put there is found."""
    paths = [*WORKFLOWS.values(), ACTION, EXAMPLE, GITHUB / "dependabot.yml"]
    assert findings(*paths) == set()
    spoilt = []
    for path in paths:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = re.sub(r" +cooldown:\n +default-days: 7\n", "", path.read_text())
        copy.write_text(re.sub(r"^( *)run: (?=\S)(\|\n *)?", r"\1run: \2echo ${{ github.head_ref }} && ", text, flags=re.M))
        spoilt.append(copy)
    found = findings(*spoilt)
    assert {name for rule, name in found if rule == "template-injection"} == {path.name for path in paths} - {"dependabot.yml"}
    assert ("dependabot-cooldown", "dependabot.yml") in found


# The files for people.

GUARDED = {
    ".github/",
    ".ci/",
    "pyproject.toml",
    *(f"dpcli/{room}/" for room in ("mechanisms", "accountants", "numerics", "ledger", "gate")),
}


def test_what_decides_a_number_or_a_verdict_has_an_owner() -> None:
    lines = [line.split() for line in (GITHUB / "CODEOWNERS").read_text().splitlines() if line and not line.startswith("#")]
    assert {place.removeprefix("/") for place, _ in lines} >= GUARDED
    for place, owner in lines:
        path = ROOT / place.removeprefix("/")
        assert (path.is_dir() if place.endswith("/") else path.is_file()) and owner == "@OWNER", place


def test_a_vulnerability_is_reported_in_private() -> None:
    config = yaml(GITHUB / "ISSUE_TEMPLATE" / "config.yml")
    assert config["blank_issues_enabled"] is False
    assert [link["url"] for link in config["contact_links"]] == ["https://github.com/OWNER/dpcli/security/advisories/new"]
    policy = (GITHUB / "SECURITY.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", policy) if not link.startswith("https://")]
    assert len(links) >= 3 and [link for link in links if not (GITHUB / link).is_file()] == []
