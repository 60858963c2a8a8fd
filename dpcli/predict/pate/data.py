"""The private records of the teachers, the public queries and the public test: which of them is which is declared by the file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.content import digest_of
from dpcli.predict.pate.records import inputs_of, labels_of, read_records
from dpcli.predict.pate.settings import HELD_OUT, Pate
from dpcli.predict.shards import shards_of


@dataclass(frozen=True, slots=True)
class Records:
    """inputs: (n, width). labels: (n,)."""

    inputs: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, places: Any) -> Records:
        return Records(self.inputs[places], self.labels[places])


def shards(pate: Pate, adjacency: Adjacency, path: str) -> list[Records]:
    """The records of each teacher, some of which may be none: all of a unit's are one teacher's.

    Where the file does not say whose a record is, each is a unit of its own. Under add-remove its name is then what stands in it, so that
    the others stay where they are when it goes; where a record changes and stays, its name is its place.

    Raises InputError where they cannot be read, or where the shards that the file names share a unit.
    """
    assert pate.data is not None
    place = f"{path}: pate.data"
    extra = tuple(dict.fromkeys(name for name in (pate.units, pate.shards) if name is not None))
    found = read_records(pate.data, extra, pate.label, True, path)
    inputs = inputs_of(found, pate.shift, place)
    labels = labels_of(found, pate.labels, place, len(inputs))
    private = Records(inputs, labels)
    units = _named(private, adjacency) if pate.units is None else _units(found[pate.units], len(labels), path)
    if pate.queries == HELD_OUT:
        held = set_aside(pate, len(labels))
        units, private = [units[k] for k in np.flatnonzero(~held)], private.at(~held)
    if pate.shards is not None:
        return [private.at(places) for places in _own_shards(found[pate.shards], units, pate.teachers, path)]
    return [private.at(places) for places in shards_of(units, pate.teachers, pate.salt)]


def _named(private: Records, adjacency: Adjacency) -> list[Any]:
    if adjacency is not Adjacency.ADD_REMOVE:
        return list(range(len(private)))
    rows = zip(private.inputs, private.labels.tolist(), strict=True)
    return [hashlib.blake2b(row.tobytes() + str(label).encode()).hexdigest() for row, label in rows]


def _units(values: Any, count: int, path: str) -> list[Any]:
    """Whose each record is."""
    from dpcli.train.tasks.files import whose

    try:
        found = whose(values, path).tolist()
    except InputError as problem:
        raise InputError(str(problem).replace("train.units", "pate.units")) from None
    if len(found) != count:
        raise InputError(f"{path}: pate.units: expected whose each record is, found another number of them")
    return [_name(unit) for unit in found]


def _name(unit: Any) -> str:
    """By what stands in it alone, whatever the others are: one that needs more than 64 bits makes texts of all."""
    return str(unit + 0.0 if isinstance(unit, float) else unit)  # -0.0 is 0.0


def _own_shards(values: Any, units: list[Any], teachers: int, path: str) -> list[list[int]]:
    """Shards of the file's own, which must not share a unit: its records would move several votes."""
    place = f"{path}: pate.shards"
    try:
        found = np.asarray(values, dtype=float)
    except (ValueError, TypeError):
        raise InputError(f"{place}: expected whole numbers, found something else") from None
    if found.shape != (len(units),) or not (np.isfinite(found) & (found == np.floor(found))).all():
        raise InputError(f"{place}: expected the shard of each record, a whole number, found something else")
    if len(found) and not (found.min() >= 0 and found.max() < teachers):
        raise InputError(f"{place}: expected shards from 0 to {teachers - 1}, one for each teacher, found another")
    homes: dict[Any, int] = {}
    places: list[list[int]] = [[] for _ in range(teachers)]
    for record, (unit, shard) in enumerate(zip(units, found.astype(int).tolist(), strict=True)):
        if homes.setdefault(unit, shard) != shard:
            raise InputError(f"{place}: expected each unit in one shard, found one in two: it would move two votes, not one")
        places[shard].append(record)
    return places


def set_aside(pate: Pate, count: int) -> Any:
    """Which records are declared public: every k-th, by its place in the file, the same for every run. (n,) truth values."""
    every = round(1.0 / pate.held_out)
    if every < 2:
        raise InputError(f"pate.held_out: expected at most half of the records, found {pate.held_out:g}")
    return np.arange(count) % every == 0


def _held_out(pate: Pate, path: str) -> tuple[Records, Records]:
    """Of the records that are set aside, those that are queries, evenly spread over them, and all others."""
    assert pate.data is not None
    place = f"{path}: pate.data"
    found = read_records(pate.data, (), pate.label, True, path)
    inputs = inputs_of(found, pate.shift, place)
    held = Records(inputs, labels_of(found, pate.labels, place, len(inputs))).at(set_aside(pate, len(inputs)))
    pool = len(held) // 2 if pate.pool is None else pate.pool
    if not 1 <= pool <= len(held):
        raise InputError(f"{path}: pate.pool: expected at least 1 query, and at most the records set aside, found {pool}")
    asked = np.zeros(len(held), dtype=bool)
    asked[np.arange(pool) * len(held) // pool] = True
    return held.at(asked), held.at(~asked)


def query_inputs(pate: Pate, path: str) -> Array:
    """What is asked about, (n, width), in its order. Raises InputError where the file names none."""
    if pate.queries is None:
        raise InputError(f"{path}: pate.queries: expected the inputs that were asked about, found none")
    if pate.queries == HELD_OUT:
        return _held_out(pate, path)[0].inputs
    return inputs_of(read_records(pate.queries, (), pate.label, False, path), pate.shift, f"{path}: pate.queries")


def queries_digest(inputs: Array) -> str:
    """By which queries are known, each in its place."""
    return digest_of([("queries", inputs)])


def test_records(pate: Pate, path: str) -> Records | None:
    """What the student is measured on, None where the file names nothing."""
    if pate.test is None:
        return None
    if pate.test == HELD_OUT:
        left = _held_out(pate, path)[1]
        return left if len(left) else None
    place = f"{path}: pate.test"
    found = read_records(pate.test, (), pate.label, True, path)
    inputs = inputs_of(found, pate.shift, place)
    return Records(inputs, labels_of(found, pate.labels, place, len(inputs)))
