"""The files about the project itself: what runs before a commit is what CI runs, and the changelog names the version."""

from __future__ import annotations

import re

from ruamel.yaml import YAML

import dpcli
from dpcli.registry import ACCOUNTANTS, FILTERS, MECHANISMS, SAMPLING
from tests.command import ROOT

CHANGELOG = (ROOT / ".github" / "CHANGELOG.md").read_text()


def test_hooks_before_a_commit_are_what_ci_runs_besides_the_tests() -> None:
    """Each hook takes nothing from a network: a tool of the project's own environment, with nothing but the line that CI has."""
    (repo,) = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if re.match(r"\.venv/bin/(ruff|mypy)\b", line)]
    assert [hook["entry"] for hook in repo["hooks"]] == lines
    for hook in repo["hooks"]:
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)
        assert hook["id"] and hook["name"]


def test_the_changelog_is_of_this_version_and_counts_what_there_is() -> None:
    section = CHANGELOG.split("\n## ")[1]
    assert dpcli.__version__ in section.splitlines()[0]
    for count, name in ((MECHANISMS, "mechanism types"), (ACCOUNTANTS, "accountants")):
        assert f"{len(count)} {name}" in section
    numbers = {5: "five", 6: "six", 7: "seven"}
    assert f"{numbers[len(SAMPLING)]} sampling schemes" in section
    assert f"{numbers[len(FILTERS)]} privacy filters" in section
