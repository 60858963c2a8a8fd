"""The blocks that a session reads, of a dataset that is cut into blocks: settled before anything is read or charged.

They are those of the file, or of --window where the file states none. They then stand in its pipeline, and so in its fingerprint, its
charge, what is charged when it goes on, and its statement.

What is bounded is all that one owner adds, or what it adds in one block of the ledger (`require_bounded`). An owner is a value of
source.unit, train.units or the like. Both are names in somebody's words: a "visitor" may stand in a column `cookie`. What is refused is a
name that says another thing. Rows are chosen among all that is bounded together. Of a finer unit (a patient-week of "patient", without
blocks), others are then chosen where it is gone: up to twice the loss that is claimed. Of a coarser one (a patient of "patient_week")
several are bounded, each by itself: as many times the loss.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import same_word
from dpcli.ledger.blocks.family import spelled
from dpcli.ledger.blocks.rows import RowWindow, kept_rows, told_rows

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.ledger.ledger import Ledger


PERIODS = frozenset({"minute", "hour", "day", "date", "week", "month", "quarter", "year"})
# What one individual has several of.
PARTS = PERIODS | {
    "visit",
    "session",
    "event",
    "row",
    "record",
    "encounter",
    "stay",
    "admission",
    "order",
    "trip",
    "message",
    "device",
}
NAMES = frozenset(
    {"id", "key", "no", "nr", "number", "uuid", "guid", "hash", "code"}
)  # of a column, which stand for what they name


def require_bounded(
    unit: str | None,
    column: str | None,
    family: BlockFamily | None,
    place: str,
    key: str = "source.unit",
    what: str = "this release",
) -> None:
    """Raise InputError where the names say that a unit is not what is bounded.

    unit: privacy.unit; column: what the key names. family: the blocks of the ledger, None where it has none, there is no ledger, or nobody
    can tell what lies in which of them. what: who bounds it.
    """
    if unit is None or column is None:
        return
    per_block = family is not None and family.max_blocks == 1
    own = _block_words(family) if family is not None and per_block else frozenset()
    source = _words(column)
    stated = [part for word in _words(unit) for part in _word_and_part(word, source)]
    further = [word for word in stated if word not in source and word not in own]
    finer = any(word in PARTS for word in further) or (set(source) <= set(stated) and stated[-1:] == further[-1:] != [])
    coarser = any(word in PARTS and word not in stated for word in source) or not set(stated) - (own - set(source))
    if not (finer or coarser):
        return
    bounded = f'what one "{column}" does in one block' if per_block else f'all that one "{column}" does'
    raise InputError(
        f'{place}: {key}: expected the column that says which "{unit}" of privacy.unit a row belongs to, found "{column}": '
        f'{what} bounds {bounded}, which is no "{unit}" by its name. Name another column, state what is bounded as privacy.unit, '
        "or charge a ledger whose blocks cut it so, with max_blocks = 1, on a table that has its column"
    )


def _block_words(family: BlockFamily) -> frozenset[str]:
    """Return the names of a unit that is of one block: patient-week, patient-region, or by the column that decides."""
    own = set() if family.kind.told_by == "date" else set(_words(family.column)) - PARTS
    return frozenset({*_words(family.by), *own})


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case, in the singular, without those that only say that it is a name."""
    words = re.findall(r"[^\W_]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    single = [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
    return [word for word in single if word not in NAMES] or single


def _word_and_part(word: str, others: list[str]) -> list[str]:
    """Return a word, or what it is put together of: userday, where there is a user."""
    for other in others:
        if word.startswith(other) and word[len(other) :] in PARTS:
            return [other, word[len(other) :]]
    return [word]


def in_table(source: str | None, path: str, rows: RowWindow | None) -> RowWindow | None:
    """Return the rows, where the table tells which they are: by its line of names or its schema; None where it does not.

    A .jsonl file has neither. What its records have would decide whether all of them are read: it is always held to the rows, and a record
    without the column is in no block.

    Args:
        source: as the file at `path` names it, None where the data are no table. What cannot be read is told by whoever reads all of it.

    Raises InputError where the column is spelled otherwise.
    """
    if rows is None or source is None:
        return None
    place = os.path.join(os.path.dirname(os.path.abspath(path)), source)
    names = COLUMNS.get(os.path.splitext(source)[1])
    if names is None or not os.path.isfile(place):
        return None
    columns = names(place)
    if columns is None or rows.column in columns:
        return rows
    near = next((name for name in columns if same_word(name, rows.column)), None)
    if near is not None:  # else all rows would be read, and these blocks alone charged
        raise InputError(
            f'{source}: expected the column "{rows.column}", by which the ledger\'s blocks are cut, found {quoted(near)}: give it that '
            "name, or another one where it is not what the blocks are cut by"
        )
    return None


def _csv(place: str) -> list[str]:
    try:
        with open(place, newline="", encoding="utf-8-sig") as file:
            return next((line for line in csv.reader(file, strict=True) if line), [])
    except (ValueError, csv.Error):
        return []


def _parquet(place: str) -> list[str]:
    try:
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(place).names)
    except Exception:  # there is no pyarrow, or whatever it raises for a file that is none
        return []


