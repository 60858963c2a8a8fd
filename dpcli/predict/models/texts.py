"""Private texts, and whose they are: from a file, or the user's own function. No message quotes one."""

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
from dpcli.train.tasks.files import csv_table, json_lines, parquet_table, text_of
from dpcli.train.tasks.user_code import private_result, relative_to_file, result

CUTS = {"line": r"\n", "paragraph": r"\n\s*\n"}


@dataclass(frozen=True, slots=True)
class TextSource:
    """The place that texts come from.

    source: a .txt, .csv, .jsonl or .parquet file, or module:function. path: of the pipeline file, which `source` is relative to.
    key: as messages call it. column: of the text, in a file with columns. units: the column that names each text's owner; None where each
    is a unit of its own. record: what one text of plain text is, line or paragraph. rows: of a file with columns, those that may be read;
    all where None.
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

    def refused(self, expected: str, instead: str) -> InputError:
        return InputError(f"{self.path}: {self.key}: expected {expected}, found {instead}")

    def file(self) -> str:
        """Return the path of the file. Raises InputError where there is none."""
        place = relative_to_file(self.source, self.path)
        if not os.path.isfile(place):
            raise self.refused("a file", f"no file at {self.source}")
        return place


@dataclass(frozen=True, slots=True)
class OwnedTexts:
    """texts: n of them. units: the owner of each; the text itself where the file names no units."""

    texts: tuple[str, ...]
    units: tuple[str | int, ...]


def owned_texts(source: TextSource) -> OwnedTexts:
    """Return the texts, and whose they are.

    Where the ledger bounds what an owner has in one block, that is a unit of its own, named by both.

    Raises:
        InputError: they cannot be read, are none, or some have no owner. Unavailable: a package that reads the file is not installed.
    """
    if source.ending == ".txt":
        if source.units is not None:
            raise source.refused("a file with columns, as units are named", "plain text")
        columns: list[list[Any]] = [_plain(source)]
    else:
        only = source.rows if source.units is not None and source.rows is not None and source.rows.each is not None else None
        names = [source.column, *([source.units] if source.units else []), *([only.column] if only else [])]
        columns = read_columns(source, names, (".txt", *READERS))
        if only is not None:
            owners = require_owners(columns[1], source)
            columns[1] = [json.dumps([unit, only.part(block)]) for unit, block in zip(owners, columns[2], strict=True)]
    texts = columns[0]
    require_texts(texts, source)
    if source.units is None:
        return OwnedTexts(tuple(texts), tuple(texts))  # where a text stands would change as others come and go
    if len(columns[1]) != len(texts):
        raise source.refused("as many owners as texts", "lists of different lengths")
    return OwnedTexts(tuple(texts), require_owners(columns[1], source))


def public_texts(source: str, path: str, key: str, record: str = "line") -> list[str]:
    """Return texts declared public: the lines or paragraphs of a .txt file, or what module:function returns. Raises InputError."""
    public = TextSource(source, path, key, record=record)
    if public.ending != ".txt" and ":" not in source:
        raise public.refused("a .txt file, or module:function", repr(source))
    texts: Any = _plain(public) if public.ending == ".txt" else result(source, path)
    if not isinstance(texts, list | tuple):
        raise public.refused("a list of texts", type(texts).__name__)
    require_texts(texts, public)
    return list(texts)


def require_texts(texts: Sequence[Any], source: TextSource) -> None:
    """Raise InputError where there are no texts, or other values."""
    if not texts or not all(isinstance(text, str) for text in texts):
        raise source.refused("texts", "no text" if not texts else "values that are no texts")


def require_owners(units: Sequence[Any], source: TextSource) -> tuple[str | int, ...]:
    """Return the owners: texts or whole numbers, all of one type, as of 1 and "1", or of nobody, it is not clear who they are."""
    types = {type(unit) for unit in units}
    if types not in ({str}, {int}) or any(unit == "" for unit in units):
        raise source.refused("the owner of each text, as text or as whole numbers", "some that are missing, or of several types")
    return tuple(units)


def read_columns(source: TextSource, names: Sequence[str], endings: Sequence[str]) -> list[list[Any]]:
    """Return columns of a file, by name, or the lists that a function returns. endings: of files, for messages."""
    if source.ending in READERS:
        return _columns(READERS[source.ending](source.file(), source.rows), names, source)
    if ":" not in source.source:
        raise source.refused(f"a {', '.join(endings)} file, or module:function", repr(source.source))
    parts = private_result(source.source, source.path)
    parts = (parts,) if len(names) == 1 else parts
    if not isinstance(parts, tuple) or len(parts) != len(names) or not all(isinstance(part, list | tuple) for part in parts):
        expected = "a list of texts" if len(names) == 1 else f"{len(names)} lists, texts first,"
        kind = f"a tuple of {len(parts)}" if isinstance(parts, tuple) else type(parts).__name__
        raise source.refused(f"{expected} from {source.source}", kind)
    return [list(part) for part in parts]


def _plain(source: TextSource) -> list[str]:
    return [part for part in re.split(CUTS[source.record], text_of(source.file())) if part.strip()]


def _columns(rows: list[Any], names: Sequence[str], source: TextSource) -> list[list[Any]]:
    for row in rows:
        for name in names:
            if not isinstance(row, Mapping) or row.get(name) is None:
                raise source.refused(f"{name!r} in every row", f"a row without it{meant_in(row, [name])}")
    return [[row[name] for row in rows] for name in names]


Rows = Callable[[str, RowWindow | None], list[Any]]


def _rows_by_name(read: Callable[[str, RowWindow | None], tuple[list[str], Any]]) -> Rows:
    def rows(place: str, only: RowWindow | None) -> list[Any]:
        names, values = read(place, only)
        return [dict(zip(names, row, strict=True)) for row in values]

    return rows


READERS: Mapping[str, Rows] = {".csv": _rows_by_name(csv_table), ".jsonl": json_lines, ".parquet": _rows_by_name(parquet_table)}
