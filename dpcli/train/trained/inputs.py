"""Records to classify, with or without labels, from what a user names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_classification import BUILT_IN, Classification
from dpcli.train.tasks import arrays
from dpcli.train.tasks.arrays import arrays_in
from dpcli.train.tasks.encoding import encoded
from dpcli.train.tasks.files import csv_table, parquet_table
from dpcli.train.tasks.user_code import private_result


def inputs_in(source: str, train: Classification, shape: tuple[int, ...], rows: RowWindow | None = None) -> Any:
    """(n, ...) as they are found: the array `inputs` of a .npz file, all columns but the label's and the owner's of .csv and .parquet.

    Columns are taken by the names that [train.columns] declares, and where it declares none in their order, which must be that of the
    training data; the one that told which of these were read is none. Raises InputError where they cannot be read.
    """
    ending = os.path.splitext(source)[1]
    if source == BUILT_IN:
        return arrays.digits(source).inputs
    if ending in READERS:
        if not os.path.isfile(source):
            raise InputError(f"{source}: expected a file, found none")
        return READERS[ending](source, train, shape, None if rows is None else rows.column)
    if ":" in source:
        found = private_result(source, source)
        return found[0] if isinstance(found, tuple | list) and len(found) in (2, 3) and hasattr(found[0], "shape") else found
    raise InputError(f"DATA: expected {BUILT_IN}, a {', '.join(READERS)} file, or module:function, found {source!r}")


def _npz(place: str, train: Classification, shape: tuple[int, ...], apart: str | None) -> Any:
    try:
        found = arrays_in(place, ["inputs"])
    except Exception:  # whatever numpy, zipfile and zlib raise for a file that is none
        raise InputError(f"{place}: expected a .npz file of plain arrays, found one that cannot be read so") from None
    if found is None:
        raise InputError(f"{place}: expected an array named inputs, found none")
    return found[0]


def _csv(place: str, train: Classification, shape: tuple[int, ...], apart: str | None) -> Any:
    return _columns(place, train, shape, apart, *csv_table(place))


def _parquet(place: str, train: Classification, shape: tuple[int, ...], apart: str | None) -> Any:
    return _columns(place, train, shape, apart, *parquet_table(place))


def _columns(
    place: str, train: Classification, shape: tuple[int, ...], apart: str | None, names: list[str], rows: list[list[Any]]
) -> Any:
    """Without the label, which is the last column where the training file names none and there is one more than the model reads."""
    if train.columns is not None:
        return encoded({name: [row[at] for row in rows] for at, name in enumerate(names)}, train, place)
    kept = [at for at, name in enumerate(names) if name not in (train.label, train.units, apart)]
    if train.label is None and (len(kept),) == (shape[0] + 1,):
        kept = kept[:-1]
    if (len(kept),) != shape:
        expected = f"{shape[0]} columns of numbers" if len(shape) == 1 else f"an .npz file, as the records have shape {shape}"
        raise InputError(f"{place}: expected {expected}, as in training, found {len(kept)} columns")
    try:
        return np.asarray([[row[at] for at in kept] for row in rows], dtype=np.float64).reshape(-1, shape[0])
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{place}: expected numbers in every column, found a value that is not a number") from None


READERS: dict[str, Callable[[str, Classification, tuple[int, ...], str | None], Any]] = {
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
}
