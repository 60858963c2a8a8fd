"""git, asked from outside: the work tree around a folder, the commit of a name, and why there is none."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec

from dpcli.base.errors import InputError
from dpcli.git.command import complaint, refuse_ambiguous, run_git, shallow_hint, work_tree
from dpcli.git.places import holds

P = ParamSpec("P")
_known: ContextVar[dict[tuple[object, ...], str] | None] = ContextVar("known", default=None)


def git(folder: str, *arguments: str, asked: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What git says in a folder. Raises InputError where it cannot be run."""
    try:
        return run_git(folder, *arguments, asked=asked)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--base-ref: git cannot be run: {error}") from None


def listed(folder: str, *arguments: str) -> list[bytes]:
    """The entries, each ended by a NUL, that git lists in a folder. Raises InputError where it cannot list all of them."""
    found = git(folder, *arguments)
    if found.returncode != 0:
        raise InputError(f"--base-ref: git cannot list the files in {folder}: {complaint(found)}")
    return found.stdout.split(b"\0")[:-1]


@contextmanager
def asked_once() -> Iterator[None]:
    """Inside, git is asked once for the root around a folder and for the commit of a name: many files are judged against one state."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def _once(question: Callable[P, str]) -> Callable[P, str]:
    @functools.wraps(question)
    def answer(*args: P.args, **kwargs: P.kwargs) -> str:
        known = _known.get()
        if known is None:
            return question(*args, **kwargs)
        key = (question.__name__, os.getcwd(), *args)
        if key not in known:
            known[key] = question(*args, **kwargs)
        return known[key]

    return answer


@_once
def top_of(folder: str) -> str:
    """The root of the work tree around a folder. Raises InputError where there is none."""
    found = git(folder, "rev-parse", "--show-toplevel")
    if found.returncode != 0:
        missing = b"not a git repository" in found.stderr
        why = "not a git repository" if missing else f"one that git does not read: {complaint(found)}"
        raise InputError(f"--base-ref: expected a git repository around {folder}, found {why}")
    return os.fsdecode(found.stdout.removesuffix(b"\n"))


def review_of(path: str) -> tuple[str, str | None]:
    """The root of the repository under review for a file, and of the one inside it (a submodule, a link's end) that the file is in.

    Under review is the work tree around the working directory where it has the file, as spelled or without links; else the file's own.
    Raises InputError where there is neither.
    """
    whole = os.path.abspath(path)
    folder, here = os.path.dirname(whole), work_tree(os.path.realpath(os.getcwd()))
    if here is None or not (holds(here, whole) or holds(here, os.path.realpath(whole))):
        return top_of(folder), None
    try:
        own = top_of(folder)
    except InputError:  # a link to where no repository is
        return here, None
    return here, None if own == here else own


def link_of(tree: str, top: str, inner: str) -> str | None:
    """The commit of the repository at `inner` that the commit `tree` links to, None where it has no such link.

    Raises InputError where the repository inside does not have that commit.
    """
    if not holds(top, inner):
        return None
    found = listed(top, "ls-tree", "-z", "--full-tree", tree, "--", os.path.relpath(inner, top))
    words = found[0].partition(b"\t")[0].split(b" ") if found else [b""]
    return commit_of(inner, os.fsdecode(words[2])) if words[0] == b"160000" else None


@_once
def commit_of(folder: str, ref: str) -> str:
    """The object of the commit that `ref` names; of an empty tree for the HEAD of a repository without a commit.

    Raises InputError where there is none, and says so of a shallow clone.
    """
    top_of(folder)
    refuse_ambiguous(folder, ref, "--base-ref")
    found = git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if found.returncode == 0:
        return os.fsdecode(found.stdout).strip()
    if ref == "HEAD" and git(folder, "rev-parse", "--verify", "--quiet", ref).returncode != 0:
        return os.fsdecode(git(folder, "hash-object", "-t", "tree", "--stdin").stdout).strip()
    raise InputError(f"--base-ref: expected a commit known to git in {folder}, found {ref!r}{shallow_hint(folder)}")
