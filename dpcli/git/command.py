"""Calls of git: repositories under review, and the commits and files that they contain.

The gate (`dpcli gate --base-ref REVISION`) compares the files of a change with the *base*, their versions at a revision that was reviewed.
Functions whose messages begin with "--base-ref:" are for that option. The author of the change must not steer git: so git runs in the
repository around a folder, even if the variables of a hook name another one. Those variables count only if there is no repository around
the folder.

`top` is the root of a work tree, `tree` the object name of a commit, and `ref` or `revision` any name of a commit that git accepts.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, ParamSpec

from dpcli.base.errors import InputError
from dpcli.git.work_trees import holds, work_tree

P = ParamSpec("P")
# The answers of git that `cached_answers` keeps, by function, working directory and arguments. None if answers are not cached.
_cache: ContextVar[dict[tuple[object, ...], str] | None] = ContextVar("answers of git", default=None)
SUBMODULE = b"160000"  # the mode of a submodule in a commit and in the index
# The variables of a hook that can name another repository, work tree or index than those of the folder. Those of a pre-receive hook, which
# name the folders of new objects, are kept, because git finds these objects nowhere else.
HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")


def run_git(folder: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, with messages in English. Objects that someone replaced (git replace) are read as they were committed.

    Raises OSError, ValueError or subprocess.TimeoutExpired if git cannot be run.
    """
    has_work_tree = work_tree(os.path.realpath(folder)) is not None
    environment = {name: value for name, value in os.environ.items() if not (has_work_tree and name in HOOK_VARIABLES)}
    return subprocess.run(
        ["git", "--no-replace-objects", "-C", folder, *arguments],
        input=stdin,
        env={**environment, "LC_ALL": "C", "LANGUAGE": "C"},
        capture_output=True,
        check=False,
        timeout=60,  # seconds, after which a gate in CI should fail and not hang; arbitrary
    )


def refuse_ambiguous(folder: str, revision: str, what: str) -> None:
    """Raise InputError if a revision begins with a name that branches or tags with different commits share.

    Git would choose one of them silently. For example, it prefers a local branch "origin/main" to the main branch of the remote. The
    message begins with `what`. Raises the errors of `run_git`.
    """
    name = re.split(r"[~^:]|@\{", revision, maxsplit=1)[0]
    # The references that git may mean by this name.
    places = [*(f"refs/{kind}{name}" for kind in ("", "tags/", "heads/", "remotes/")), f"refs/remotes/{name}/HEAD"]
    if not name or re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", name):  # a full object name cannot be ambiguous
        return
    known = os.fsdecode(run_git(folder, "for-each-ref", "--format=%(refname)", *places).stdout).split("\n")
    matching = [place for place in places if place in known]
    if len({commit(folder, place) for place in matching}) > 1:
        raise InputError(f"{what}: {name!r} is ambiguous: it names {' and '.join(matching)}, which are different commits")


