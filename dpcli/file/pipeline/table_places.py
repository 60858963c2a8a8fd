"""The tables that a value holds, found from what reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.base.lazy import load
from dpcli.file.keys.compound import Either, Listed, Named
from dpcli.file.keys.kinds import Kind
from dpcli.file.keys.member import Member, Members
from dpcli.file.keys.tables import KeyTable, SelectedTable
from dpcli.file.pipeline.section import SectionTable


@dataclass(frozen=True, slots=True)
class TablePlace:
    """One table: how the file opens it, what it is, and its keys; of keys that a word selects, which word.

    path: its dotted key from the top of the file, such as train.clipping; "" for the file itself. choice: `task = "custom"`, of a word.
    """

    title: str
    doc: str
    members: Members
    path: str = ""
    word: str | None = None
    choice: str = ""


def places_in(kind: Kind, path: str, title: str) -> Iterator[TablePlace]:
    """The tables that a value of this kind is or holds. path: its dotted key. title: how the file opens it."""
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
    """The tables that a table's keys hold. path: the table's dotted key. title: how the file opens it."""
    for name, member in members.items():
        many = isinstance(member.kind, Listed)
        yield from places_in(member.kind, f"{path}.{name}", f"{title[:-1]}.{name}]" if many else f"{name} = {{ ... }} of {title}")


def _selected(kind: SelectedTable, path: str, title: str) -> Iterator[TablePlace]:
    shared, where = kind.shared(), title if title.startswith("[") else path.rpartition(".")[2]
    yield TablePlace(title, kind.doc, shared, path)
    yield from inside(shared, path, title)
    told: dict[str, Member] = {}  # tables that several words have, as one has them
    for word, target in kind.registry.items():
        own, choice = kind.apart(word), f'{kind.selector} = "{word}"'
        yield TablePlace(f"{where} {choice}", load(target).__doc__ or "", own, path, word, choice)
        yield from inside({name: member for name, member in own.items() if told.get(name) != member}, path, title)
        told.update(own)
