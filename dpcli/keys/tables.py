"""Tables that become dataclasses, and tables whose dataclass one of their own keys selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpcli.fields import Constraint
from dpcli.keys.kinds import KeyPlace, Refused
from dpcli.keys.member import Member, Members, read_members
from dpcli.keys.table_schema import selected_schema, table_schema
from dpcli.keys.words import OneOf, words
from dpcli.registry import load


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table that becomes an instance of the dataclass `cls`."""

    cls: type
    members: Members

    @property
    def text(self) -> str:
        stated = [name for name, member in self.members.items() if member.required] or list(self.members)[:2]
        return "a table { " + ", ".join(f"{name} = ..." for name in stated) + " }"

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        before = len(place.findings)
        values = read_members(self.members, value, place)
        if len(place.findings) > before:
            raise Refused
        return self.cls(**values)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return table_schema(self.members)


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table whose dataclass is named by one of its own keys, through a registry.

    members_of: the keys of a dataclass (handed in, since finding them needs this class).
    """

    selector: str
    registry: Mapping[str, str]
    members_of: Callable[[type], Members]

    @property
    def text(self) -> str:
        return f"a table {{ {self.selector} = ..., ... }}"

    @property
    def choice(self) -> OneOf:
        return words(self.registry)

    def own(self, name: str) -> Members:
        """The keys of the class that `name` selects."""
        return self.members_of(load(self.registry[name]))

    def any(self) -> Members:
        """Every key of every class, none of them judged: all that can be asked for while the selector cannot be read."""
        return {key: Member(key, Unjudged()) for name in self.registry for key in self.own(name)}

    def selected(self, table: Mapping[str, Any]) -> str | None:
        """The registered name that the table states, if it does."""
        name = table.get(self.selector)
        return name if type(name) is str and name in self.registry else None

    def members(self, name: str | None) -> Members:
        """The keys of the table where its selector is `name`; None where that cannot be read."""
        selector = Member(self.selector, self.choice, required=True)
        own = self.any() if name is None else self.own(name)
        stated = own[self.selector]
        return {**own, self.selector: replace(selector, doc=stated.doc)}

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            named = type(value) is str and value in self.registry
            place.wrong_type(self.text, value, f'write {{ {self.selector} = "{value}", ... }}' if named else "")
        before = len(place.findings)
        name = self.selected(value)
        values = read_members(self.members(name), value, place)
        if name is None or len(place.findings) > before:
            raise Refused
        return load(self.registry[name])(**values)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return selected_schema(self.selector, {name: self.members(name) for name in self.registry})


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A value whose rule depends on a word that could not be read."""

    text: str = "a value"

    def read(self, value: Any, place: KeyPlace) -> None:
        return None

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {}
