"""Values made of values: lists, tables of named values, and alternatives of a scalar and a table or list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dpcli.base.fields import Constraint
from dpcli.base.values import dataclass
from dpcli.file.keys.kinds import KeyPlace, Kind, Refused, expected


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of values of one kind, each under the list's rule; read as a tuple."""

    item: Kind

    @property
    def text(self) -> str:
        return f"a list, each {self.item.text}"

    @property
    def takes(self) -> str:
        return f"array of {self.item.takes}"

    def read(self, value: Any, place: KeyPlace) -> tuple[Any, ...]:
        if type(value) is not list:
            hint = "write [[...]], with two brackets" if type(value) is dict else ""
            place.wrong_type(f"a list, each {expected(self.item, place.rule)}", value, hint)
        before = len(place.findings)
        read = tuple(self.items(value, place))
        if len(place.findings) > before:
            raise Refused
        return read

    def items(self, values: list[Any], place: KeyPlace) -> Iterator[Any]:
        """The values that could be read."""
        for index, value in enumerate(values):
            try:
                yield self.item.read(value, KeyPlace((*place.path, index), place.findings, place.rule))
            except Refused:
                continue

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(rule)}


@dataclass(frozen=True, slots=True)
class Either:
    """A scalar, or a table or list: which of the two the value is decides how it is read."""

    scalar: Kind
    several: Kind

    @property
    def text(self) -> str:
        return f"{self.scalar.text}, or {self.several.text}"

    @property
    def takes(self) -> str:
        return f"{self.scalar.takes} or {self.several.takes}"

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is (list if isinstance(self.several, Listed) else dict):
            return self.several.read(value, place)
        if type(value) is not str:
            place.wrong_type(self.text, value)
        return self.scalar.read(value, place)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"oneOf": [self.scalar.schema(rule), self.several.schema(rule)]}


@dataclass(frozen=True, slots=True)
class Named:
    """A table whose keys are names that the user gives, each with a value of one kind; read as a dict in the file's order."""

    item: Kind

    @property
    def text(self) -> str:
        return f"a table {{ NAME = ..., ... }}, each {self.item.text}"

    @property
    def takes(self) -> str:
        return f"table of {self.item.takes}"

    def read(self, value: Any, place: KeyPlace) -> dict[str, Any]:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        before, read = len(place.findings), {}
        for name, content in value.items():
            with suppress(Refused):
                read[name] = self.item.read(content, KeyPlace((*place.path, name), place.findings, place.rule))
        if len(place.findings) > before:
            raise Refused
        return read

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.item.schema(rule)}


@dataclass(frozen=True, slots=True)
class Opaque:
    """A table that another command reads."""

    text: str = "a table"

    @property
    def takes(self) -> str:
        return "table"

    def read(self, value: Any, place: KeyPlace) -> dict[str, Any]:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "object"}
