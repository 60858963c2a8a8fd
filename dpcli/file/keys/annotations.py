"""From a dataclass to the keys of its table: field names are the keys, annotations are their kinds and rules."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from dpcli.base.fields import Key, Note, Open, Person, Prose
from dpcli.file.keys.compound import Either, Listed, Named, Opaque
from dpcli.file.keys.kinds import Day, Flag, Kind, Number, WholeNumber
from dpcli.file.keys.member import Member, Members
from dpcli.file.keys.tables import KeyTable, SelectedTable
from dpcli.file.keys.words import Paragraph, Remark, Signature, Text, members, words


@functools.cache
def members_of(cls: type) -> Members:
    """The keys of a dataclass, in order, without the fields (such as an entry's spec) that are not written as one key."""
    hints = typing.get_type_hints(cls, include_extras=True)
    annotated = (field for field in dataclasses.fields(cls) if typing.get_origin(hints[field.name]) is Annotated)
    return {field.name: _member(field, hints[field.name]) for field in annotated}


def _member(field: dataclasses.Field[Any], hint: Any) -> Member:
    kind, *notes = typing.get_args(hint)
    key = next(note for note in notes if isinstance(note, Key))
    required = field.default is dataclasses.MISSING
    default = None if required else field.default
    rest = (key.safer, key.claim, key.reader, default, key.varies, key.reads)
    return Member(field.name, kind_of(kind), key.rule, key.doc, required, *rest)


def kind_of(hint: Any) -> Kind:
    """The kind of value that a type stands for; None in a union only says that the key may be absent."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin = typing.get_origin(hint)
    if origin in _GENERIC:
        return _GENERIC[origin](typing.get_args(hint))
    if issubclass(hint, enum.Enum):
        return members(hint)
    # The base of a family selects; a class of it is a plain table.
    selection = vars(hint).get("selection")
    return KeyTable(hint, members_of) if selection is None else SelectedTable.by(selection, members_of, hint.__doc__ or "")


def _union(arms: tuple[Any, ...]) -> Kind:
    kinds = [kind_of(arm) for arm in arms if arm is not types.NoneType]
    return kinds[0] if len(kinds) == 1 else Either(*kinds)


_PLAIN: Mapping[Any, Kind] = {
    float: Number(),
    int: WholeNumber(),
    str: Text(),
    bool: Flag(),
    datetime.date: Day(),
    Prose: Paragraph(),
    Note: Remark(),
    Person: Signature(),
    Open: Opaque(),
}
_GENERIC: Mapping[Any, Callable[[tuple[Any, ...]], Kind]] = {
    tuple: lambda items: Listed(kind_of(items[0])),
    collections.abc.Mapping: lambda items: Named(kind_of(items[1])),
    typing.Literal: words,
    types.UnionType: _union,
    typing.Union: _union,
}
