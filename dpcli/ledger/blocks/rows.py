"""The blocks of a window as a condition on rows: which value of a column lies in them, the same for whoever reads the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from dpcli.file.pipeline.datasets import blocks_words
from dpcli.ledger.blocks.block_kinds import PARTS, ColumnType, Part, week_of
from dpcli.ledger.blocks.family import BlockFamily, spelled, stretches

REMEMBERED = 2**16  # values of a column


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The rows that may be read.

    Attributes:
        column: Column of the data, which decides a row's block.
        type: What it holds there.
        spans: Its least and largest value in each stretch of blocks, as dates or as texts that are compared by their bytes. A row whose
            column has no such value is in no block.
        blocks: In words, as privacy.window has them.
        family: What the blocks are.
        each: What the rows of one block share, where what a unit does is bounded in each block by itself; None if it is bounded in the
            whole window.
    """

    column: str
    type: ColumnType
    spans: tuple[tuple[str, str], ...]
    blocks: tuple[str, ...]
    family: Mapping[str, Any] = field(default_factory=dict)
    each: Part | None = None

    @property
    def words(self) -> str:
        """The rows that are read, in a sentence."""
        return f"only {self.which} are read"

    @property
    def which(self) -> str:
        """The rows, within a sentence."""
        return f'rows whose "{self.column}" lies in {blocks_words(self.blocks)}'

    def holds(self, value: object) -> bool:
        """Check whether a row with this value in its column is in the window: as the engines of a release decide it."""
        place = PLACES[self.type](value)
        return place is not None and any(least <= place <= most for least, most in self.spans)

    def judge(self) -> Callable[[object], bool]:
        """Return `holds` with a memory: a column has few days, and a window may have many stretches."""
        by_text = lru_cache(REMEMBERED)(self.holds)
        return lambda value: by_text(value) if isinstance(value, str) else self.holds(value)

    def part(self, value: object) -> str:
        """Return what a row with this value has in common with the rows of its block alone, where the window holds it and has `each`."""
        place = PLACES[self.type](value) or ""
        return place if self.each != "week" else week_of(date.fromisoformat(place))

    def content(self) -> dict[str, Any]:
        """Return JSON values, to be kept with what was read; the blocks are kept as the window."""
        spans = [list(span) for span in self.spans]
        return {"column": self.column, "type": self.type, "spans": spans, "each": self.each, "words": self.words}


def told_rows(family: BlockFamily, blocks: tuple[str, ...]) -> RowWindow | None:
    """Return the rows of some blocks; None if no column tells the block, as of parts of a hash."""
    kind = family.kind
    if kind.told_by is None:
        return None
    spans = tuple((kind.extent(part[0])[0], kind.extent(part[-1])[1]) for part in stretches(family, blocks))
    each = kind.shared if family.max_blocks == 1 else None
    return RowWindow(family.column, kind.told_by, spans, spelled(family, blocks), family.content(), each)


def kept_rows(content: object, window: object) -> RowWindow | None:
    """Return the rows that `content` has kept, of the blocks of a window; None if there are none. Raises ValueError for anything else."""
    if content is None:
        return None
    if not isinstance(content, dict) or not isinstance(window, list | tuple):
        raise ValueError("rows")
    column, spans, blocks = content.get("column"), content.get("spans"), tuple(window)
    each = next((one for one in PARTS if one == content.get("each")), None)
    if each is None and content.get("each") is not None:
        raise ValueError("rows")
    kind = next((one for one in PLACES if one == content.get("type")), None)
    if not isinstance(column, str) or kind is None or not isinstance(spans, list) or not all(map(_text, blocks)):
        raise ValueError("rows")
    if not all(isinstance(span, list) and len(span) == 2 and all(map(_text, span)) for span in spans):
        raise ValueError("rows")
    return RowWindow(column, kind, tuple((least, most) for least, most in spans), blocks, each=each)


def _text(value: object) -> bool:
    return isinstance(value, str)


def day_of(value: object) -> str | None:
    """Return the day that a value names, as 2026-01-31; None if it names none.

    A time with a zone names none: its day depends on who asks.
    """
    if isinstance(value, datetime):
        return value.date().isoformat() if value.tzinfo is None else None
    if isinstance(value, date):
        return value.isoformat()
    text = value.strip(" ") if isinstance(value, str) else ""
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text[:10]) or text[10:11] not in ("", "T", " "):
        return None
    try:
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        return None


def _text_of(value: object) -> str | None:
    """Return a text as it is, a whole number by its digits; None for anything else."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) and not isinstance(value, bool) else None


PLACES: Mapping[ColumnType, Callable[[object], str | None]] = {"date": day_of, "text": _text_of}
