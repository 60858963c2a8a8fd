"""What a CI system runs: its script in a clone on a branch, with this package as the installed one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.command import ROOT
from tests.gate.repositories import git
from tests.gate.samples import GATE

HARMLESS = GATE.replace('name = "ads-ranking"', 'name = "ads"')


def changed(clone: Path, text: str) -> None:
    (clone / "pipelines" / "ads" / "rank ing.toml").write_text(text)
    git(clone, "commit", "-qam", "change")


def merge_request(clone: Path, project: str = "remote") -> dict[str, str]:
    """The variables that GitLab sets for a request to the remote of a clone, from it or from another project beside it."""
    return {
        "CI_REPOSITORY_URL": str(clone.parent / f"{project}.git"),
        "CI_PROJECT_PATH": project,
        "CI_MERGE_REQUEST_PROJECT_PATH": "remote",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }


def shell(clone: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script as a runner would run it, with this package as the installed one."""
    programs = clone.parent / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "dpcli"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dpcli "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
