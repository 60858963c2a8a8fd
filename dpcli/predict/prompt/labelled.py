"""LabelledTexts texts, and whose they are; texts without labels. No message quotes one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dpcli.audit.user_code import FAILURES
from dpcli.base.errors import InputError
from dpcli.file.toml.columns import meant_in
from dpcli.file.toml.shown import first_names
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.predict.models.texts import TextSource, owned_texts
from dpcli.predict.prompt.settings import Prompt
from dpcli.sessions.plan import fingerprint
from dpcli.train.tasks.files import csv_table, json_lines, parquet_table
from dpcli.train.tasks.user_code import private_result, relative_to_file

ColumnReader = Callable[[str, str, list[str], str, RowWindow | None], list[list[Any]]]


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """texts, labels (numbers among the declared ones) and units: n of each."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    units: tuple[str | int, ...]

    @property
    def digest(self) -> str:
        """By which they are known: as private as they are."""
        return fingerprint(asdict(self))


def labelled(
    source: str, prompt: Prompt, path: str, key: str, units: str | None = None, rows: RowWindow | None = None
) -> LabelledTexts:
    """The labelled texts of a file, or of module:function.

    Args:
        path, key: of the file with [prompt], and of the key that names the source. rows: of a file, those that may be read; all where None.

    Raises:
        InputError: they cannot be read, are none, or some have no label or owner. Unavailable: a package that reads them is missing.
    """
    ending = os.path.splitext(source)[1]
    read = READERS.get(ending, _function if ":" in source else None)
    if read is None:
        raise InputError(f"{path}: prompt.{key}: expected a {', '.join(READERS)} file, or module:function, found {source!r}")
    columns = read(source, path, [prompt.text, prompt.label, *([units] if units else [])], f"{path}: prompt.{key}", rows)
    texts, given = columns[0], columns[1]
    if len({len(column) for column in columns}) != 1 or not texts:
        raise InputError(
            f"{path}: prompt.{key}: expected as many labels{' and units' if units else ''} as texts, found another number"
        )
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{path}: prompt.{key}: expected texts, found something else")
    owners = columns[2] if units else list(texts)
    if {type(owner) for owner in owners} not in ({str}, {int}) or (units and "" in owners):
        raise InputError(
            f"{path}: prompt.units: expected whose each text is, as text or as whole numbers, found some that are missing, "
            "or of several types"
        )
    return LabelledTexts(tuple(texts), tuple(numbers(given, prompt.labels, path)), tuple(owners))


def queries(prompt: Prompt, path: str) -> tuple[str, ...]:
    """The public texts that are voted on, each once. Raises InputError as `labelled` does."""
    found = owned_texts(TextSource(prompt.queries, path, "prompt.queries", prompt.text))
    return tuple(dict.fromkeys(found.texts))


def numbers(labels: list[Any], declared: tuple[str, ...], path: str) -> list[int]:
    """Each label's place among the declared ones."""
    places = {name.strip(): number for number, name in enumerate(declared)}
    try:
        return [places[str(label).strip()] for label in labels]
    except FAILURES:  # KeyError, or what a label of the user's own raises
        raise InputError(f"{path}: prompt.labels: expected every label of the data among them, found another") from None


def _function(source: str, path: str, names: list[str], place: str, only: RowWindow | None) -> list[list[Any]]:
    found = private_result(source, path)
    if not isinstance(found, tuple) or len(found) != len(names) or not all(isinstance(part, list | tuple) for part in found):
        raise InputError(f"{place}: expected {len(names)} lists from {source}, texts first, found something else")
    return [list(part) for part in found]


def _rows(rows: list[Any], names: list[str], place: str) -> list[list[Any]]:
    for row in rows:
        if any(not hasattr(row, "keys") or row.get(name) is None for name in names):
            there = f"a row without one of them{meant_in(row, names)}"
            raise InputError(f"{place}: expected {first_names(names)} in every row, found {there}")
    return [[row[name] for row in rows] for name in names]


def _file(read: Callable[[str, RowWindow | None], list[Any]]) -> ColumnReader:
    def columns(source: str, path: str, names: list[str], place: str, only: RowWindow | None) -> list[list[Any]]:
        file = relative_to_file(source, path)
        if not os.path.isfile(file):
            raise InputError(f"{place}: expected a file, found none at {source}")
        return _rows(read(file, only), names, place)

    return columns


def _table(read: Callable[[str, RowWindow | None], tuple[list[str], Any]]) -> Callable[[str, RowWindow | None], list[Any]]:
    def rows(file: str, only: RowWindow | None) -> list[Any]:
        names, found = read(file, only)
        return [dict(zip(names, row, strict=True)) for row in found]

    return rows


READERS: dict[str, ColumnReader] = {
    ".csv": _file(_table(csv_table)),
    ".jsonl": _file(json_lines),
    ".parquet": _file(_table(parquet_table)),
}
