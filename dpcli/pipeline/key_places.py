"""Every table of a file with its keys, found from what reads it: for the manual page, and for whoever asks about a key's name alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.keys.annotations import MECHANISMS, members_of
from dpcli.keys.compound import Either, Listed
from dpcli.keys.kinds import Kind
from dpcli.keys.member import Member, Members
from dpcli.keys.tables import KeyTable, SelectedTable
from dpcli.pipeline.document import TOP, Mechanisms, MechanismTable
from dpcli.pipeline.model import Entry
from dpcli.pipeline.section import SectionTable
from dpcli.registry import load

TOP_LEVEL = "top level"


@dataclass(frozen=True, slots=True)
class TablePlace:
    """One table: how the file opens it, what it is, and its keys; of keys that a word selects, which word."""

    title: str
    doc: str
    members: Members
    word: str | None = None


def places_of(key: str) -> list[str]:
    """`[privacy]: what it means (what it takes)`, a line for each meaning; none where no table has the key."""
    found: dict[tuple[str, str], list[str]] = {}
    for place in tables():
        if key in place.members:
            member: Member = place.members[key]
            found.setdefault((member.doc, member.text), []).append(place.title)
    return [f"{', '.join(stand)}: {doc} ({text})" for (doc, text), stand in found.items()]


def tables(top: Members = TOP) -> Iterator[TablePlace]:
    """Every table of a file, each before those that stand in it. top: the keys at the top of the file."""
    yield TablePlace(TOP_LEVEL, "format = 1 comes first in every file.", top)
    for name, member in top.items():
        yield from _tables(member.kind, name, f"[{name}]")


def _tables(kind: Kind, name: str, title: str) -> Iterator[TablePlace]:
    """The tables that a value of this kind is or holds. name: its key. title: how the file opens it."""
    match kind:
        case SectionTable():
            yield from _tables(kind.table, name, title)
        case KeyTable():
            yield TablePlace(title, kind.cls.__doc__ or "", kind.members)
            yield from _inside(kind.members, title)
        case SelectedTable():
            yield from _selected(kind, name, title)
        case Mechanisms():
            yield from _mechanisms(f"[{title}]")
        case Listed():
            yield from _tables(kind.item, name, f"[{title}]")
        case Either():
            yield from _tables(kind.several, name, title)


def _inside(members: Members, title: str) -> Iterator[TablePlace]:
    for name, member in members.items():
        many = isinstance(member.kind, Listed)
        yield from _tables(member.kind, name, f"{title[:-1]}.{name}]" if many else f"{name} = {{ ... }} of {title}")


def _selected(kind: SelectedTable, name: str, title: str) -> Iterator[TablePlace]:
    shared, where = kind.shared(), title if title.startswith("[") else name
    yield TablePlace(title, kind.doc, shared)
    yield from _inside(shared, title)
    for word, target in kind.registry.items():
        own = kind.apart(word)
        yield TablePlace(f'{where} {kind.selector} = "{word}"', load(target).__doc__ or "", own, word)
        yield from _inside(own, title)


def _mechanisms(title: str) -> Iterator[TablePlace]:
    shared = {**members_of(Entry), MECHANISMS.selector: MechanismTable().members(None)[MECHANISMS.selector]}
    yield TablePlace(title, Entry.__doc__ or "", shared)
    yield from _inside(shared, title)
    for word, target in MECHANISMS.registry.items():
        yield TablePlace(f'{MECHANISMS.selector} = "{word}"', load(target).__doc__ or "", MECHANISMS.own(word), word)
