"""`noise_multiplier = "calibrate"`: keys of a mechanism that the file leaves to be solved for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import CALIBRATE, Number, WholeNumber
from dpcli.file.keys.member import Members
from dpcli.file.pipeline.families import MECHANISMS, SAMPLING
from dpcli.file.pipeline.model import Entry

NOISE = frozenset({"sigma", "scale"})  # in units of the query
COVERED = ("sensitivity", "l2_sensitivity", "max_rows")


def find_calibrate(tables: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """The numeric keys that say "calibrate", as (0-based mechanism, key); keys of its sampling table as "sampling.<key>"."""
    mechanisms = tables.get("mechanism")
    entries = enumerate(mechanisms if type(mechanisms) is list else ())
    return tuple((index, key) for index, table in entries if type(table) is dict for key in _keys(table))


def _keys(table: Mapping[str, Any]) -> Iterator[str]:
    name = MECHANISMS.selected(table)
    own = MECHANISMS.own(name) if name else {}
    yield from _marked(table, {**members_of(Entry), **own})
    sampling = table.get("sampling")
    scheme = SAMPLING.selected(sampling) if type(sampling) is dict else None
    if scheme:
        yield from (f"sampling.{key}" for key in _marked(sampling or {}, SAMPLING.own(scheme)))


def _marked(table: Mapping[str, Any], known: Members) -> Iterator[str]:
    for key, value in table.items():
        if value == CALIBRATE and key in known and isinstance(known[key].kind, Number | WholeNumber):
            yield key


def substituted(tables: Mapping[str, Any], value: float) -> Mapping[str, Any]:
    """The same tables with `value` in every place that says "calibrate"; the originals stay as they are."""
    return _filled(tables, lambda table, key: value)


def stood_in(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same tables with 1 in every place that says "calibrate", or what the table's noise is to cover where that is more: a rule on the
    two of them has nothing to say yet."""
    return _filled(tables, lambda table, key: _covered(table) if key in NOISE else 1.0)


def _filled(tables: Mapping[str, Any], number: Callable[[Mapping[str, Any], str], float]) -> Mapping[str, Any]:
    marked = find_calibrate(tables)
    if not marked:
        return tables
    mechanisms = list(tables["mechanism"])
    for index, key in marked:
        mechanisms[index] = _replaced(mechanisms[index], key.split("."), number(mechanisms[index], key))
    return {**tables, "mechanism": mechanisms}


def _covered(table: Mapping[str, Any]) -> float:
    stated: list[float] = [table[key] for key in COVERED if type(table.get(key)) in (int, float)]
    return max((float(value) for value in stated if 1.0 < value < 1e100), default=1.0)


def _replaced(table: Mapping[str, Any], keys: list[str], value: float) -> Mapping[str, Any]:
    head, *rest = keys
    # A count must be written as one; a solver that works in floats means the same.
    exact = int(value) if float(value).is_integer() and head in ("steps", "batch_size") else value
    return {**table, head: _replaced(table[head], rest, value) if rest else exact}
