"""Private texts and their owners, read from a file or from a function of the user. No message quotes a text.

pmixed, prompt and generate read their private and public texts here. The *owner* of a text is the person or thing that it belongs to. All
texts of an owner are one unit of privacy. The exception is a ledger that cuts a dataset into *blocks*, such as days, and bounds each owner
per block. Without a column of owners each text is its own owner, so that two equal texts are one unit. Owners of two types are refused: 1
and "1" might be one person.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import meant_in
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.tasks.files import csv_table, json_lines, parquet_table, read_text
from dpcli.train.tasks.user_code import private_result, public_result, relative_to_file

SEPARATORS = {"line": r"\n", "paragraph": r"\n\s*\n"}  # patterns between two records of a .txt file

# (path of a file, window of the rows that may be read) -> its rows, as values by the name of their column
RowReader = Callable[[str, RowWindow | None], list[Any]]


@dataclass(frozen=True, slots=True)
class TextSource:
    """A file or function from which texts are read.

    Attributes:
        source: A .txt, .csv, .jsonl or .parquet file, relative to the pipeline file, or module:function.
        path: Path of the pipeline file.
        key: Key of the pipeline file that names the source, for messages.
        column: Column of the texts, in a file with columns.
        units: Column that names the owner of each text; None if the owner of a text is the text itself.
        record: Unit of text in a .txt file: line or paragraph.
        rows: Rows that may be read, in a file with columns; None for all.
    """

    source: str
    path: str
    key: str
    column: str = "text"
    units: str | None = None
    record: str = "line"
    rows: RowWindow | None = None

    @property
    def ending(self) -> str:
        return os.path.splitext(self.source)[1]

    def error(self, expected: str, actual: str) -> InputError:
        """Return the error for a source that cannot be used. `actual` must not quote a text: texts are private."""
        return InputError(f"{self.path}: {self.key}: expected {expected}, found {actual}")

    def file(self) -> str:
        """Return the path of the file. Raises InputError if it does not exist."""
        file_path = relative_to_file(self.source, self.path)
        if not os.path.isfile(file_path):
            raise self.error("a file", f"no file at {self.source}")
        return file_path


@dataclass(frozen=True, slots=True)
class OwnedTexts:
    """Texts and `units`, their owners. The owner of a text is the text itself if the source names no column of owners."""

    texts: tuple[str, ...]
    units: tuple[str | int, ...]

    def by_unit(self) -> Mapping[str | int, list[str]]:
        """Return the texts of each owner, in order."""
        grouped: dict[str | int, list[str]] = {}
        for text, unit in zip(self.texts, self.units, strict=True):
            grouped.setdefault(unit, []).append(text)
        return grouped


def owned_texts(source: TextSource) -> OwnedTexts:
    """Return the texts with their owners.

    If the ledger bounds each owner's contributions per block, an owner's texts of one block form a separate unit, named by the owner and
    the block.

    Raises:
        InputError: If the texts cannot be read, there are none, some are not texts, or some have no owner.
        Unavailable: If a package that reads the file is not installed.
    """
    if source.units is None:
        if source.ending == ".txt":
            texts = _plain_texts(source)
        else:
            (texts,) = read_columns(source, [source.column], (".txt", *READERS))
        require_texts(texts, source)
        # A text's position cannot be its owner, because it changes if another text is added or removed.
        return OwnedTexts(tuple(texts), tuple(texts))
    if source.ending == ".txt":
        raise source.error("a file with columns, as units names a column", "plain text")
    texts, owners = _texts_and_owners(source, source.units)
    require_texts(texts, source)
    if len(owners) != len(texts):
        raise source.error("as many owners as texts", "lists of different lengths")
    return OwnedTexts(tuple(texts), require_owners(owners, source))


def _texts_and_owners(source: TextSource, units: str) -> tuple[list[Any], Sequence[Any]]:
    """Return the texts and their owners. If contributions are bounded per block, an owner is a pair of owner and block."""
    rows = source.rows
    if rows is None or rows.block_part is None:  # contributions are bounded over all rows that may be read
        texts, owners = read_columns(source, [source.column, units], (".txt", *READERS))
        return texts, owners
    texts, owners, blocks = read_columns(source, [source.column, units, rows.column], (".txt", *READERS))
    pairs = zip(require_owners(owners, source), blocks, strict=True)
    return texts, [json.dumps([owner, rows.block_label(block)]) for owner, block in pairs]


def public_texts(source: str, path: str, key: str, record: str = "line") -> list[str]:
    """Return texts declared public: the lines or paragraphs of a .txt file, or what module:function returns.

    Raises InputError if the file or function cannot be used, there is no text, or some values are not texts.
    """
    public = TextSource(source, path, key, record=record)
    if public.ending != ".txt" and ":" not in source:
        raise public.error("a .txt file, or module:function", repr(source))
    texts: Any = _plain_texts(public) if public.ending == ".txt" else public_result(source, path)
    if not isinstance(texts, list | tuple):
        raise public.error("a list of texts", type(texts).__name__)
    require_texts(texts, public)
    return list(texts)


def require_texts(texts: Sequence[Any], source: TextSource) -> None:
    """Raise InputError if there are no values, or some are not texts."""
    if not texts:
        raise source.error("texts", "no text")
    if not all(isinstance(text, str) for text in texts):
        raise source.error("texts", "values that are not texts")


def require_owners(owners: Sequence[Any], source: TextSource) -> tuple[str | int, ...]:
    """Return the owners. Raises InputError unless all are texts that are not empty, or all are whole numbers.

    Both types together are refused: 1 and "1" might be one owner.
    """
    types = {type(owner) for owner in owners}
    if types not in ({str}, {int}) or any(owner == "" for owner in owners):
        raise source.error("the owner of each text, as text or as whole numbers", "owners that are missing, or of several types")
    return tuple(owners)


def read_columns(source: TextSource, names: Sequence[str], endings: Sequence[str]) -> list[list[Any]]:
    """Return the named columns of a file, or the same number of lists from a function.

    Args:
        names: Columns to return, the column of texts first.
        endings: File types that the command reads, for the message.

    Raises:
        InputError: If a column is missing in a row, or the function does not return such lists.
        Unavailable: If a package that reads the file is not installed.
    """
    if source.ending in READERS:
        return _named_columns(READERS[source.ending](source.file(), source.rows), names, source)
    if ":" not in source.source:
        raise source.error(f"a {', '.join(endings)} file, or module:function", repr(source.source))
    parts = private_result(source.source, source.path)  # calls the user's function; no message of an error is shown
    parts = (parts,) if len(names) == 1 else parts
    if not isinstance(parts, tuple) or len(parts) != len(names) or not all(isinstance(part, list | tuple) for part in parts):
        expected = "a list of texts" if len(names) == 1 else f"{len(names)} lists, texts first,"
        actual = f"a tuple of {len(parts)}" if isinstance(parts, tuple) else type(parts).__name__
        raise source.error(f"{expected} from {source.source}", actual)
    return [list(part) for part in parts]


def _plain_texts(source: TextSource) -> list[str]:
    """Return the lines or paragraphs of a .txt file that are not blank."""
    return [part for part in re.split(SEPARATORS[source.record], read_text(source.file())) if part.strip()]


def _named_columns(rows: list[Any], names: Sequence[str], source: TextSource) -> list[list[Any]]:
    """Return the values of each named column. Raises InputError if a row has none."""
    for row in rows:
        for name in names:
            if not isinstance(row, Mapping) or row.get(name) is None:
                raise source.error(f"{name!r} in every row", f"a row without it{meant_in(row, [name])}")
    return [[row[name] for row in rows] for name in names]


def _rows_by_name(read: Callable[[str, RowWindow | None], tuple[list[str], Any]]) -> RowReader:
    """Return a reader of rows by column name, from a reader of column names and rows of values."""

    def read_rows(file_path: str, window: RowWindow | None) -> list[Any]:
        names, values = read(file_path, window)
        return [dict(zip(names, row, strict=True)) for row in values]

    return read_rows


READERS: Mapping[str, RowReader] = {
    ".csv": _rows_by_name(csv_table),
    ".jsonl": json_lines,
    ".parquet": _rows_by_name(parquet_table),
}
