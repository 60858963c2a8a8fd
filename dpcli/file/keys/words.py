"""Kinds of text values: names, remarks, answers for a report, and words from a fixed set.

A *kind* reads the value of a key (kinds.py). For a value that it refuses, the methods of `place` add an error and raise Refused. Texts of a
file reach terminals, logs and signed reports. So a name has no characters that a terminal would obey, and an *answer* (a text that `dpcli
report` prints behind a question) must say something: blank letters or NOT STATED would pass for an answer. annotations.py chooses the kind
of a key by its type hint: `str` gives NAME, and Prose, Note and Person of base/fields.py the others.
"""

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

# Arbitrary limits, so that a name fits into a table, a passage into a report, and a list into a message.
LONGEST_NAME = 200  # largest number of characters of a name
LONGEST_PASSAGE = 2000  # largest number of characters of a passage of several lines
LONGEST_LIST = 6  # largest number of known words that a message with a suggestion lists
BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")  # Hangul fillers: Unicode calls them letters, but they are invisible
SILENT = ("not", "stated")  # a report prints NOT STATED for an absent key

_BREAKS = str.maketrans("\n\t", "  ")  # replaces line ends and tabs, which a text of several lines may have, by spaces


def has_words(text: str) -> bool:
    """Return whether a text has at least one visible letter or digit, of any script."""
    return any(character.isalnum() and character not in BLANK_LETTERS for character in text)


def is_silent(text: str) -> bool:
    """Return whether a text begins with NOT STATED, as a report prints it for an absent key."""
    return tuple(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())[: len(SILENT)]) == SILENT


@dataclass(frozen=True, slots=True)
class Text:
    """A text without control characters, which a terminal would obey. By default it is a name, which fits on one line of a table or log.

    Attributes:
        several_lines: Whether line ends and tabs are allowed.
        may_be_blank: Whether the text may be empty or consist of spaces.
        longest: Largest number of characters; None if there is no limit.
        answers: Whether a report prints the text as an answer. Such a text must have a visible letter or digit, and must not begin with
            NOT STATED. Otherwise a report would count a question as answered that is not.
        text: The text after "expected" in messages about the type of the value.
        takes: The kind in one word, for the manual.
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
            place.out_of_range("an answer (leave the key out if there is none)", value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        blank = {} if self.may_be_blank else {"pattern": r"\S"}
        longest = {} if self.longest is None else {"maxLength": self.longest}
        return {"type": "string", **blank, **longest, **dict(rule.schema if rule else ())}


NAME = Text()
PERSON = Text(answers=True)
PARAGRAPH = Text(several_lines=True, longest=LONGEST_PASSAGE, answers=True)
REMARK = Text(several_lines=True, may_be_blank=True, longest=None)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A word from a fixed set. `values` maps each word to the value that it stands for."""

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
            key = place.path[-1]
            text = f"a known {key}" if hint and len(self.values) > LONGEST_LIST else self.text
            place.out_of_range(text, value, hint, self.values)
        return self.values[value]

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"enum": list(self.values)}


def words(values: Iterable[str]) -> OneOf:
    """Return a choice among words that stand for themselves."""
    return OneOf({value: value for value in values})


def members(values: type[enum.Enum]) -> OneOf:
    """Return a choice among the values of an enumeration, which stand for its members."""
    return OneOf({member.value: member for member in values})
