"""Text in a file: free text, names, and words out of a fixed set."""

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

LONGEST_NAME = 200
LONGEST_PASSAGE = 2000
LONGEST_LIST = 6
BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")  # fillers: letters by their category, and nothing on the screen
SILENT = ("not", "stated")  # the first words of what a report says of a key that is absent


def has_words(text: str) -> bool:
    """Return whether a reader sees at least one letter or digit, of any script."""
    return any(character.isalnum() and character not in BLANK_LETTERS for character in text)


def is_silent(text: str) -> bool:
    """Return whether a text begins as a report does where nothing is stated."""
    return tuple(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())[: len(SILENT)]) == SILENT


def _check_said(value: str, place: KeyPlace) -> None:
    """Refuse what would count as stated and states nothing."""
    if not value.strip():
        place.out_of_range("text that is not empty", value)
    if not has_words(value):
        place.out_of_range("text with a visible letter or digit", value)
    if is_silent(value):
        place.out_of_range("an answer, or no such key", value)


@dataclass(frozen=True, slots=True)
class Remark:
    """Free text, blank or over several lines, without what a terminal would act on."""

    text: str = "text in quotes"
    takes: str = "text"

    def read(self, value: Any, place: KeyPlace) -> str:
        if type(value) is not str:
            place.wrong_type(self.text, value, _quotes(value))
        if not value.translate(_BREAKS).isprintable():
            place.out_of_range("text without control or invisible characters", value)
        if place.rule and not place.rule.holds(value):
            place.out_of_range(place.rule.text, value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "string", **dict(rule.schema if rule else ())}


def _quotes(value: Any) -> str:
    return f'write "{shown(value)}"' if type(value) in (int, float, bool) else ""


@dataclass(frozen=True, slots=True)
class Text:
    """A name: one line, printable throughout, as it goes into tables, terminals and logs."""

    text: str = "text in quotes"
    takes: str = "text"

    def read(self, value: Any, place: KeyPlace) -> str:
        if type(value) is not str:
            place.wrong_type(self.text, value, _quotes(value))
        if not value.isprintable():
            place.out_of_range("text without control or invisible characters", value)
        if not value.strip():
            place.out_of_range("text that is not empty", value)
        if len(value) > LONGEST_NAME:
            place.out_of_range(f"at most {LONGEST_NAME} characters", value)
        if place.rule and not place.rule.holds(value):
            place.out_of_range(place.rule.text, value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "string", "pattern": r"\S", "maxLength": LONGEST_NAME, **dict(rule.schema if rule else ())}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or more, over several lines if need be; never blank, nor NOT STATED, since either would count as stated."""

    text: str = "text in quotes"
    takes: str = "text"

    def read(self, value: Any, place: KeyPlace) -> str:
        if type(value) is not str:
            place.wrong_type(self.text, value)
        if not value.translate(_BREAKS).isprintable():
            place.out_of_range("text without control or invisible characters", value)
        _check_said(value, place)
        if len(value) > LONGEST_PASSAGE:
            place.out_of_range(f"at most {LONGEST_PASSAGE} characters", value)
        return value

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "string", "pattern": r"\S", "maxLength": LONGEST_PASSAGE}


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of an accountable person, with a visible letter or digit."""

    text: str = "text in quotes"
    takes: str = "text"

    def read(self, value: Any, place: KeyPlace) -> str:
        name = Text(self.text).read(value, place)
        _check_said(name, place)
        return name

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "string", "pattern": r"\S", "maxLength": LONGEST_NAME}


_BREAKS = str.maketrans("\n\t", "  ")


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
