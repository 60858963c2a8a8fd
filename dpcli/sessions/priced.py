"""The price of a session of private prediction: the whole file, and the one entry in it that is performed."""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.errors import CannotCertify, Denied, InputError
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.rounding import up

if TYPE_CHECKING:
    from dpcli.analysis.account import Account


@dataclass(frozen=True, slots=True)
class PricedSession:
    """pipeline: with every number in place of "calibrate". entry: what is performed."""

    path: str
    pipeline: Pipeline
    entry: Entry
    account: Account

    def require_budget(self) -> None:
        """The file's own cap: what cannot be certified is over it. Raises Denied."""
        budget = self.account.budget
        if budget is not None and budget.verdict in ("fail", "unknown"):
            raise Denied(
                f"{self.path}: budget: expected at most epsilon {budget.epsilon:g} at delta = {budget.delta!r}, found {up(budget.spent)}"
            )


def priced(path: str, data: bytes, types: Container[str], table: str, named: str | None) -> PricedSession:
    """The account of a file, and its entry of one of these types.

    Args:
        table: the table whose key `mechanism` is `named`, for messages.

    Raises:
        InputError: the file cannot be read, or it is not clear which entry is meant. CannotCertify: nobody can say what it costs.
    """
    from dpcli.analysis.account import account
    from dpcli.analysis.calibrate_file import solved

    pipeline = solved(data, path)
    fitting = [entry for entry in pipeline.mechanisms if entry.type in types and named in (None, entry.name)]
    if len(fitting) != 1:
        raise InputError(
            f"{path}: {table}.mechanism: expected the name of the one entry that dpcli {table} performs, found "
            f"{named or ', '.join(entry.name for entry in fitting) or 'none of a type that it can'}"
        )
    if fitting[0].partition is not None:
        raise InputError(f'{path}: mechanism["{fitting[0].name}"]: expected no partition, found one: it runs on all of the data')
    found = account(pipeline)
    if found.winner is None:
        raise CannotCertify(f"{path}: no finite epsilon can be certified for what dpcli {table} would release")
    return PricedSession(path, pipeline, fitting[0], found)


def folder_of(stated: str | None, priced: PricedSession) -> str:
    """Where a session leaves its files."""
    return os.path.abspath(
        stated or os.path.join("runs", priced.pipeline.name or os.path.splitext(os.path.basename(priced.path))[0])
    )


def in_full(table: Any) -> dict[str, Any]:
    """A table of the file as JSON values, defaults included."""
    import dataclasses

    return dataclasses.asdict(table)
