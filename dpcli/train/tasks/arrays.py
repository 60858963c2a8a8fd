"""Arrays: the bundled digits, .npz, .csv and .parquet files, and the user's own function."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.errors import InputError
from dpcli.train.settings import Train
from dpcli.train.tasks.user_code import beside, result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Table:
    """inputs: (n, ...). labels: (n,). units: (n,) whose each record is, where asked for."""

    inputs: Array
    labels: Array
    units: Array | None = None


@dataclass(frozen=True, slots=True)
class Arrays:
    """Private records, and those that the file declares public (none where `public` is None).

    inputs: (n, ...) float32. labels: (n,) int64. classes: how many labels there are, as declared. units: (n,) whose each record is.
    """

    inputs: Array
    labels: Array
    public_inputs: Array | None
    public_labels: Array | None
    classes: int
    units: Array | None = None


def arrays(train: Train, path: str) -> Arrays:
    """The data of a [train] table.

    Raises InputError where they cannot be read, hold something that is not finite, or no split was declared public.
    """
    table, classes = _loaded(train.data, train, path), _classes(train, path)
    _require_labels(table, classes, path)
    if train.public is None:
        return Arrays(table.inputs, table.labels, None, None, classes, table.units)
    if train.public != "held-out":
        public = _loaded(train.public, train, path)
        _require_labels(public, classes, path)
        return Arrays(table.inputs, table.labels, public.inputs, public.labels, classes, table.units)
    if table.units is not None:
        raise InputError(f"{path}: train.public: expected a file beside units, found held-out: it would split a unit's records")
    # Fixed in advance and the same for every run: every k-th record, by its place in the file.
    every = round(1.0 / train.held_out)
    if every < 2:
        raise InputError(f"{path}: train.held_out: expected at most half of the records, found {train.held_out:g}")
    held = np.arange(len(table.labels)) % every == 0
    return Arrays(table.inputs[~held], table.labels[~held], table.inputs[held], table.labels[held], classes)


def _classes(train: Train, path: str) -> int:
    """A public number: the model's shape must not depend on which labels the private records have."""
    if train.classes is None and train.data != "digits":
        raise InputError(f"{path}: train.classes: expected the number of labels, declared, found none")
    return train.classes or 10


def _require_labels(table: Table, classes: int, path: str) -> None:
    if len(table.inputs) != len(table.labels) or table.labels.ndim != 1 or not len(table.labels):
        raise InputError(
            f"{path}: train.data: expected as many labels as inputs, found {len(table.labels)} and {len(table.inputs)}"
        )
    if table.labels.min() < 0 or table.labels.max() >= classes:
        raise InputError(f"{path}: train.classes: expected labels from 0 to {classes - 1}, found another")
    if table.units is not None and table.units.shape != table.labels.shape:
        raise InputError(f"{path}: train.units: expected one for each record, found shape {table.units.shape}")


def _loaded(source: str, train: Train, path: str) -> Table:
    found = _read(source, train, path)
    inputs = np.asarray(found.inputs, dtype=np.float32)
    if not np.isfinite(inputs).all():
        raise InputError(
            f"{path}: train.data: expected finite inputs, found some that are not: replace them by a declared constant first"
        )
    return Table(inputs - np.float32(train.shift), np.asarray(found.labels, dtype=np.int64), found.units)


def _read(source: str, train: Train, path: str) -> Table:
    ending = os.path.splitext(source)[1]
    if source == "digits":
        return _digits(path)
    if ending in READERS:
        place = beside(source, path)
        if not os.path.isfile(place):
            raise InputError(f"{path}: train.data: expected a file, found none at {source}")
        return READERS[ending](place, train)
    if ":" in source:
        return Table(*(np.asarray(part) for part in result(source, path)))
    raise InputError(f"{path}: train.data: expected digits, a {', '.join(READERS)} file, or module:function, found {source!r}")


def _digits(path: str) -> Table:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            f"{path}: train.data: expected scikit-learn for its digits, found none: pip install 'dpcli[train]'"
        ) from None
    found = load_digits()
    return Table(found.images[:, None] / 16.0, found.target)


def _npz(place: str, train: Train) -> Table:
    with np.load(place, allow_pickle=False) as found:
        if not {"inputs", "labels", *([train.units] if train.units else [])} <= set(found):
            raise InputError(
                f"{place}: expected arrays named inputs and labels{' and ' + train.units if train.units else ''}, found {', '.join(found)}"
            )
        return Table(found["inputs"], found["labels"], found[train.units] if train.units else None)


def _csv(place: str, train: Train) -> Table:
    with open(place, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    if any(len(row) != len(header) for row in rows):
        raise InputError(f"{place}: expected as many values in each line as in the first, found another number")
    return _columns(place, train, {name: [row[at] for row in rows] for at, name in enumerate(header)})


def _parquet(place: str, train: Train) -> Table:
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{place}: expected pyarrow, which reads .parquet files, found none: pip install pyarrow") from None
    return _columns(place, train, pyarrow.parquet.read_table(place).to_pydict())


def _columns(place: str, train: Train, columns: dict[str, list[Any]]) -> Table:
    """The label in a named column or the last, whose each record is in another, numbers in all others."""
    label = train.label or next((name for name in reversed(columns) if name != train.units), "label")
    for name in (label, *([train.units] if train.units else [])):
        if name not in columns:
            raise InputError(f"{place}: expected a column {name!r}, found {', '.join(columns)}")
    units = np.asarray(columns.pop(train.units)) if train.units else None
    try:
        labels = np.asarray(columns.pop(label), dtype=np.float64)
        inputs = np.asarray(list(columns.values()), dtype=np.float64).T
    except ValueError as problem:
        raise InputError(f"{place}: expected numbers but for units, found something else: {problem}") from None
    return Table(inputs, labels, units)


READERS: dict[str, Callable[[str, Train], Table]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
