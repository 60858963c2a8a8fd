"""Repositories for the gate's tests: git as somebody, repositories inside of repositories, and a gate that is run in one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.command import Result, dpcli


def git(folder: Path, *arguments: str) -> str:
    """git in a folder, as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True).stdout


def committed(folder: Path, **files: str) -> Path:
    """A repository with these files ("/" is "__", ".toml" is left out) committed on main; the work tree is then a change's."""
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
    """A repository as another one is, which costs less than making it."""
    shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True)
    return folder


def submodule(root: Path, source: Path, name: str) -> None:
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), name)


def gate(root: Path, *arguments: str, folder: str = ".") -> Result:
    """The gate of a day of 2030, in the repository or a folder of it, one line for each finding."""
    return dpcli("gate", *arguments, "--as-of", "2030-06-01", "-f", "text", folder=root / folder)


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text("format = 1\n" + text)
    return path
