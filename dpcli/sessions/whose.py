"""Whether privacy.unit can be what is bounded: all that one owner adds, or what it adds in one block of the ledger.

An owner is a value of source.unit, train.units or the like. Both are names in somebody's words, so that equality is not asked for: a
"visitor" may stand in a column `cookie`. What is refused is a name that says another thing. Rows are chosen among all that is bounded
together. Of a finer unit (a patient-week of "patient", without blocks), others are then chosen where it is gone: up to twice the loss that
is claimed. Of a coarser one (a patient of "patient_week") several are bounded, each by itself: as many times the loss.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError

if TYPE_CHECKING:
    from dpcli.ledger.blocks.family import BlockFamily

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
    own = _blocks(family) if family is not None and per_block else frozenset()
    source = _words(column)
    stated = [part for word in _words(unit) for part in _parted(word, source)]
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


def _blocks(family: BlockFamily) -> frozenset[str]:
    """How a unit is called that is of one block: patient-week, patient-region, or by the column that decides."""
    own = set() if family.kind.told_by == "date" else set(_words(family.column)) - PARTS
    return frozenset({*_words(family.by), *own})


def _words(name: str) -> list[str]:
    """In lower case, in the singular, without those that only say that it is a name."""
    words = re.findall(r"[^\W_]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    single = [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
    return [word for word in single if word not in NAMES] or single


def _parted(word: str, others: list[str]) -> list[str]:
    """A word and what it is put together of: userday, where there is a user."""
    for other in others:
        if word.startswith(other) and word[len(other) :] in PARTS:
            return [other, word[len(other) :]]
    return [word]
