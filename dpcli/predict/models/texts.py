"""Private texts, and whose they are: from a file, or the user's own function. No message quotes one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import meant_in
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.tasks.files import csv_table, json_lines, parquet_table, text_of

CUTS = {"line": r"\n", "paragraph": r"\n\s*\n"}


@dataclass(frozen=True, slots=True)
class TextSource:
    """Where texts come from.

    source: a .txt, .csv, .jsonl or .parquet file, or module:function. path: of the pipeline file, which `source` is relative to.
    key: as messages call it. column: of the text, in a file with columns. units: the column that tells whose a text is; None where each is
    a unit of its own. record: what one text of plain text is, line or paragraph. rows: of a file with columns, those that may be read; all
    where None.
    """

    source: str
    path: str
    key: str
    column: str = "text"
    units: str | None = None
    record: str = "line"
    rows: RowWindow | None = None

    def refused(self, expected: str, found: str) -> InputError:
        return InputError(f"{self.path}: {self.key}: expected {expected}, found {found}")


@dataclass(frozen=True, slots=True)
class OwnedTexts:
    """texts: n of them, none empty. units: whose each is; the place of the text itself where the file names no units."""

    texts: tuple[str, ...]
    units: tuple[str | int, ...]


def owned_texts(asked: TextSource) -> OwnedTexts:
    """The texts, and whose they are.

    Raises:
        InputError: they cannot be read, are none, or some have no owner. Unavailable: a package that reads the file is not installed.
    """
    ending = os.path.splitext(asked.source)[1]
    texts, units = READERS[ending](_place(asked), asked) if ending in READERS else _called(asked)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise asked.refused("texts", "none" if not texts else "values that are no texts")
    if units is None:
        return OwnedTexts(*_apart(texts))
    if len(units) != len(texts):
        raise asked.refused("as many owners as texts", "another number of them")
    return OwnedTexts(tuple(texts), _owners(units, asked))


def public_texts(source: str, path: str, key: str, record: str = "line") -> list[str]:
    """Texts that are declared public: the lines or paragraphs of a .txt file, or what module:function returns. Raises InputError."""
    from dpcli.train.tasks.user_code import result

    asked = TextSource(source, path, key, record=record)
    if os.path.splitext(source)[1] == ".txt":
        found: Any = _txt(_place(asked), asked)[0]
    elif ":" in source:
        found = result(source, path)
    else:
        raise asked.refused("a .txt file, or module:function", repr(source))
    if not isinstance(found, list | tuple) or not found or not all(isinstance(text, str) for text in found):
        raise asked.refused("a list of texts", "none" if isinstance(found, list | tuple) and not found else "something else")
    return list(found)


def _place(asked: TextSource) -> str:
    folder = os.path.dirname(os.path.abspath(asked.path))
    place = os.path.join(folder, asked.source)
    if not os.path.isfile(place):
        raise asked.refused("a file", f"none at {asked.source}")
    return place


def _called(asked: TextSource) -> tuple[list[Any], list[Any] | None]:
    """What a function returns: texts, and their owners where the file names units."""
    from dpcli.train.tasks.user_code import private_result

    if ":" not in asked.source:
        raise asked.refused(f"a {', '.join(READERS)} file, or module:function", repr(asked.source))
    found = private_result(asked.source, asked.path)
    if asked.units is None:
        if not isinstance(found, list | tuple):
            raise asked.refused("a list of texts", type(found).__name__)
        return list(found), None
    if not isinstance(found, tuple) or len(found) != 2 or not all(isinstance(part, list | tuple) for part in found):
        raise asked.refused("two lists, texts first, as units are named", "something else")
    return list(found[0]), list(found[1])


def _apart(texts: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Each text a unit of its own, named by what it says: where it stands would change as others come and go."""
    return tuple(texts), tuple(texts)


def _owners(units: list[Any], asked: TextSource) -> tuple[str | int, ...]:
    """Texts or whole numbers, all of one type: of 1 and "1", or of nobody, it is not clear who they are."""
    types = {type(unit) for unit in units}
    if types not in ({str}, {int}) or any(unit == "" for unit in units):
        raise asked.refused("whose each text is, as text or as whole numbers", "some that are missing, or of several types")
    return tuple(units)


def _txt(place: str, asked: TextSource) -> tuple[list[Any], list[Any] | None]:
    if asked.units is not None:
        raise asked.refused("a file with columns, as units are named", "plain text")
    return [part for part in re.split(CUTS[asked.record], text_of(place)) if part.strip()], None


def _csv(place: str, asked: TextSource) -> tuple[list[Any], list[Any] | None]:
    names, rows = csv_table(place, asked.rows)
    return _columns([dict(zip(names, row, strict=True)) for row in rows], asked)


def _parquet(place: str, asked: TextSource) -> tuple[list[Any], list[Any] | None]:
    names, rows = parquet_table(place, asked.rows)
    return _columns([dict(zip(names, row, strict=True)) for row in rows], asked)


def _jsonl(place: str, asked: TextSource) -> tuple[list[Any], list[Any] | None]:
    return _columns(json_lines(place, asked.rows), asked)


def _columns(rows: list[Any], asked: TextSource) -> tuple[list[Any], list[Any] | None]:
    for row in rows:
        for name in (asked.column, asked.units):
            if name is not None and (not isinstance(row, Mapping) or row.get(name) is None):
                raise asked.refused(f"{name!r} in every row", f"a row without it{meant_in(row, [name])}")
    return [row[asked.column] for row in rows], None if asked.units is None else _whose(rows, asked, asked.units)


def _whose(rows: list[Any], asked: TextSource, column: str) -> list[Any]:
    """Whose each text is: where the ledger bounds what one of them has in one block, that is a unit of its own, named by both."""
    found, only = [row[column] for row in rows], asked.rows
    if only is None or only.each is None or not rows:
        return found
    return [json.dumps([unit, only.part(row[only.column])]) for unit, row in zip(_owners(found, asked), rows, strict=True)]


READERS: Mapping[str, Callable[[str, TextSource], tuple[list[Any], list[Any] | None]]] = {
    ".txt": _txt,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
