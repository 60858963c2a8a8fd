"""The check that a run bounds the contributions of the unit that privacy.unit claims to protect.

A run bounds the contributions of an *owner*: one value of the column that source.unit, train.units or a similar key names. In general the
bound holds over all rows that the run reads. A ledger may divide the data into *blocks*, such as days, and state that a unit has records in
one block only (max_blocks = 1: dpcli/ledger/blocks/family.py). If each record is read in one block, the bound then holds in each block. The
owner must be the claimed unit:

* If the column is finer than the claimed unit (patient_week for "patient"), the run bounds each part of a unit separately. The loss of a
  unit with k parts is then up to k times the claimed epsilon.
* If the column is coarser than the claimed unit (patient for "patient_week"), the run bounds many units together by a choice of some of
  their rows. The removal of one unit changes the choice among the rows of the others. The loss is then up to twice the claimed epsilon.

Only names can be compared, and names are arbitrary: a "visitor" may have the column `cookie`. The check therefore refuses a column only if
its name contradicts the unit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError

if TYPE_CHECKING:
    from dpcli.ledger.blocks.family import BlockFamily


PERIODS = frozenset({"minute", "hour", "day", "date", "week", "month", "quarter", "year"})
# Things of which one person can have several.
BELONGINGS = frozenset(
    {"visit", "session", "event", "row", "record", "encounter", "stay", "admission", "order", "trip", "message", "device"}
)
PARTS = PERIODS | BELONGINGS  # a column or a unit named by one of these words is a part of a person's data
# Words that mark a column as an identifier, but do not say what it identifies.
IDENTIFIER_WORDS = frozenset({"id", "key", "no", "nr", "number", "uuid", "guid", "hash", "code"})


def require_bounded(
    unit: str | None,
    column: str | None,
    family: BlockFamily | None,
    place: str,
    key: str = "source.unit",
    what: str = "this release",
) -> None:
    """Check that the names of the unit and of the column whose values are bounded do not contradict each other.

    Args:
        unit: Unit that the file claims to protect (privacy.unit); None if the file claims none.
        column: Column whose values are bounded, which `key` names; None if there is none.
        family: Blocks of the ledger. None if there is no ledger, if it has no blocks, or if records cannot be assigned to blocks.
        place: Path of the file, for the message.
        key: Key of the file that names the column.
        what: Subject of the message: the run that bounds contributions.

    Raises:
        InputError: The name of the column says that it is finer or coarser than the unit.
    """
    if unit is None or column is None:
        return
    per_block = family is not None and family.max_blocks == 1
    block_words = _block_words(family) if family is not None and per_block else frozenset()
    column_words = _words(column)
    unit_words = [part for word in _words(unit) for part in _split_compound(word, column_words)]
    if not _contradict(unit_words, column_words, block_words):
        return
    bounded = f'the records of one "{column}" in one block' if per_block else f'all records of one "{column}"'
    raise InputError(
        f'{place}: {key}: expected the column that says which "{unit}" of privacy.unit a row belongs to, found "{column}": '
        f'{what} bounds {bounded}, and by its name that is no "{unit}". Name another column, set privacy.unit to the bounded unit, '
        "or charge a ledger with max_blocks = 1 whose blocks divide the data into such units, on a table that has the column of the blocks"
    )


def _contradict(unit_words: list[str], column_words: list[str], block_words: frozenset[str]) -> bool:
    """Return whether the names say that the unit is finer or coarser than an owner.

    Args:
        block_words: Words by which the unit may refer to a block, if contributions are bounded in each block; else no words.
    """
    unmatched = [word for word in unit_words if word not in column_words and word not in block_words]
    unit_names_part = any(word in PARTS for word in unmatched)
    # "patient ward" for the column patient: the last word says what the unit is, and the column does not have it.
    unit_extends_column = set(column_words) <= set(unit_words) and bool(unmatched) and unmatched[-1] == unit_words[-1]
    column_names_part = any(word in PARTS and word not in unit_words for word in column_words)
    unit_is_whole_block = set(unit_words) <= block_words - set(column_words)  # "week" alone: all records of a week, of many owners
    return unit_names_part or unit_extends_column or column_names_part or unit_is_whole_block


def _block_words(family: BlockFamily) -> frozenset[str]:
    """Return the words by which the name of a unit may refer to a block: week in patient-week, region in patient-region.

    They are the words of the kind of the blocks ("week"), and of the column that determines the block, without `PARTS`. A column of dates
    adds no words.
    """
    column_words = set() if family.kind.column_type == "date" else set(_words(family.column)) - PARTS
    return frozenset({*_words(family.by), *column_words})


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case and in the singular, without `IDENTIFIER_WORDS`."""
    words = re.findall(r"[^\W_]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())  # patientWeek has two words
    # A word of at most three letters keeps its s, as in bus.
    singular = [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
    return [word for word in singular if word not in IDENTIFIER_WORDS] or singular


def _split_compound(word: str, stems: list[str]) -> list[str]:
    """Return the two words of a compound that begins with a stem. If user is a stem, userday gives user and day.

    Any other word is returned unchanged.
    """
    for stem in stems:
        if word.startswith(stem) and word[len(stem) :] in PARTS:
            return [stem, word[len(stem) :]]
    return [word]
