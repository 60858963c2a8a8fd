"""The tables that a value holds, found from what reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.keys.compound import Either, Listed
from dpcli.keys.kinds import Kind
from dpcli.keys.member import Members
from dpcli.keys.tables import KeyTable, SelectedTable
from dpcli.pipeline.section import SectionTable
from dpcli.registry import load


@dataclass(frozen=True, slots=True)
class TablePlace:
    """One table: how the file opens it, what it is, and its keys; of keys that a word selects, which word."""

    title: str
    doc: str
    members: Members
    word: str | None = None


def places_in(kind: Kind, name: str, title: str) -> Iterator[TablePlace]:
    """The tables that a value of this kind is or holds. name: its key. title: how the file opens it."""
    match kind:
        case SectionTable():
            yield from places_in(kind.table, name, title)
        case KeyTable():
            yield TablePlace(title, kind.cls.__doc__ or "", kind.members)
            yield from inside(kind.members, title)
        case SelectedTable():
            yield from _selected(kind, name, title)
        case Listed():
            yield from places_in(kind.item, name, f"[{title}]")
        case Either():
            yield from places_in(kind.several, name, title)


def inside(members: Members, title: str) -> Iterator[TablePlace]:
    """The tables that a table's keys hold. title: how the file opens it."""
    for name, member in members.items():
        many = isinstance(member.kind, Listed)
        yield from places_in(member.kind, name, f"{title[:-1]}.{name}]" if many else f"{name} = {{ ... }} of {title}")


def _selected(kind: SelectedTable, name: str, title: str) -> Iterator[TablePlace]:
    shared, where = kind.shared(), title if title.startswith("[") else name
    yield TablePlace(title, kind.doc, shared)
    yield from inside(shared, title)
    for word, target in kind.registry.items():
        own = kind.apart(word)
        yield TablePlace(f'{where} {kind.selector} = "{word}"', load(target).__doc__ or "", own, word)
        yield from inside(own, title)
