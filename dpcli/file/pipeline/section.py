"""Sections: the tables of a pipeline file that describe a run for one command, such as [train]; and the list of all tables of a file.

A *section* says how one command does its work. It does not change the price of the file: the [[mechanism]] tables do. The plugin of the
command registers its dataclass (SECTIONS in base/registry.py). Whatever command reads a file, all of its sections are checked, but only the
modules of these sections are imported. The tables [source] and [[query]] of `dpcli release` (RELEASED) are not sections: their queries
become mechanisms, which are priced.

consistency.py collects the problems of sections while a file is read. A *problem* is a triple: the path of a key, the text after
"expected", and the text after "found". `refuse_contradicted` checks once more after numbers of a pipeline were changed, as a calibration
does: the new number of steps may contradict a section that fitted the old one. `places_in` lists the tables that a kind of value contains,
for the manual and for `dpcli explain` (key_places.py). A *kind* reads a value and describes it (keys/kinds.py): its `text` completes
messages "expected ...", and its `takes` the manual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.fields import Constraint, Selection
from dpcli.base.lazy import load
from dpcli.base.registry import ENTRIES_OF_QUERIES, JUDGED_IN_FILE, JUDGED_SOLVED, MECHANISMS, RELEASED, SECTIONS
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import keys_without_effect, kind_of, members_of
from dpcli.file.keys.kinds import Either, KeyPlace, Kind, Listed, Named, Refused
from dpcli.file.keys.tables import KeyTable, Member, Members, SelectedTable
from dpcli.file.pipeline.gate_keys import under
from dpcli.file.toml.findings import Findings, Path, Problem
from dpcli.file.toml.shown import key_text, quoted
from dpcli.mechanisms.sampling.schemes import Scheme

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

# Tables in which the value of a key, `scheme` or `type`, decides about the other keys (`SelectedTable` in keys/tables.py).
SAMPLING_SCHEMES = SelectedTable.by(Scheme.selection, members_of, Scheme.__doc__ or "")
MECHANISM_TYPES = SelectedTable.by(Selection("type", MECHANISMS), members_of, "")


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A section, or a table of a release. Its dataclass is registered under its name, and is imported when a file has the table."""

    name: str
    text: str = "a table"
    takes: str = "table"

    @property
    def table(self) -> Kind:
        return kind_of(load({**SECTIONS, **RELEASED}[self.name]))

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        return self.table.read(value, place)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return self.table.schema(rule)


@dataclass(frozen=True, slots=True)
class DefaultsTable:
    """The rest of [defaults] after its keys were added to the mechanisms that take them. Every key in it is reported as unknown.

    The expansion of a file (series.py), which comes before the reading of values, removes the keys that some mechanism takes.
    """

    text: str = "a table"
    takes: str = "table"

    def read(self, value: Any, place: KeyPlace) -> None:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        from dpcli.file.pipeline.model import Entry
        from dpcli.file.toml.suggest import did_you_mean

        known = {**members_of(Entry), **MECHANISM_TYPES.all_members()}.keys() - {"name"}
        for key in value:
            others = sorted(known - {key})  # the key may be one of a mechanism type that this file does not use
            hint = did_you_mean(key, others)
            expected = "a key that a [[mechanism]] of this file takes"
            place.findings.add("DP002", (*place.path, key), expected, quoted(key), hint, others)

    def schema(self, rule: object) -> dict[str, Any]:
        return {"type": "object"}


def section_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems within each section and each table of a release: keys without effect, and contradictions among the keys.

    Every registered dataclass has a method `problems`, which yields the contradictions.
    """
    for name in (*SECTIONS, *RELEASED):
        for path, value in _tables_of_name(name, values):
            yield from under(path, keys_without_effect(value))
            yield from under(path, value.problems())


def _tables_of_name(name: str, values: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield each table of this name with its path: none or one for a section, several for an array of tables such as [[query]]."""
    value = values.get(name, ())
    if type(value) is tuple:
        yield from (((name, position), item) for position, item in enumerate(value))
    else:
        yield (name,), value


def entries_of_queries(values: Mapping[str, Any], findings: Findings) -> tuple[tuple[int, Any], ...]:
    """Return the mechanisms of all queries of a file, each with the index of its query.

    The result is empty if the file has findings. It is also empty if the cost of a query cannot be computed. A finding then says why.
    """
    if "query" not in values or findings.items:
        return ()
    return tuple(load(ENTRIES_OF_QUERIES)(values, findings))