def _jsonl(place: str) -> None:
    return None


COLUMNS = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}


class Windowed(Protocol):
    """A plan that can be performed on some blocks of its dataset."""

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def private_file(self) -> str | None: ...

    @property
    def path(self) -> str: ...

    @property
    def rows(self) -> RowWindow | None: ...

    @property
    def bounded(self) -> tuple[str, str] | None: ...

    def over(self, window: tuple[str, ...]) -> Self: ...

    def on_rows(self, rows: RowWindow | None) -> Self: ...


class Resumable(Windowed, Protocol):
    """A plan that is known again by its fingerprint."""

    def fingerprint(self) -> str: ...


Plan = TypeVar("Plan", bound=Windowed)
Begun = TypeVar("Begun", bound=Resumable)


def over_window(plan: Plan, ledger: Ledger | None, given: Sequence[str] = ()) -> Plan:
    """Return the plan with its window in its pipeline, on the rows of the window where its data are a table that tells them.

    As it is where the dataset is not cut into blocks.

    given: of --window. Raise InputError where it is missing, is another than the file's, or there is no ledger that has blocks; and,
    with a ledger or without, where what is bounded of an owner is not the file's unit, as far as names tell.
    """
    if ledger is None:
        if given:
            raise InputError(f"--window: expected --ledger with it, whose blocks {given[0][:60]!a} names")
        _require_bounded(plan, None)
        return plan
    blocks, family = ledger.stated_window(plan.pipeline, ledger.resolve_trailing(given)), ledger.state().open_terms().family
    if family is None:
        _require_bounded(plan, None)
        return plan
    plan = plan if plan.pipeline.privacy.window is not None else plan.over(spelled(family, blocks))
    plan = plan.on_rows(in_table(plan.private_file, plan.path, told_rows(family, blocks)))
    _require_bounded(plan, family if plan.rows is not None or len(blocks) == 1 else None)
    return plan


def _require_bounded(plan: Windowed, family: BlockFamily | None) -> None:
    """Raise InputError where what is bounded of an owner is not what the file claims to protect, as far as names tell.

    family: None where nobody can tell which of several blocks a record is in: an owner is then bounded in all of them together.
    """
    if plan.bounded is not None:
        key, column = plan.bounded
        require_bounded(plan.pipeline.privacy.unit, column, family, plan.path, key, "this run")


def as_begun(plan: Begun, window: Sequence[str], rows: object) -> Begun:
    """Return the plan of a session that was begun with this window and these rows, for what reads what it has left.

    window: it holds where the file leaves the window to a flag, which what comes after does not take. rows: as RowWindow.content has them,
    None where all were read. Raises ValueError where they are something else.
    """
    left = plan.pipeline.privacy.window is None and len(window) > 0
    return (plan.over(tuple(window)) if left else plan).on_rows(kept_rows(rows, tuple(window)))
