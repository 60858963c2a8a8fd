"""Tables of a TOML file as dataclasses: reading a table, writing it as plain data, and its JSON Schema.

A *member* is a key of a table: a *kind*, which reads and describes its value (kinds.py), its rule, its default, and facts for other
commands (`Key` in base/fields.py). annotations.py makes the members of a dataclass from its annotated fields. A table becomes either one
dataclass (`KeyTable`) or one of several, which the value of a key selects (`SelectedTable`). This key is the *selector*: in { scheme =
"poisson", rate = 0.1 } it is `scheme`, and the *name* "poisson" stands for a class of the registry.

The reader of the whole file and the sections call `read` with a value and its place (`KeyPlace`: the path of its key, its rule, and the
list to which findings are added). It returns the dataclass, or adds a *finding* for each mistake and raises Refused. An unknown key is a
finding (DP002) and is never ignored, since a mistyped key would silently leave a default in force. A missing key is DP005.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Literal

from dpcli.base.fields import Constraint, NeededSetting, Selection
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.keys.kinds import KeyPlace, Kind, Refused, expected
from dpcli.file.keys.words import OneOf, words
from dpcli.file.toml.findings import Advice
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import closest, closest_short

# Smallest similarity, as difflib measures it, at which a message suggests a key that belongs to another class of the table. It is stricter
# than the 0.7 of `closest`, and affects only the message.
NEAR = 0.8

# The keys that only other classes of a table have, each with the setting that selects such a class, such as `task = "custom"`.
KeysOfOtherClasses = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Member:
    """A key of a table.

    Attributes:
        doc: Meaning of the key in one sentence.
        safer: Changes that cannot weaken the file: none (None), a first value ("stated"), or a first or a smaller value ("smaller").
        claim: Whether the key is a claim about the data or the program that dpcli does not enforce.
        needs: Setting of the table without which the key has no effect.
        default: Value of an absent key that is not required; None if it has no default.
        varies: Whether the runs of a sweep may differ in the key.
        names_data: Whether the key names the data that a command reads.
    """

    name: str
    kind: Kind
    rule: Constraint | None = None
    doc: str = ""
    required: bool = False
    safer: Literal["smaller", "stated"] | None = None
    claim: bool = False
    needs: NeededSetting | None = None
    default: Any = None
    varies: bool = False
    names_data: bool = False

    @property
    def text(self) -> str:
        return expected(self.kind, self.rule)


Members = Mapping[str, Member]


def read_members(
    known: Members, table: Mapping[str, Any], place: KeyPlace, keys_of_others: Callable[[], KeysOfOtherClasses] = dict
) -> dict[str, Any]:
    """Return the value of every key that can be read, and add a finding for every key that is unknown, missing or invalid.

    Args:
        keys_of_others: Function that returns the keys of other classes of the table. It is called only if a key is unknown, because it
            imports these classes.
    """
    mistyped = {_report_unknown(key, known, place, keys_of_others()) for key in table if key not in known}
    values = {}
    for name, member in known.items():
        key_place = replace(place, path=(*place.path, name), rule=member.rule)
        if name in table:
            with suppress(Refused):
                values[name] = member.kind.read(table[name], key_place)
        elif member.required and name not in mistyped:
            place.findings.add("DP005", key_place.path, member.text, "nothing")
    return values


def nearest(key: str, known: Iterable[str]) -> Advice:
    """Return the known key that is most similar to a mistyped one as advice."""
    keys = list(known)
    meant = closest(key, keys) or closest_short(key, keys)
    return Advice(meant, words=f"did you mean '{meant}'" if meant else "")


def _report_unknown(key: str, known: Members, place: KeyPlace, keys_of_others: KeysOfOtherClasses) -> str | None:
    """Add a finding for an unknown key. Return the key that was probably meant, so that its absence is not reported too."""
    advice = _advice(key, known, place, keys_of_others)
    expected_text = "a known key" if advice.words else "one of " + ", ".join(known)
    place.findings.add("DP002", (*place.path, key), expected_text, quoted(key), advice.words, known)
    return advice.meant


def _advice(key: str, known: Members, place: KeyPlace, keys_of_others: KeysOfOtherClasses) -> Advice:
    """Return advice about an unknown key: the class of the table to which it belongs or, otherwise, the key that was probably meant.

    The reader of a pipeline file knows which keys the other tables of the file have, and gives its own advice (`findings.advice`).
    """
    if key in keys_of_others:
        return Advice(meant=None, words=f"it belongs to {keys_of_others[key]}")
    advice = (place.findings.advice or nearest)(key, known)
    if not advice.meant and (near := closest(key, keys_of_others, cutoff=NEAR)):
        return Advice(meant=None, words=f"did you mean '{near}', which belongs to {keys_of_others[near]}")
    return advice


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table that becomes an instance of the dataclass `cls`.

    Attributes:
        members_of: `annotations.members_of`. It is a field and not an import, because annotations.py imports this module.
    """

    cls: type
    members_of: Callable[[type], Members]
    takes: str = "table"

    @property
    def members(self) -> Members:
        return self.members_of(self.cls)

    @property
    def text(self) -> str:
        required = [name for name, member in self.members.items() if member.required]
        examples = required or list(self.members)[:2]  # two keys show the form well enough
        return "a table { " + ", ".join(f"{name} = ..." for name in examples) + " }"

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        findings_before = len(place.findings)
        values = read_members(self.members, value, place)
        if len(place.findings) > findings_before:
            raise Refused
        return self.cls(**values)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return table_schema(self.members)


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table whose dataclass is selected by a key, such as `scheme` in { scheme = "poisson", rate = 0.1 }.

    Attributes:
        selector: The key that selects the class.
        registry: The class for each name that the selector may have, as "package.module:name".
        members_of: As in KeyTable.
        default: The name that applies if the selector is absent; None if the selector is required.
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

    def class_members(self, name: str) -> Members:
        """Return the members of the class that `name` selects."""
        return self.members_of(load(self.registry[name]))

    def common_members(self) -> Members:
        """Return the members that all classes share: with one meaning, rule and default. The selector is left out."""
        first, *others = [self.class_members(name) for name in self.registry]
        shared = {key: member for key, member in first.items() if all(other.get(key) == member for other in others)}
        return {key: member for key, member in shared.items() if key != self.selector}

    def all_members(self) -> Members:
        """Return the members of all classes, for a table whose selector is invalid. A key that differs between classes takes any value."""
        unchecked = {key: Member(key, Unchecked()) for name in self.registry for key in self.class_members(name)}
        return {**unchecked, **self.common_members()}

    def keys_of_other_classes(self, name: str) -> KeysOfOtherClasses:
        """Return the keys that the class of `name` lacks and other classes have, each with the setting that selects these classes."""
        result: dict[str, list[str]] = {}
        for other in self.registry:
            for key in self.class_members(other).keys() - self.class_members(name).keys():
                result.setdefault(key, []).append(f'"{other}"')
        return {key: f"{self.selector} = {' or '.join(names)}" for key, names in result.items()}

    def selected(self, table: Mapping[str, Any]) -> str | None:
        """Return the name of the class of a table: the value of its selector, or the default; None if there is no such class."""
        name = table.get(self.selector, self.default)
        return name if type(name) is str and name in self.registry else None

    def members(self, name: str | None) -> Members:
        """Return the members of the class `name` and the selector. `name` is None for an invalid selector: all keys are then members."""
        keys = self.all_members() if name is None else self.class_members(name)
        return {**keys, self.selector: self.selector_member(name or next(iter(self.registry)))}

    def selector_member(self, name: str) -> Member:
        """Return the selector as a member. Its description is that in the class `name`."""
        doc = self.class_members(name)[self.selector].doc
        return Member(self.selector, self.choice, doc=doc, required=self.default is None, default=self.default)

    def shared_members(self) -> Members:
        """Return the selector and the common members."""
        return {self.selector: self.selector_member(next(iter(self.registry))), **self.common_members()}

    def further_members(self, name: str) -> Members:
        """Return the members that the class `name` has in addition to the shared ones."""
        shared = self.shared_members()
        return {key: member for key, member in self.class_members(name).items() if key not in shared}

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not dict:
            is_word = type(value) is str and value in self.registry
            place.wrong_type(self.text, value, f'write {{ {self.selector} = "{value}", ... }}' if is_word else "")
        findings_before = len(place.findings)
        name = self.selected(value)
        values = read_members(self.members(name), value, place, lambda: {} if name is None else self.keys_of_other_classes(name))
        if name is None or len(place.findings) > findings_before:  # without a name, there is a finding about the selector
            raise Refused
        return load(self.registry[name])(**{**values, self.selector: name})

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return selected_schema(self.selector, {name: self.members(name) for name in self.registry}, self.default)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A value that is not checked. It is the kind of a key whose real kind depends on an invalid selector."""

    text: str = "a value"
    takes: str = "value"

    def read(self, value: Any, place: KeyPlace) -> None:
        return None

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {}


def plain_table(value: Any) -> dict[str, Any]:
    """Return a dataclass as a table of plain data.

    Fields that are None or at their default are left out. So are fields excluded from comparison, which are not keys of a file, such as
    `uncounted` of an entry.
    """
    result = {}
    for field in fields(value):
        content = getattr(value, field.name)
        is_default = content is None or (field.default is not MISSING and content == field.default)
        if field.compare and not is_default:
            result[field.name] = plain(content)
    return result


def plain(value: Any) -> Any:
    """Return a value as plain data: tables, lists, texts and numbers. For example, `Adjacency.ADD_REMOVE -> "add-remove"`."""
    if is_dataclass(value):
        return plain_table(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def table_schema(known: Members) -> dict[str, Any]:
    """Return the JSON Schema of a table with exactly these keys."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    schema["properties"] = {name: member_schema(member) for name, member in known.items()}
    if required := [name for name, member in known.items() if member.required]:
        schema["required"] = required
    return schema


def member_schema(member: Member) -> dict[str, Any]:
    """Return the JSON Schema of one key, with its meaning and its default."""
    schema = member.kind.schema(member.rule)
    if member.default is not None:
        schema = {**schema, "default": plain(member.default)}
    return {"description": member.doc, **schema} if member.doc else schema


def selected_schema(selector: str, choices: Mapping[str, Members], default: str | None = None) -> dict[str, Any]:
    """Return the JSON Schema of a table whose keys depend on the value of one key. That key is required if it has no default."""
    cases = []
    for name, known in choices.items():
        required = [] if name == default else [selector]  # without the key, the default applies
        has_this_value = {"properties": {selector: {"const": name}}, "required": required}
        cases.append({"if": has_this_value, "then": table_schema(known)})
    selector_required = {"required": [selector]} if default is None else {}
    return {"type": "object", **selector_required, "properties": {selector: {"enum": list(choices)}}, "allOf": cases}
