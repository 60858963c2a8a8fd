"""A plan as a document: what would be done, at what cost, and whether the file's own budget pays for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpcli.analysis.documents.account import headline
from dpcli.document.document import Document

if TYPE_CHECKING:
    from dpcli.analysis.account import Account


class Planned(Protocol):
    """What a file asks for, priced."""

    @property
    def account(self) -> Account: ...

    @property
    def over_budget(self) -> bool: ...

    def fingerprint(self) -> str: ...


OVER = "over budget: nothing would be done"


def dry_run(plan: Planned, schema: str, data: Mapping[str, Any], details: Sequence[str]) -> Document:
    """It ends as the command itself would: exit code 1 where that would be denied by the file's budget.

    schema: of the machine form. data: what it holds beside result, fingerprint and exit_code. details: what would be done, a line each.
    """
    over, found = plan.over_budget, plan.account
    lines = (*details, OVER) if over else tuple(details)
    content = {
        "schema": schema,
        **data,
        "result": {"epsilon_upper": found.upper, "delta": found.delta},
        "fingerprint": plan.fingerprint(),
        "exit_code": int(over),
    }
    said = headline(found)
    return Document(
        said, content, "fail" if over else "pass", exit_code=int(over), notes=lines, details=lines, total=repr(found.upper)
    )


def shown(folder: str) -> str:
    """A folder as a person would write it from here."""
    near = os.path.relpath(folder)
    return folder if near.startswith("..") else near
