"""Files that no output may replace, and places that an output can be written to: both looked at before anything is charged."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

import click

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import LEFT_BY_RUN

DATA = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".parquet",
    ".duckdb",
    ".db",
)  # dpcli.release.engines.source_files, which no other command loads
DATABASE = b"SQLite format 3\0"  # how a ledger in a file begins, and every other database of SQLite
ENDINGS = ("", "-journal", "-wal", "-shm")  # of the files of a database
KEPT = "dpcli.kept"
NO_INPUTS = frozenset({"output", "outputs", "pictures", "format_", "parquet"})  # parameters that name what is written, and how


def keep(paths: Iterable[str]) -> None:
    """From now on the command writes no output over one of these files."""
    click.get_current_context().meta[KEPT] = tuple(paths)


def keeps() -> bool:
    """Whether the command has said what it keeps."""
    context = click.get_current_context(silent=True)
    return context is not None and KEPT in context.meta


def may_be_data(path: str) -> bool:
    """Whether a file is there that a release could read, by its name or that of what it links to."""
    names = (path.lower(), os.path.realpath(path).lower())
    return os.path.lexists(path) and any(name.endswith(DATA) for name in names)


def require_free(path: str) -> None:
    """Raise InputError where the path, however it is spelled, is one of the files that are kept, or of a ledger or another database."""
    context = click.get_current_context(silent=True)
    kept: tuple[str, ...] = () if context is None else context.meta.get(KEPT, ())
    if any(same_file(path, one) for one in kept):
        raise InputError(f"{path}: expected another path for the output, found one that dpcli keeps")
    if any(of_database(name) for name in (path, os.path.realpath(path))):
        raise InputError(f"{path}: expected another path for the output, found a ledger or another database of SQLite")


def of_database(path: str) -> bool:
    """Whether the path is a database of SQLite, or of a file that SQLite keeps beside one, or would. What cannot be read is none.

    A file that comes to lie there counts as well: beside LEDGER-wal no ledger is opened.
    """
    for ending in ENDINGS:
        base = path.removesuffix(ending)
        if path.endswith(ending) and os.path.isfile(base):
            with suppress(OSError), open(base, "rb") as file:
                if file.read(len(DATABASE)) == DATABASE:
                    return True
    return False


def same_file(path: str, other: str) -> bool:
    """Whether both are one file, or would be one."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def inputs() -> Iterator[str]:
    """Every text that the command was given and that is no output of it: files, a ledger, a policy, a baseline."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "")
        if parameter.name not in NO_INPUTS:
            yield from (text for text in (given if isinstance(given, tuple) else (given,)) if isinstance(text, str))


def require_no_input(path: str, texts: Iterable[str]) -> None:
    """Raise InputError where the path is a file that is there and that one of the texts may name, or a pipeline file that one names."""
    from dpcli.cli.named import names

    for text in texts:
        files = ledger_files(text)
        if os.path.exists(files[0]) and any(same_file(path, one) for one in files):
            raise InputError(f"{path}: expected another path for the output, found the input file")
        if load(LEFT_BY_RUN)(text, path):
            raise InputError(f"{path}: expected another path for the output, found a file of the run in {text}")
        if names(text, path):
            raise InputError(f"{path}: expected another path for the output, found a file that {text} names")


def ledger_files(ledger: str) -> tuple[str, ...]:
    """The files of a ledger, by its path or URL (sqlite:///PATH): itself, and what SQLite keeps beside it."""
    path = ledger.removeprefix("sqlite:///")
    return tuple(path + ending for ending in ENDINGS)


def require_writable(paths: Iterable[str]) -> None:
    """Raise InputError for the first output that could not be written: its folder is not there or takes none, or it must stay."""
    for path in paths:
        require_no_input(path, inputs())
        require_free(path)
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path):
            raise InputError(f"{path}: cannot be written: Is a directory")
        if not os.path.isdir(folder):
            raise InputError(f"{path}: cannot be written: No such file or directory")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise InputError(f"{path}: cannot be written: Permission denied")
