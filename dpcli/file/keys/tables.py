"""Tables that become dataclasses, and tables whose dataclass one of their own keys selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpcli.base.fields import Constraint, Selection
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.keys.kinds import KeyPlace, Refused
from dpcli.file.keys.member import Member, Members, Others, read_members
from dpcli.file.keys.words import OneOf, words


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table that becomes an instance of the dataclass `cls`.

    members_of: the keys of a dataclass (handed in, since finding them needs this class), asked when a file has the table.
    """

    cls: type
    members_of: Callable[[type], Members]

    @property
    def members(self) -> Members:
        return self.members_of(self.cls)

    @property
    def text(self) -> str:
        stated = [name for name, member in self.members.items() if member.required] or list(self.members)[:2]
        return "a table { " + ", ".join(f"{name} = ..." for name in stated) + " }"

    @property
    def takes(self) -> str:
        return "table"

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        before = len(place.findings)
        values = read_members(self.members, value, place)
        if len(place.findings) > before:
            raise Refused
        return self.cls(**values)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        from dpcli.file.keys.table_schema import table_schema

        return table_schema(self.members)


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table whose dataclass is named by one of its own keys, through a registry.

    members_of: as in KeyTable. default: the word where the key is absent.
    doc: what the table is, whichever the word.
    """

    selector: str
    registry: Mapping[str, str]
    members_of: Callable[[type], Members]
    default: str | None = None
    doc: str = ""

    @classmethod
    def by(cls, selection: Selection, members_of: Callable[[type], Members], doc: str = "") -> SelectedTable:
        """The tables that a base class says are selected."""
        return cls(selection.selector, selection.registry, members_of, selection.default, doc)

    @property
    def text(self) -> str:
        return f"a table {{ {self.selector} = ..., ... }}"

    @property
    def takes(self) -> str:
        return "table"

    @property
    def choice(self) -> OneOf:
        return words(self.registry)

    def own(self, name: str) -> Members:
        """The keys of the class that `name` selects."""
        return self.members_of(load(self.registry[name]))

    def common(self) -> Members:
        """The keys that are the same in every class, but for the selector."""
        first, *rest = [self.own(name) for name in self.registry]
        shared = {key: member for key, member in first.items() if all(other.get(key) == member for other in rest)}
        return {key: member for key, member in shared.items() if key != self.selector}

    def any(self) -> Members:
        """Every key of every class, those that are not common unjudged: all that can be asked for while the selector cannot be read."""
        return {**{key: Member(key, Unjudged()) for name in self.registry for key in self.own(name)}, **self.common()}

    def others(self, name: str) -> Others:
        """The keys that the table would have with another word than `name`, and which."""
        found: dict[str, list[str]] = {}
        for other in self.registry:
            for key in self.own(other).keys() - self.own(name).keys():
                found.setdefault(key, []).append(f'"{other}"')
        return {key: f"{self.selector} = {' or '.join(words)}" for key, words in found.items()}

    def selected(self, table: Mapping[str, Any]) -> str | None:
        """The registered name that the table states, if it does."""
        name = table.get(self.selector, self.default)
        return name if type(name) is str and name in self.registry else None

    def members(self, name: str | None) -> Members:
        """The keys of the table where its selector is `name`; None where that cannot be read."""
        own = self.any() if name is None else self.own(name)
        return {**own, self.selector: self.stated(name or next(iter(self.registry)))}

    def stated(self, name: str) -> Member:
        """The selector, as the class of `name` describes it."""
        doc = self.own(name)[self.selector].doc
        return Member(self.selector, self.choice, doc=doc, required=self.default is None, default=self.default)

    def shared(self) -> Members:
        """The selector, and the keys that are the same in every class."""
        return {self.selector: self.stated(next(iter(self.registry))), **self.common()}

    def apart(self, name: str) -> Members:
        """The keys of the class that `name` selects, without those that are shared."""
        shared = self.shared()
        return {key: member for key, member in self.own(name).items() if key not in shared}

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            named = type(value) is str and value in self.registry
            place.wrong_type(self.text, value, f'write {{ {self.selector} = "{value}", ... }}' if named else "")
        before = len(place.findings)
        name = self.selected(value)
        values = read_members(self.members(name), value, place, lambda: {} if name is None else self.others(name))
        if name is None or len(place.findings) > before:
            raise Refused
        return load(self.registry[name])(**{**values, self.selector: name})

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        from dpcli.file.keys.table_schema import selected_schema

        return selected_schema(self.selector, {name: self.members(name) for name in self.registry}, self.default)


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A value whose rule depends on a word that could not be read."""

    text: str = "a value"

    @property
    def takes(self) -> str:
        return "value"

    def read(self, value: Any, place: KeyPlace) -> None:
        return None

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {}
