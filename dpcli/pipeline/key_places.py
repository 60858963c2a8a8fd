"""Where a key stands, and what it means there: for whoever asks about its name alone."""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.keys.annotations import MECHANISMS, SAMPLING, keys_of_table, members_of
from dpcli.keys.member import Member, Members
from dpcli.pipeline.gate_keys import Gate, Horizon, Waiver
from dpcli.pipeline.model import Budget, Disclosure, Entry, Privacy
from dpcli.registry import SECTIONS, load


def places_of(key: str) -> list[str]:
    """`[privacy]: what it means (what it takes)`, a line for each meaning; none where no table has the key."""
    found: dict[tuple[str, str], list[str]] = {}
    for table, members in tables():
        if key in members:
            member: Member = members[key]
            found.setdefault((member.doc, member.text), []).append(table)
    return [f"{', '.join(stand)}: {doc} ({text})" for (doc, text), stand in found.items()]


def tables() -> Iterator[tuple[str, Members]]:
    """Every table of a file, as a message calls it, and its keys."""
    plain = {"[privacy]": Privacy, "[budget]": Budget, "[gate]": Gate, "[[gate.waiver]]": Waiver, "horizon": Horizon}
    for table, cls in {**plain, "[disclosure]": Disclosure, "[[mechanism]]": Entry}.items():
        yield table, members_of(cls)
    for name in MECHANISMS.registry:
        yield f'type = "{name}"', MECHANISMS.own(name)
    for name in SAMPLING.registry:
        yield f'scheme = "{name}"', SAMPLING.own(name)
    for name, target in SECTIONS.items():
        yield f"[{name}]", keys_of_table(load(target))
