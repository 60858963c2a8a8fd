"""Sections: tables of plugins that one command reads, such as [train], and the place of every table in the file.

Every command checks the sections of a file, and imports only those. [source] and [[query]], of a release, become mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.fields import Constraint, Selection
from dpcli.base.lazy import load
from dpcli.base.registry import ENTRIES_OF_QUERIES, JUDGED_IN_FILE, JUDGED_SOLVED, RELEASED, SECTIONS
from dpcli.base.registry import MECHANISMS as TYPES
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import kind_of, members_of
from dpcli.file.keys.kinds import Either, KeyPlace, Kind, Listed, Named, Refused
from dpcli.file.keys.tables import KeyTable, Member, Members, SelectedTable
from dpcli.file.pipeline.gate_keys import under
from dpcli.file.toml.findings import Findings, Path, Problem
from dpcli.file.toml.shown import key_text, quoted
from dpcli.mechanisms.sampling.schemes import Scheme

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table that becomes the registered dataclass of its name, which is imported where a file has the table."""

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
    """The keys of [defaults] that no mechanism takes, which are refused."""

    text: str = "a table"
    takes: str = "table"

    def read(self, value: Any, place: KeyPlace) -> None:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        from dpcli.file.pipeline.model import Entry
        from dpcli.file.toml.suggest import did_you_mean

        known = {**members_of(Entry), **MECHANISMS.any()}.keys() - {"name"}
        for key in value:
            others = sorted(known - {key})
            hint = did_you_mean(key, others)
            expected = "a key that a [[mechanism]] of this file takes"
            place.findings.add("DP002", (*place.path, key), expected, quoted(key), hint, others)

    def schema(self, rule: object) -> dict[str, Any]:
        return {"type": "object"}


def section_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the contradictions among the keys of each section."""
    for name in (*SECTIONS, *RELEASED):
        for place, value in _stated(name, values):
            from dpcli.file.keys.annotations import idle

            yield from under(place, idle(value))
            yield from under(place, value.problems())


def _stated(name: str, values: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield a table, or each of several of one name, with its place."""
    value = values.get(name, ())
    if type(value) is tuple:
        yield from (((name, position), item) for position, item in enumerate(value))
    else:
        yield (name,), value


def entries_of_queries(values: Mapping[str, Any], findings: Findings) -> tuple[tuple[int, Any], ...]:
    """Return the mechanisms of the queries of a file without findings, each with the index of its query.

    None of them where one cannot be priced, with a finding that says why.
    """
    return tuple(load(ENTRIES_OF_QUERIES)(values, findings)) if "query" in values and not findings.items else ()


def judge_sections(values: Mapping[str, Any], tables: Mapping[str, Any], findings: Findings) -> None:
    """Add the problems of sections with the rest of their file, which is valid otherwise."""
    for name, target in JUDGED_IN_FILE.items():
        if name in values:
            load(target)(values[name], tables, findings)


def contradictions(pipeline: Pipeline) -> Iterator[tuple[str, Problem]]:
    """Yield (section, problem) where a section contradicts what the pipeline charges, as after a number was changed."""
    for name, table in pipeline.sections:
        if name in JUDGED_SOLVED:
            findings = Findings()
            try:
                value = SectionTable(name).read(table, KeyPlace((name,), findings))
            except Refused:
                yield name, ((name,), "a table that can be read", "another")
                continue
            yield from ((name, problem) for problem in load(JUDGED_SOLVED[name])(value, pipeline))


def refuse_contradicted(pipeline: Pipeline) -> None:
    """Raise InputError if what a section says is done would not be charged by this pipeline."""
    for _, (key, expected, actual) in contradictions(pipeline):
        names = {index: entry.name for index, entry in enumerate(pipeline.mechanisms)}
        raise InputError(f"{pipeline.path or '<pipeline>'}: {key_text(key, names)}: expected {expected}, found {actual}")


def in_section(path: Path) -> bool:
    """Return whether a key stands in a table that no number depends on."""
    return bool(path) and path[0] in SECTIONS


SAMPLING = SelectedTable.by(Scheme.selection, members_of, Scheme.__doc__ or "")
MECHANISMS = SelectedTable.by(Selection("type", TYPES), members_of, "")


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table of a file.

    Attributes:
        title: How the file opens it.
        doc: Its meaning.
        path: Its dotted key, such as train.clipping; "" for the file itself.
        word: Selects its keys; None if no word does.
        choice: That word with its key, `task = "custom"`.
    """

    title: str
    doc: str
    members: Members
    path: str = ""
    word: str | None = None
    choice: str = ""


def places_in(kind: Kind, path: str, title: str) -> Iterator[TablePlace]:
    """Yield the tables that a value of this kind is or holds.

    Args:
        path: Its dotted key.
        title: How the file opens it.
    """
    match kind:
        case SectionTable():
            yield from places_in(kind.table, path, title)
        case KeyTable():
            yield TablePlace(title, kind.cls.__doc__ or "", kind.members, path)
            yield from inside(kind.members, path, title)
        case SelectedTable():
            yield from _selected(kind, path, title)
        case Listed():
            yield from places_in(kind.item, path, f"[{title}]")
        case Named():
            yield from places_in(kind.item, f"{path}.NAME", title.replace(" = {", ".NAME = {", 1))
        case Either():
            yield from places_in(kind.several, path, title)


def inside(members: Members, path: str, title: str) -> Iterator[TablePlace]:
    """Yield the tables in a table.

    Args:
        path: Its dotted key.
        title: How the file opens it.
    """
    for name, member in members.items():
        many = isinstance(member.kind, Listed)
        yield from places_in(member.kind, f"{path}.{name}", f"{title[:-1]}.{name}]" if many else f"{name} = {{ ... }} of {title}")


def _selected(kind: SelectedTable, path: str, title: str) -> Iterator[TablePlace]:
    shared, where = kind.shared(), title if title.startswith("[") else path.rpartition(".")[2]
    yield TablePlace(title, kind.doc, shared, path)
    yield from inside(shared, path, title)
    listed: dict[str, Member] = {}  # tables that several words have, as one has them
    for word, target in kind.registry.items():
        own, choice = kind.apart(word), f'{kind.selector} = "{word}"'
        yield TablePlace(f"{where} {choice}", load(target).__doc__ or "", own, path, word, choice)
        yield from inside({name: member for name, member in own.items() if listed.get(name) != member}, path, title)
        listed.update(own)
