"""The document of a dry run: the planned work of a command, its cost, the verdict of the file's budget, and the rows to be read."""

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
    """A plan with its account."""

    @property
    def account(self) -> Account: ...

    @property
    def over_budget(self) -> bool: ...

    def fingerprint(self) -> str: ...


OVER = "over budget: nothing would be done"


def dry_run(plan: Planned, schema: str, data: Mapping[str, Any], details: Sequence[str]) -> Document:
    """Return the document of a dry run. Its exit code is 1 if the file's budget would deny the command.

    Args:
        plan: The plan.
        schema: Schema of the JSON form.
        data: The keys of the JSON form other than result, fingerprint and exit_code.
        details: Lines about the planned work.
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
    """Return the path of a folder for messages. It is relative to the current folder if that contains the folder."""
    relative = os.path.relpath(folder)
    return folder if relative.startswith("..") else relative


def rows_words(plan: FilePlan) -> str:
    """Return a sentence about the rows that are read; "" if dpcli does not choose the rows."""
    return "" if plan.rows is None else plan.rows.words


def window_note(plan: FilePlan) -> tuple[str, ...]:
    """Return a line about the window of a session; an empty tuple if it has no window."""
    return () if plan.pipeline.privacy.window is None else (rows_words(plan) or UNCHECKED,)


def rows_data(plan: FilePlan) -> dict[str, Any]:
    """Return the JSON form of the window: the blocks and, if dpcli chooses them, the rows. It is empty without a window."""
    return {**window_data(plan.pipeline.privacy), **plan.row_data}


def rows_of(stated: Mapping[str, Any]) -> str:
    """Return the line about the window of a stored guarantee."""
    return str(stated["rows"]["words"]) if stated.get("rows") is not None else UNCHECKED
