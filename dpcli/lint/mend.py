"""The repairs of `dpcli lint --fix`: mistyped keys, quoted numbers and fractional epochs, if only one repair is possible.

commands/lint.py calls `mended` with the bytes of a file and writes the result back. A *repair* gives a key a new value or a new name;
`Mend` describes it to the user. A *slip* is one wrong, missing, extra or exchanged letter. A repair must never change the privacy of a
valid file: it is kept only if it removes an error, or if the mechanisms and counts stay the same (`_cost`). Where two meanings are
possible, nothing is repaired.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import is_pipeline
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import checked_document, parse, toml_document
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.pipeline.series import value_at
from dpcli.file.toml.findings import KeyFinding, Path
from dpcli.file.toml.positions import locate
from dpcli.file.toml.shown import shown
from dpcli.file.toml.syntax import NotToml, tables_of
from dpcli.file.toml.write import edited, renamed
from dpcli.lint.run import findings

# Smallest number of letters of the longer of two words that differ by a slip; shorter ones resemble too many others.
SHORTEST_WORD = 5
SEPARATORS = str.maketrans("", "", "-_ ")  # a translation that deletes these characters
MOST_REPAIRS = 1_000  # after this number of repairs no further round is made, so that no file can keep the command busy; arbitrary
EXACT_INTEGERS = 2**53  # a float represents every whole number up to this one
# Hints of the reader that state a repair.
SUGGESTION = re.compile(r"did you mean '([^']+)'\Z")
REWRITING = re.compile(r"write (\S+)(?: without quotes)?\Z")
FRACTIONAL_EPOCHS = "DP117"  # code of the rule about epochs that are no whole number of steps
FORMATS = (1, 1.0, "1")  # spellings of the format version; 1.0 and "1" are wrong and are repaired too


def is_slip(word: str, meant: str) -> bool:
    """Return whether two words are equal up to case, separators and at most one slip.

    A slip is an extra, a missing or a wrong letter, or the exchange of two adjacent letters. A difference at a digit is no slip: l1 is not
    l2. Words that both have fewer than SHORTEST_WORD letters differ by no slip.
    """
    first, second = _letters(word), _letters(meant)
    if first == second:
        return True
    if max(len(first), len(second)) < SHORTEST_WORD:
        return False
    while first and second and first[0] == second[0]:  # until the first difference
        first, second = first[1:], second[1:]
    if first[:1].isdigit() or second[:1].isdigit():
        return False
    has_extra_letter = first[1:] == second
    lacks_letter = first == second[1:]
    has_wrong_letter = first[1:] == second[1:]
    first_two_of_second_reversed = second[1::-1]
    has_exchanged_letters = (
        len(first) > 1 and first[:2] == first_two_of_second_reversed and first[2:] == second[2:] and not first[1].isdigit()
    )
    return has_extra_letter or lacks_letter or has_wrong_letter or has_exchanged_letters


def only_slip(word: str, among: Iterable[str]) -> str | None:
    """Return the only word in `among` of which this word may be a slip; None if there are none or several.

    A word that differs only in case and separators is preferred to words that differ in a letter.
    """
    candidates = [known_word for known_word in dict.fromkeys(among) if is_slip(word, known_word)]
    equal_letters = [known_word for known_word in candidates if _letters(known_word) == _letters(word)]
    nearest = equal_letters or candidates
    return nearest[0] if len(nearest) == 1 else None


def _letters(word: str) -> str:
    return word.casefold().translate(SEPARATORS)


@dataclass(frozen=True, slots=True)
class Mend:
    """The description of a repair.

    Attributes:
        rule: Code of the rule whose finding the repair removes.
        line: Line in the text before the repair, counted from 1.
        words: The repair in words, such as `steps: "10" -> 10`.
    """

    rule: str
    line: int
    words: str


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair at a key: a new value, a new name, or both.

    Attributes:
        value: The new value; None to keep the value.
        name: The new name of the key; None to keep the name.
    """

    mend: Mend
    path: Path
    value: int | float | str | None = None
    name: str | None = None


def mended(data: bytes, path: str) -> tuple[bytes, tuple[Mend, ...]]:
    """Return the bytes of a pipeline file after every unambiguous repair, and the list of repairs.

    Repairs concern keys and words that differ by one slip from exactly one allowed word, numbers in quotes or with a needless decimal
    point, and epochs that are no whole number of steps. A file that is not a pipeline of format 1, or has lists of values or [defaults], is
    returned unchanged.

    Raises:
        InvalidFile: The bytes are not TOML.
        InputError: The line ends are mixed.
    """
    stated = toml_document(data, path).tables
    if not is_pipeline(stated) or stated.get("format") not in FORMATS or stated["format"] is True:  # True equals 1 in Python
        return data, ()
    text, ends = _text(data, path)
    if stated != tables_of(text):  # lists or defaults: an entry has another place than its table
        return data, ()
    applied: list[Mend] = []
    while len(applied) < MOST_REPAIRS and (mended_round := _mended_once(text, path)) is not None:
        text = mended_round.text
        applied += mended_round.mends
    return text.replace("\n", ends).encode(), tuple(applied)


def _text(data: bytes, path: str) -> tuple[str, str]:
    """Return the text with "\\n" as line ends, and the original line ends. Raises InputError if these are mixed."""
    text = checked_document(data, path).document.text
    for ends in ("\n", "\r\n"):
        if text.replace("\n", ends).encode() == data:
            return text, ends
    raise InputError(f"{path}: expected line ends of one kind, to keep them; found several")


