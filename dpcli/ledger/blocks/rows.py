"""The rows that a run may read: those whose value in one column lies in the blocks of the run's window.

A ledger may cut a dataset into *blocks*, such as days, by the value of a column (family.py). A run is charged only on the blocks of its
*window*, so it must read no other row. Train, sweep, release and the predictions read rows under the condition of this module:
sessions/window.py, or release/release_plan.py for a release, puts a `RowWindow` into the plan, and sessions store it in their folders. A
*stretch* is a list of consecutive blocks. A *unit* is what the guarantee protects, such as a user; the bound on its rows may hold for each
block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from dpcli.file.pipeline.datasets import blocks_words
from dpcli.ledger.blocks.block_kinds import PARTS, ColumnType, Part, week_of
from dpcli.ledger.blocks.family import BlockFamily, stretches, window_spelling

CACHED_VALUES = 2**16  # number of values of a column for which the result of the check is cached; affects speed and memory alone


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The rows that may be read.

    Attributes:
        column: The column of the data that determines the block of a row.
        type: The type of its values.
        spans: The smallest and the largest value in each stretch of consecutive blocks, as dates or as texts in the order of their bytes.
            A row whose value is of another type is in no block.
        blocks: The blocks in the spelling of privacy.window.
        family: The terms of the blocks.
        block_part: The part of the value that all rows of a block share, if the contributions of a unit are bounded in each block.
            None if they are bounded in the whole window.
    """

    column: str
    type: ColumnType
    spans: tuple[tuple[str, str], ...]
    blocks: tuple[str, ...]
    family: Mapping[str, Any] = field(default_factory=dict)
    block_part: Part | None = None

    @property
    def words(self) -> str:
        """The rows that are read, as a sentence: 'only rows whose "date" lies in ... are read'."""
        return f"only {self.which} are read"

    @property
    def which(self) -> str:
        """The rows that are read, as a noun phrase."""
        return f'rows whose "{self.column}" lies in {blocks_words(self.blocks)}'

    def holds(self, value: object) -> bool:
        """Return whether a row with this value in the column is in the window. The engines of dpcli release make the same check in SQL."""
        text = COMPARABLE_TEXTS[self.type](value)
        return text is not None and any(least <= text <= most for least, most in self.spans)

    def cached_holds(self) -> Callable[[object], bool]:
        """Return the function `holds` with a cache for texts. A column has few different days, and a window may have many stretches."""
        by_text = lru_cache(CACHED_VALUES)(self.holds)
        return lambda value: by_text(value) if isinstance(value, str) else self.holds(value)

    def block_label(self, value: object) -> str:
        """Return a text that all rows of a block share and that differs between blocks.

        The row must be in the window, and `block_part` must not be None.
        """
        text = COMPARABLE_TEXTS[self.type](value) or ""
        return text if self.block_part != "week" else week_of(date.fromisoformat(text))

    def content(self) -> dict[str, Any]:
        """Return the condition as JSON values, for a file of a session. The blocks are left out, because the session stores its window."""
        spans = [list(span) for span in self.spans]
        # "each" is the part of a value that the rows of a block share. "words" is for readers of the file.
        return {"column": self.column, "type": self.type, "spans": spans, "each": self.block_part, "words": self.words}


def rows_of_blocks(family: BlockFamily, blocks: tuple[str, ...]) -> RowWindow | None:
    """Return the condition on the rows of these blocks; None if no column determines the block, as for blocks by a hash."""
    kind = family.kind
    if kind.column_type is None:
        return None
    spans = []
    for stretch in stretches(family, blocks):
        smallest, _ = kind.extent(stretch[0])
        _, largest = kind.extent(stretch[-1])
        spans.append((smallest, largest))
    block_part = kind.shared_part if family.max_blocks == 1 else None
    return RowWindow(family.column, kind.column_type, tuple(spans), window_spelling(family, blocks), family.content(), block_part)


def rows_from_content(content: object, window: object) -> RowWindow | None:
    """Return the condition that `RowWindow.content` wrote, with the blocks of a window; None if `content` is None.

    Raises ValueError if the content or the window has another form.
    """
    if content is None:
        return None
    if not isinstance(content, dict) or not isinstance(window, list | tuple):
        raise ValueError("rows")
    column, spans, blocks = content.get("column"), content.get("spans"), tuple(window)
    block_part = next((part for part in PARTS if part == content.get("each")), None)
    if block_part is None and content.get("each") is not None:
        raise ValueError("rows")
    column_type = next((known for known in COMPARABLE_TEXTS if known == content.get("type")), None)
    if not isinstance(column, str) or column_type is None or not _are_texts(blocks):
        raise ValueError("rows")
    if not isinstance(spans, list) or not all(isinstance(span, list) and len(span) == 2 and _are_texts(span) for span in spans):
        raise ValueError("rows")
    return RowWindow(column, column_type, tuple((least, most) for least, most in spans), blocks, block_part=block_part)


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def day_of(value: object) -> str | None:
    """Return the day of a date, a time or a text, as 2026-01-31; None if the value has no day.

    A datetime with a time zone has no day, because the day depends on the zone in which it is read.
    """
    if isinstance(value, datetime):
        return value.date().isoformat() if value.tzinfo is None else None
    if isinstance(value, date):
        return value.isoformat()
    text = value.strip(" ") if isinstance(value, str) else ""
    # The first ten characters must be the day. A time may follow.
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text[:10]) or text[10:11] not in ("", "T", " "):
        return None
    try:
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        return None


def _text_of(value: object) -> str | None:
    """Return a text unchanged, and a whole number as its digits; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


# The function for each type of column that returns the comparable text of a value; None if the value is of another type.
COMPARABLE_TEXTS: Mapping[ColumnType, Callable[[object], str | None]] = {"date": day_of, "text": _text_of}
