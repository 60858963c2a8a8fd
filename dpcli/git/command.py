"""git, asked from outside: in the repository of a folder, whatever the variables of a hook around us say."""

from __future__ import annotations

import os
import re
import subprocess

from dpcli.base.errors import InputError

# What git sets for a hook, and what then stands for another repository, work tree or index than those of the folder.
FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")


def run_git(folder: str, *arguments: str, asked: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What git says in a folder, in English, of what was committed and not of what somebody put in its place (git replace).

    Raises:
        OSError, ValueError, subprocess.TimeoutExpired: git cannot be run.
    """
    own = work_tree(os.path.realpath(folder)) is not None
    environment = {name: value for name, value in os.environ.items() if not (own and name in FOREIGN)}
    return subprocess.run(
        ["git", "--no-replace-objects", "-C", folder, *arguments],
        input=asked,
        env={**environment, "LC_ALL": "C", "LANGUAGE": "C"},
        capture_output=True,
        check=False,
        timeout=60,
    )


def work_tree(folder: str) -> str | None:
    """The nearest folder, this one or above, that is the root of a git work tree."""
    while not _is_work_tree(folder):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return None
    return folder


def _is_work_tree(folder: str) -> bool:
    """An empty .git is none, as git has it; a work tree added to a repository has a file of that name."""
    found = os.path.join(folder, ".git")
    return os.path.isfile(found) or os.path.lexists(os.path.join(found, "HEAD"))


def refuse_ambiguous(folder: str, revision: str, what: str) -> None:
    """Raise InputError where a revision begins with a name that branches or tags of different commits go by.

    git would choose one and go on: a branch that somebody calls "origin/main" comes before the main branch of the remote.
    """
    name = re.split(r"[~^:]|@\{", revision, maxsplit=1)[0]
    places = [*(f"refs/{kind}{name}" for kind in ("", "tags/", "heads/", "remotes/")), f"refs/remotes/{name}/HEAD"]
    if not name or re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", name):  # a whole object name is nothing else
        return
    known = os.fsdecode(run_git(folder, "for-each-ref", "--format=%(refname)", *places).stdout).split("\n")
    found = [place for place in places if place in known]
    if len({commit(folder, place) for place in found}) > 1:
        raise InputError(f"{what}: expected the name of one commit, found {name!r} to name {' and '.join(found)}, which differ")


def commit(folder: str, revision: str) -> str:
    """The object of the commit that a revision names, "" where there is none."""
    return os.fsdecode(run_git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").stdout).strip()


def shallow_hint(folder: str) -> str:
    """What to do where a revision is not known because a clone has only the last commits; "" where it has all, or is no clone."""
    shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    return "; this clone is shallow: fetch all of its history (fetch-depth: 0 in CI, or git fetch --unshallow)" if shallow else ""


def complaint(process: subprocess.CompletedProcess[bytes]) -> str:
    """What git complains of, in one line."""
    return os.fsdecode(process.stderr).strip().partition("\n")[0].removeprefix("fatal: ") or "no reason given"
