"""A plan as a document: what would be done, at what cost, whether the file's own budget pays for it, and which rows are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpcli.analysis.documents.account import headline
from dpcli.document.document import Document
from dpcli.file.pipeline.datasets import UNCHECKED, window_data

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.sessions.priced import FilePlan


class Planned(Protocol):
    """A file, priced."""

    @property
    def account(self) -> Account: ...

    @property
    def over_budget(self) -> bool: ...

    def fingerprint(self) -> str: ...


OVER = "over budget: nothing would be done"


def dry_run(plan: Planned, schema: str, data: Mapping[str, Any], details: Sequence[str]) -> Document:
    """Return the document, with exit code 1 if the file's budget would deny the command itself.

    Args:
        schema: Schema of the machine form.
        data: What it holds besides result, fingerprint and exit_code.
        details: What would be done, a line each.
    """
    over, result = plan.over_budget, plan.account
    lines = (*details, OVER) if over else tuple(details)
    content = {
        "schema": schema,
        **data,
        "result": {"epsilon_upper": result.upper, "delta": result.delta},
        "fingerprint": plan.fingerprint(),
        "exit_code": int(over),
    }
    return Document(
        headline(result),
        content,
        "fail" if over else "pass",
        exit_code=int(over),
        notes=lines,
        details=lines,
        total=repr(result.upper),
    )


def shown(folder: str) -> str:
    """Return a folder as a person would write it from the current one."""
    near = os.path.relpath(folder)
    return folder if near.startswith("..") else near


def rows_words(plan: FilePlan) -> str:
    """Return which rows are read, in a sentence; "" if that is the word of the file."""
    return "" if plan.rows is None else plan.rows.words


def window_note(plan: FilePlan) -> tuple[str, ...]:
    """Return a line about the window of a session; none if it has none."""
    return () if plan.pipeline.privacy.window is None else (rows_words(plan) or UNCHECKED,)


def rows_data(plan: FilePlan) -> dict[str, Any]:
    """Return the machine form of the window: the blocks, and their rows where dpcli has chosen them; nothing without a window."""
    return {**window_data(plan.pipeline.privacy), **plan.row_data}


def rows_of(stated: Mapping[str, Any]) -> str:
    """Return `window_note` of a guarantee with a window that was kept."""
    return str(stated["rows"]["words"]) if stated.get("rows") is not None else UNCHECKED
