"""Private records of the teachers, and queries and test records that the file declares public. No message quotes a record."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import digest_of, on_private
from dpcli.predict.pate.pate_plan import BUILT_IN, HELD_OUT, Pate, ending
from dpcli.predict.shards import shards_of
from dpcli.train.tasks.array_files import images_and_labels
from dpcli.train.tasks.user_code import relative_to_file, user

Columns = Mapping[str, Any]  # arrays by name; "inputs" is one of them
INPUTS, LABELS = "inputs", "labels"


def read_records(source: str, extra: tuple[str, ...], label: str | None, with_labels: bool, path: str) -> Columns:
    """Return the arrays of a source by name: the inputs, the labels if `with_labels` is set, and the arrays named in `extra`.

    Args:
        source: "digits", a file, or module:function.
        label: Column of the label in a file with columns; the last column if None.
        path: Path of the dpcli file that names the source.

    Raises:
        InputError: If the source cannot be read, or an array is missing.
    """
    wanted = (INPUTS, LABELS, *extra) if with_labels else (INPUTS, *extra)
    if source == BUILT_IN:
        images, labels = images_and_labels(f"{path}: pate")
        return {INPUTS: images.reshape(len(labels), -1), LABELS: labels}
    if ending(source) in FILES:
        file_path = relative_to_file(source, path)
        if not os.path.isfile(file_path):
            raise InputError(f"{path}: pate: no file at {source}")
        return FILES[ending(source)](file_path, wanted, label)
    result = on_private(source, user(source, path))
    parts = (result,) if len(wanted) == 1 and not isinstance(result, tuple) else result
    if not isinstance(parts, tuple | list) or len(parts) < len(wanted):
        raise InputError(f"{path}: {source}: expected a tuple ({', '.join(wanted)})")
    return dict(zip(wanted, parts, strict=False))


def _npz(file_path: str, wanted: tuple[str, ...], label: str | None) -> Columns:
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


def _csv(file_path: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    from dpcli.train.tasks.files import csv_table

    return _columns(file_path, wanted, label, *csv_table(file_path))


def _parquet(file_path: str, wanted: tuple[str, ...], label: str | None) -> Columns:
    from dpcli.train.tasks.files import parquet_table

    return _columns(file_path, wanted, label, *parquet_table(file_path))


def _columns(file_path: str, wanted: tuple[str, ...], label: str | None, names: list[str], rows: list[list[Any]]) -> Columns:
    """Return the labels from their column, the extra columns by name, and the inputs from all other columns."""
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
        arrays[LABELS] = _numbers(file_path, columns.pop(label or next(reversed(columns))))
    elif label is not None:
        columns.pop(label, None)
    if not columns:
        raise InputError(f"{file_path}: expected columns of numbers besides the label; there are none")
    return {**arrays, INPUTS: np.stack([_numbers(file_path, values) for values in columns.values()], axis=1)}


def _numbers(file_path: str, values: list[Any]) -> Array:
    try:
        return np.asarray(values, dtype=np.float64).reshape(len(values))
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{file_path}: expected numbers in each column, found a value that is not a number") from None


FILES: dict[str, Callable[[str, tuple[str, ...], str | None], Columns]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}


def inputs_of(columns: Columns, shift: float, place: str) -> Array:
    """Return the inputs minus the declared shift, (n, width) float64. Raises InputError if they are not all finite numbers."""
    try:
        numbers = np.asarray(columns[INPUTS])
    except Exception:  # The inputs may be lists of different lengths, or an array-like object from the user's code.
        raise InputError(f"{place}: expected inputs as an array of numbers, with rows of one length") from None
    if numbers.dtype.kind not in "biuf" or numbers.ndim < 2 or not numbers.size:
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
    if numbers.dtype.kind not in "biuf" or numbers.shape != (count,):
        raise InputError(
            f"{place}: expected a whole number as the label of each record; some records have no label, or another value"
        )
    if not (np.isfinite(numbers) & (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < classes)).all():
        raise InputError(f"{place}: expected labels from 0 to {classes - 1}; a record has another label (which record is private)")
    return np.asarray(numbers.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Records:
    """Inputs of shape (n, width) and labels of shape (n,)."""

    inputs: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, places: Any) -> Records:
        return Records(self.inputs[places], self.labels[places])


def shards(pate: Pate, adjacency: Adjacency, path: str) -> list[Records]:
    """Return the records of each teacher. All records of a unit go to one teacher, and a teacher may have none.

    If the file names no units, each record is a unit. Under add-remove it is named by its content, so that removing it moves no other
    record to another teacher. Under the other adjacencies it is named by its position, which does not change if its content does.

    Raises:
        InputError: If the records cannot be read, or a unit is in two of the shards that the file states.
    """
    assert pate.data is not None
    extra = tuple(dict.fromkeys(name for name in (pate.units, pate.shards) if name is not None))
    private, columns = _labelled_records(pate, pate.data, "data", path, extra)
    units = _record_names(private, adjacency) if pate.units is None else _units(columns[pate.units], len(private), path)
    if pate.queries == HELD_OUT:
        training = ~set_aside(pate, len(private))
        units, private = [units[k] for k in np.flatnonzero(training)], private.at(training)
    if pate.shards is not None:
        return [private.at(places) for places in _stated_shards(columns[pate.shards], units, pate.teachers, path)]
    return [private.at(places) for places in shards_of(units, pate.teachers, pate.salt)]


def _labelled_records(pate: Pate, source: str, key: str, path: str, extra: tuple[str, ...] = ()) -> tuple[Records, Columns]:
    """Return the records of a source, and its arrays by name."""
    place = f"{path}: pate.{key}"
    columns = read_records(source, extra, pate.label, True, path)
    inputs = inputs_of(columns, pate.shift, place)
    return Records(inputs, labels_of(columns, pate.labels, place, len(inputs))), columns


def _record_names(private: Records, adjacency: Adjacency) -> list[Any]:
    if adjacency is not Adjacency.ADD_REMOVE:
        return list(range(len(private)))
    rows = zip(private.inputs, private.labels.tolist(), strict=True)
    return [hashlib.blake2b(row.tobytes() + str(label).encode()).hexdigest() for row, label in rows]


def _units(values: Any, count: int, path: str) -> list[Any]:
    """Return the owner of each record as text, which depends on its value alone. Raises InputError if some values are not owners."""
    from dpcli.train.tasks.files import owners_of

    try:
        owners = owners_of(values, path).tolist()
    except InputError as problem:
        raise InputError(str(problem).replace("train.units", "pate.units")) from None
    if len(owners) != count:
        raise InputError(f"{path}: pate.units: expected an owner for each record, found lists of different lengths")
    return [str(unit + 0.0 if isinstance(unit, float) else unit) for unit in owners]  # adding 0.0 turns -0.0 into 0.0


def _stated_shards(values: Any, units: list[Any], teachers: int, path: str) -> list[list[int]]:
    """Return the record numbers of each shard that the file states. Raises InputError if two shards share a unit."""
    place = f"{path}: pate.shards"
    try:
        shards = np.asarray(values, dtype=float)
    except (ValueError, TypeError):
        raise InputError(f"{place}: expected whole numbers; a value is not a number") from None
    if shards.shape != (len(units),) or not (np.isfinite(shards) & (shards == np.floor(shards))).all():
        raise InputError(f"{place}: expected a whole number as the shard of each record; some records have no shard, or a fraction")
    if len(shards) and not (shards.min() >= 0 and shards.max() < teachers):
        raise InputError(f"{place}: expected shards from 0 to {teachers - 1}, one for each teacher; a record has another shard")
    shard_of_unit: dict[Any, int] = {}
    places: list[list[int]] = [[] for _ in range(teachers)]
    for record, (unit, shard) in enumerate(zip(units, shards.astype(int).tolist(), strict=True)):
        if shard_of_unit.setdefault(unit, shard) != shard:
            raise InputError(f"{place}: expected each unit in one shard, found a unit in two: it would change two votes")
        places[shard].append(record)
    return places


def set_aside(pate: Pate, count: int) -> Any:
    """Return for each record whether it is declared public, (count,). Every k-th record is, by its position, in every run."""
    spacing = round(1.0 / pate.held_out)
    if spacing < 2:
        raise InputError(f"pate.held_out: expected at most half of the records, found {pate.held_out:g}")
    return np.arange(count) % spacing == 0


def _held_out(pate: Pate, path: str) -> tuple[Records, Records]:
    """Return the queries and the test records, which are the held-out records. The queries are evenly spread among them."""
    assert pate.data is not None
    records = _labelled_records(pate, pate.data, "data", path)[0]
    public = records.at(set_aside(pate, len(records)))
    pool = len(public) // 2 if pate.pool is None else pate.pool
    if not 1 <= pool <= len(public):
        raise InputError(f"{path}: pate.pool: expected at least 1 query, and at most the number of held-out records, found {pool}")
    queries = np.zeros(len(public), dtype=bool)
    queries[np.arange(pool) * len(public) // pool] = True
    return public.at(queries), public.at(~queries)


def query_inputs(pate: Pate, path: str) -> Array:
    """Return the inputs of the queries in their order, (n, width). Raises InputError if the file names none."""
    if pate.queries is None:
        raise InputError(f"{path}: pate.queries: set it to the inputs of the queries")
    if pate.queries == HELD_OUT:
        return _held_out(pate, path)[0].inputs
    return inputs_of(read_records(pate.queries, (), pate.label, False, path), pate.shift, f"{path}: pate.queries")


def queries_digest(inputs: Array) -> str:
    """Return the SHA-256 of the inputs of all queries, in their order."""
    return digest_of([("queries", inputs)])


def test_records(pate: Pate, path: str) -> Records | None:
    """Return the records on which the student is tested; None if the file names none."""
    if pate.test is None:
        return None
    if pate.test != HELD_OUT:
        return _labelled_records(pate, pate.test, "test", path)[0]
    return _held_out(pate, path)[1] or None
