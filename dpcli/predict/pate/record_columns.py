"""Columns of private or public records, as files, functions and data sets give them, for records.py.

A *source* is "digits" (a data set of scikit-learn), a .npz, .csv or .parquet file, or module:function. Its *columns* are arrays by name. A
*teacher*, which is a model of one shard of private records, learns from the columns "inputs" and "labels"; others name the owner or the
shard of each record. No message quotes a record: `on_private` calls the user's code and hides the messages of its errors and warnings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import on_private
from dpcli.predict.pate.pate_plan import BUILT_IN, ending
from dpcli.train.tasks.array_files import images_and_labels
from dpcli.train.tasks.files import column_table
from dpcli.train.tasks.user_code import own_function, relative_to_file

Columns = Mapping[str, Any]  # arrays by name; "inputs" is one of them
INPUTS, LABELS = "inputs", "labels"
NUMERIC_KINDS = "biuf"  # numpy's kinds of types for booleans, integers with and without a sign, and floats


def read_records(source: str, path: str, label: str | None, *, with_labels: bool, extra: tuple[str, ...] = ()) -> Columns:
    """Return the arrays of a source by name: the inputs, the labels if `with_labels` is set, and the arrays named in `extra`.

    Args:
        path: Path of the dpcli file that names the source.
        label: Column of the label in a file with columns; the last column if None.

    Raises InputError if the source cannot be read, or an array is missing.
    """
    wanted = (INPUTS, LABELS, *extra) if with_labels else (INPUTS, *extra)
    if source == BUILT_IN:
        images, labels = images_and_labels(f"{path}: pate")
        return {INPUTS: images.reshape(len(labels), -1), LABELS: labels}
    if ending(source) in READERS:
        file_path = relative_to_file(source, path)
        if not os.path.isfile(file_path):
            raise InputError(f"{path}: pate: no file at {source}")
        return READERS[ending(source)](file_path, wanted, label)
    result = on_private(source, own_function(source, path))
    parts = (result,) if len(wanted) == 1 and not isinstance(result, tuple) else result
    if not isinstance(parts, tuple | list) or len(parts) < len(wanted):
        raise InputError(f"{path}: {source}: expected a tuple ({', '.join(wanted)})")
    return dict(zip(wanted, parts, strict=False))  # Further parts are ignored, such as labels where only inputs are wanted.


def _npz_arrays(file_path: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    """Return the wanted arrays of a .npz file, in which they have these names; `label` is for files with columns."""
    try:
        with open(file_path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            columns = {name: archive[name] for name in wanted if name in archive.files}
    except Exception:  # numpy, zipfile and zlib raise many kinds of errors for a malformed file.
        raise InputError(
            f"{file_path}: expected a .npz file of plain arrays, without objects, found a file that numpy cannot read"
        ) from None
    if set(columns) != set(wanted):
        absent = " and ".join(name for name in wanted if name not in columns)
        raise InputError(f"{file_path}: expected arrays named {' and '.join(wanted)}; missing: {absent}")
    return columns


def _table_columns(file_path: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    """Return the labels from their column, the extra columns by name, and the inputs from all other columns."""
    names, rows = column_table(file_path)
    columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}
    extra = [name for name in wanted if name not in (INPUTS, LABELS)]
    stated_label = [label] if label else []
    needed = extra + stated_label if LABELS in wanted else extra
    missing = [name for name in needed if name not in columns]
    if missing:
        near = instead_of(missing[0], names, (*extra, *stated_label))
        raise InputError(f"{file_path}: expected a column {missing[0]!r}, found {near}")
    arrays: dict[str, Any] = {name: columns.pop(name) for name in extra}
    if LABELS in wanted:
        # By default, the labels are in the last of the columns that are not in `extra`.
        arrays[LABELS] = _numbers(file_path, columns.pop(label or next(reversed(columns))))
    elif label is not None:  # The column of the label is not an input, even if no labels are wanted.
        columns.pop(label, None)
    if not columns:
        raise InputError(f"{file_path}: expected columns of numbers besides the label; there are none")
    return {**arrays, INPUTS: np.stack([_numbers(file_path, values) for values in columns.values()], axis=1)}


def _numbers(file_path: str, values: list[Any]) -> Array:
    """Return the values of a column as floats. Raises InputError if a value is not a number; the message quotes no value."""
    try:
        return np.asarray(values, dtype=np.float64).reshape(len(values))
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{file_path}: expected numbers in each column, found a value that is not a number") from None


Reader = Callable[[str, tuple[str, ...], str | None], Columns]  # (path of a file, wanted arrays, label) -> arrays by name
READERS: dict[str, Reader] = {".npz": _npz_arrays, ".csv": _table_columns, ".parquet": _table_columns}


def inputs_of(columns: Columns, shift: float, place: str) -> Array:
    """Return the inputs minus the declared shift, (n, width) float64. Raises InputError if they are not all finite numbers."""
    try:
        numbers = np.asarray(columns[INPUTS])
    except Exception:  # The inputs may be lists of different lengths, or an array-like object from the user's code.
        raise InputError(f"{place}: expected inputs as an array of numbers, with rows of one length") from None
    if numbers.dtype.kind not in NUMERIC_KINDS or numbers.ndim < 2 or not numbers.size:
        raise InputError(f"{place}: expected numeric inputs of shape (n, ...)")
    rows = numbers.reshape(len(numbers), -1).astype(np.float64) - shift
    if not np.isfinite(rows).all():
        raise InputError(f"{place}: expected finite inputs, found NaN or inf: replace them by a declared constant first")
    return np.asarray(rows)


def labels_of(columns: Columns, classes: int, place: str, count: int) -> Array:
    """Return the labels, (count,) int64 from 0 to classes - 1. Raises InputError if they are not such labels."""
    try:
        numbers = np.asarray(columns[LABELS])
    except Exception:  # The labels may be an array-like object from the user's code.
        raise InputError(f"{place}: expected labels as an array of numbers") from None
    if numbers.dtype.kind not in NUMERIC_KINDS or numbers.shape != (count,):
        raise InputError(
            f"{place}: expected a whole number as the label of each record; some records have no label, or another value"
        )
    if not (np.isfinite(numbers) & (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < classes)).all():
        raise InputError(f"{place}: expected labels from 0 to {classes - 1}; a record has another label (which record is private)")
    return np.asarray(numbers.astype(np.int64))
