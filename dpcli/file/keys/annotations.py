"""The keys that a dataclass declares by its annotated fields, and their description in words.

`Annotated[float, Key("...", RULE)]` declares a key: the type hint decides its *kind* (kinds.py), which reads a value, and the `Key`
(base/fields.py) holds its meaning, its rule and facts for other commands. `members_of` makes of this a `Member` (tables.py), by which files
are read and from which the manual, the JSON Schema and `dpcli explain` are made. A type hint that is a dataclass stands for an inner table;
one whose class has the attribute `selection` stands for a table whose class is selected by one of its keys.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from dpcli.base.fields import Key, Note, Open, Person, Prose
from dpcli.file.keys.kinds import Day, Either, Flag, Kind, Listed, Named, Number, Opaque, WholeNumber
from dpcli.file.keys.tables import KeyTable, Member, Members, SelectedTable
from dpcli.file.keys.words import NAME, PARAGRAPH, PERSON, REMARK, members, words
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import shown


@functools.cache
def members_of(cls: type) -> Members:
    """Return the keys that a dataclass declares, in order. Fields without `Annotated`, such as the spec of an entry, are no keys."""
    hints = typing.get_type_hints(cls, include_extras=True)
    annotated = (field for field in dataclasses.fields(cls) if typing.get_origin(hints[field.name]) is Annotated)
    return {field.name: _member(field, hints[field.name]) for field in annotated}


def _member(field: dataclasses.Field[Any], hint: Any) -> Member:
    """Return the key that a field declares by its type hint `Annotated[TYPE, Key(...)]`."""
    value_type, *annotations = typing.get_args(hint)
    key = next(annotation for annotation in annotations if isinstance(annotation, Key))
    required = field.default is dataclasses.MISSING
    return Member(
        field.name,
        kind_of(value_type),
        key.rule,
        key.doc,
        required,
        default=None if required else field.default,
        safer=key.safer,
        claim=key.claim,
        needs=key.needs,
        varies=key.varies,
        names_data=key.names_data,
    )


def kind_of(hint: Any) -> Kind:
    """Return the kind of values for a type hint. None in a union only means that the key may be absent."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin = typing.get_origin(hint)
    if origin in _GENERIC:
        return _GENERIC[origin](typing.get_args(hint))
    if issubclass(hint, enum.Enum):
        return members(hint)
    # The base class itself has `selection`, and stands for a choice among its subclasses. A subclass stands for a plain table.
    selection = vars(hint).get("selection")
    return KeyTable(hint, members_of) if selection is None else SelectedTable.by(selection, members_of, hint.__doc__ or "")


def _union(arms: tuple[Any, ...]) -> Kind:
    """Return the kind of a union of these types. Besides None, it has one type, or a text and then a table or list (`Either`)."""
    kinds = [kind_of(arm) for arm in arms if arm is not types.NoneType]
    return kinds[0] if len(kinds) == 1 else Either(*kinds)


# Kinds of hints without parameters, and of generic hints as a function of their parameters: tuple[ITEM, ...] and Mapping[str, ITEM], for
# example.
_PLAIN: Mapping[Any, Kind] = {
    float: Number(),
    int: WholeNumber(),
    str: NAME,
    bool: Flag(),
    datetime.date: Day(),
    Prose: PARAGRAPH,
    Note: REMARK,
    Person: PERSON,
    Open: Opaque(),
}
_GENERIC: Mapping[Any, Callable[[tuple[Any, ...]], Kind]] = {
    tuple: lambda items: Listed(kind_of(items[0])),
    collections.abc.Mapping: lambda items: Named(kind_of(items[1])),
    typing.Literal: words,
    types.UnionType: _union,
    typing.Union: _union,
}


@dataclasses.dataclass(frozen=True, slots=True)
class KeyText:
    """A key in words.

    Attributes:
        takes: The allowed values.
        default: The default as `default_text` writes it.
    """

    name: str
    takes: str
    doc: str
    default: str


def keys_of(members: Members) -> Iterator[KeyText]:
    """Yield every key of a table, in the order of its fields."""
    for member in members.values():
        takes = member.rule.text if member.rule else member.kind.takes
        yield KeyText(member.name, takes, member.doc, default_text(member))


def describe_keys(members: Members) -> list[str]:
    """Return one line per key: its name, the values that it takes, its default, and its meaning."""
    return [f"  {key.name} ({key.takes}; {key.default}): {key.doc}" for key in keys_of(members)]


def default_text(member: Member) -> str:
    """Return the default as "default 0.8"; "required" or "optional" for a key without one."""
    value: Any = member.default
    if member.required:
        return "required"
    if value in (None, ()) or dataclasses.is_dataclass(value):
        return "optional"  # the default of a table is stated at each of its keys
    if value == "":
        return "default no text"
    return f"default {str(value).lower()}" if value in (True, False) else f"default {value}"


def keys_without_effect(table: Any) -> Iterator[Problem]:
    """Yield a problem for each key that has no effect, because the table lacks the setting that the key needs (`NeededSetting`).

    A key whose value equals the default is not reported, because the table does not show whether the file states it.
    """
    cls: type = type(table)
    for name, member in members_of(cls).items():
        value = getattr(table, name)
        if member.needs is not None and value != member.default and not member.needs.met_by(table):
            yield (name,), f"this key only with {member.needs.text}", _shown(value)


def _shown(value: Any) -> str:
    """Return a value that was read as the text after "found" in a message. `shown` takes values as TOML has them, such as lists."""
    if dataclasses.is_dataclass(value):
        return "a table"
    return shown(list(value) if type(value) is tuple else value)
