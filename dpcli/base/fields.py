"""Annotations that make a dataclass field a key of a TOML file: its meaning, its allowed values, and facts about it for other commands.

A key is declared once, as a field such as `rate: Annotated[float, Key("share of the records in a batch", RATE)]`. From this declaration
dpcli/file/keys reads and checks the key, and makes its line in the manual, in the JSON Schema and in `dpcli explain`. The classes of a file
are in dpcli/file/pipeline/model.py, in the plan or settings modules of the commands, and in the mechanism types. `dpcli gate`, which judges
a change of a file before it is merged, reads `safer`, `claim` and `names_data` of `Key`, and `dpcli sweep` reads `varies`.
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
class NeededSetting:
    """A setting of a table without which one of its keys has no effect, such as `type = "text"` for the key `domain` of a column.

    Attributes:
        text: The setting in words, which complete a message "expected this key only with ...".
        met_by: Function that returns whether a table, given as its dataclass, has the setting.
    """

    text: str
    met_by: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice among the dataclasses that a table may become, by the value of one key, the *selector*, such as `type` or `scheme`.

    The common base class of these dataclasses has it as its attribute `selection`.

    Attributes:
        selector: Name of the key.
        registry: The dataclass for each value of the selector, as "package.module:name".
        default: Value that applies if the selector is absent; None if the selector is required.
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
        safer: The changes of the key that cannot weaken the file. "stated": a value where there was none. "smaller": this, and a smaller
            value in place of a larger one. None: no change.
        claim: Whether the key is a claim about the data or the program that dpcli does not enforce.
        needs: NeededSetting without which the key has no effect; None if it always has an effect.
        varies: Whether the runs of a sweep may differ in the key.
        names_data: Whether the key names the data that a command reads. After a change of such a key they may be about other people.
    """

    doc: str
    rule: Constraint | None = None
    safer: Literal["smaller", "stated"] | None = None
    claim: bool = False
    needs: NeededSetting | None = None
    varies: bool = False
    names_data: bool = False


def _percent_hint(x: float) -> str:
    return f"{x:g} % is {x / 100.0:g}" if 1 < x <= 100 else ""


# Constraints that several keys share. A count is at most 10^18, so that it fits in a signed 64-bit integer of a ledger's database.
POSITIVE = Constraint("a number > 0", lambda x: x > 0, (("exclusiveMinimum", 0),))
NON_NEGATIVE = Constraint("a number >= 0", lambda x: x >= 0, (("minimum", 0),))
COUNT = Constraint("a whole number from 1 to 10^18", lambda x: 1 <= x <= 10**18, (("minimum", 1), ("maximum", 10**18)))
AT_LEAST_TWO = Constraint("a whole number >= 2", lambda x: 2 <= x <= 10**18, (("minimum", 2),))
RATE = Constraint("a number in (0, 1]", lambda x: 0 < x <= 1, (("exclusiveMinimum", 0), ("maximum", 1)), _percent_hint)
RATE_OR_ZERO = Constraint("a number in [0, 1]", lambda x: 0 <= x <= 1, (("minimum", 0), ("maximum", 1)), _percent_hint)
OPEN_UNIT = Constraint("a number in (0, 1)", lambda x: 0 < x < 1, (("exclusiveMinimum", 0), ("exclusiveMaximum", 1)))
DELTA = Constraint("a number in [0, 1)", lambda x: 0 <= x < 1, (("minimum", 0), ("exclusiveMaximum", 1)))
