"""Where a pipeline is read from: a file, standard input, or a file as it stands at a git revision."""

from __future__ import annotations

import os
import subprocess

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.git.command import commit, complaint, refuse_ambiguous, run_git, shallow_hint


def read_source(source: str, what: str = "a pipeline file") -> bytes:
    """The bytes of a file, of standard input for "-", or of REVISION:PATH.

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
        found = run_git(".", "cat-file", "blob", source)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{escaped_path(source)}: git cannot be run: {error}") from None
    except ValueError:
        raise _refused(source, what, "a path that cannot exist") from None
    if found.returncode != 0:
        around = run_git(".", "rev-parse", "--git-dir")
        if around.returncode != 0:
            raise _refused(source, what, f"no such file, and git reads no repository here: {complaint(around)}")
        hint = "" if _names_commit(revision) else shallow_hint(".")
        raise _refused(source, what, f"nothing that git knows here{hint}")
    return found.stdout


def _names_commit(revision: str) -> bool:
    try:
        return bool(revision) and not revision.startswith("-") and bool(commit(".", revision))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False  # without git, a revision can be no policy's place


def _refused(source: str, what: str, found: str) -> InputError:
    return InputError(f"{escaped_path(source)}: expected {what} or REVISION:PATH, found {found}")
