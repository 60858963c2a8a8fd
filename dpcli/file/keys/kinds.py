"""The kinds of values that keys may have. Each is a class that reads a value, describes it, and gives its JSON Schema.

tables.py calls `read` with a value from a TOML file and its *place* (`KeyPlace`). The result is the value as Python uses it; otherwise a
*finding* with the path of the key is added, and Refused is raised, so that a file with ten mistakes gets ten findings. The code of a
finding is DP002 for an unknown key, DP003 for a wrong type, DP004 for a value that is not allowed, and DP005 for a missing key. A *rule*
(`Constraint` in base/fields.py) narrows a kind, such as "a number in (0, 1]". `Number` and `WholeNumber` refuse NaN and infinity, which
only an `Opaque` table may contain.

In a [[mechanism]] table, the word "calibrate" in place of a number asks dpcli to solve for it; it may have a *weight*, by which several
such numbers share the cost. A list in place of a number abbreviates several tables. pipeline/read.py expands the lists before it reads the
values, and puts numbers in place of "calibrate" for the commands that allow it. So `Number` and `WholeNumber` meet neither where it is
allowed, and refuse both with advice.

Types are compared exactly, because bool is a subclass of int, and datetime one of date.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from dpcli.base.fields import Constraint
from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Findings, Path
from dpcli.file.toml.shown import escaped, shown

CALIBRATE = "calibrate"  # the value in place of a number that dpcli is to solve for
LONGEST_NUMBER = 40  # number of characters from which on a number in quotes is not repeated in a message; arbitrary
LIST_HINT = "a list makes one entry for each value, if all lists of the table have the same length; at most 100,000 entries in all"
# The range of weights is arbitrary, and wide enough for any use.
WEIGHT = Constraint("a number from 1e-6 to 1e6", lambda x: 1e-6 <= x <= 1e6, (("minimum", 1e-6), ("maximum", 1e6)))
WEIGHTED = {  # JSON Schema of the table { calibrate = { weight = NUMBER } }, which may also stand for such a number
    "type": "object",
    "additionalProperties": False,
    "required": [CALIBRATE],
    "properties": {
        CALIBRATE: {
            "type": "object",
            "additionalProperties": False,
            "required": ["weight"],
            "properties": {"weight": {"type": "number", **dict(WEIGHT.schema)}},
        }
    },
}
# The largest numbers of digits are arbitrary, and keep the advice short.
_PERCENT = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,18})?)\s*%\s*\Z")


class Refused(Exception):
    """A value could not be read. The findings that say why have been added."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The path of a value, the rule that it must satisfy, and the collection to which its findings are added."""

    path: Path
    findings: Findings
    rule: Constraint | None = None

    @property
    def is_in_mechanism(self) -> bool:
        """True in a [[mechanism]] table: only there may "calibrate" or a list replace a number."""
        return self.path[:1] == ("mechanism",)

    def wrong_type(self, expected: str, value: Any, hint: str = "") -> NoReturn:
        """Add a finding about the type of the value, and raise Refused. The arguments are those of `out_of_range`."""
        self.findings.add("DP003", self.path, expected, shown(value), hint)
        raise Refused

    def out_of_range(self, expected: str, value: Any, hint: str = "", among: Iterable[str] = ()) -> NoReturn:
        """Add a finding about the value, and raise Refused.

        Args:
            expected: Text of the message after "expected".
            hint: Advice at the end of the message, or "".
            among: The allowed words, if the value must be one of a list of words.
        """
        self.findings.add("DP004", self.path, expected, shown(value), hint, among)
        raise Refused


class Kind(Protocol):
    """A kind of value.

    `read` returns the value, or raises Refused after it added findings. `schema` returns the JSON Schema of values that satisfy a rule.
    """

    @property
    def text(self) -> str:
        """The text after "expected" in messages about a key without a rule."""
        ...

    @property
    def takes(self) -> str:
        """The kind in one or two words, for a manual page."""
        ...

    def read(self, value: Any, place: KeyPlace) -> Any: ...

    def schema(self, rule: Constraint | None) -> dict[str, Any]: ...


def expected(kind: Kind, rule: Constraint | None) -> str:
    """Return the text after "expected": that of the rule or, without a rule, that of the kind."""
    return rule.text if rule else kind.text


@dataclass(frozen=True, slots=True)
class Number:
    """A finite real number, which may be written as a whole number."""

    text: str = "a number"
    takes: str = "number"

    def read(self, value: Any, place: KeyPlace) -> float:
        if type(value) not in (int, float):
            _check_weight(value, place)
            place.wrong_type(expected(self, place.rule), _without_weight(value), _number_hint(value, place))
        number = _as_float(value)
        if not math.isfinite(number) or (place.rule and not place.rule.holds(number)):
            place.out_of_range(expected(self, place.rule), value, place.rule.hint(number) if place.rule else "")
        return number + 0.0  # turns -0.0 into 0.0

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "number", **dict(rule.schema if rule else ())}


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number, written in digits. For 1e18, which TOML reads as a float, the message states the digits to write instead."""

    text: str = "a whole number"
    takes: str = "whole number"

    def read(self, value: Any, place: KeyPlace) -> int:
        if type(value) is float and not math.isfinite(value):
            place.out_of_range(expected(self, place.rule), value)
        if type(value) is not int:
            _check_weight(value, place)
            place.wrong_type(expected(self, place.rule), _without_weight(value), _whole_number_hint(value, place))
        if place.rule and not place.rule.holds(value):
            place.out_of_range(expected(self, place.rule), value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "integer", **dict(rule.schema if rule else ())}


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean, true or false."""

    text: str = "true or false"
    takes: str = "true or false"

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
    takes: str = "date"

    def read(self, value: Any, place: KeyPlace) -> datetime.date:
        if type(value) is not datetime.date:
            place.wrong_type(self.text, value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "string", "format": "date", "pattern": r"^\d{4}-\d{2}-\d{2}$"}