def judge_sections(values: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each contradiction between a section and the rest of its file. The file must be valid otherwise.

    JUDGED_IN_FILE has the function of each section with such checks. For example, [train] may only name entries that training can perform.
    """
    for name, target in JUDGED_IN_FILE.items():
        if name in values:
            load(target)(values[name], tables, findings)


def contradictions(pipeline: Pipeline) -> Iterator[tuple[str, Problem]]:
    """Yield (name of the section, problem) for each contradiction between a section and the mechanisms of the pipeline.

    The pipeline may have been changed after it was read, so its sections are read from their tables again. JUDGED_SOLVED has the function
    of each section that compares it with a changed pipeline.
    """
    for name, table in pipeline.sections:
        if name in JUDGED_SOLVED:
            findings = Findings()
            try:
                value = SectionTable(name).read(table, KeyPlace((name,), findings))
            except Refused:
                yield name, ((name,), "a valid table", "an invalid one")
                continue
            yield from ((name, problem) for problem in load(JUDGED_SOLVED[name])(value, pipeline))


def refuse_contradicted(pipeline: Pipeline) -> None:
    """Raise InputError if a section describes a run that differs from the mechanisms that this pipeline charges."""
    for _, (key, expected, actual) in contradictions(pipeline):
        names = {index: entry.name for index, entry in enumerate(pipeline.mechanisms)}
        raise InputError(f"{pipeline.path or '<pipeline>'}: {key_text(key, names)}: expected {expected}, found {actual}")


def in_section(path: Path) -> bool:
    """Return whether a key is in a section. The privacy cost does not depend on sections."""
    return bool(path) and path[0] in SECTIONS


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table of a file.

    Attributes:
        title: The table as a file writes it, such as [train].
        path: Dotted key of the table, such as train.clipping; "" for the top level of the file.
        selector_value: Value of the selector for which the table has these keys; None if they do not depend on a selector.
        choice: The selector with its value, such as `task = "custom"`.
    """

    title: str
    doc: str
    members: Members
    path: str = ""
    selector_value: str | None = None
    choice: str = ""


def places_in(kind: Kind, path: str, title: str) -> Iterator[TablePlace]:
    """Yield the tables in a value of this kind. If the value is a table, it comes first.

    Args:
        path: Dotted key of the value.
        title: The table as a file writes it, such as "[train.clipping]".
    """
    match kind:
        case SectionTable():
            yield from places_in(kind.table, path, title)
        case KeyTable():
            yield TablePlace(title, kind.cls.__doc__ or "", kind.members, path)
            yield from inner_tables(kind.members, path, title)
        case SelectedTable():
            yield from _selected(kind, path, title)
        case Listed():
            yield from places_in(kind.item, path, f"[{title}]")
        case Named():
            yield from places_in(kind.item, f"{path}.NAME", title.replace(" = {", ".NAME = {", 1))  # in "KEY = { ... } of TABLE"
        case Either():
            yield from places_in(kind.several, path, title)


def inner_tables(members: Members, path: str, title: str) -> Iterator[TablePlace]:
    """Yield the tables inside of a table with these members. path and title are those of the outer table."""
    for name, member in members.items():
        is_array = isinstance(member.kind, Listed)
        inner_title = f"{title[:-1]}.{name}]" if is_array else f"{name} = {{ ... }} of {title}"
        yield from places_in(member.kind, f"{path}.{name}", inner_title)


def _selected(kind: SelectedTable, path: str, title: str) -> Iterator[TablePlace]:
    """Yield the tables of a table with a selector: one of the shared keys, then one of the further keys of each class."""
    shared = kind.shared_members()
    yield TablePlace(title, kind.doc, shared, path)
    yield from inner_tables(shared, path, title)
    table_name = title if title.startswith("[") else path.rpartition(".")[2]
    earlier: dict[str, Member] = {}  # keys of earlier classes, whose inner tables were yielded before
    for name, target in kind.registry.items():
        keys, choice = kind.further_members(name), f'{kind.selector} = "{name}"'
        doc = load(target).__doc__ or ""
        yield TablePlace(f"{table_name} {choice}", doc, keys, path, selector_value=name, choice=choice)
        yield from inner_tables({key: member for key, member in keys.items() if earlier.get(key) != member}, path, title)
        earlier.update(keys)
