"""The files of a source, and the header and quotes of a csv. No error message shows a line of a file.

The engines for DuckDB and Spark call it before they open the files of [source], or of a public table that is joined with it. A source names
one file, or several by a *pattern* such as visits/*.parquet. The first record of a csv is its header, unless the user is mistaken: then it
is a private row. So a message shows of it only what `instead_of` permits: a cell that equals the missing name up to case and separators, or
any cell if at least half of the other wanted names are there. `require_closed_quotes` refuses a csv that cannot be parsed from its start to
its end, with one message for every cause, since the cause is private.
"""

from __future__ import annotations

import csv
import fnmatch
import glob
import gzip
import hashlib
import io
import os
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of

Kind = Literal["csv", "parquet", "duckdb", "memory"]
ENDINGS: dict[str, Kind] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}
DELIMITERS = (",", "\t", ";", "|")  # the one that gives the most wanted names is used; of equal ones, the first
LONGEST_HEADER = 2**20  # largest size of a header in bytes; arbitrary, to bound what is read before the ledger is charged
PATTERN = "*?["  # characters that mark a path as a pattern
UNDECODABLE = "surrogateescape"  # error handler for bytes that are not valid UTF-8


@dataclass(frozen=True, slots=True)
class Files:
    """Regular files of one kind, or a table in memory, which has no files.

    paths: absolute paths of the files.
    place: the path or pattern as the user wrote it, for messages.
    """

    kind: Kind
    paths: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a csv.

    names: names of all columns, in order.
    delimiter: character between two cells.
    """

    names: tuple[str, ...]
    delimiter: str


def files_of(pattern: str, folder: str, key: str = "source.path") -> Files:
    """Return the files of a path or a pattern. Messages name the key of the path.

    Raises InputError if there is no file, a file is not a regular one or cannot be read, the files are of several kinds or of an unknown
    kind, or there are several .duckdb files.
    """
    try:
        return _files_of(pattern, folder)
    except InputError as error:
        failure = InputError(f"{key}: {error}")
    raise failure  # outside of the except clause, so that the first error is not attached as context


def public_file(path: str, folder: str) -> Files:
    """Return the file of a joined table. Raises InputError if it is not one csv or parquet file that can be read."""
    files = files_of(path, folder, "source.join.path")
    if files.kind == "duckdb" or len(files.paths) > 1:
        raise InputError(f"source.join.path: {path}: expected one .csv or .parquet file, found {len(files.paths):,} ({files.kind})")
    return files


def public_digest(path: str, folder: str) -> str:
    """Return the SHA-256 digest of the file of a joined table, in hexadecimal. Raises InputError if the file cannot be read."""
    (file,) = public_file(path, folder).paths
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _files_of(pattern: str, folder: str) -> Files:
    """Return the files as `files_of` does. The message of an error does not name the key."""
    if "://" in pattern:
        raise InputError(f"{pattern}: expected files on this machine, found an address")
    if "\0" in pattern:
        raise InputError("expected a path, found one with NUL")
    paths = matching(pattern, folder)
    if not paths:
        raise InputError(f"{pattern}: no such file")
    kinds = {_kind(path, pattern) for path in paths}
    if len(kinds) > 1:
        raise InputError(f"{pattern}: expected files of one kind, found {', '.join(sorted(kinds))}")
    for path in paths:
        _require_regular(path)
    kind = kinds.pop()
    if kind == "duckdb" and len(paths) > 1:
        raise InputError(f"{pattern}: expected one .duckdb file, found {len(paths):,}")
    return Files(kind, tuple(map(os.path.abspath, paths)), pattern)


def matching(pattern: str, folder: str) -> list[str]:
    """Return the paths that match a pattern. Without characters of a pattern, the path itself is returned even if it does not exist."""
    full = os.path.join(folder, pattern)
    if os.path.lexists(full) or not _is_pattern(pattern):
        return [full]
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True))


def would_match(path: str, pattern: str, folder: str) -> bool:
    """Return whether a new file at `path` would match a pattern, considering only folders that exist.

    Commands ask this of the files that they are about to write, which must not become part of the data.
    """
    if os.path.lexists(os.path.join(folder, pattern)) or not _is_pattern(pattern):
        return False
    above, name = os.path.split(pattern)
    if name == "**":  # any file in any folder below
        above, name = os.path.join(above, name), "*"
    folders = set(map(os.path.realpath, glob.glob(os.path.join(glob.escape(folder), above), recursive=True)))
    # A link at `path` is compared by its own name, and by the file to which it leads.
    as_named = os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path)
    as_resolved = os.path.split(os.path.realpath(path))
    return any(parent in folders and fnmatch.fnmatchcase(file, name) for parent, file in (as_named, as_resolved))


def _is_pattern(path: str) -> bool:
    return any(character in path for character in PATTERN)


def header_of(files: Files, wanted: frozenset[str]) -> Header:
    """Return the header of csv files. The delimiter is chosen to give the largest number of wanted names.

    Raises InputError if a file cannot be read, the headers differ, or a wanted name is missing or repeated. As the first line may be a
    private row, the message shows a part of it only where `instead_of` permits.
    """
    lines = [_first_line(path) for path in files.paths]
    names_by_delimiter = {delimiter: _cells(lines[0], delimiter) for delimiter in DELIMITERS}
    delimiter = max(DELIMITERS, key=lambda delimiter: len(wanted.intersection(names_by_delimiter[delimiter])))
    names = names_by_delimiter[delimiter]
    if not all(map(_is_text, names)):
        raise _unreadable(files.paths[0])
    for path, line in zip(files.paths, lines, strict=True):
        if _cells(line, delimiter) != names:
            raise InputError(f"{path}: the columns in its first line differ from the columns of {files.paths[0]}")
    for name in sorted(wanted):
        if names.count(name) != 1:
            in_its_place = f"{names.count(name)} of them" if name in names else _instead(name, names_by_delimiter.values(), wanted)
            raise InputError(f'{files.place}: expected one column "{name}" in the first line, found {in_its_place}')
    return Header(tuple(names), delimiter)


def _instead(name: str, splits: Iterable[list[str]], wanted: frozenset[str]) -> str:
    """Return a description of a similar name in the first line, split by any delimiter; "none" if there is no such name."""
    similar = (instead_of(name, list(filter(_is_text, names)), wanted) for names in splits)
    return next((words for words in similar if words != "none"), "none")


def _kind(path: str, pattern: str) -> Kind:
    """Return the kind of a file by the ending of its name. Raises InputError if the ending is not in ENDINGS."""
    ending = next((end for end in ENDINGS if path.lower().endswith(end)), None)
    if ending is None:
        expected = ", ".join(ENDINGS)
        directory = " (a folder: write FOLDER/*.parquet)" if os.path.isdir(path) else ""
        raise InputError(f"{pattern}: expected files that end in {expected}{directory}")
    return ENDINGS[ending]


def _require_regular(path: str) -> None:
    """Raise InputError unless the path is a regular file that this user can read."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: expected a regular file, found a folder")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: expected a regular file, found a pipe or device")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it")


