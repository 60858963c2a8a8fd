"""The overview of all datasets of some ledgers as a document.

It begins with those that cannot be read. The others are sorted by the used shares of their caps, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import percent_used
from dpcli.document.document import Document, Table
from dpcli.ledger.documents.ledger_data import aligned_lines as set_columns

if TYPE_CHECKING:
    from dpcli.ledger.dataset_overview import Glance, Unread

COLUMNS = (
    "dataset",
    "unit",
    "adjacency",
    "filter",
    "cap",
    "used",
    "fullest block",
    "reserved",
    "last entry",
    "to look at",
)


def overview_document(unread: Sequence[Unread], glances: Sequence[Glance]) -> Document:
    """Return the document, with a row for each dataset. Its exit code is 4 if one of them cannot be read."""
    code = 4 if unread else 0
    table, warned = _table(unread, glances), [glance for glance in glances if glance.warnings]
    live = [glance for glance in glances if glance.moved_to is None]
    whys = tuple(f"cannot be read: {each.why}" for each in unread)
    records = [*map(_unread_data, unread), *map(_data, glances)]
    return Document(
        headline=_headline(unread, glances, len(warned)),
        data={"schema": "dpcli/budget-overview/v1", "datasets": records, "exit_code": code},
        verdict="unknown" if unread else "warn" if warned else "pass",
        tables=(table,) if table.rows else (),
        total=str(len(live)),
        exit_code=code,
        records=records,
        title="budgets",
        notes=whys,
        details=("", *set_columns(table), *(("", *whys) if whys else ())),
        why=_why(unread),
    )


def _table(unread: Sequence[Unread], glances: Sequence[Glance]) -> Table:
    """Return the table. It has a column for the ledger of a dataset if there are several ledgers."""
    rows: list[tuple[str, ...]] = [(each.ledger, *_unread_row(each)) for each in unread] + [
        (each.ledger, *_row(each)) for each in glances
    ]
    places = dict.fromkeys(row[0] for row in rows)
    columns: tuple[str, ...] = ("ledger", *COLUMNS)
    title = "datasets"
    if len(places) < 2:
        rows, columns, title = [row[1:] for row in rows], COLUMNS, f"datasets of {next(iter(places), 'no ledger')}"
    flagged = frozenset(range(len(unread))) | {len(unread) + i for i, glance in enumerate(glances) if glance.warnings}
    numeric = frozenset(i for i, name in enumerate(columns) if name in ("used", "reserved"))
    return Table(title, columns, tuple(rows), numeric, flagged=flagged)


def _headline(unread: Sequence[Unread], glances: Sequence[Glance], warned: int) -> str:
    live = [glance for glance in glances if glance.moved_to is None]
    count, waiting = len(live), sum(glance.state.not_open for glance in glances)
    gone = len(glances) - len(live) - waiting
    headline = f"{count:,} {'dataset' if count == 1 else 'datasets'}"
    if live and live[0].used:
        headline += f", the fullest {live[0].dataset} at {percent_used(live[0].used)} of its cap"
    if gone:
        headline += f"; {gone:,} that moved elsewhere"
    if waiting:
        headline += f"; {waiting:,} that {'is a copy' if waiting == 1 else 'are copies'} and not open yet"
    if warned:
        headline += f"; {warned:,} to look at"
    return headline + (f"; {len(unread):,} that cannot be read" if unread else "")


def _why(unread: Sequence[Unread]) -> str:
    if not unread:
        return ""
    more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
    return f"{unread[0].why}{more}"


def _row(glance: Glance) -> tuple[str, ...]:
    terms = glance.state.open_terms()
    return (
        glance.dataset,
        terms.unit,
        terms.adjacency,
        glance.added_up_by,
        f"epsilon {glance.state.epsilon!r} at delta = {terms.delta!r}",
        percent_used(glance.used),
        glance.block or "-",
        percent_used(glance.reserved) if glance.reserved else "-",
        f"{glance.state.latest} ({glance.state.head.seq:,})",
        "; ".join(glance.warnings),
    )


def _unread_row(unread: Unread) -> tuple[str, ...]:
    return unread.dataset or "?", *["?"] * 8, "cannot be read"


def _data(glance: Glance) -> dict[str, Any]:
    terms = glance.state.open_terms()
    return {
        "ledger": glance.ledger,
        "dataset": glance.dataset,
        "unit": terms.unit,
        "adjacency": terms.adjacency,
        "filter": glance.added_up_by,
        "blocks": None if terms.family is None else terms.family.by,
        "epsilon_cap": glance.state.epsilon,
        "epsilon_guaranteed": glance.state.guaranteed,
        "delta": terms.delta,
        "share_spent": glance.used,
        "share_reserved": glance.reserved,
        "fullest_block": glance.block,
        "runs": glance.state.charges,
        "entries": glance.state.head.seq,
        "last_entry": glance.state.latest,
        "moved_to": glance.moved_to,
        "warnings": list(glance.warnings),
        "error": None,
    }


def _unread_data(unread: Unread) -> dict[str, Any]:
    return {"ledger": unread.ledger, "dataset": unread.dataset, "error": unread.why}
