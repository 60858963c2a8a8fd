"""Calls of git in a folder's own repository, whatever a hook's variables say: work trees, commits, and REVISION:PATH."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path, read_bytes

P = ParamSpec("P")
_known: ContextVar[dict[tuple[object, ...], str] | None] = ContextVar("known", default=None)
# What git sets for a hook, and what then stands for another repository, work tree or index than those of the folder.
FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")


def run_git(folder: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, in English, on what was committed and not on what somebody put in its place (git replace).

    Raises:
        OSError, ValueError, subprocess.TimeoutExpired: git cannot be run.
    """
    own = work_tree(os.path.realpath(folder)) is not None
    environment = {name: value for name, value in os.environ.items() if not (own and name in FOREIGN)}
    return subprocess.run(
        ["git", "--no-replace-objects", "-C", folder, *arguments],
        input=stdin,
        env={**environment, "LC_ALL": "C", "LANGUAGE": "C"},
        capture_output=True,
        check=False,
        timeout=60,
    )


def work_tree(folder: str) -> str | None:
    """Return the nearest folder, this one or above, that is the root of a git work tree."""
    while not _is_work_tree(folder):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return None
    return folder


def _is_work_tree(folder: str) -> bool:
    # An empty .git is none, as git has it; a work tree added to a repository has a file of that name.
    place = os.path.join(folder, ".git")
    return os.path.isfile(place) or os.path.lexists(os.path.join(place, "HEAD"))


def refuse_ambiguous(folder: str, revision: str, what: str) -> None:
    """Raise InputError where a revision begins with a name that branches or tags of different commits go by.

    git would choose one and go on: a branch that somebody calls "origin/main" comes before the main branch of the remote.
    """
    name = re.split(r"[~^:]|@\{", revision, maxsplit=1)[0]
    places = [*(f"refs/{kind}{name}" for kind in ("", "tags/", "heads/", "remotes/")), f"refs/remotes/{name}/HEAD"]
    if not name or re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", name):  # a whole object name is nothing else
        return
    known = os.fsdecode(run_git(folder, "for-each-ref", "--format=%(refname)", *places).stdout).split("\n")
    meant = [place for place in places if place in known]
    if len({commit(folder, place) for place in meant}) > 1:
        raise InputError(f"{what}: {name!r} names {' and '.join(meant)}, which are different commits")


