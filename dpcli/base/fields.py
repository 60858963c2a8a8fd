"""Annotations of dataclass fields that are keys of a file: meaning, allowed values, and how a change is judged.

A field is written once, as `Annotated[float, Key("what it is", POSITIVE)]` on a frozen dataclass. The reader validates by it, and
the JSON Schema, the manual page and `explain` are printed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NewType

from dpcli.base.values import dataclass

Prose = NewType("Prose", str)  # text of some length, over several lines if need be
Note = NewType("Note", str)  # free text that may be blank, over several lines if need be
Person = NewType("Person", str)  # who answers for something, on one line
Open = NewType("Open", dict[str, Any])  # a table with keys of its own, which whoever asks for it judges


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on a number or a text: `text` completes "expected ...", `schema` is its JSON Schema form.

    hint: what to do about a value that it refuses, "" where there is nothing to say.
    """

    text: str
    holds: Callable[[Any], bool]
    schema: tuple[tuple[str, Any], ...] = ()
    hint: Callable[[Any], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Reader:
    """The setting of a table without which a key is idle: in words, and as a test of the table."""

    text: str
    reads: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of the class of a table by one of its keys; the base of the classes states it as `selection`.

    registry: the class for each word. default: the word where the key is absent, None where it must be there.
    """

    selector: str
    registry: Mapping[str, str]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file: its meaning (one sentence, with its unit) and its rule, if it has one.

    safer: the values that bind a file more, where the key is a condition; any other change may weaken the file.
    claim: whether it is a fact about the data or the program that dpcli does not enforce.
    reader: the setting without which the key is idle; None where it is always read.
    reads: whether it names the data that a command reads: other data may be about other people.
    varies: whether the runs of a sweep may differ in it.
    """

    doc: str
    rule: Constraint | None = None
    safer: Literal["smaller", "stated"] | None = None
    claim: bool = False
    reader: Reader | None = None
    varies: bool = False
    reads: bool = False


def _percent_hint(x: float) -> str:
    return f"{x:g} % is {x / 100.0:g}" if 1 < x <= 100 else ""


POSITIVE = Constraint("a number > 0", lambda x: x > 0, (("exclusiveMinimum", 0),))
NON_NEGATIVE = Constraint("a number >= 0", lambda x: x >= 0, (("minimum", 0),))
COUNT = Constraint("a whole number from 1 to 10^18", lambda x: 1 <= x <= 10**18, (("minimum", 1), ("maximum", 10**18)))
AT_LEAST_TWO = Constraint("a whole number >= 2", lambda x: 2 <= x <= 10**18, (("minimum", 2),))
RATE = Constraint("a number in (0, 1]", lambda x: 0 < x <= 1, (("exclusiveMinimum", 0), ("maximum", 1)), _percent_hint)
RATE_OR_ZERO = Constraint("a number in [0, 1]", lambda x: 0 <= x <= 1, (("minimum", 0), ("maximum", 1)), _percent_hint)
OPEN_UNIT = Constraint("a number in (0, 1)", lambda x: 0 < x < 1, (("exclusiveMinimum", 0), ("exclusiveMaximum", 1)))
DELTA = Constraint("a number in [0, 1)", lambda x: 0 <= x < 1, (("minimum", 0), ("exclusiveMaximum", 1)))