def commit(folder: str, revision: str) -> str:
    """Return the object name of the commit that a revision names; "" if there is no such commit. Raises the errors of `run_git`."""
    return os.fsdecode(run_git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").stdout).strip()


def shallow_hint(folder: str) -> str:
    """Return advice for a shallow clone, which lacks older commits; "" for a full clone. Raises the errors of `run_git`."""
    shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    return "; this clone is shallow: fetch all of its history (fetch-depth: 0 in CI, or git fetch --unshallow)" if shallow else ""


def error_line(process: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line of git's error message, without "fatal: ", for the end of a message of dpcli."""
    return os.fsdecode(process.stderr).strip().partition("\n")[0].removeprefix("fatal: ") or "no reason given"


def git(folder: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, as `run_git`. Raises InputError if git cannot be run."""
    try:
        return run_git(folder, *arguments, stdin=stdin)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--base-ref: git cannot be run: {error}") from None


def list_entries(folder: str, *arguments: str) -> list[bytes]:
    """Return the entries that a git command lists, without the NUL that ends each of them. Raises InputError if git fails."""
    answer = git(folder, *arguments)
    if answer.returncode != 0:
        raise InputError(f"--base-ref: git cannot list the files in {folder}: {error_line(answer)}")
    return answer.stdout.split(b"\0")[:-1]


def present_files(top: str) -> frozenset[str]:
    """Return the paths of the files in a work tree's index and of untracked files, without those that git ignores.

    A file of the index may have been deleted from the work tree. Raises InputError if git fails.
    """
    return frozenset(map(os.fsdecode, list_entries(top, "ls-files", "-z", "-co", "--exclude-standard")))


class TreeEntry(NamedTuple):
    """A file, link or submodule of a commit, with its mode and the name of its object as git prints them."""

    mode: bytes
    blob: bytes
    path: str

    @property
    def is_file(self) -> bool:
        return self.mode.startswith(b"100")

    @property
    def is_link(self) -> bool:
        return self.mode == b"120000"

    @property
    def is_submodule(self) -> bool:
        return self.mode == SUBMODULE


def tree_entries(top: str, tree: str) -> Iterator[TreeEntry]:
    """Yield each entry of a commit, with those of all its folders. Raises InputError if git fails."""
    for line in list_entries(top, "ls-tree", "-r", "-z", "--full-tree", tree):
        about, _, path = line.partition(b"\t")
        mode, _, blob = about.split(b" ")
        yield TreeEntry(mode, blob, os.fsdecode(path))


@contextmanager
def cached_answers() -> Iterator[None]:
    """Within this context, ask git only once for the root around each folder and for the commit of each revision.

    So many files are judged quickly, and against one commit even if somebody moves a branch meanwhile.
    """
    token = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(token)


def _cached_in_context(question: Callable[P, str]) -> Callable[P, str]:
    """Return a function that caches the results of `question` within the context `cached_answers`."""

    @functools.wraps(question)
    def answer(*args: P.args, **kwargs: P.kwargs) -> str:
        answers = _cache.get()
        if answers is None:
            return question(*args, **kwargs)
        key = (question.__name__, os.getcwd(), *args, *sorted(kwargs.items()))
        if key not in answers:
            answers[key] = question(*args, **kwargs)
        return answers[key]

    return answer


@_cached_in_context
def top_of(folder: str) -> str:
    """Return the root of the work tree around a folder. Raises InputError if the folder is not in a repository."""
    answer = git(folder, "rev-parse", "--show-toplevel")
    if answer.returncode != 0:
        missing = b"not a git repository" in answer.stderr
        why = "is not a git repository" if missing else f"is a git repository that git cannot read: {error_line(answer)}"
        raise InputError(f"--base-ref: {folder} {why}")
    return os.fsdecode(answer.stdout.removesuffix(b"\n"))


class Review(NamedTuple):
    """The repositories that contain a file under review.

    Attributes:
        top: Root of the repository under review.
        inner: Root of the repository inside it that contains the file; None if there is none. It is a submodule, or a repository to which a
            link leads.
    """

    top: str
    inner: str | None


def review_of(path: str) -> Review:
    """Return the repositories that contain a file.

    The work tree around the working directory is under review if it contains the file, with links resolved or not. Otherwise the file's own
    repository is under review. Raises InputError if the file is in no repository.
    """
    absolute = os.path.abspath(path)
    folder, current = os.path.dirname(absolute), work_tree(os.path.realpath(os.getcwd()))
    if current is None or not (holds(current, absolute) or holds(current, os.path.realpath(absolute))):
        return Review(top_of(folder), None)
    try:
        inner = top_of(folder)
    except InputError:  # a link leads out of every repository
        return Review(current, None)
    return Review(current, None if inner == current else inner)


def link_of(tree: str, top: str, inner: str) -> str | None:
    """Return the commit of the submodule at `inner` to which the commit `tree` links; None if it has no such link.

    Raises InputError if the submodule does not have that commit.
    """
    if not holds(top, inner):
        return None
    entries = list_entries(top, "ls-tree", "-z", "--full-tree", tree, "--", os.path.relpath(inner, top))
    if not entries:
        return None
    about, _, _ = entries[0].partition(b"\t")  # "MODE commit COMMIT" before the path
    mode, _, linked_commit = about.split(b" ")
    return commit_of(inner, os.fsdecode(linked_commit)) if mode == SUBMODULE else None


@_cached_in_context
def commit_of(folder: str, ref: str) -> str:
    """Return the object name of the commit that `ref` names. For the HEAD of a repository without commits, return the empty tree.

    Raises InputError if there is no such commit, with advice for a shallow clone.
    """
    top_of(folder)
    refuse_ambiguous(folder, ref, "--base-ref")
    answer = git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if answer.returncode == 0:
        return os.fsdecode(answer.stdout).strip()
    if ref == "HEAD" and git(folder, "rev-parse", "--verify", "--quiet", ref).returncode != 0:
        return os.fsdecode(git(folder, "hash-object", "-t", "tree", "--stdin").stdout).strip()  # of no input: the empty tree
    raise InputError(f"--base-ref: git knows no commit {ref!r} in {folder}{shallow_hint(folder)}")
