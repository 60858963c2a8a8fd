"""Tables of a file. A table is read into a dataclass, which a key may select; a dataclass is written as plain data, and as JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Literal

from dpcli.base.fields import Constraint, Reader, Selection
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.keys.kinds import KeyPlace, Kind, Refused, expected
from dpcli.file.keys.words import OneOf, words
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import closest


@dataclass(frozen=True, slots=True)
class Member:
    """A key of a table, with the kind of its values, its rule, its meaning and its default."""

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


NEAR = 0.8  # least similarity at which a key of another class of the table is suggested
Members = Mapping[str, Member]
Others = Mapping[str, str]  # keys of other classes of a table, each with the word that selects the class, such as `task = "custom"`


def read_members(known: Members, table: Mapping[str, Any], place: KeyPlace, others: Callable[[], Others] = dict) -> dict[str, Any]:
    """Return the value of every key that can be read, and add a finding for every key that is unknown, missing or invalid."""
    mistaken = {_unknown(key, known, place, others()) for key in table if key not in known}
    values = {}
    for name, member in known.items():
        key_place = replace(place, path=(*place.path, name), rule=member.rule)
        if name in table:
            with suppress(Refused):
                values[name] = member.kind.read(table[name], key_place)
        elif member.required and name not in mistaken:
            place.findings.add("DP005", key_place.path, member.text, "nothing")
    return values


def nearest(key: str, known: Iterable[str]) -> tuple[str | None, str]:
    """Return the known key that is most similar to a misspelt one, and a hint; (None, "") if none is similar."""
    meant = closest(key, list(known))
    return meant, f"did you mean '{meant}'" if meant else ""


def _unknown(key: str, known: Members, place: KeyPlace, others: Others) -> str | None:
    """Add a finding for an unknown key, and return the known key that was probably meant, whose absence then needs no finding."""
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


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table that becomes an instance of the dataclass `cls`.

    Attributes:
        members_of: Function that returns the keys of a dataclass. It is called when a file has the table. It is a field, since the
            module that defines it needs this class.
    """

    cls: type
    members_of: Callable[[type], Members]
    takes: str = "table"

    @property
    def members(self) -> Members:
        return self.members_of(self.cls)

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

    Attributes:
        selector: Key whose word selects the class.
        registry: Classes by their words.
        members_of: As in KeyTable.
        default: Word that counts if the key is absent; None if the key is required.
        doc: Description of the table that holds for all classes.
    """

    selector: str
    registry: Mapping[str, str]
    members_of: Callable[[type], Members]
    default: str | None = None
    doc: str = ""
    takes: str = "table"

    @classmethod
    def by(cls, selection: Selection, members_of: Callable[[type], Members], doc: str = "") -> SelectedTable:
        """Return the table for the selection that a base class declares."""
        return cls(selection.selector, selection.registry, members_of, selection.default, doc)

    @property
    def text(self) -> str:
        return f"a table {{ {self.selector} = ..., ... }}"

    @property
    def choice(self) -> OneOf:
        return words(self.registry)

    def own(self, name: str) -> Members:
        """Return the keys of the class that `name` selects."""
        return self.members_of(load(self.registry[name]))

    def common(self) -> Members:
        """Return the keys that are the same in every class, without the selector."""
        first, *rest = [self.own(name) for name in self.registry]
        shared = {key: member for key, member in first.items() if all(other.get(key) == member for other in rest)}
        return {key: member for key, member in shared.items() if key != self.selector}

    def any(self) -> Members:
        """Return the keys of all classes, for a table whose selector cannot be read. If classes differ in a key, it takes any value."""
        return {**{key: Member(key, Unjudged()) for name in self.registry for key in self.own(name)}, **self.common()}

    def others(self, name: str) -> Others:
        """Return the keys that only other classes than that of `name` have, each with the words that select these classes."""
        result: dict[str, list[str]] = {}
        for other in self.registry:
            for key in self.own(other).keys() - self.own(name).keys():
                result.setdefault(key, []).append(f'"{other}"')
        return {key: f"{self.selector} = {' or '.join(words)}" for key, words in result.items()}

    def selected(self, table: Mapping[str, Any]) -> str | None:
        """Return the registered word that the table states, or the default; None if it is not registered."""
        name = table.get(self.selector, self.default)
        return name if type(name) is str and name in self.registry else None

    def members(self, name: str | None) -> Members:
        """Return the keys of the table whose selector is `name`. name: None if the selector cannot be read."""
        own = self.any() if name is None else self.own(name)
        return {**own, self.selector: self.stated(name or next(iter(self.registry)))}

    def stated(self, name: str) -> Member:
        """Return the selector key, with the description by the class of `name`."""
        doc = self.own(name)[self.selector].doc
        return Member(self.selector, self.choice, doc=doc, required=self.default is None, default=self.default)

    def shared(self) -> Members:
        """Return the selector key, and the keys that are the same in every class."""
        return {self.selector: self.stated(next(iter(self.registry))), **self.common()}

    def apart(self, name: str) -> Members:
        """Return the keys of the class that `name` selects, without those of `shared`."""
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
        return selected_schema(self.selector, {name: self.members(name) for name in self.registry}, self.default)


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A value of any kind, for a key whose kind depends on a word that cannot be read."""

    text: str = "a value"
    takes: str = "value"

    def read(self, value: Any, place: KeyPlace) -> None:
        return None

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {}


def plain_table(value: Any) -> dict[str, Any]:
    """Return a dataclass as a table. Fields that are None, at their default, or excluded from comparison are left out."""
    stated = ((field, getattr(value, field.name)) for field in fields(value) if field.compare)
    return {
        field.name: plain(content)
        for field, content in stated
        if content is not None and (field.default is MISSING or content != field.default)
    }


def plain(value: Any) -> Any:
    """Return a value as plain data."""
    if is_dataclass(value):
        return plain_table(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def table_schema(known: Members) -> dict[str, Any]:
    """Return the schema of a table with exactly these keys."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    schema["properties"] = {name: described(member) for name, member in known.items()}
    if required := [name for name, member in known.items() if member.required]:
        schema["required"] = required
    return schema


def described(member: Member) -> dict[str, Any]:
    """Return the schema of one key, with its meaning."""
    schema = member.kind.schema(member.rule)
    if member.default is not None:
        schema = {**schema, "default": plain(member.default)}
    return {"description": member.doc, **schema} if member.doc else schema


def selected_schema(selector: str, choices: Mapping[str, Members], default: str | None = None) -> dict[str, Any]:
    """Return the schema of a table whose keys depend on a word.

    Args:
        selector: Key that has the word.
        choices: Keys of the table for each word.
        default: Word that counts if `selector` is absent; None if it is required.
    """
    cases = [
        {"if": _states(selector, name, [] if name == default else [selector]), "then": table_schema(known)}
        for name, known in choices.items()
    ]
    required = {"required": [selector]} if default is None else {}
    return {"type": "object", **required, "properties": {selector: {"enum": list(choices)}}, "allOf": cases}


def _states(selector: str, name: str, required: list[str]) -> dict[str, Any]:
    return {"properties": {selector: {"const": name}}, "required": required}
