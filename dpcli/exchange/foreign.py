"""Tables of other libraries, whose fields are all asked for by name, and the pipeline files that are made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import pipeline_from
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.limits import MAX_BYTES, MAX_DEPTH
from dpcli.file.toml.shown import escaped, shown
from dpcli.file.toml.write import commented

COLUMN = 40  # where comments begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Asserted:
    """[privacy], as far as it is stated; None where a key is not."""

    adjacency: str | None = None
    unit: str | None = None
    max_contributions: int | None = None
    dataset_size: int | None = None
    delta: float | None = None

    @property
    def table(self) -> dict[str, Any]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


# What a file says in place of a key that nobody has stated.
MISSING = {
    "unit": '# unit = "example"  # who is protected: NOT STATED. Any other unit needs max_contributions',
    "delta": "# delta = 1e-6  # NOT STATED: well below 1 / number of records; or account --delta",
    "dataset_size": "# dataset_size = 60_000  # NOT STATED: number of records, if that is public",
}


def as_it_is(line: str) -> Iterable[str]:
    return (line,)


def file_of(
    tables: Mapping[str, Any],
    heading: tuple[str, ...],
    comments: Mapping[str, str],
    place: str,
    laid_out: Callable[[str], Iterable[str]] = as_it_is,
) -> str:
    """The file of these tables, read again and found good, with comments: a heading, those on keys, and what [privacy] does not say.

    Args:
        place: what messages call it.
        laid_out: the lines of one that is written.

    Raises:
        InputError: it would be larger than a file may be. InvalidFile: the reader refuses it.
    """
    lines = [f"# {line}" for line in heading]
    written = list(commented(tables, comments, COLUMN))
    _require_room(sum(len(line) + 1 for line in written), place)
    for line in written:
        lines += laid_out(line)
        if line == "[privacy]":
            lines += [words for key, words in MISSING.items() if key not in tables["privacy"]]
    text = "\n".join(lines) + "\n"
    _require_room(len(text.encode()), place)
    read_text(text, place)
    return text


def _require_room(size: int, place: str) -> None:
    if size > MAX_BYTES:
        raise InputError(
            f"{place}: expected what fits into a pipeline file of {MAX_BYTES // 1024:,} KiB, found {-(-size // 1024):,} KiB: "
            "some 50,000 numbers with all of their digits fit, more where they have fewer (noise rounded down)"
        )


def read_text(text: str, place: str) -> Pipeline:
    """The pipeline of such a text, as every file is read. Raises InvalidFile where the reader refuses it."""
    return parse(text.encode(), place)


MOST = 16 * 1024 * 1024  # bytes of a file of fields


class NotJson(InputError):
    """What was read is no JSON at all."""


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """name: what messages call it. fields: as they were written."""

    name: str
    fields: Mapping[str, Any]

    def only(
        self, needed: Collection[str], optional: Collection[str] = (), ignored: Collection[str] | None = None, hint: str = ""
    ) -> None:
        """Raises InputError where a field is missing, or one is there whose meaning nobody has said.

        ignored: what --ignore names; None where there is no such flag. hint: what else to say of a field that is not known.
        """
        missing = [field for field in needed if field not in self.fields]
        strange = [field for field in self.fields if field not in (*needed, *optional, *(ignored or ()))]
        if missing:
            raise self.refused(f"expected {', '.join(needed)}, found no {missing[0]}")
        if strange:
            raise self.refused(
                f"expected {', '.join((*needed, *optional)) or 'no field'}, found {escaped(strange[0][:80])} too"
                + (": --ignore it where it says nothing about privacy" if ignored is not None else hint and f"; {hint}")
            )

    def number(self, field: str) -> float:
        """A finite number. Raises InputError where it is none."""
        value = self.fields[field]
        if type(value) not in (int, float) or not abs(value) < 1e300:
            raise self.refused(f"expected {field} to be a finite number, found {_told(value)}")
        return float(value)

    def whole(self, field: str) -> int:
        """A whole number >= 1. Raises InputError where it is none."""
        value = self.fields[field]
        if type(value) is not int or not 1 <= value <= 10**18:
            raise self.refused(f"expected {field} to be a whole number, at least 1, found {_told(value)}")
        return value

    def truth(self, field: str) -> bool:
        """True or false. Raises InputError where it is neither."""
        value = self.fields[field]
        if type(value) is not bool:
            raise self.refused(f"expected {field} to be true or false, found {_told(value)}")
        return value

    def table(self, field: str, name: str | None = None) -> ForeignTable:
        """The table inside. Raises InputError where it is none."""
        value = self.fields[field]
        if not isinstance(value, dict):
            raise self.refused(f"expected {field} to be a table, found {_told(value)}")
        return ForeignTable(name or field, value)

    def has(self, field: str) -> bool:
        """Whether the field is there, and not null."""
        return self.fields.get(field) is not None

    def refused(self, why: str) -> InputError:
        return InputError(f"{self.name}: {why}")


def read_fields(data: bytes, name: str) -> ForeignTable:
    """The table that JSON says. Raises InputError where it says none, says a field twice, or is larger than MOST."""
    if len(data) > MOST:
        raise InputError(f"{name}: expected at most {MOST // 1024**2} MiB of JSON, found more")
    document = read_json(data, name)
    if not isinstance(document, dict):
        raise InputError(f"{name}: expected a table of JSON, found something else")
    return ForeignTable(name, document)


def read_json(data: bytes, name: str) -> Any:
    """The value that JSON says. Raises InputError where it is none, or says a field twice."""
    try:
        return json.loads(data, object_pairs_hook=lambda pairs: _once(pairs, name))
    except (ValueError, RecursionError):
        raise NotJson(f"{name}: expected JSON, found something else") from None


def _once(pairs: Iterable[tuple[str, Any]], name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, value in pairs:
        if field in fields:
            raise InputError(f"{name}: expected {escaped(field[:80])} once, found it twice")
        fields[field] = value
    return fields


def with_asserted(known: Mapping[str, Any], asserted: Asserted, name: str) -> dict[str, Any]:
    """What the file says of [privacy] and what somebody states beside it. Raises InputError where they say two things of one key."""
    for key, value in asserted.table.items():
        if known.get(key, value) != value:
            raise InputError(f"{name}: expected {key} = {_told(known[key])}, which the file says, found {_told(value)}")
    return {**known, **asserted.table}


def _told(value: Any) -> str:
    plain = type(value) in (bool, int, float, str) or value is None
    return shown(value) if plain and not (type(value) is float and math.isnan(value)) else "something else"


WHOLE = "the statement is of all that one unit may change, not of each record"
COMMENTS = {"stated_for": WHOLE}


def pure_or_approximate(epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    """The keys of an entry that is (epsilon, delta)-DP for the unit: of pure epsilon, where delta is 0."""
    if delta == 0.0:
        return {"type": "pure-dp", "epsilon": epsilon, "stated_for": "unit"}
    return {"type": "approx-dp", "epsilon": epsilon, "delta": delta, "stated_for": "unit"}


def concentrated(rho: float, delta: float, where: ForeignTable) -> dict[str, Any]:
    """The keys of an entry that is rho-zCDP for the unit. Raises InputError for rho-zCDP that holds but for a delta."""
    if delta != 0.0:
        raise where.refused(f"expected zCDP without a delta, found delta = {delta:g}: no mechanism of a file says that it may fail")
    return {"type": "zcdp", "rho": rho, "stated_for": "unit"}


PART = "dpcli's part"  # of a file, in messages
TABLES = ("privacy", "mechanism")
WHOM = ("adjacency", "max_contributions")
MOST_VALUES = 1_000_000  # values of the tables, each counted wherever it stands
_SINGLE = (bool, int, float, str, type(None))


def tables_carried(
    carried: Mapping[str, Any], asserted: Asserted, exported: Callable[[Pipeline], Any], found: Any
) -> dict[str, Any]:
    """The tables of the file to write: those that are carried, and what is asserted where they are silent.

    Args:
        exported: makes of a pipeline what the file should hold. found: what it holds.

    Raises:
        InputError: the tables are none or not these two, the file says something else than what they are exported as, before or after
            what is asserted, or they say something else than is asserted.
    """
    plain = plain_copy(carried, PART)
    ForeignTable(PART, plain).only(TABLES)
    tables = {key: plain[key] for key in TABLES}
    _require_same(tables, exported, found)
    if any(tables["privacy"].get(key, 1) != value for key, value in asserted.table.items() if key in WHOM):
        raise InputError("the file says whom its noise protects: expected no other adjacency or max_contributions")
    tables["privacy"] = with_asserted(tables["privacy"], asserted, PART)
    _require_same(tables, exported, found)
    return {"format": 1, **tables}


def _require_same(tables: Mapping[str, Any], exported: Callable[[Pipeline], Any], found: Any) -> None:
    if exported(pipeline_from(tables)) != found:
        raise InputError(
            "expected the file as dpcli export wrote it, found that it says something else than its own pipeline: "
            "remove dpcli's part of it to import the rest"
        )


def plain_copy(value: Any, name: str) -> Any:
    """The value as JSON has it, tuples as lists: what is shared is copied, so it is bounded first.

    Raises InputError where something in it is no value of JSON, it is deeper than MAX_DEPTH, as what holds itself is, or has more than
    MOST_VALUES values.
    """
    left = MOST_VALUES

    def copied(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if depth > MAX_DEPTH or left < 0:
            raise InputError(f"{name}: expected tables at most {MAX_DEPTH} deep, of at most {MOST_VALUES:,} values, found more")
        if type(value) in _SINGLE:
            return value
        if isinstance(value, list | tuple):
            return [copied(each, depth + 1) for each in value]
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return {key: copied(each, depth + 1) for key, each in value.items()}
        raise InputError(f"{name}: expected tables of numbers, texts and lists, found something else")

    return copied(value, 0)
