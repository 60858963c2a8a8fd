"""One written [[mechanism]] table that stands for several entries, by lists of values, and what [defaults] puts into all.

Both are settled before anything else looks at a file: every command, claim, difference and ledger sees plain entries, and what
equals them written out is the same. Only places in the text know of the table that was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from dpcli.keys.annotations import members_of
from dpcli.keys.kinds import Number, WholeNumber
from dpcli.keys.member import Members
from dpcli.pipeline.families import MECHANISMS, SAMPLING
from dpcli.pipeline.model import Entry
from dpcli.toml.findings import Path
from dpcli.values import dataclass

MOST = 100_000  # entries that the lists of a file may make

Tables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EntryOrigin:
    """Where an entry is written. table: which [[mechanism]], 0-based. position: in its lists, None where it has none. lists: the keys of
    these. defaults: the keys that [defaults] states for it."""

    table: int
    position: int | None
    lists: tuple[Path, ...]
    defaults: frozenset[str]

    def place(self, key: Path) -> Path:
        """Of a key below the entry: in its table, in a list there, or in [defaults]."""
        if key[:1] and key[0] in self.defaults:
            home: Path = ("defaults",)
        else:
            home = ("mechanism", self.table)
        return (*home, *key, *((self.position,) if key in self.lists and self.position is not None else ()))


def plain_entries(tables: Tables) -> Tables:
    """The same tables, with an entry for each value of every list, and the defaults in each that lacks them."""
    found = _entries(tables)
    if found is None:
        return tables
    entries, unused = found
    rest = {key: value for key, value in tables.items() if key != "defaults"}
    whole = _names(tables, entries)
    plain = [_named(table, "mechanisms", whole) for table, _ in entries]
    train = {"train": _named(tables["train"], "mechanism", whole)} if "train" in tables else {}
    return {**rest, **train, "mechanism": plain, **({"defaults": unused} if unused else {})}


def _names(tables: Tables, entries: Sequence[tuple[Any, EntryOrigin]]) -> dict[str, list[str]]:
    """The names of the entries of each table that has lists, by the name that is written there; that of another entry is its own."""
    plain = [table.get("name") for table, origin in entries if origin.position is None and type(table) is dict]
    alone = {name for name in plain if type(name) is str}
    found: dict[str, list[str]] = {}
    for table, origin in entries:
        written_name = tables["mechanism"][origin.table].get("name") if origin.position is not None else None
        if type(written_name) is str and written_name not in alone:
            found.setdefault(written_name, []).append(table["name"])
    return found


def _named(table: Any, key: str, whole: Mapping[str, list[str]]) -> Any:
    """The table, where its key names entries, with all entries of a list in the place of the name that is written there."""
    value = table.get(key) if type(table) is dict else None
    stated = [value] if type(value) is str and value in whole and key == "mechanism" else value
    if type(stated) is not list or not any(type(name) is str and name in whole for name in stated):
        return table
    return {**table, key: [one for name in stated for one in (whole.get(name, [name]) if type(name) is str else [name])]}


def written(tables: Tables, paths: Iterable[Path]) -> tuple[Path, ...]:
    """The places of keys of plain entries in the tables as a file states them."""
    found = _entries(tables)
    origins = [origin for _, origin in found[0]] if found else []
    return tuple(
        origins[int(path[1])].place(path[2:]) if path[:1] == ("mechanism",) and 0 <= _index(path) < len(origins) else path
        for path in paths
    )


def _index(path: Path) -> int:
    return path[1] if len(path) > 1 and isinstance(path[1], int) else -1


def _entries(tables: Tables) -> tuple[list[tuple[Any, EntryOrigin]], dict[str, Any]] | None:
    """Each plain entry and where it is written, and what of [defaults] nobody takes; None where the tables are plain as they are."""
    stated, defaults = tables.get("mechanism"), tables.get("defaults", {})
    if type(stated) is not list or type(defaults) is not dict:
        return None  # the reader says so
    lists = [_lists(_filled(table, defaults)) if type(table) is dict else {} for table in stated]
    if not defaults and not any(lists):
        return None
    few = sum(len(next(iter(one.values()))) for one in lists if one) <= MOST
    entries = [
        _series(index, table, defaults, one if few else {}) for index, (table, one) in enumerate(zip(stated, lists, strict=True))
    ]
    taken = set().union(*(_known(_filled(table, defaults)) for table in stated if type(table) is dict)) - {"name"}
    return list(chain.from_iterable(entries)), {key: value for key, value in defaults.items() if key not in taken}


def _series(index: int, table: Any, defaults: Tables, lists: Mapping[Path, list[Any]]) -> Iterator[tuple[Any, EntryOrigin]]:
    """The entries of one table."""
    if type(table) is not dict:
        yield table, EntryOrigin(index, None, (), frozenset())
        return
    filled = _filled(table, defaults)
    added = frozenset(filled.keys() - table.keys())
    if not lists:
        yield filled, EntryOrigin(index, None, (), added)
        return
    for position in range(len(next(iter(lists.values())))):
        one = {**filled, "name": f"{filled['name']}[{position + 1}]"} if type(filled.get("name")) is str else dict(filled)
        for path, values in lists.items():
            one = _with(one, path, values[position])
        yield one, EntryOrigin(index, position, tuple(lists), added)


def _filled(table: Tables, defaults: Tables) -> dict[str, Any]:
    """With every default that a table of its type takes, and does not state."""
    if not defaults:
        return dict(table)
    known = _known({**defaults, **table})
    return {**{key: value for key, value in defaults.items() if key in known and key != "name"}, **table}


def _lists(table: Tables) -> dict[Path, list[Any]]:
    """The lists that stand where a number is due, by their keys; none where their lengths differ, or are zero: the reader refuses them."""
    found: dict[Path, list[Any]] = {}
    if any(type(value) is list for value in table.values()):
        found |= {(key,): value for key, value in _several(table, _known(table))}
    sampling = table.get("sampling")
    if type(sampling) is dict and any(type(value) is list for value in sampling.values()):
        scheme = SAMPLING.selected(sampling)
        found |= {("sampling", key): value for key, value in _several(sampling, SAMPLING.own(scheme) if scheme else {})}
    lengths = {len(values) for values in found.values()}
    return found if len(lengths) == 1 and lengths != {0} else {}


def _several(table: Tables, known: Members) -> Iterator[tuple[str, list[Any]]]:
    for key, value in table.items():
        if type(value) is list and key in known and isinstance(known[key].kind, Number | WholeNumber):
            yield key, value


def _known(table: Tables) -> Members:
    name = MECHANISMS.selected(table)
    return {**members_of(Entry), **(MECHANISMS.own(name) if name else {})}


def _with(table: Tables, path: Path, value: Any) -> dict[str, Any]:
    head, *rest = path
    return {**table, str(head): _with(table[str(head)], tuple(rest), value) if rest else value}
