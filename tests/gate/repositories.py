"""Git repositories for the tests of the gate, and calls of git, of the gate and of a CI script in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.command import ROOT, Result, dpcli
from tests.gate.samples import GATE

HARMLESS = GATE.replace('name = "ads-ranking"', 'name = "ads"')


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, with a fixed author, and return its output."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True).stdout


def committed(folder: Path, **files: str) -> Path:
    """Make a repository with these .toml files committed on main. In a name, "__" stands for "/", and ".toml" is left out."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "--template=", "-b", "main")
    for name, text in files.items():
        place = folder / (name.replace("__", "/") + ".toml")
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    return folder


def copied(source: Path, folder: Path) -> Path:
    """Copy a repository to a folder, which is faster than making it."""
    shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True)
    return folder


def submodule(root: Path, source: Path, name: str) -> None:
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), name)


def gate(root: Path, *arguments: str, folder: str = ".") -> Result:
    """Run the gate in the repository or a folder of it, as of a day in 2030, with one line of output for each finding."""
    return dpcli("gate", *arguments, "--as-of", "2030-06-01", "-f", "text", folder=root / folder)


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text("format = 1\n" + text)
    return path


def changed(clone: Path, text: str) -> None:
    (clone / "pipelines" / "ads" / "rank ing.toml").write_text(text)
    git(clone, "commit", "-qam", "change")


def merge_request(clone: Path, project: str = "remote") -> dict[str, str]:
    """Return the variables that GitLab sets for a merge request to the remote of a clone. `project` is the source, such as a fork."""
    return {
        "CI_REPOSITORY_URL": str(clone.parent / f"{project}.git"),
        "CI_PROJECT_PATH": project,
        "CI_MERGE_REQUEST_PROJECT_PATH": "remote",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }


def shell(clone: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the clone as a CI runner does, with this package as the installed dpcli."""
    programs = clone.parent / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "dpcli"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dpcli "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
