"""Files that no output may replace, and places that an output can be written to: both looked at before anything is charged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import click

from dpcli.errors import InputError

DATA = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".parquet",
    ".duckdb",
    ".db",
)  # dpcli.release.engines.files, which no other command loads
KEPT, TAKEN = "dpcli.kept", "dpcli.taken"


def keep(paths: Iterable[str], taken: Callable[[str], bool] = lambda path: False) -> None:
    """From now on the command writes no output over one of these files, nor where it would be `taken` for data."""
    context = click.get_current_context()
    context.meta[KEPT], context.meta[TAKEN] = tuple(paths), taken


def keeps() -> bool:
    """Whether the command has said what it keeps."""
    context = click.get_current_context(silent=True)
    return context is not None and KEPT in context.meta


def may_be_data(path: str) -> bool:
    """Whether a file is there that a release could read, by its name or that of what it links to."""
    names = (path.lower(), os.path.realpath(path).lower())
    return os.path.lexists(path) and any(name.endswith(DATA) for name in names)


def require_free(path: str) -> None:
    """Raise InputError where the path, however it is spelled, is one of the files that are kept."""
    context = click.get_current_context(silent=True)
    kept: tuple[str, ...] = () if context is None else context.meta.get(KEPT, ())
    if any(same_file(path, one) for one in kept):
        raise InputError(f"{path}: expected another path for the output, found a file of the data or one that dpcli keeps")
    if context is not None and TAKEN in context.meta and context.meta[TAKEN](path):
        raise InputError(f"{path}: expected another path for the output, found one that source.path would take for data")


def same_file(path: str, other: str) -> bool:
    """Whether both are one file, or would be one."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def is_input(path: str, texts: Iterable[str]) -> bool:
    """Whether the path is a file that is there and that one of the texts may name."""
    files = (ledger_files(text) for text in texts)
    return any(same_file(path, one) for found in files if os.path.exists(found[0]) for one in found)


def ledger_files(ledger: str) -> tuple[str, ...]:
    """The files of a ledger, by its path or URL (sqlite:///PATH): itself, and what SQLite keeps beside it."""
    path = ledger.removeprefix("sqlite:///")
    return tuple(path + ending for ending in ("", "-journal", "-wal", "-shm"))


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