def _as_float(value: float) -> float:
    """Return the value as a float; inf if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def calibration_weight(value: Any) -> float | None:
    """Return the weight of a value to be solved for; None for any other value. "calibrate" has the weight 1."""
    if value == CALIBRATE:
        return 1.0
    table = value.get(CALIBRATE) if type(value) is dict and len(value) == 1 else None
    weight: Any = table.get("weight") if type(table) is dict and len(table) == 1 else None
    return float(weight) if type(weight) in (int, float) and WEIGHT.holds(weight) else None


def _without_weight(value: Any) -> Any:
    """Return "calibrate" for a value to be solved for, and any other value unchanged. Messages show it in place of "a table"."""
    return value if calibration_weight(value) is None else CALIBRATE


def _check_weight(value: Any, place: KeyPlace) -> None:
    """Add findings and raise Refused for a table with "calibrate" that is not of the form { calibrate = { weight = 2.0 } }.

    Other values are left to the caller, which reports their type.
    """
    is_calibration = type(value) is dict and CALIBRATE in value and place.is_in_mechanism
    if not is_calibration or calibration_weight(value):
        return
    table = value[CALIBRATE]
    table_place = replace(place, path=(*place.path, CALIBRATE), rule=None)
    _report_other_keys(value, CALIBRATE, place)
    if type(table) is not dict:
        table_place.wrong_type("a table { weight = NUMBER }", table)
    _report_other_keys(table, "weight", table_place)
    weight_place = replace(table_place, path=(*table_place.path, "weight"), rule=WEIGHT)
    if "weight" in table:
        Number().read(table["weight"], weight_place)
    elif not table:  # a table with other keys has findings already, about a key that may be a mistyped `weight`
        place.findings.add("DP005", weight_place.path, WEIGHT.text, "nothing")
    raise Refused


def _report_other_keys(table: dict[str, Any], known: str, place: KeyPlace) -> None:
    """Add a finding for each key of a table other than the known one."""
    for key in table:
        if key != known:
            place.findings.add("DP002", (*place.path, key), known, f"'{escaped(key)}'")


def _number_hint(value: Any, place: KeyPlace) -> str:
    """Return advice about a value that is not a number, such as a list, a percentage or a quoted number; "" if there is none."""
    if type(value) is list:
        return LIST_HINT if place.is_in_mechanism else ""
    if type(value) is dict and value.keys() == {"weight"} and place.is_in_mechanism:
        return "write { calibrate = { weight = NUMBER } }"
    if calibration_weight(value) is not None:
        return "run dpcli calibrate-sigma, or state a number"
    return _quoted_number_hint(value, place.rule) if type(value) is str else ""


def _quoted_number_hint(text: str, rule: Constraint | None) -> str:
    """Return advice about a text that is a percentage or a number in quotes; "" if it is neither."""
    percent = _PERCENT.match(text)
    allows_shares_only = rule is not None and rule.holds(0.5) and not rule.holds(1.5)
    if percent and allows_shares_only:
        return f"write {Decimal(percent[1]) / 100:f}"
    try:
        is_finite = math.isfinite(float(text))
    except ValueError:
        return ""
    is_short = len(text) < LONGEST_NUMBER and text.isascii()
    return f"write {text.strip()} without quotes" if is_finite and is_short else ""


def _whole_number_hint(value: Any, place: KeyPlace) -> str:
    """Return advice about a value that is not a whole number; "" if there is none."""
    if type(value) is float:
        # A count is at most 10^18, so that the digits of a much larger number are no advice.
        return f"write {int(value):_}" if value.is_integer() and abs(value) < 1e19 else ""
    return _number_hint(value, place)


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of values of one kind, which is read as a tuple. The rule of the list applies to each value."""

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
        findings_before = len(place.findings)
        items = tuple(self.items(value, place))
        if len(place.findings) > findings_before:
            raise Refused
        return items

    def items(self, values: list[Any], place: KeyPlace) -> Iterator[Any]:
        """Yield the values that can be read. The others add findings."""
        for index, value in enumerate(values):
            try:
                yield self.item.read(value, KeyPlace((*place.path, index), place.findings, place.rule))
            except Refused:
                continue

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(rule)}


@dataclass(frozen=True, slots=True)
class Either:
    """A text, or a table or list. The type of the value decides which of the two kinds reads it.

    Attributes:
        scalar: The kind of a text. All unions in the hints of today's keys begin with `str`.
        several: The kind of a table or list.
    """

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
    """A table whose keys are names that the user chooses. Its values are of one kind. It is read as a dict in the file's order."""

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
        findings_before, items = len(place.findings), {}
        for name, content in value.items():
            with suppress(Refused):
                items[name] = self.item.read(content, KeyPlace((*place.path, name), place.findings, place.rule))
        if len(place.findings) > findings_before:
            raise Refused
        return items

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.item.schema(rule)}


@dataclass(frozen=True, slots=True)
class Opaque:
    """A table with any content. The command that uses the table checks it."""

    text: str = "a table"
    takes: str = "table"

    def read(self, value: Any, place: KeyPlace) -> dict[str, Any]:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "object"}
