"""The content of a file that a user names: a path, standard input, or REVISION:PATH.

`dpcli diff` reads its two pipeline files in this way, and `dpcli gate` its policy: "origin/main:policy.toml". The content at a revision is
read as it was committed, without any filter, pager or diff driver of the repository's settings.
"""

from __future__ import annotations

import os
import subprocess

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.git.command import commit, error_line, refuse_ambiguous, run_git, shallow_hint


def read_source(source: str, what: str = "a pipeline file") -> bytes:
    """Return the content of a file, of standard input for "-", or of REVISION:PATH.

    PATH is relative to the root of the git repository around the working directory, and "./PATH" is relative to the working directory.

    Args:
        what: The expected kind of file, for messages.

    Raises:
        InputError: The file does not exist or cannot be read, git cannot be run or does not know the file, or the name of the revision is
            ambiguous. Also if a file is named REVISION:PATH and the revision exists too, because a change under review could add such a
            file, and must not be judged by it.
    """
    revision, colon, path = source.partition(":")
    if source == "-" or not colon or (os.path.lexists(source) and not _names_commit(revision)):
        return read_bytes(source, what)
    if not revision or not path or source.startswith("-"):
        raise _refusal(source, what, "no such file")
    if os.path.lexists(source):
        raise _refusal(source, what, f"both a revision {revision!r} and a file of that name (./{escaped_path(source)})")
    try:
        refuse_ambiguous(".", revision, escaped_path(source))
        answer = run_git(".", "cat-file", "blob", source)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{escaped_path(source)}: git cannot be run: {error}") from None
    except ValueError:
        raise _refusal(source, what, "a path that cannot exist") from None
    if answer.returncode != 0:
        around = run_git(".", "rev-parse", "--git-dir")
        if around.returncode != 0:
            raise _refusal(source, what, f"no such file, and no git repository here: {error_line(around)}")
        hint = "" if _names_commit(revision) else shallow_hint(".")
        raise _refusal(source, what, f"no such revision, or no such file in it{hint}")
    return answer.stdout


def _names_commit(revision: str) -> bool:
    """Return whether git knows the revision; false if git cannot be run, so that a file with a colon in its name can still be read."""
    try:
        return bool(revision) and not revision.startswith("-") and bool(commit(".", revision))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False


def _refusal(source: str, what: str, actual: str) -> InputError:
    return InputError(f"{escaped_path(source)}: expected {what} or REVISION:PATH, found {actual}")