def _first_line(path: str) -> str:
    """Return the start of a csv, at most LONGEST_HEADER bytes. Everything after the first record is private."""
    try:
        with _open_bytes(path) as file:
            return file.read(LONGEST_HEADER).decode("utf-8-sig", errors=UNDECODABLE)
    except (OSError, EOFError, zlib.error):
        failure = _unreadable(path)
    raise failure


def _unreadable(path: str) -> InputError:
    """Return the error of a file that is not a csv in UTF-8. It is the same for every cause."""
    return InputError(f"{path}: not a csv file in UTF-8, or an unreadable file")


def _cells(text: str, delimiter: str) -> list[str]:
    """Return the cells of the first record of a csv; an empty list if it has none."""
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return []


def _is_text(name: str) -> bool:
    """Return whether a name was decoded from valid UTF-8."""
    return name.encode(errors=UNDECODABLE) == name.encode(errors="replace")


def require_closed_quotes(files: Files, delimiter: str, longest: int) -> None:
    """Raise InputError if a file cannot be read or ends within quotes, or a cell continues after its closing quotes or is too long.

    The message shows no cell.

    longest: largest size of a cell in bytes.
    """
    failure = None
    with _longest_cell(longest):
        for path in files.paths:
            try:
                # In latin-1 each byte is one character. The wrapper closes the file.
                with io.TextIOWrapper(_open_bytes(path), encoding="latin-1", newline="") as file:
                    deque(csv.reader(file, delimiter=delimiter, strict=True), maxlen=0)  # reads all rows and keeps none
            except (csv.Error, OSError, EOFError, zlib.error):
                failure = InputError(f"{files.place}: a cell has misplaced or unclosed quotes, or a file cannot be read")
    if failure is not None:
        raise failure  # outside of the except clause, so that the csv error is not attached as context


def _open_bytes(path: str) -> gzip.GzipFile | io.BufferedReader:
    """Return an open file. A file named .gz is decompressed."""
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")


@contextmanager
def _longest_cell(longest: int) -> Iterator[None]:
    """Set the largest length of a csv cell, which is a setting of the whole process, and restore it at the end."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)
