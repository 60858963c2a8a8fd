"""Arrays from .npz, .csv and .parquet files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.tasks.encoding import encoded, known_columns, label_codes
from dpcli.train.tasks.files import csv_table, parquet_table
from dpcli.train.tasks.mapped import arrays_in


class Parts(NamedTuple):
    """Inputs, labels and whose they are, as they were found.

    names: of the columns that are inputs by their places. blocks: of each record, where a unit is bounded in each by itself.
    """

    inputs: Any
    labels: Any
    units: Any = None
    names: tuple[str, ...] = ()
    blocks: list[str] | None = None


def _npz(place: str, train: Classification, only: RowWindow | None, apart: str | None) -> Parts:
    names = ("inputs", "labels", *([train.units] if train.units else []))
    try:
        found = arrays_in(place, names)
    except Exception:  # whatever numpy, zipfile and zlib raise for a file that is none
        raise InputError(
            f"{place}: expected a .npz file of plain arrays, without objects, found one that cannot be read so"
        ) from None
    if found is None:
        raise InputError(f"{place}: expected arrays named {' and '.join(names)}, found none of some name")
    return Parts(*found)


def _csv(place: str, train: Classification, only: RowWindow | None, apart: str | None) -> Parts:
    return _columns(place, train, only, apart, *csv_table(place, only))


def _parquet(place: str, train: Classification, only: RowWindow | None, apart: str | None) -> Parts:
    return _columns(place, train, only, apart, *parquet_table(place, only))


def _columns(
    place: str, train: Classification, only: RowWindow | None, apart: str | None, names: list[str], rows: list[list[Any]]
) -> Parts:
    """The label in a named column or the last, whose each record is in another; the declared columns, or numbers in all others.

    apart: a column that tells of a record which block it is in, and is none of its inputs unless it is declared as one.
    """
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    label = train.label or next((name for name in reversed(names) if name not in (train.units, apart)), "label")
    for name in (label, *([train.units] if train.units else [])):
        if name not in columns:
            there = instead_of(name, names, known_columns(train))
            raise InputError(f"{place}: expected a column {name!r}, found {there}")
    # By its place where the training file does not name it: a file without a line of names has a record there.
    shown = {name: f"column {name!r}" if name == train.label else f"column {at}" for at, name in enumerate(names, 1)}
    blocks = None if only is None or only.each is None else [only.part(value) for value in columns[only.column]]
    units = columns.pop(train.units) if train.units else None
    stated = columns.pop(label, [])
    called = shown[label]
    labels = _numbers(place, called, stated) if train.labels is None else label_codes(stated, train.labels, called, place, only)
    if train.columns is not None:
        return Parts(encoded(columns, train, place, only), labels, units, (), blocks)
    if apart is not None:
        columns.pop(apart, None)
    if not columns:
        raise InputError(f"{place}: expected a column of numbers and the label, found only the label")
    inputs = np.stack([_numbers(place, shown[name], values) for name, values in columns.items()], axis=1)
    return Parts(inputs, labels, units, tuple(columns), blocks)


def _numbers(place: str, column: str, values: list[Any]) -> np.ndarray:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        found = np.zeros((0, 0))
    if found.ndim != 1:
        raise InputError(f"{place}: expected numbers in {column}, found a value that is not a number")
    return found


ArrayReader = Callable[
    [str, Classification, RowWindow | None, str | None], Parts
]  # of these rows, without that column among the inputs
READERS: dict[str, ArrayReader] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