class MendedText(NamedTuple):
    """A text after one round of repairs, and the repairs."""

    text: str
    mends: list[Mend]


def _mended_once(text: str, path: str) -> MendedText | None:
    """Return the text after one round of repairs; None if no repair is possible.

    Errors are repaired first, and epochs only in a text without errors. All repairs of a round are tried at once. If this fails, the first
    repair that succeeds alone is made.
    """
    checked = checked_document(text.encode(), path)
    errors = checked.findings.items
    if not errors:
        return _with_whole_steps(text, path)
    places = locate(text, [error.key for error in errors])
    repairs = []
    for error in errors:
        line, _ = places[error.key]
        repair = _repair(checked.document.tables, error, line)
        if repair is not None:
            repairs.append(repair)

    def removes_errors(after: str, chosen: Sequence[Repair]) -> bool:
        remaining = {(error.rule, error.key) for error in checked_document(after.encode(), path).findings.items}
        return remaining.isdisjoint((repair.mend.rule, repair.path) for repair in chosen)

    return _first_success(text, repairs, removes_errors)


def _first_success(text: str, repairs: Sequence[Repair], succeeds: Callable[[str, Sequence[Repair]], bool]) -> MendedText | None:
    """Return the text after all repairs or, if they fail together, after the first that succeeds alone; None if all fail.

    Args:
        succeeds: Function that judges the new text, given the repairs that were made.
    """
    if not repairs:
        return None
    for chosen in (repairs, *([repair] for repair in repairs)):
        try:
            after = _apply(text, chosen)
            if succeeds(after, chosen):
                return MendedText(after, [repair.mend for repair in chosen])
        except InputError:  # the text at a key cannot be edited, or the new text is not a pipeline file
            continue
    return None


def _apply(text: str, repairs: Sequence[Repair]) -> str:
    """Return the text with the new values and names. Raises InputError if the text at a key cannot be edited."""
    values = {repair.path: repair.value for repair in repairs if repair.value is not None}
    names = {repair.path: repair.name for repair in repairs if repair.name is not None}
    text = edited(text, values) if values else text
    return renamed(text, names) if names else text


def _repair(tables: Any, error: KeyFinding, line: int) -> Repair | None:
    """Return the repair that the hint of the reader suggests, if it is the only possible one; else None.

    `error.among` has the allowed words, of which the hint names the nearest. A hint alone is not enough: it may name a word that differs by
    more than a slip.
    """
    key = str(error.key[-1]) if error.key else ""
    value = value_at(tables, error.key)
    if suggestion := SUGGESTION.match(error.hint):
        word = suggestion[1]
        is_unknown_key = error.rule == "DP002"
        if is_unknown_key and only_slip(key, error.among) == word:
            return Repair(Mend(error.rule, line, f"{key} -> {word}"), error.key, name=word)
        if isinstance(value, str) and only_slip(value, error.among) == word:
            return _repaired_value(error, line, value, word)
    rewriting = REWRITING.match(error.hint)
    new_value = _scalar(rewriting[1]) if rewriting else None
    is_inexact = isinstance(value, float) and abs(value) >= EXACT_INTEGERS  # the file may state another whole number
    if new_value is None or is_inexact:
        return None
    return _repaired_value(error, line, value, new_value)


def _repaired_value(error: KeyFinding, line: int, value: Any, new_value: Any) -> Repair:
    words = f"{error.key[-1]}: {shown(value)} -> {shown(new_value)}"
    return Repair(Mend(error.rule, line, words), error.key, new_value)


def _scalar(text: str) -> int | float | bool | None:
    """Return the value of a TOML text if it is a finite number or a boolean; else None."""
    try:
        value = tables_of(f"x = {text}")["x"]
    except NotToml:
        return None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _with_whole_steps(text: str, path: str) -> MendedText | None:
    """Replace fractional epochs by the steps that are charged. Return None if there are none, or if nothing can be charged."""
    try:
        pipeline = parse(text.encode(), path)
        cost = _cost(pipeline)
    except InputError:
        return None
    places = [finding.path for info, finding in findings(pipeline) if info.code == FRACTIONAL_EPOCHS]
    positions = locate(text, places)  # line and column by place
    repairs = []
    for place in places:
        line, _ = positions[place]
        repairs.append(_step_repair(pipeline, place, line))
    return _first_success(text, repairs, lambda after, _: _cost(parse(after.encode(), path)) == cost)


def _cost(pipeline: Pipeline) -> list[tuple[Any, int]]:
    """Return the mechanisms of a pipeline and how often each runs. Pipelines for which these are equal have equal privacy costs."""
    return [(line.mechanism, line.count) for line in resolve(pipeline)]


def _step_repair(pipeline: Pipeline, place: Path, line: int) -> Repair:
    """Return the repair that replaces the epochs at a place by steps or, for a scheme of whole passes, rounds them up."""
    _, index, _ = place  # ("mechanism", index, "epochs")
    entry = pipeline.mechanisms[int(index)]
    size = pipeline.privacy.dataset_size
    rate = None if entry.sampling is None else entry.sampling.exact_rate(size)
    if rate is None:
        passes = ceil(entry.epochs or 0.0)
        return Repair(Mend(FRACTIONAL_EPOCHS, line, f"epochs = {entry.epochs:g} -> epochs = {passes}"), place, value=passes)
    steps = entry.runs(size).steps_at(rate)
    return Repair(Mend(FRACTIONAL_EPOCHS, line, f"epochs = {entry.epochs:g} -> steps = {steps}"), place, value=steps, name="steps")
