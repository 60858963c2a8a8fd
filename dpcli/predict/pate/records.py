"""Records of a [pate] table: the private records of each teacher, and the queries and test records, which the file declares public.

A *teacher* is a model of one shard of the private records, and votes on the labels of the *queries* (teachers.py). All private records of a
unit of privacy go to one teacher (`records_by_teacher`), so that one change of a unit retrains one teacher. *Held-out* records are a share
of the private data that the file declares public. The *student* is a public model that learns from the labels of the queries (student.py).
No error message quotes a record. `path` is the path of the pipeline file: relative names start from its folder, and most messages begin
with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.stated import held_out_interval
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import Array, BoolArray, np
from dpcli.predict.models.model_answers import digest_of
from dpcli.predict.pate.pate_plan import HELD_OUT, Pate
from dpcli.predict.pate.record_columns import Columns, inputs_of, labels_of, read_records
from dpcli.predict.shards import shards_of


@dataclass(frozen=True, slots=True)
class Records:
    """Inputs of shape (n, width), float64, and labels of shape (n,), int64."""

    inputs: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, indices: Any) -> Records:
        """Return the records that an array of positions, or of n booleans, selects."""
        return Records(self.inputs[indices], self.labels[indices])


def records_by_teacher(pate: Pate, adjacency: Adjacency, path: str) -> list[Records]:
    """Return the private records of each teacher, without those that are held out as public.

    A teacher may have no records. The key `shards` states the shard of each record, or else a hash of the unit's name chooses it. If the
    file names no units, each record is a unit (see `_record_names`).

    Raises InputError if the records, their units or their stated shards cannot be used, or the stated shards split a unit.
    """
    assert pate.data is not None
    extra = tuple(dict.fromkeys(name for name in (pate.units, pate.shards) if name is not None))
    private, columns = _labelled_records(pate, pate.data, "data", path, extra)
    units: Sequence[str | int]
    if pate.units is None:
        units = _record_names(private, adjacency)
    else:
        units = _units(columns[pate.units], len(private), path)
    if pate.queries == HELD_OUT:
        training = np.flatnonzero(~_is_held_out(pate, len(private)))
        units, private = [units[index] for index in training], private.at(training)
    if pate.shards is not None:
        indices_of_shards = _stated_shards(columns[pate.shards], units, pate.teachers, path)
    else:
        indices_of_shards = shards_of(units, pate.teachers, pate.salt)
    return [private.at(indices) for indices in indices_of_shards]


def _labelled_records(pate: Pate, source: str, key: str, path: str, extra: tuple[str, ...] = ()) -> tuple[Records, Columns]:
    """Return the records of a source, and its arrays by name, those in `extra` included. Raises InputError if they cannot be used."""
    place = f"{path}: pate.{key}"
    columns = read_records(source, path, pate.label, with_labels=True, extra=extra)
    inputs = inputs_of(columns, pate.shift, place)
    return Records(inputs, labels_of(columns, pate.labels, place, len(inputs))), columns


def _record_names(private: Records, adjacency: Adjacency) -> list[str | int]:
    """Return the name of each record, if each record is a unit.

    Under add-remove, the name is a digest of the record, so that removing a record moves no other record to another teacher. Under the
    other adjacencies, the name is the record's position, which stays when the content changes.
    """
    if adjacency is not Adjacency.ADD_REMOVE:
        return list(range(len(private)))
    rows = zip(private.inputs, private.labels.tolist(), strict=True)
    return [hashlib.blake2b(row.tobytes() + str(label).encode()).hexdigest() for row, label in rows]


def _units(values: Any, count: int, path: str) -> list[str]:
    """Return the owner of each record as text. Equal owners have equal texts.

    Raises InputError if `owners_of` refuses the values, or their number is not `count`.
    """
    from dpcli.train.tasks.files import owners_of

    owners = owners_of(values, path, "pate.units").tolist()
    if len(owners) != count:
        raise InputError(f"{path}: pate.units: expected an owner for each record, found lists of different lengths")
    return [str(owner + 0.0) if isinstance(owner, float) else str(owner) for owner in owners]  # -0.0 + 0.0 is 0.0


def _stated_shards(values: Any, units: Sequence[str | int], teachers: int, path: str) -> list[list[int]]:
    """Return the positions of the records in each shard, for shards that the file states.

    Raises InputError if a value is not a whole number from 0 to teachers - 1, there is not one for each unit, or a unit is in two shards.
    """
    place = f"{path}: pate.shards"
    try:
        shards = np.asarray(values, dtype=float)
    except (ValueError, TypeError):
        raise InputError(f"{place}: expected whole numbers; a value is not a number") from None
    if shards.shape != (len(units),) or not (np.isfinite(shards) & (shards == np.floor(shards))).all():
        raise InputError(f"{place}: expected a whole number as the shard of each record; some records have no shard, or a fraction")
    if len(shards) and not (shards.min() >= 0 and shards.max() < teachers):
        raise InputError(f"{place}: expected shards from 0 to {teachers - 1}, one for each teacher; a record has another shard")
    shard_of_unit: dict[str | int, int] = {}
    indices: list[list[int]] = [[] for _ in range(teachers)]
    for index, (unit, shard) in enumerate(zip(units, shards.astype(int).tolist(), strict=True)):
        if shard_of_unit.setdefault(unit, shard) != shard:
            raise InputError(f"{place}: expected each unit in one shard, found a unit in two: it would change two votes")
        indices[shard].append(index)
    return indices


def _is_held_out(pate: Pate, count: int) -> BoolArray:
    """Return for each of `count` records whether it is declared public, (count,). Raises InputError if the share is above 1/2."""
    interval = held_out_interval(pate.held_out, "pate.held_out")  # 1 / share, rounded up
    return np.asarray(np.arange(count) % interval == 0, dtype=np.bool_)


class HeldOut(NamedTuple):
    """The held-out records: the queries, and the records that test the student."""

    queries: Records
    tests: Records


def _held_out(pate: Pate, path: str) -> HeldOut:
    """Return the held-out records. The queries are evenly spread among them.

    Raises InputError if the records cannot be read, or `pate.pool` is not a number of queries from 1 to the number of held-out records.
    """
    assert pate.data is not None
    records, _ = _labelled_records(pate, pate.data, "data", path)
    public = records.at(_is_held_out(pate, len(records)))
    pool = len(public) // 2 if pate.pool is None else pate.pool
    if not 1 <= pool <= len(public):
        raise InputError(f"{path}: pate.pool: expected at least 1 query, and at most the number of held-out records, found {pool}")
    is_query = np.zeros(len(public), dtype=bool)
    is_query[np.arange(pool) * len(public) // pool] = True
    return HeldOut(public.at(is_query), public.at(~is_query))


def query_inputs(pate: Pate, path: str) -> Array:
    """Return the inputs of the queries in their order, (n, width). Raises InputError if the file names none, or they cannot be read."""
    if pate.queries is None:
        raise InputError(f"{path}: pate.queries: set it to the inputs of the queries")
    if pate.queries == HELD_OUT:
        return _held_out(pate, path).queries.inputs
    columns = read_records(pate.queries, path, pate.label, with_labels=False)
    return inputs_of(columns, pate.shift, f"{path}: pate.queries")


def queries_digest(inputs: Array) -> str:
    """Return the SHA-256 of the inputs of all queries, in their order."""
    return digest_of([("queries", inputs)])


def public_test_records(pate: Pate, path: str) -> Records | None:
    """Return the records on which the student is tested; None if the file names none, or all held-out records are queries.

    Without them, the student has no accuracy. Raises InputError if the records cannot be read.
    """
    if pate.test is None:
        return None
    if pate.test != HELD_OUT:
        records, _ = _labelled_records(pate, pate.test, "test", path)
        return records
    tests = _held_out(pate, path).tests
    return tests if len(tests) else None
