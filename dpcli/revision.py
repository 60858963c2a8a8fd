"""Where a pipeline is read from: a file, standard input, or a file as it stands at a git revision."""

from __future__ import annotations

import os
import subprocess

from dpcli.errors import InputError
from dpcli.pipeline.limits import escaped_path, read_bytes


def read_source(source: str, what: str = "a pipeline file") -> bytes:
    """The bytes of a file, of standard input for "-", or of REVISION:PATH where there is no file of that name.

    PATH is relative to the top of the git repository around the working directory; "./PATH" to that directory itself.

    Raises:
        InputError: there is no such file, or git does not know it.
    """
    revision, colon, path = source.partition(":")
    if source == "-" or os.path.lexists(source) or not colon:
        return read_bytes(source, what)
    if not revision or not path or source.startswith("-"):
        raise _refused(source, what, "no such file")
    try:
        # The object as it was committed: no filter, pager or diff driver of the repository's settings has a part in it.
        found = subprocess.run(["git", "cat-file", "blob", source], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{escaped_path(source)}: git cannot be run: {error}") from None
    except ValueError:
        raise _refused(source, what, "a path that cannot exist") from None
    if found.returncode != 0:
        raise _refused(source, what, "nothing that git knows here")
    return found.stdout


def _refused(source: str, what: str, found: str) -> InputError:
    return InputError(f"{escaped_path(source)}: expected {what} or REVISION:PATH, found {found}")
