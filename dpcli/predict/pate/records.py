"""Tables of records: inputs, labels, and what else a column or array says of each; no message quotes one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.settings import BUILT_IN, ending
from dpcli.predict.places import beside, on_private, own_function
from dpcli.train.tasks.digits import images_and_labels

Columns = Mapping[str, Any]  # arrays by name; "inputs" is one of them
INPUTS, LABELS = "inputs", "labels"


def read_records(source: str, extra: tuple[str, ...], label: str | None, labelled: bool, path: str) -> Columns:
    """The arrays of a source that the file at `path` mentions: inputs, labels where `labelled`, and `extra`, each under its name.

    Raises InputError where they cannot be read, or one is missing.
    """
    wanted = (INPUTS, *((LABELS,) if labelled else ()), *extra)
    if source == BUILT_IN:
        return _digits(path)
    if ending(source) in FILES:
        place = beside(source, path)
        if not os.path.isfile(place):
            raise InputError(f"{path}: pate: expected a file at {source}, found none")
        return FILES[ending(source)](place, wanted, label)
    return _returned(source, wanted, path)


def _returned(source: str, wanted: tuple[str, ...], path: str) -> Columns:
    found = on_private(source, own_function(source, path))
    parts = (found,) if len(wanted) == 1 and not isinstance(found, tuple) else found
    if not isinstance(parts, tuple | list) or len(parts) < len(wanted):
        raise InputError(f"{path}: {source}: expected ({', '.join(wanted)}), found another number of parts")
    return dict(zip(wanted, parts, strict=False))


def _npz(place: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    try:
        with open(place, "rb") as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in wanted if name in archive.files}
    except Exception:  # whatever numpy, zipfile and zlib raise for a file that is none
        raise InputError(
            f"{place}: expected a .npz file of plain arrays, without objects, found one that cannot be read so"
        ) from None
    if set(found) != set(wanted):
        raise InputError(f"{place}: expected arrays named {' and '.join(wanted)}, found none of some name")
    return found


def _csv(place: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    from dpcli.train.tasks.files import csv_table

    return _columns(place, wanted, label, *csv_table(place))


def _parquet(place: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    from dpcli.train.tasks.files import parquet_table

    return _columns(place, wanted, label, *parquet_table(place))


def _columns(place: str, wanted: tuple[str, ...], label: str | None, names: list[str], rows: list[list[Any]]) -> Columns:
    """The label in a named column or the last, what else is asked for in columns of that name, numbers in all others."""
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    extra = [name for name in wanted if name not in (INPUTS, LABELS)]
    lacking = [name for name in (*extra, *((label,) if label and LABELS in wanted else ())) if name not in columns]
    if lacking:
        there = instead_of(lacking[0], names, (*extra, *filter(None, (label,))))
        raise InputError(f"{place}: expected a column {lacking[0]!r}, found {there}")
    found: dict[str, Any] = {name: columns.pop(name) for name in extra}
    if LABELS in wanted:
        found[LABELS] = _numbers(place, columns.pop(label or next(reversed(columns))))
    elif label is not None:
        columns.pop(label, None)
    if not columns:
        raise InputError(f"{place}: expected columns of numbers beside the label, found none")
    return {**found, INPUTS: np.stack([_numbers(place, values) for values in columns.values()], axis=1)}


def _numbers(place: str, values: list[Any]) -> Array:
    try:
        return np.asarray(values, dtype=np.float64).reshape(len(values))
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{place}: expected numbers in each column, found a value that is not a number") from None


FILES: dict[str, Callable[[str, tuple[str, ...], str | None], Columns]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}


def _digits(path: str) -> Columns:
    images, labels = images_and_labels(f"{path}: pate")
    return {INPUTS: images.reshape(len(labels), -1), LABELS: labels}


def inputs_of(found: Columns, shift: float, place: str) -> Array:
    """(n, width) float64, finite, less the declared shift: each record as a row of numbers."""
    try:
        numbers = np.asarray(found[INPUTS])
    except Exception:  # lists of different lengths, whatever calls itself an array
        raise InputError(f"{place}: expected inputs as an array of numbers, found something else") from None
    if numbers.dtype.kind not in "biuf" or numbers.ndim < 2 or not numbers.size:
        raise InputError(f"{place}: expected inputs of shape (n, ...), numbers in each record, found something else")
    rows = numbers.reshape(len(numbers), -1).astype(np.float64) - shift
    if not np.isfinite(rows).all():
        raise InputError(f"{place}: expected finite inputs, found some that are not: replace them by a declared constant first")
    return np.asarray(rows)


def labels_of(found: Columns, classes: int, place: str, count: int) -> Array:
    """(n,) int64 from 0 to classes - 1, one for each of `count` records."""
    try:
        numbers = np.asarray(found[LABELS])
    except Exception:  # as above
        raise InputError(f"{place}: expected labels as an array of numbers, found something else") from None
    if numbers.dtype.kind not in "biuf" or numbers.shape != (count,):
        raise InputError(f"{place}: expected one label for each record, a whole number, found something else")
    if not (np.isfinite(numbers) & (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < classes)).all():
        raise InputError(f"{place}: expected labels from 0 to {classes - 1}, found another in some row (which one is private)")
    return np.asarray(numbers.astype(np.int64))
