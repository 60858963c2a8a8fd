"""Common code of imports and exports, between pipeline files of dpcli and the records of other libraries.

A *record* is what another library keeps of a private run, such as an accountant's history as JSON. An import reads it as a `ForeignTable`
with a check of every field, adds what the user states by flags (`Asserted`), and writes the text of a new pipeline file (`file_of`). A file
of dpcli export also *carries* the tables of its pipeline, which import takes over if they match the rest (`carried_tables`). A number that
must be converted is rounded in the direction that does not claim more privacy.

The importer of each format is a function such as `file_of_session(data, asserted, ignored, place)`. `data` are the bytes of the record,
`asserted` the keys of [privacy] that the user states, `ignored` the fields that --ignore names, since they do not concern privacy, and
`place` the name of the record in messages. Some take `sampling` too, the scheme by which batches were drawn, because records may not state
it. An importer raises InputError for a record that a pipeline file cannot state, and InvalidFile if the reader of pipeline files refuses
the values.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import pipeline_from
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.limits import MAX_BYTES, MAX_DEPTH
from dpcli.file.toml.shown import escaped, shown
from dpcli.file.toml.write import lines_with_comments
from dpcli.mechanisms.sampling.schemes import Batched

COMMENT_COLUMN = 40  # column at which comments of a new file begin; layout alone
# Comments in place of keys that neither the record nor the user states.
MISSING = {
    "unit": '# unit = "example"  # the unit of privacy: NOT STATED. Any other unit needs max_contributions',
    "delta": "# delta = 1e-6  # NOT STATED: well below 1 / number of records; or account --delta",
    "dataset_size": "# dataset_size = 60_000  # NOT STATED: number of records, if that is public",
}
EVERY_STEP = {"releases": "all-checkpoints"}  # key of [privacy]: an accountant's cost covers the model after every step
COMMENTS = {"stated_for": "the guarantee covers everything that one unit may change, not each record"}
CARRIED_TABLES = ("privacy", "mechanism")  # tables of a pipeline that dpcli export writes into a file
CARRIED_PART = "dpcli's part"  # their name in messages
NEIGHBOUR_KEYS = ("adjacency", "max_contributions")  # keys that decide for whom the noise was calibrated
# Largest number of values in tables, to bound time and memory; arbitrary. A value that occurs in several places counts several times.
MOST_VALUES = 1_000_000
LARGEST_NUMBER = 1e300  # bound of numbers in a record, which leaves room for factors: the largest float is about 1.8e308
LARGEST_COUNT = 10**18  # bound of whole numbers in a record, and the largest count that a pipeline file may state
LONGEST_NAME = 80  # number of characters of a name in a record that a message shows; arbitrary
_SINGLE = (bool, int, float, str, type(None))  # types of values that contain no other values


@dataclass(frozen=True, slots=True, kw_only=True)
class Asserted:
    """The keys of [privacy] that the user states; None for a key that is not stated."""

    adjacency: str | None = None
    unit: str | None = None
    max_contributions: int | None = None
    dataset_size: int | None = None
    delta: float | None = None

    @property
    def table(self) -> dict[str, Any]:
        """The keys that are stated, with their values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def file_of(
    tables: Mapping[str, Any],
    heading: tuple[str, ...],
    comments: Mapping[str, str],
    place: str,
    wrap: Callable[[str], Iterable[str]] | None = None,
) -> str:
    """Return the text of a pipeline file, which the reader of pipeline files has accepted.

    Args:
        heading: Lines of the comment at the top.
        comments: Comments by key. A comment of `MISSING` replaces a missing key of [privacy].
        wrap: Function that splits a line if it is too long.

    Raises InputError if the text is larger than a pipeline file may be, and InvalidFile if the reader refuses it.
    """
    lines = [f"# {line}" for line in heading]
    written = list(lines_with_comments(tables, comments, COMMENT_COLUMN))
    _require_room(sum(len(line) + 1 for line in written), place)  # a text that is too large is not wrapped
    for line in written:
        lines += wrap(line) if wrap else (line,)
        if line == "[privacy]":
            lines += [words for key, words in MISSING.items() if key not in tables["privacy"]]
    text = "\n".join(lines) + "\n"
    _require_room(len(text.encode()), place)
    read_text(text, place)
    return text


def _require_room(size: int, place: str) -> None:
    """Raise InputError for a text with more bytes than a pipeline file may have."""
    if size > MAX_BYTES:
        raise InputError(
            f"{place}: {-(-size // 1024):,} KiB do not fit into a pipeline file of {MAX_BYTES // 1024:,} KiB: "
            "about 50,000 numbers with all digits fit, and more numbers with fewer digits (round noise down)"
        )


