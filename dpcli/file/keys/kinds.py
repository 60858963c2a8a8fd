"""How a value of each scalar kind is read, described, and written as JSON Schema: one class per kind."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from dpcli.base.fields import Constraint
from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Findings, Path
from dpcli.file.toml.shown import shown

CALIBRATE = "calibrate"
LISTS = "several values make an entry each, where all lists of the entry have one length, at most 100,000 entries in all"
_PERCENT = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,18})?)\s*%\s*\Z")


class Refused(Exception):
    """A value could not be read; the finding that says why has been added."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a value stands, by which rule it is judged, and who wants to know."""

    path: Path
    findings: Findings
    rule: Constraint | None = None

    def wrong_type(self, expected: str, value: Any, hint: str = "", among: Iterable[str] = ()) -> NoReturn:
        self.findings.add("DP003", self.path, expected, shown(value), hint, among)
        raise Refused

    def out_of_range(self, expected: str, value: Any, hint: str = "", among: Iterable[str] = ()) -> NoReturn:
        self.findings.add("DP004", self.path, expected, shown(value), hint, among)
        raise Refused


class Kind(Protocol):
    """One kind of value. `read` gives the value, or raises Refused once it has added its findings."""

    @property
    def text(self) -> str:
        """What completes "expected ..." where no rule says more."""
        ...

    @property
    def takes(self) -> str:
        """The same in a word or two, for a manual page."""
        ...

    def read(self, value: Any, place: KeyPlace) -> Any: ...

    def schema(self, rule: Constraint | None) -> dict[str, Any]: ...


def expected(kind: Kind, rule: Constraint | None) -> str:
    """The rule's words where there is a rule, else the kind's."""
    return rule.text if rule else kind.text


@dataclass(frozen=True, slots=True)
class Number:
    """A finite real number; a whole number will do."""

    text: str = "a number"

    @property
    def takes(self) -> str:
        return "number"

    def read(self, value: Any, place: KeyPlace) -> float:
        if type(value) not in (int, float):
            place.wrong_type(expected(self, place.rule), value, _number_hint(value, place))
        number = _as_float(value)
        if not math.isfinite(number) or (place.rule and not place.rule.holds(number)):
            place.out_of_range(expected(self, place.rule), value, place.rule.hint(number) if place.rule else "")
        return number + 0.0  # -0.0 becomes 0.0

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "number", **dict(rule.schema if rule else ())}


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number, written as one: 1e18 is refused with the digits to write instead."""

    text: str = "a whole number"

    @property
    def takes(self) -> str:
        return "whole number"

    def read(self, value: Any, place: KeyPlace) -> int:
        if type(value) is float and not math.isfinite(value):
            place.out_of_range(expected(self, place.rule), value)
        if type(value) is not int:
            place.wrong_type(expected(self, place.rule), value, _whole_hint(value, place))
        if place.rule and not place.rule.holds(value):
            place.out_of_range(expected(self, place.rule), value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "integer", **dict(rule.schema if rule else ())}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    text: str = "true or false"

    @property
    def takes(self) -> str:
        return self.text

    def read(self, value: Any, place: KeyPlace) -> bool:
        if type(value) is not bool:
            word = value.lower() if type(value) is str else ""
            place.wrong_type(self.text, value, f"write {word} without quotes" if word in ("true", "false") else "")
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Day:
    """A date without a time."""

    text: str = "a date (2030-12-31, without quotes)"

    @property
    def takes(self) -> str:
        return "date"

    def read(self, value: Any, place: KeyPlace) -> datetime.date:
        if type(value) is not datetime.date:
            place.wrong_type(self.text, value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"}


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _number_hint(value: Any, place: KeyPlace) -> str:
    if type(value) is list:
        return LISTS if place.path[:1] == ("mechanism",) else ""
    percent = _PERCENT.match(value) if type(value) is str else None
    if percent and place.rule and place.rule.holds(0.5) and not place.rule.holds(1.5):  # a share
        return f"write {Decimal(percent[1]) / 100:f}"
    if value == CALIBRATE:
        return "run dpcli calibrate-sigma, or state a number"
    try:
        number = float(value if type(value) is str else "")
    except ValueError:
        return ""
    if not math.isfinite(number):
        return ""
    return f"write {value.strip()} without quotes" if len(value) < 40 and value.isascii() else ""


def _whole_hint(value: Any, place: KeyPlace) -> str:
    if type(value) is float:
        return f"write {int(value):_}" if value.is_integer() and abs(value) < 1e19 else ""
    return _number_hint(value, place)
