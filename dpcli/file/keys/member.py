"""One key of a table, and the reading of tables key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from dpcli.base.fields import Constraint, Reader
from dpcli.base.values import dataclass
from dpcli.file.keys.kinds import KeyPlace, Kind, Refused, expected
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import closest


@dataclass(frozen=True, slots=True)
class Member:
    """One key of a table: its kind, its rule, what it means, whether it must be stated, and else what holds where it is not."""

    name: str
    kind: Kind
    rule: Constraint | None = None
    doc: str = ""
    required: bool = False
    safer: Literal["smaller", "stated"] | None = None
    claim: bool = False
    reader: Reader | None = None
    default: Any = None
    varies: bool = False
    reads: bool = False

    @property
    def text(self) -> str:
        return expected(self.kind, self.rule)


NEAR = 0.8  # of a key that the table would have with another word in it: nearer than those of other tables need to be
Members = Mapping[str, Member]
Others = Mapping[str, str]  # keys that a table would have with another word in it, and that word: `task = "custom"`


def read_members(known: Members, table: Mapping[str, Any], place: KeyPlace, others: Callable[[], Others] = dict) -> dict[str, Any]:
    """The value of every key that could be read; a finding for every key that is unknown, missing or wrong."""
    mistaken = {_unknown(key, known, place, others()) for key in table if key not in known}
    values = {}
    for name, member in known.items():
        here = replace(place, path=(*place.path, name), rule=member.rule)
        if name in table:
            with suppress(Refused):
                values[name] = member.kind.read(table[name], here)
        elif member.required and name not in mistaken:
            place.findings.add("DP005", here.path, member.text, "nothing")
    return values


def nearest(key: str, known: Iterable[str]) -> tuple[str | None, str]:
    """The known key that was meant, if one is close, and that advice in words or ""."""
    meant = closest(key, list(known))
    return meant, f"did you mean '{meant}'" if meant else ""


def _unknown(key: str, known: Members, place: KeyPlace, others: Others) -> str | None:
    """Add the finding; returns the known key that was meant, whose absence then needs no finding of its own."""
    meant, hint = _advised(key, known, place, others)
    place.findings.add(
        "DP002", (*place.path, key), "a known key" if hint else "one of " + ", ".join(known), quoted(key), hint, known
    )
    return meant


def _advised(key: str, known: Members, place: KeyPlace, others: Others) -> tuple[str | None, str]:
    if key in others:
        return None, f"it belongs to {others[key]}"
    meant, hint = (place.findings.advice or nearest)(key, known)
    near = None if meant else closest(key, others, cutoff=NEAR)
    return (None, f"did you mean '{near}', which belongs to {others[near]}") if near else (meant, hint)
