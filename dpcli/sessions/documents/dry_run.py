"""The document of a dry run, and the lines and JSON values that the documents of all sessions share.

A dry run (--dry-run) shows the actions of a command, their cost, whether the budget in the file allows them, and the rows that the command
would read. A *plan* is what a command is about to do, with its *account*, the certified epsilon and delta (dpcli/sessions/priced.py). A
*session* is what one charge pays for, such as a training run; the *fingerprint* of a plan is a hash of what must not change while its
session goes on. A *document* is what a command prints, before a format such as text or JSON is chosen (dpcli/document/document.py). A plan
may have a *window*, the *blocks* (parts such as days) of a dataset to which it is restricted (dpcli/sessions/window.py): "rows" below are
the rows of these blocks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpcli.analysis.documents.account import headline_of_run
from dpcli.document.document import Document
from dpcli.file.pipeline.datasets import UNCHECKED, window_data

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.sessions.priced import FilePlan


class Planned(Protocol):
    """A plan with an account of its cost."""

    @property
    def account(self) -> Account: ...

    @property
    def over_budget(self) -> bool: ...

    def fingerprint(self) -> str: ...


def dry_run(plan: Planned, schema: str, data: Mapping[str, Any], details: Sequence[str]) -> Document:
    """Return the document of a dry run. Its exit code is 1 if the budget in the file does not allow the command.

    Args:
        schema: Name of the schema of the JSON form.
        data: Further keys and values of the JSON form.
        details: The actions and the rows, as lines.
    """
    over, cost = plan.over_budget, plan.account
    exit_code = 1 if over else 0
    lines = (*details, "over budget: nothing would be done") if over else tuple(details)
    content = {
        "schema": schema,
        **data,
        "result": {"epsilon_upper": cost.upper, "delta": cost.delta},
        "fingerprint": plan.fingerprint(),
        "exit_code": exit_code,
    }
    return Document(
        headline_of_run(cost),
        content,
        "fail" if over else "pass",
        exit_code=exit_code,
        notes=lines,
        details=lines,  # in plain text, which has no notes
        total=repr(cost.upper),  # the single number for scripts
    )


def rows_words(plan: FilePlan) -> str:
    """Return the rows that are read, as a sentence; "" if dpcli does not select the rows."""
    return "" if plan.rows is None else plan.rows.words


def window_note(plan: FilePlan) -> tuple[str, ...]:
    """Return a line about the window of a session; an empty tuple if it has no window.

    The line names the rows, or says that nobody checked that the data lie in the window (UNCHECKED).
    """
    return () if plan.pipeline.privacy.window is None else (rows_words(plan) or UNCHECKED,)


def stored_rows_words(guarantee: Mapping[str, Any]) -> str:
    """Return the line about the rows that were read, from the guarantee that a training run stored with its window."""
    rows = guarantee.get("rows")
    return UNCHECKED if rows is None else str(rows["words"])


def rows_data(plan: FilePlan) -> dict[str, Any]:
    """Return the window as JSON values: its blocks and, if dpcli selects them, its rows. The result is empty without a window."""
    return {**window_data(plan.pipeline.privacy), **plan.row_data}


def shown(folder: str) -> str:
    """Return the path of a folder for messages. It is relative to the current folder if it lies inside of that folder."""
    relative = os.path.relpath(folder)
    return folder if relative.startswith("..") else relative
