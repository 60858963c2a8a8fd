"""Which rows of the private data were read: what dpcli itself has looked at, and what is the word of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.file.pipeline.datasets import UNCHECKED, window_data

if TYPE_CHECKING:
    from dpcli.sessions.plan import FilePlan


def rows_words(plan: FilePlan) -> str:
    """Which rows are read, in a sentence; "" where that is the word of the file."""
    return "" if plan.rows is None else plan.rows.words


def window_note(plan: FilePlan) -> tuple[str, ...]:
    """A line for what a session has come to; none where it has no window."""
    return () if plan.pipeline.privacy.window is None else (rows_words(plan) or UNCHECKED,)


def rows_data(plan: FilePlan) -> dict[str, Any]:
    """For the machine form: the blocks, and the rows of these where dpcli has chosen them; nothing where there is no window."""
    return {**window_data(plan.pipeline.privacy), **plan.row_data}


def rows_of(stated: Mapping[str, Any]) -> str:
    """The same as `window_note`, of a guarantee with a window that was kept."""
    return str(stated["rows"]["words"]) if stated.get("rows") is not None else UNCHECKED
