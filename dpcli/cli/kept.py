"""Files that no output may replace, and places that an output can be written to: both looked at before anything is charged."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click

from dpcli.errors import InputError

KEPT = "dpcli.kept"


def keep(paths: Iterable[str]) -> None:
    """From now on the command writes no output over one of these files."""
    click.get_current_context().meta[KEPT] = tuple(paths)


def require_free(path: str) -> None:
    """Raise InputError where the path, however it is spelled, is one of the files that are kept."""
    context = click.get_current_context(silent=True)
    for kept in () if context is None else context.meta.get(KEPT, ()):
        same = os.path.exists(path) and os.path.exists(kept) and os.path.samefile(path, kept)
        if same or os.path.realpath(path) == os.path.realpath(kept):
            raise InputError(f"{path}: expected another path for the output, found a file of the data or one that dpcli keeps")


def require_writable(paths: Iterable[str]) -> None:
    """Raise InputError for the first output that could not be written: its folder is not there or takes none, or it is kept."""
    for path in paths:
        require_free(path)
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path):
            raise InputError(f"{path}: cannot be written: Is a directory")
        if not os.path.isdir(folder):
            raise InputError(f"{path}: cannot be written: No such file or directory")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise InputError(f"{path}: cannot be written: Permission denied")