def commit(folder: str, revision: str) -> str:
    """Return the object of the commit that a revision names, "" where there is none."""
    return os.fsdecode(run_git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").stdout).strip()


def shallow_hint(folder: str) -> str:
    """Return the advice for a shallow clone, which lacks older commits; "" for a full one."""
    shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    return "; this clone is shallow: fetch all of its history (fetch-depth: 0 in CI, or git fetch --unshallow)" if shallow else ""


def complaint(process: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line of git's complaint."""
    return os.fsdecode(process.stderr).strip().partition("\n")[0].removeprefix("fatal: ") or "no reason given"


def in_repository(path: str) -> str:
    """Return the path from the root of the repository, with forward slashes, as CI systems show places; of REVISION:PATH its PATH.

    Unchanged where no repository is around it, or where it names no file: standard input, the address of a ledger.
    """
    spelled = os.path.abspath(path)
    if path.startswith(("-", "<")) or "://" in path:
        return path
    if not os.path.lexists(spelled) and ":" in path:
        revision, _, inside = path.partition(":")
        return in_repository(inside) if inside.startswith("./") else inside or revision
    real = os.path.join(os.path.realpath(os.path.dirname(spelled)), os.path.basename(spelled))
    for place in (real, spelled):
        root = next((top for top in roots(place, "") if holds(top, place)), None)
        if root is not None:
            return os.path.relpath(place, root).replace(os.sep, "/")
    return path.replace(os.sep, "/")


def roots(path: str, policy: str) -> Iterator[str]:
    """Yield the work trees that a path may count from: around the policy, the working directory, the file itself."""
    current = os.path.realpath(os.getcwd())
    folder = os.path.dirname(os.path.realpath(policy)) if os.path.isfile(policy) else current
    yield from (top for top in map(work_tree, (folder, current, os.path.dirname(path))) if top is not None)


def holds(top: str, path: str) -> bool:
    """Return whether the path is in the folder, or is it; both absolute."""
    return os.path.commonpath((top, path)) == top


def git(folder: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder. Raises InputError where it cannot be run."""
    try:
        return run_git(folder, *arguments, stdin=stdin)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--base-ref: git cannot be run: {error}") from None


def listed(folder: str, *arguments: str) -> list[bytes]:
    """Return the entries, each ended by a NUL, that git lists in a folder. Raises InputError where it cannot list all of them."""
    done = git(folder, *arguments)
    if done.returncode != 0:
        raise InputError(f"--base-ref: git cannot list the files in {folder}: {complaint(done)}")
    return done.stdout.split(b"\0")[:-1]


def present_files(top: str) -> frozenset[str]:
    """Return the paths of a work tree's files, without those that git ignores."""
    return frozenset(map(os.fsdecode, listed(top, "ls-files", "-z", "-co", "--exclude-standard")))


def tree_entries(top: str, tree: str) -> Iterator[tuple[bytes, bytes, str]]:
    """Yield mode, object and path of each entry of a commit."""
    for line in listed(top, "ls-tree", "-r", "-z", "--full-tree", tree):
        about, _, name = line.partition(b"\t")
        mode, _, blob = about.split(b" ")
        yield mode, blob, os.fsdecode(name)


@contextmanager
def cached_answers() -> Iterator[None]:
    """Ask git only once for the root around a folder and for the commit of a name: many files are judged against one state."""
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
    """Return the root of the work tree around a folder. Raises InputError where there is none."""
    done = git(folder, "rev-parse", "--show-toplevel")
    if done.returncode != 0:
        missing = b"not a git repository" in done.stderr
        why = "is not a git repository" if missing else f"is a git repository that git does not read: {complaint(done)}"
        raise InputError(f"--base-ref: {folder} {why}")
    return os.fsdecode(done.stdout.removesuffix(b"\n"))


def review_of(path: str) -> tuple[str, str | None]:
    """Return the root of the repository under review for a file, and of the one inside it (a submodule, a link's end) that the file is in.

    Under review is the work tree around the working directory where it has the file, as spelled or without links; else the file's own.
    Raises InputError where there is neither.
    """
    spelled = os.path.abspath(path)
    folder, current = os.path.dirname(spelled), work_tree(os.path.realpath(os.getcwd()))
    if current is None or not (holds(current, spelled) or holds(current, os.path.realpath(spelled))):
        return top_of(folder), None
    try:
        own = top_of(folder)
    except InputError:  # a link to where no repository is
        return current, None
    return current, None if own == current else own


def link_of(tree: str, top: str, inner: str) -> str | None:
    """Return the commit of the repository at `inner` that the commit `tree` links to, None where it has no such link.

    Raises InputError where the repository inside does not have that commit.
    """
    if not holds(top, inner):
        return None
    entries = listed(top, "ls-tree", "-z", "--full-tree", tree, "--", os.path.relpath(inner, top))
    words = entries[0].partition(b"\t")[0].split(b" ") if entries else [b""]
    return commit_of(inner, os.fsdecode(words[2])) if words[0] == b"160000" else None


@_once
def commit_of(folder: str, ref: str) -> str:
    """Return the object of the commit that `ref` names; of an empty tree for the HEAD of a repository without a commit.

    Raises InputError where there is none, with advice for a shallow clone.
    """
    top_of(folder)
    refuse_ambiguous(folder, ref, "--base-ref")
    done = git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if done.returncode == 0:
        return os.fsdecode(done.stdout).strip()
    if ref == "HEAD" and git(folder, "rev-parse", "--verify", "--quiet", ref).returncode != 0:
        return os.fsdecode(git(folder, "hash-object", "-t", "tree", "--stdin").stdout).strip()
    raise InputError(f"--base-ref: {ref!r} is no commit that git knows in {folder}{shallow_hint(folder)}")


def read_source(source: str, what: str = "a pipeline file") -> bytes:
    """Return the bytes of a file, of standard input for "-", or of REVISION:PATH.

    PATH is relative to the top of the git repository around the working directory; "./PATH" to that directory itself.

    Raises:
        InputError: there is no such file, or git does not know it. Also where both are there: a change under review may add a file of
            that name, and must not be judged by it.
    """
    revision, colon, path = source.partition(":")
    if source == "-" or not colon or (os.path.lexists(source) and not _names_commit(revision)):
        return read_bytes(source, what)
    if not revision or not path or source.startswith("-"):
        raise _refused(source, what, "no such file")
    if os.path.lexists(source):
        raise _refused(source, what, f"both: there is a revision {revision!r}, and a file of that name (./{escaped_path(source)})")
    try:
        refuse_ambiguous(".", revision, escaped_path(source))
        # The object as it was committed: no filter, pager or diff driver of the repository's settings has a part in it.
        done = run_git(".", "cat-file", "blob", source)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{escaped_path(source)}: git cannot be run: {error}") from None
    except ValueError:
        raise _refused(source, what, "a path that cannot exist") from None
    if done.returncode != 0:
        around = run_git(".", "rev-parse", "--git-dir")
        if around.returncode != 0:
            raise _refused(source, what, f"no such file, and git reads no repository here: {complaint(around)}")
        hint = "" if _names_commit(revision) else shallow_hint(".")
        raise _refused(source, what, f"nothing that git knows here{hint}")
    return done.stdout


def _names_commit(revision: str) -> bool:
    try:
        return bool(revision) and not revision.startswith("-") and bool(commit(".", revision))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False  # without git, a revision can be no policy's place


def _refused(source: str, what: str, instead: str) -> InputError:
    return InputError(f"{escaped_path(source)}: expected {what} or REVISION:PATH, found {instead}")
