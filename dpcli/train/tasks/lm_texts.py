"""Texts, from a file or the user's own function, with their labels and whose they are where asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import meant_in
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_language import Language
from dpcli.train.tasks.files import csv_table, json_lines, parquet_table, text_of
from dpcli.train.tasks.owners import in_blocks
from dpcli.train.tasks.user_code import beside, private_result

Text = str | Sequence[int]  # or its token ids


@dataclass(frozen=True, slots=True)
class Texts:
    """texts: n of them. labels, units: n values, or None. blocks: of each text, where a unit is bounded in each by itself."""

    texts: list[Text]
    labels: list[Any] | None = None
    units: list[Any] | None = None
    blocks: list[str] | None = None


def texts_of(source: str, train: Language, path: str, rows: RowWindow | None = None) -> Texts:
    """The texts of a file, of these rows alone where they are given, or of module:function.

    Raises:
        InputError: they cannot be read, or are none.
    """
    ending = os.path.splitext(source)[1]
    place = beside(source, path)
    if ending in READERS:
        if not os.path.isfile(place):
            raise InputError(f"{path}: train.data: expected a file, found none at {source}")
        found = _checked(READERS[ending](place, train, rows), source, path)
        if found.units is None or found.blocks is None:
            return found
        return replace(found, units=in_blocks(found.units, found.blocks, path).tolist())
    if ":" not in source:
        raise InputError(f"{path}: train.data: expected a {', '.join(READERS)} file, or module:function, found {source!r}")
    return _checked(_returned(private_result(source, path), train, source, path), source, path)


def _checked(texts: Texts, source: str, path: str) -> Texts:
    for name, values in (("labels", texts.labels), ("units", texts.units)):
        if values is not None and len(values) != len(texts.texts):
            raise InputError(f"{path}: {source}: expected as many {name} as texts, found another number of them")
    if not texts.texts:
        raise InputError(f"{path}: {source}: expected texts, found none")
    return texts


def _returned(found: Any, train: Language, source: str, path: str) -> Texts:
    """What a function returns: texts, then labels where the task has some, then units with train.units."""
    labelled = train.label_column is not None
    count = 1 + labelled + (train.units is not None)
    parts = (found,) if count == 1 else found if isinstance(found, tuple | list) else ()
    if len(parts) != count:
        raise InputError(f"{path}: {source}: expected {count} lists, texts first, found something else")
    texts, *rest = (_listed(part, f"{path}: {source}") for part in parts)
    return Texts(texts, rest[0] if labelled else None, rest[-1] if train.units is not None else None)


def _listed(part: Any, place: str) -> list[Any]:
    try:
        found = np.asarray(part).tolist() if hasattr(part, "dtype") else part
    except Exception:  # a tensor of another device, whatever calls itself an array
        found = None
    if not isinstance(found, tuple | list):
        raise InputError(f"{place}: expected lists or arrays, found {type(part).__name__}")
    return list(found)


def _txt(place: str, train: Language, only: RowWindow | None) -> Texts:
    """Lines, paragraphs, or the whole file to be cut into windows; under units, windows of what is named there."""
    cuts = {"line": r"\n", "paragraph": r"\n\s*\n"}
    if train.cut_by is None:
        raise InputError(f"{place}: expected a file with labels, .csv, .jsonl or .parquet, found plain text")
    if train.units is not None and (train.cut_by != "window" or train.units not in cuts):
        raise InputError(f'{place}: train.units: expected line or paragraph with record = "window", found {train.units!r}')
    whole = text_of(place)
    cut = cuts.get(train.units or train.cut_by)
    texts = [part for part in re.split(cut, whole) if part.strip()] if cut else [whole]
    return Texts(list(texts), None, list(range(len(texts))) if train.units is not None else None)


def _jsonl(place: str, train: Language, only: RowWindow | None) -> Texts:
    return _rows(place, train, json_lines(place, only), only)


def _csv(place: str, train: Language, only: RowWindow | None) -> Texts:
    names, rows = csv_table(place, only)
    return _rows(place, train, [dict(zip(names, row, strict=True)) for row in rows], only)


def _parquet(place: str, train: Language, only: RowWindow | None) -> Texts:
    names, rows = parquet_table(place, only)
    return _rows(place, train, [dict(zip(names, row, strict=True)) for row in rows], only)


def _rows(place: str, train: Language, rows: list[Any], only: RowWindow | None) -> Texts:
    """The text in one column, the label and whose it is in others."""
    label = train.label_column
    for row in rows:
        for name in (train.text, label, train.units):
            if name is not None and (not hasattr(row, "keys") or row.get(name) is None):
                raise InputError(f"{place}: expected {name!r} in every row, found a row without it{meant_in(row, [name])}")
    return Texts(
        [row[train.text] for row in rows],
        [row[label] for row in rows] if label else None,
        [row[train.units] for row in rows] if train.units is not None else None,
        None if only is None or only.each is None else [only.part(row[only.column]) for row in rows],
    )


READERS: dict[str, Callable[[str, Language, RowWindow | None], Texts]] = {
    ".txt": _txt,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
