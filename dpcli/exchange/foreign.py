"""What another library keeps, as fields with names: each is asked for by its name, and none is passed over."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.stated import Asserted
from dpcli.file.toml.shown import escaped, shown

MOST = 16 * 1024 * 1024  # bytes of a file of fields


class NotJson(InputError):
    """What was read is no JSON at all."""


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """name: what messages call it. fields: as they were written."""

    name: str
    fields: Mapping[str, Any]

    def only(
        self, needed: Collection[str], optional: Collection[str] = (), ignored: Collection[str] | None = None, hint: str = ""
    ) -> None:
        """Raises InputError where a field is missing, or one is there whose meaning nobody has said.

        ignored: what --ignore names; None where there is no such flag. hint: what else to say of a field that is not known.
        """
        missing = [field for field in needed if field not in self.fields]
        strange = [field for field in self.fields if field not in (*needed, *optional, *(ignored or ()))]
        if missing:
            raise self.refused(f"expected {', '.join(needed)}, found no {missing[0]}")
        if strange:
            raise self.refused(
                f"expected {', '.join((*needed, *optional)) or 'no field'}, found {escaped(strange[0][:80])} too"
                + (": --ignore it where it says nothing about privacy" if ignored is not None else hint and f"; {hint}")
            )

    def number(self, field: str) -> float:
        """A finite number. Raises InputError where it is none."""
        value = self.fields[field]
        if type(value) not in (int, float) or not abs(value) < 1e300:
            raise self.refused(f"expected {field} to be a finite number, found {_told(value)}")
        return float(value)

    def whole(self, field: str) -> int:
        """A whole number >= 1. Raises InputError where it is none."""
        value = self.fields[field]
        if type(value) is not int or not 1 <= value <= 10**18:
            raise self.refused(f"expected {field} to be a whole number, at least 1, found {_told(value)}")
        return value

    def truth(self, field: str) -> bool:
        """True or false. Raises InputError where it is neither."""
        value = self.fields[field]
        if type(value) is not bool:
            raise self.refused(f"expected {field} to be true or false, found {_told(value)}")
        return value

    def table(self, field: str, name: str | None = None) -> ForeignTable:
        """The table inside. Raises InputError where it is none."""
        value = self.fields[field]
        if not isinstance(value, dict):
            raise self.refused(f"expected {field} to be a table, found {_told(value)}")
        return ForeignTable(name or field, value)

    def has(self, field: str) -> bool:
        """Whether the field is there, and not null."""
        return self.fields.get(field) is not None

    def refused(self, why: str) -> InputError:
        return InputError(f"{self.name}: {why}")


def read_fields(data: bytes, name: str) -> ForeignTable:
    """The table that JSON says. Raises InputError where it says none, says a field twice, or is larger than MOST."""
    if len(data) > MOST:
        raise InputError(f"{name}: expected at most {MOST // 1024**2} MiB of JSON, found more")
    document = read_json(data, name)
    if not isinstance(document, dict):
        raise InputError(f"{name}: expected a table of JSON, found something else")
    return ForeignTable(name, document)


def read_json(data: bytes, name: str) -> Any:
    """The value that JSON says. Raises InputError where it is none, or says a field twice."""
    try:
        return json.loads(data, object_pairs_hook=lambda pairs: _once(pairs, name))
    except (ValueError, RecursionError):
        raise NotJson(f"{name}: expected JSON, found something else") from None


def _once(pairs: Iterable[tuple[str, Any]], name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, value in pairs:
        if field in fields:
            raise InputError(f"{name}: expected {escaped(field[:80])} once, found it twice")
        fields[field] = value
    return fields


def with_asserted(known: Mapping[str, Any], asserted: Asserted, name: str) -> dict[str, Any]:
    """What the file says of [privacy] and what somebody states beside it. Raises InputError where they say two things of one key."""
    for key, value in asserted.table.items():
        if known.get(key, value) != value:
            raise InputError(f"{name}: expected {key} = {_told(known[key])}, which the file says, found {_told(value)}")
    return {**known, **asserted.table}


def _told(value: Any) -> str:
    plain = type(value) in (bool, int, float, str) or value is None
    return shown(value) if plain and not (type(value) is float and math.isnan(value)) else "something else"
