"""Arrays from .npz, .csv and .parquet files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpcli.errors import InputError
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.tasks.files import csv_table, parquet_table


class Parts(NamedTuple):
    """Inputs, labels and whose they are, as they were found."""

    inputs: Any
    labels: Any
    units: Any = None


def _npz(place: str, train: Classification) -> Parts:
    names = ("inputs", "labels", *([train.units] if train.units else []))
    try:
        with open(place, "rb") as file, np.load(file, allow_pickle=False) as archive:
            absent = not set(names) <= set(archive.files)
            found = [] if absent else [archive[name] for name in names]
    except Exception:  # whatever numpy, zipfile and zlib raise for a file that is none
        raise InputError(
            f"{place}: expected a .npz file of plain arrays, without objects, found one that cannot be read so"
        ) from None
    if absent:
        raise InputError(f"{place}: expected arrays named {' and '.join(names)}, found none of some name")
    return Parts(*found)


def _csv(place: str, train: Classification) -> Parts:
    return _columns(place, train, *csv_table(place))


def _parquet(place: str, train: Classification) -> Parts:
    return _columns(place, train, *parquet_table(place))


def _columns(place: str, train: Classification, names: list[str], rows: list[list[Any]]) -> Parts:
    """The label in a named column or the last, whose each record is in another, numbers in all others."""
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    label = train.label or next((name for name in reversed(names) if name != train.units), "label")
    for name in (label, *([train.units] if train.units else [])):
        if name not in columns:
            raise InputError(f"{place}: expected a column {name!r}, found {len(names)} of other names")
    units = columns.pop(train.units) if train.units else None
    labels = _numbers(place, label, columns.pop(label, []))
    if not columns:
        raise InputError(f"{place}: expected a column of numbers and the label, found only the label")
    return Parts(np.stack([_numbers(place, name, values) for name, values in columns.items()], axis=1), labels, units)


def _numbers(place: str, name: str, values: list[Any]) -> np.ndarray:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        found = np.zeros((0, 0))
    if found.ndim != 1:
        raise InputError(f"{place}: expected numbers in column {name!r}, found a value that is not a number")
    return found


READERS: dict[str, Callable[[str, Classification], Parts]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
