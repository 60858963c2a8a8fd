"""Annotations of dataclass fields that are keys of a file. They give the meaning, the allowed values, and the judgement of changes.

A key is a field of a frozen dataclass, such as `Annotated[float, Key("learning rate", POSITIVE)]`. The reader of files validates the key by
its annotation. The JSON Schema, the manual page and `explain` are generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NewType

from dpcli.base.values import dataclass

Prose = NewType("Prose", str)  # text that may have several lines
Note = NewType("Note", str)  # text that may be blank and may have several lines
Person = NewType("Person", str)  # name of a responsible person, in one line
Open = NewType("Open", dict[str, Any])  # table whose keys are checked by the code that reads it


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on a number or a text.

    Attributes:
        text: Allowed values in words, which complete a message "expected ...".
        holds: Function that returns whether a value is allowed.
        schema: Constraint as keys and values of JSON Schema.
        hint: Function that returns advice on a refused value; "" if there is none.
    """

    text: str
    holds: Callable[[Any], bool]
    schema: tuple[tuple[str, Any], ...] = ()
    hint: Callable[[Any], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Reader:
    """The setting of a table without which a key has no effect.

    Attributes:
        text: Setting in words.
        reads: Function that returns whether a table has the setting.
    """

    text: str
    reads: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """The key of a table that decides which class reads the table. The base class of these classes has the attribute `selection`.

    Attributes:
        selector: Name of the key.
        registry: Target of the class for each word that the key may have.
        default: Word that applies if the key is absent; None if the key is required.
    """

    selector: str
    registry: Mapping[str, str]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """The annotation of a key of a file.

    Attributes:
        doc: Meaning of the key in one sentence, with its unit.
        rule: Constraint on the value; None if the type alone restricts it.
        safer: Change that makes the file stricter, if the key is a condition: a smaller value ("smaller"), or the key itself ("stated").
            Any other change may weaken the file.
        claim: Whether the key is a claim about the data or the program that dpcli does not enforce.
        reader: Setting without which the key has no effect; None if the key is always read.
        varies: Whether the runs of a sweep may differ in the key.
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
