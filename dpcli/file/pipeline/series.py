"""Expansion of the abbreviations of a pipeline file: lists that make several entries, and [defaults].

A [[mechanism]] table named train with `steps = [100, 200]` makes the entries train[1] and train[2]: the i-th entry has the i-th value of
each list. A *plain* entry is such a table without lists that already contains its defaults. read.py expands a file to plain entries
(`plain_entries`) before it reads any value. Positions in the text refer to the tables as they are written (`written_paths`), and a
comparison of two files folds entries into a list again if the other file has one entry of that name (`comparable_tables`, for
analysis/difference.py). The gate compares entries of two versions of a file by their names (`counterparts`, `by_name`, `written_name`).

The *path* of a key is a tuple such as ("mechanism", 0, "sampling", "rate"), with 0-based positions. Within an entry it is the rest:
("sampling", "rate"). Tables may be invalid here, since no value has been read; what cannot be expanded is left for the reader to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import Number, WholeNumber
from dpcli.file.keys.tables import Members
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.section import MECHANISM_TYPES, SAMPLING_SCHEMES
from dpcli.file.toml.findings import Path

# Largest number of entries that the lists of a file may make in all, so that a short file cannot exhaust memory. Lists that would make more
# are not expanded, and the reader then refuses them.
MAX_ENTRIES = 100_000

Tables = Mapping[str, Any]
Value = TypeVar("Value")
_ENTRY_NAME = re.compile(r"(.+)\[[1-9][0-9]*\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EntryOrigin:
    """The origin of a plain entry in the file.

    Attributes:
        table: Index of its [[mechanism]] table, from 0.
        position: Index of its values in the lists of the table; None if the table has no lists.
        lists: Keys of the table that have lists.
        defaults: Keys whose values are from [defaults].
    """

    table: int
    position: int | None
    lists: tuple[Path, ...]
    defaults: frozenset[str]

    def place(self, key: Path) -> Path:
        """Return the path in the file of a key of the entry: in its table, in a list of the table, or in [defaults]."""
        is_default = bool(key) and key[0] in self.defaults
        table: Path = ("defaults",) if is_default else ("mechanism", self.table)
        if self.position is not None and key in self.lists:
            return (*table, *key, self.position)
        return (*table, *key)


class PlainEntry(NamedTuple):
    """The table of a plain entry, and its origin in the file."""

    table: Any
    origin: EntryOrigin


def plain_entries(tables: Tables) -> Tables:
    """Return the tables with plain entries: one for each value of a list, with the defaults that the entry does not state.

    Defaults that no entry takes stay in [defaults], where the reader reports them.
    """
    expansion = _expansion(tables)
    if expansion is None:
        return tables
    names = _names_of_entries(tables, expansion.entries)
    result = {key: value for key, value in tables.items() if key != "defaults"}
    # A composed entry names its members by the key `mechanisms`, and [train] the entries that it performs by `mechanism`.
    result["mechanism"] = [_with_entry_names(table, "mechanisms", names) for table, _ in expansion.entries]
    if "train" in tables:
        result["train"] = _with_entry_names(tables["train"], "mechanism", names)
    if expansion.unused_defaults:
        result["defaults"] = expansion.unused_defaults
    return result


def _names_of_entries(tables: Tables, entries: Sequence[PlainEntry]) -> dict[str, list[str]]:
    """Return the names of the entries that each table with lists makes, by the name of the table.

    A name that a table without lists has too is left out, since it then means that table.
    """
    without_lists = {
        table["name"]
        for table, origin in entries
        if origin.position is None and type(table) is dict and type(table.get("name")) is str
    }
    result: dict[str, list[str]] = {}
    for table, origin in entries:
        if origin.position is not None:
            name_in_file = tables["mechanism"][origin.table].get("name")
            if type(name_in_file) is str and name_in_file not in without_lists:
                result.setdefault(name_in_file, []).append(table["name"])
    return result


def _with_entry_names(table: Any, key: str, names: Mapping[str, list[str]]) -> Any:
    """Return a table in which the names of its entries replace each name of a table with lists.

    Args:
        table: A table that may name mechanisms.
        key: Key of the table that has the names. Only the key `mechanism` may have a single name instead of a list.
        names: Names of entries by the name of the table with lists, as `_names_of_entries` returns them.
    """
    value = table.get(key) if type(table) is dict else None
    written_names = [value] if key == "mechanism" and type(value) is str else value
    if type(written_names) is not list or not any(type(name) is str and name in names for name in written_names):
        return table
    entry_names: list[Any] = []
    for name in written_names:
        entry_names += names.get(name, [name]) if type(name) is str else [name]
    return {**table, key: entry_names}


def written_name(name: str) -> str:
    """Return the name of the table with lists that made an entry: "train" for "train[2]". Other names are returned unchanged."""
    match = _ENTRY_NAME.fullmatch(name)
    return match[1] if match else name


def by_name(entries: Mapping[str, Value]) -> dict[str, Value]:
    """Return a copy of the mapping, in which train[1] is under the name train as well, unless there is an entry of this name."""
    result = dict(entries)
    for name, entry in entries.items():
        result.setdefault(written_name(name), entry)
    return result


def counterparts(names: Iterable[str], others: Collection[str]) -> dict[str, str]:
    """Return the name of the counterpart in another file for each entry that has one.

    If only one of the files has a list, train is the counterpart of train[1], train[2], and so on, and train[1] is that of train.
    """
    first_entry = by_name({other: other for other in others})
    result = {}
    for name in names:
        if name in others:
            result[name] = name
        elif written_name(name) in others:
            result[name] = written_name(name)
        elif name in first_entry:
            result[name] = first_entry[name]
    return result


def comparable_tables(old: Tables, new: Tables) -> tuple[Tables, Tables]:
    """Return the plain tables of two files in a form that can be compared.

    If one file has the entries train[1], train[2], ..., and the other file has an entry train, the former are folded into one table train
    with lists.
    """
    before, after = _named_in(old), _named_in(new)
    return _folded(old, after - before), _folded(new, before - after)


def _named_in(tables: Tables) -> set[str]:
    """Return the names of the entries in the tables of a valid file."""
    return {table["name"] for table in tables.get("mechanism", ())}


def _folded(tables: Tables, names: Collection[str]) -> Tables:
    """Return the tables with the entries of each of these names folded into one table, in the place of the first of them."""
    series: dict[str, list[Tables]] = {}
    for table in tables.get("mechanism", ()):
        name = written_name(table["name"])
        if name in names and name != table["name"]:
            series.setdefault(name, []).append(table)
    folded: dict[str, Tables] = {}
    for name, entries in series.items():
        folded_table = _table_of_series(name, entries)
        if folded_table is not None:
            folded[name] = folded_table
    if not folded:
        return tables
    result: dict[str, Tables] = {}
    for table in tables["mechanism"]:
        name = written_name(table["name"])
        if name in folded:
            result[name] = folded[name]
        else:
            result.setdefault(table["name"], table)
    return {**tables, "mechanism": list(result.values())}


def _table_of_series(name: str, entries: Sequence[Tables]) -> Tables | None:
    """Return a table with lists that expands to these entries; None if there is no such table."""
    table = {**entries[0], "name": name}
    paths: list[Path] = [(key,) for key in table if key != "name"]
    if type(table.get("sampling")) is dict:
        paths += [("sampling", key) for key in table["sampling"]]
    lists = {}
    for path in paths:
        values = [value_at(entry, path) for entry in entries]
        if all(type(value) in (int, float) for value in values):
            lists[path] = values
    varying = {path: values for path, values in lists.items() if any(value != values[0] for value in values)}
    if not varying:  # one list is needed, as it determines the number of entries
        varying = dict(list(lists.items())[:1])
    for path, values in varying.items():
        table = with_value(table, path, values)
    # The entries may also differ in something that is not a number. Then the table does not expand to them.
    expanded = list(plain_entries({"mechanism": [table]})["mechanism"])
    return table if expanded == list(entries) else None


def written_paths(tables: Tables, paths: Iterable[Path]) -> tuple[Path, ...]:
    """Translate paths in the plain tables to paths in the tables as they are written."""
    expansion = _expansion(tables)
    origins = [origin for _, origin in expansion.entries] if expansion else []

    def written_path(path: Path) -> Path:
        index = path[1] if len(path) > 1 and path[0] == "mechanism" else None
        if isinstance(index, int) and 0 <= index < len(origins):
            return origins[index].place(path[2:])
        return path

    return tuple(map(written_path, paths))


class Expansion(NamedTuple):
    """The plain entries of a file, each with its origin, and the keys of [defaults] that no entry takes."""

    entries: list[PlainEntry]
    unused_defaults: dict[str, Any]


def _expansion(tables: Tables) -> Expansion | None:
    """Return the plain entries and the unused defaults; None if the tables have no abbreviations."""
    written, defaults = tables.get("mechanism"), tables.get("defaults", {})
    if type(written) is not list or type(defaults) is not dict:
        return None  # The reader reports the error.
    lists_of_tables = [_lists(_with_defaults(table, defaults)) if type(table) is dict else {} for table in written]
    if not defaults and not any(lists_of_tables):
        return None
    if sum(map(_length, lists_of_tables)) > MAX_ENTRIES:
        lists_of_tables = [{} for _ in written]
    entries: list[PlainEntry] = []
    taken_keys: set[str] = set()  # keys that some entry may have; a default of another key is probably mistyped
    for index, (table, lists) in enumerate(zip(written, lists_of_tables, strict=True)):
        entries += _entries_of_table(index, table, defaults, lists)
        if type(table) is dict:
            taken_keys |= _known_keys(_with_defaults(table, defaults)).keys() - {"name"}
    return Expansion(entries, {key: value for key, value in defaults.items() if key not in taken_keys})


def _length(lists: Mapping[Path, list[Any]]) -> int:
    """Return the common length of the lists of a table; 0 if it has none."""
    return len(next(iter(lists.values()), []))


def _entries_of_table(index: int, table: Any, defaults: Tables, lists: Mapping[Path, list[Any]]) -> Iterator[PlainEntry]:
    """Yield the entries that a table makes, with their origins."""
    if type(table) is not dict:
        yield PlainEntry(table, EntryOrigin(index, position=None, lists=(), defaults=frozenset()))
        return
    full_table = _with_defaults(table, defaults)
    default_keys = frozenset(full_table.keys() - table.keys())
    if not lists:
        yield PlainEntry(full_table, EntryOrigin(index, position=None, lists=(), defaults=default_keys))
        return
    for position in range(_length(lists)):
        entry = dict(full_table)
        if type(full_table.get("name")) is str:
            entry["name"] = f"{full_table['name']}[{position + 1}]"
        for path, values in lists.items():
            entry = with_value(entry, path, values[position])
        yield PlainEntry(entry, EntryOrigin(index, position, tuple(lists), default_keys))


def _with_defaults(table: Tables, defaults: Tables) -> dict[str, Any]:
    """Return the table with the defaults that its type takes and that it does not state. A name is never a default."""
    if not defaults:
        return dict(table)
    known = _known_keys({**defaults, **table})  # the type itself may be a default
    taken = {key: value for key, value in defaults.items() if key in known and key != "name"}
    return {**taken, **table}


def _lists(table: Tables) -> dict[Path, list[Any]]:
    """Return the lists in place of numbers, by key. Empty lists, or lists of different lengths, give {}: the reader reports them."""
    result: dict[Path, list[Any]] = dict(numbers_in(table, lambda value: type(value) is list))
    lengths = {len(values) for values in result.values()}
    return result if len(lengths) == 1 and lengths != {0} else {}


def numbers_in(table: Tables, wanted: Callable[[Any], bool]) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of each numeric key with a wanted value, in an entry and in its sampling table."""
    sampling = table.get("sampling")
    if any(map(wanted, table.values())):  # otherwise the module of the mechanism type need not be imported
        numeric_keys = _numeric_keys(_known_keys(table))
        yield from (((key,), value) for key, value in table.items() if key in numeric_keys and wanted(value))
    if type(sampling) is dict and any(map(wanted, sampling.values())):
        scheme = SAMPLING_SCHEMES.selected(sampling)
        numeric_keys = _numeric_keys(SAMPLING_SCHEMES.class_members(scheme)) if scheme else frozenset()
        yield from ((("sampling", key), value) for key, value in sampling.items() if key in numeric_keys and wanted(value))


def _numeric_keys(members: Members) -> frozenset[str]:
    return frozenset(key for key, member in members.items() if isinstance(member.kind, Number | WholeNumber))


def _known_keys(table: Tables) -> Members:
    """Return the keys that an entry may have: those of every entry and, if its type is known, those of the type."""
    name = MECHANISM_TYPES.selected(table)
    return {**members_of(Entry), **(MECHANISM_TYPES.class_members(name) if name else {})}


def value_at(tables: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    value = tables
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def with_value(table: Tables, path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of the table with a new value at a path."""
    key, *rest = path
    if rest:
        value = with_value(table[str(key)], tuple(rest), value)
    return {**table, str(key): value}
