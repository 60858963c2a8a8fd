"""Every table of a file with its keys, found from what reads it: for the manual page, and for whoever asks about a key's name alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dpcli.base.lazy import load
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.described import default_text
from dpcli.file.keys.member import Member, Members
from dpcli.file.pipeline.document import TOP, Mechanisms, MechanismTable
from dpcli.file.pipeline.families import MECHANISMS
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.table_places import TablePlace, inside, places_in

TOP_LEVEL = "top level"


def places_of(key: str, path: str | None = None) -> list[str]:
    """`[budget]: what it means (what it takes; default 0.8)`, a line for each meaning; none where no table has the key.

    Args:
        path: the dotted key of the only tables to look in; all where absent.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for place in every_table():
        if key in place.members and path in (None, place.path):
            member: Member = place.members[key]
            default = default_text(member)
            takes = f"{member.text}; {default}" if default.startswith("default ") else member.text
            found.setdefault((member.doc, takes), []).append(place.title)
    return [f"{', '.join(stand)}: {doc} ({takes})" for (doc, takes), stand in found.items()]


@cache
def every_table() -> tuple[TablePlace, ...]:
    """Those of the pipeline file, found once."""
    return tuple(tables())


def tables(top: Members = TOP) -> Iterator[TablePlace]:
    """Every table of a file, each before those that stand in it. top: the keys at the top of the file."""
    yield TablePlace(TOP_LEVEL, "format = 1 comes first in every file.", top)
    for name, member in top.items():
        yield from _mechanisms() if isinstance(member.kind, Mechanisms) else places_in(member.kind, name, f"[{name}]")


def _mechanisms() -> Iterator[TablePlace]:
    path, title, selector = "mechanism", "[[mechanism]]", MECHANISMS.selector
    shared = {**members_of(Entry), selector: MechanismTable().members(None)[selector]}
    yield TablePlace(title, Entry.__doc__ or "", shared, path)
    yield from inside(shared, path, title)
    for word, target in MECHANISMS.registry.items():
        own, choice = MECHANISMS.own(word), f'{selector} = "{word}"'
        yield TablePlace(choice, load(target).__doc__ or "", own, path, word, choice)
        yield from inside(own, path, title)
