"""Annotations of the dataclass fields that are keys of a file: their meaning, allowed values, and the direction of safe changes.

A key is declared once, as a field `Annotated[float, Key("Meaning of the key.", POSITIVE)]` of a frozen dataclass. The reader validates
files by this declaration. The JSON Schema, the manual page and `explain` are generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NewType

from dpcli.base.values import dataclass

Prose = NewType("Prose", str)  # long text, which may have several lines
Note = NewType("Note", str)  # long text, which may have several lines and may be blank
Person = NewType("Person", str)  # the name of a responsible person, on one line
Open = NewType("Open", dict[str, Any])  # a table whose keys are not declared here; the code that uses it checks them


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on a number or a text.

    Attributes:
        text: Completion of the message "expected ...".
        holds: A function that returns whether a value satisfies the constraint.
        schema: The constraint in JSON Schema, as pairs of keyword and value.
        hint: A function that returns advice about a refused value; "" if there is none.
    """

    text: str
    holds: Callable[[Any], bool]
    schema: tuple[tuple[str, Any], ...] = ()
    hint: Callable[[Any], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Reader:
    """A condition on the other settings of a table, without which a key has no effect.

    Attributes:
        text: The condition in words.
        reads: A function that returns whether a table satisfies the condition.
    """

    text: str
    reads: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of the class of a table by one of its keys. The base class of the choices holds it as `selection`.

    Attributes:
        selector: Name of the key.
        registry: The class for each value of the key, as "package.module:name".
        default: The value that applies if the key is absent; None if the key is required.
    """

    selector: str
    registry: Mapping[str, str]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a file.

    Attributes:
        doc: Meaning of the key, one sentence with its unit.
        rule: Constraint on the value; None if every value of its type is allowed.
        safer: The change that makes a condition stricter: to a smaller value, or from absent to stated. Any other change may weaken the
            file. None if the key is no condition.
        claim: Whether the key states a fact about the data or the program that dpcli does not enforce.
        reader: The setting without which the key has no effect; None if it always has one.
        varies: Whether the runs of a sweep may differ in this key.
        reads: Whether the key names the data that a command reads. Other data may be about other people.
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