def read_text(text: str, place: str) -> Pipeline:
    """Return the pipeline in the text of a file. Raises InvalidFile if the reader refuses it."""
    return parse(text.encode(), place)


class NotJson(InputError):
    """An error for data that are not JSON."""


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table in a record of another library.

    Attributes:
        name: Name of the table in messages.
        fields: The values by field, unchanged.
    """

    name: str
    fields: Mapping[str, Any]

    def require_fields(
        self, needed: Collection[str], optional: Collection[str] = (), ignored: Collection[str] | None = None, hint: str = ""
    ) -> None:
        """Raise InputError if a field is missing or unknown.

        Args:
            needed: Fields that must be present.
            optional: Fields that may be present.
            ignored: Fields that --ignore names; None if the command has no such flag.
            hint: Advice about an unknown field.
        """
        missing_fields = [field for field in needed if field not in self.fields]
        unknown_fields = [field for field in self.fields if field not in (*needed, *optional, *(ignored or ()))]
        if missing_fields:
            raise self.refused(f"expected {', '.join(needed)}, found no {missing_fields[0]}")
        if unknown_fields:
            known_fields = ", ".join((*needed, *optional)) or "no field"
            advice = f"; {hint}" if hint else ""
            if ignored is not None:
                advice = ": use --ignore if it does not concern privacy"
            raise self.refused(f"expected {known_fields}, found {name_in_words(unknown_fields[0])} too{advice}")

    def number(self, field: str) -> float:
        """Return the field as a number within LARGEST_NUMBER. Raises InputError for any other value."""
        value = self.fields[field]
        if type(value) not in (int, float) or not abs(value) < LARGEST_NUMBER:  # True, which is an int, and NaN are refused too
            raise self.refused(f"expected {field} to be a number between -1e300 and 1e300, found {in_words(value)}")
        return float(value)

    def count(self, field: str) -> int:
        """Return the field as a whole number from 1 to LARGEST_COUNT. Raises InputError for any other value."""
        value = self.fields[field]
        if type(value) is not int or not 1 <= value <= LARGEST_COUNT:
            raise self.refused(f"expected {field} to be a whole number from 1 to 10^18, found {in_words(value)}")
        return value

    def boolean(self, field: str) -> bool:
        """Return the field as a boolean. Raises InputError for any other value."""
        value = self.fields[field]
        if type(value) is not bool:
            raise self.refused(f"expected {field} to be true or false, found {in_words(value)}")
        return value

    def table(self, field: str, name: str | None = None) -> ForeignTable:
        """Return the field as a table. Raises InputError for any other value."""
        value = self.fields[field]
        if not isinstance(value, dict):
            raise self.refused(f"expected {field} to be a table, found {in_words(value)}")
        return ForeignTable(name or field, value)

    def has(self, field: str) -> bool:
        """Return whether the field is present and not null."""
        return self.fields.get(field) is not None

    def refused(self, reason: str) -> InputError:
        """Return an error about this table. The message begins with its name."""
        return InputError(f"{self.name}: {reason}")


def in_words(value: Any) -> str:
    """Return a value as text for a message, in the words of JSON. event_tree.py holds lists as tuples."""
    if isinstance(value, ForeignTable):
        return value.name
    return "null" if value is None else "a list" if isinstance(value, tuple) else shown(value)


def name_in_words(name: str) -> str:
    """Return a name from a record for a message, cut to LONGEST_NAME characters and escaped."""
    return escaped(name[:LONGEST_NAME])


def read_fields(data: bytes, name: str) -> ForeignTable:
    """Return the table in a JSON text. Raises InputError if the text is anything else, or repeats a field."""
    document = read_json(data, name)
    if not isinstance(document, dict):
        raise InputError(f"{name}: expected a table of JSON, found {shown(document)}")
    return ForeignTable(name, document)


def read_json(data: bytes, name: str) -> Any:
    """Return the value in a JSON text. Raises NotJson if the data are not JSON, and InputError if they repeat a field."""
    try:
        return json.loads(data, object_pairs_hook=lambda pairs: _unique_fields(pairs, name))
    except (ValueError, RecursionError):
        raise NotJson(f"{name}: not JSON") from None


def _unique_fields(pairs: Iterable[tuple[str, Any]], name: str) -> dict[str, Any]:
    """Return the pairs as a dict. Raises InputError if a field is repeated."""
    fields: dict[str, Any] = {}
    for field, value in pairs:
        if field in fields:
            raise InputError(f"{name}: expected {name_in_words(field)} once, found it twice")
        fields[field] = value
    return fields


def with_asserted(known: Mapping[str, Any], asserted: Asserted, name: str) -> dict[str, Any]:
    """Return the keys of [privacy] from the file and from flags. Raises InputError if they contradict each other."""
    for key, value in asserted.table.items():
        if key in known and known[key] != value:
            raise InputError(
                f"{name}: --{key.replace('_', '-')} {shown(value)} contradicts the file, which states {shown(known[key])}"
            )
    return {**known, **asserted.table}


def dp_entry(epsilon: float, delta: float) -> dict[str, Any]:
    """Return the keys of an entry that is (epsilon, delta)-DP for the unit. Its type is pure-dp if delta is 0."""
    if delta == 0.0:
        return {"type": "pure-dp", "epsilon": epsilon, "stated_for": "unit"}
    return {"type": "approx-dp", "epsilon": epsilon, "delta": delta, "stated_for": "unit"}


def zcdp_entry(rho: float, delta: float = 0.0) -> dict[str, Any]:
    """Return the keys of an entry that is rho-zCDP for the unit, or delta-approximate rho-zCDP if delta is not 0."""
    return {"type": "zcdp", "rho": rho, **({"delta": delta} if delta != 0.0 else {}), "stated_for": "unit"}


def carried_tables(
    carried: Mapping[str, Any], asserted: Asserted, exported: Callable[[Pipeline], Any], content: Any
) -> dict[str, Any]:
    """Return the tables that dpcli export wrote into a file, completed by the keys of [privacy] that the user states.

    Args:
        carried: Tables in the file.
        exported: Function that returns the content that dpcli export writes for a pipeline.
        content: Content of the file.

    Raises InputError if the tables are not the expected ones, do not match the content, or contradict `asserted`.
    """
    plain = json_copy(carried, CARRIED_PART)
    ForeignTable(CARRIED_PART, plain).require_fields(CARRIED_TABLES)
    tables = {key: plain[key] for key in CARRIED_TABLES}
    _require_same(tables, exported, content)
    # The noise was calibrated for these keys, so a flag must not change them. A flag that repeats the file's value is allowed.
    asserted_neighbours = {key: value for key, value in asserted.table.items() if key in NEIGHBOUR_KEYS}
    if any(tables["privacy"].get(key, 1) != value for key, value in asserted_neighbours.items()):  # max_contributions defaults to 1
        raise InputError(
            "the file states the adjacency and max_contributions of its noise: leave --adjacency and --max-contributions out"
        )
    tables["privacy"] = with_asserted(tables["privacy"], asserted, CARRIED_PART)
    _require_same(tables, exported, content)  # again, because a key of the user may change what would be exported
    return {"format": 1, **tables}


def _require_same(tables: Mapping[str, Any], exported: Callable[[Pipeline], Any], content: Any) -> None:
    """Raise InputError unless the content is what dpcli export writes for the tables."""
    if exported(pipeline_from(tables)) != content:
        raise InputError(
            "the file contradicts the pipeline that dpcli export wrote into it: remove dpcli's part of the file to import the rest"
        )


def json_copy(value: Any, name: str) -> Any:
    """Return a copy of the value as JSON values, with tuples as lists. A part that occurs in several places is copied for each of them.

    Raises InputError if a part is no JSON value, or the value is deeper than MAX_DEPTH (it may contain itself) or has over MOST_VALUES
    values.
    """
    remaining = MOST_VALUES

    def copied(value: Any, depth: int) -> Any:
        nonlocal remaining
        remaining -= 1
        if depth > MAX_DEPTH or remaining < 0:
            raise InputError(f"{name}: expected tables at most {MAX_DEPTH} deep, of at most {MOST_VALUES:,} values, found more")
        if type(value) in _SINGLE:
            return value
        if isinstance(value, list | tuple):
            return [copied(item, depth + 1) for item in value]
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return {key: copied(item, depth + 1) for key, item in value.items()}
        raise InputError(f"{name}: expected tables of numbers, texts and lists, found a value of type {type(value).__name__}")

    return copied(value, 0)


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float >= `exact`; inf if `exact` exceeds the largest float."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def rounded_down(exact: Fraction) -> float:
    """Return the largest float <= `exact`; -inf if `exact` is below the smallest float."""
    return -rounded_up(-exact)


def rate_of(sampling: Batched, size: int | None) -> float:
    """Return the sampling rate: batch_size / dataset size, rounded up, if batch_size is stated, and the stated rate otherwise."""
    if sampling.rate is not None and sampling.batch_size is None:
        return sampling.rate
    rate = sampling.exact_rate(size)
    assert rate is not None
    return rounded_up(rate)
