"""Text in a file: names, remarks, answers for a report, and words out of a fixed set."""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from dpcli.base.fields import Constraint
from dpcli.base.values import dataclass
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.toml.shown import listed, shown

LONGEST_NAME = 200  # largest number of characters of a name
LONGEST_PASSAGE = 2000  # largest number of characters of a passage of several lines
LONGEST_LIST = 6  # A message lists the known words only if there are at most this many, or none is similar.
BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")  # fillers: letters by their category, and nothing on the screen
SILENT = ("not", "stated")  # the first words of what a report says of a key that is absent


def has_words(text: str) -> bool:
    """Return whether a reader sees at least one letter or digit, of any script."""
    return any(character.isalnum() and character not in BLANK_LETTERS for character in text)


def is_silent(text: str) -> bool:
    """Return whether a text begins as a report does if nothing is stated."""
    return tuple(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())[: len(SILENT)]) == SILENT


@dataclass(frozen=True, slots=True)
class Text:
    """Text without what a terminal would act on: by default a name, which goes on one line into tables, terminals and logs.

    Attributes:
        several_lines: Line ends and tabs may stand in it.
        longest: In characters.
        answers: A report prints it as an answer, so that it must not say NOT STATED, nor lack a visible letter or digit: either would count
            as stated.
    """

    several_lines: bool = False
    may_be_blank: bool = False
    longest: int | None = LONGEST_NAME
    answers: bool = False
    text: str = "text in quotes"
    takes: str = "text"

    def read(self, value: Any, place: KeyPlace) -> str:
        if type(value) is not str:
            place.wrong_type(self.text, value, f'write "{shown(value)}"' if type(value) in (int, float, bool) else "")
        if not (value.translate(_BREAKS) if self.several_lines else value).isprintable():
            place.out_of_range("text without control or invisible characters", value)
        if not self.may_be_blank and not value.strip():
            place.out_of_range("text that is not empty", value)
        if self.longest is not None and len(value) > self.longest:
            place.out_of_range(f"at most {self.longest} characters", value)
        if place.rule and not place.rule.holds(value):
            place.out_of_range(place.rule.text, value)
        if self.answers and not has_words(value):
            place.out_of_range("text with a visible letter or digit", value)
        if self.answers and is_silent(value):
            place.out_of_range("an answer, or no such key", value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        blank = {} if self.may_be_blank else {"pattern": r"\S"}
        longest = {} if self.longest is None else {"maxLength": self.longest}
        return {"type": "string", **blank, **longest, **dict(rule.schema if rule else ())}


_BREAKS = str.maketrans("\n\t", "  ")

NAME = Text()
PERSON = Text(answers=True)
PARAGRAPH = Text(several_lines=True, longest=LONGEST_PASSAGE, answers=True)
REMARK = Text(several_lines=True, may_be_blank=True, longest=None)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A word out of a fixed set, each with the value that it stands for."""

    values: Mapping[str, Any]

    @property
    def text(self) -> str:
        return listed(tuple(self.values))

    @property
    def takes(self) -> str:
        return " | ".join(self.values)

    def read(self, value: Any, place: KeyPlace) -> Any:
        if type(value) is not str:
            place.wrong_type(self.text, value)
        if value not in self.values:
            from dpcli.file.toml.suggest import did_you_mean

            hint = did_you_mean(value, self.values)
            text = f"a known {place.path[-1]}" if hint and len(self.values) > LONGEST_LIST else self.text
            place.out_of_range(text, value, hint, self.values)
        return self.values[value]

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"enum": list(self.values)}


def words(values: Iterable[str]) -> OneOf:
    """A choice among words that stand for themselves."""
    return OneOf({value: value for value in values})


def members(values: type[enum.Enum]) -> OneOf:
    """A choice among the members of an enumeration, by value."""
    return OneOf({member.value: member for member in values})
