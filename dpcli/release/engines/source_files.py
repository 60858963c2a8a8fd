"""The files of a source, and the column names of a csv. No message shows a line of any file."""

from __future__ import annotations

import csv
import fnmatch
import glob
import gzip
import io
import os
import stat
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of

Kind = Literal["csv", "parquet", "duckdb"]
ENDINGS: dict[str, Kind] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}
DELIMITERS = (",", "\t", ";", "|")
LONGEST_HEADER = 2**20  # bytes
PATTERN = "*?["  # characters that make a path a pattern
UNDECODABLE = "surrogateescape"  # handler of bytes that are no UTF-8


@dataclass(frozen=True, slots=True)
class Files:
    """Regular files of one kind.

    Attributes:
        place: The path or pattern as the user wrote it, for messages.
    """

    kind: Kind
    paths: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a csv.

    Attributes:
        names: Names of all its columns, in order.
    """

    names: tuple[str, ...]
    delimiter: str


def files_of(pattern: str, folder: str) -> Files:
    """Return the files of a path or a pattern. Raises InputError if there is none, or one is no regular file."""
    if "://" in pattern:
        raise InputError(f"{pattern}: expected files on this machine, found an address")
    if "\0" in pattern:
        raise InputError("source.path: expected a path, found one with NUL")
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
    """Return the paths of a pattern, or the path itself, whether files or not."""
    full = os.path.join(folder, pattern)
    magic = not os.path.lexists(full) and any(character in pattern for character in PATTERN)
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True)) if magic else [full]


def would_match(path: str, pattern: str, folder: str) -> bool:
    """Tell whether a file written to `path` would match a pattern, in the folders that exist."""
    full = os.path.join(folder, pattern)
    if os.path.lexists(full) or not any(character in pattern for character in PATTERN):
        return False
    above, name = os.path.split(pattern)
    if name == "**":
        above, name = os.path.join(above, name), "*"
    above_folders = glob.glob(os.path.join(glob.escape(folder), above), recursive=True)
    folders = {os.path.realpath(each) for each in above_folders}
    ends = {(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path)), os.path.split(os.path.realpath(path))}
    return any(place in folders and fnmatch.fnmatchcase(last, name) for place, last in ends)


def header_of(files: Files, wanted: frozenset[str]) -> Header:
    """Return the column names, equal in every file; the delimiter is the one that gives most of the wanted names.

    Raises InputError, which shows nothing of a file: its first line may be no header.
    """
    lines = [_first_line(path) for path in files.paths]
    cells = [(delimiter, _cells(lines[0], delimiter)) for delimiter in DELIMITERS]
    delimiter, names = max(cells, key=lambda each: len(wanted & set(each[1])))
    if not all(map(_is_text, names)):
        raise _no_text(files.paths[0])
    for path, line in zip(files.paths, lines, strict=True):
        if _cells(line, delimiter) != names:
            raise InputError(f"{path}: the columns in its first line are not those of {files.paths[0]}")
    for name in sorted(wanted):
        if names.count(name) != 1:
            times = f"{names.count(name)} of them" if name in names else _instead(name, cells, wanted)
            raise InputError(f'{files.place}: expected one column "{name}" in the first line, found {times}')
    return Header(tuple(names), delimiter)


def _instead(name: str, cells: Sequence[tuple[str, list[str]]], wanted: frozenset[str]) -> str:
    """Say what the first line has in place of a name, by any delimiter."""
    instead = [instead_of(name, list(filter(_is_text, names)), wanted) for _, names in cells]
    return next((words for words in instead if words != "none"), "none")


def _kind(path: str, pattern: str) -> Kind:
    ending = next((end for end in ENDINGS if path.lower().endswith(end)), None)
    if ending is None:
        expected = ", ".join(ENDINGS)
        directory = " (a folder: write FOLDER/*.parquet)" if os.path.isdir(path) else ""
        raise InputError(f"{pattern}: expected files that end in {expected}{directory}")
    return ENDINGS[ending]


def _require_regular(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: expected a regular file, found a {'folder' if stat.S_ISDIR(mode) else 'pipe or device'}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it")


def _first_line(path: str) -> str:
    """Return the start of a csv, which holds its first record; what follows that is private."""
    opener = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            return file.read(LONGEST_HEADER).decode("utf-8-sig", errors=UNDECODABLE)
    except (OSError, EOFError, zlib.error):
        failure = _no_text(path)
    raise failure


def _no_text(path: str) -> InputError:
    return InputError(f"{path}: not a csv file in UTF-8, or it cannot be read")


def _cells(text: str, delimiter: str) -> list[str]:
    """Return the cells of the first record; none if there is none."""
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return []


def _is_text(name: str) -> bool:
    """Tell whether a name was decoded from UTF-8."""
    return name.encode(errors=UNDECODABLE) == name.encode(errors="replace")
