"""The overview of all datasets of some ledgers as a document.

The table begins with the datasets that cannot be read. The others are sorted by the used share of their caps, in descending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import percent_used
from dpcli.document.document import Document, Table
from dpcli.ledger.documents.ledger_data import aligned_lines as set_columns

if TYPE_CHECKING:
    from dpcli.ledger.dataset_overview import DatasetSummary, UnreadableDataset

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


def overview_document(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary]) -> Document:
    """Return the document, with a row for each dataset. Its exit code is 4 if a dataset or ledger cannot be read."""
    code = 4 if unread else 0
    table, warned = _table(unread, summaries), [summary for summary in summaries if summary.warnings]
    live = [summary for summary in summaries if summary.moved_to is None]
    reasons = tuple(f"cannot be read: {each.why}" for each in unread)
    records = [*map(_unread_data, unread), *map(_data, summaries)]
    return Document(
        headline=_headline(unread, summaries, len(warned)),
        data={"schema": "dpcli/budget-overview/v1", "datasets": records, "exit_code": code},
        verdict="unknown" if unread else "warn" if warned else "pass",
        tables=(table,) if table.rows else (),
        total=str(len(live)),
        exit_code=code,
        records=records,
        title="budgets",
        notes=reasons,
        details=("", *set_columns(table), *(("", *reasons) if reasons else ())),
        why=_first_reason(unread),
    )


def _table(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary]) -> Table:
    """Return the table. If there are several ledgers, its first column names the ledger of a dataset."""
    rows: list[tuple[str, ...]] = [(each.ledger, *_unread_row(each)) for each in unread] + [
        (each.ledger, *_row(each)) for each in summaries
    ]
    places = dict.fromkeys(row[0] for row in rows)
    columns: tuple[str, ...] = ("ledger", *COLUMNS)
    title = "datasets"
    if len(places) < 2:
        rows, columns, title = [row[1:] for row in rows], COLUMNS, f"datasets of {next(iter(places), 'no ledger')}"
    flagged = frozenset(range(len(unread))) | {len(unread) + i for i, summary in enumerate(summaries) if summary.warnings}
    numeric = frozenset(i for i, name in enumerate(columns) if name in ("used", "reserved"))
    return Table(title, columns, tuple(rows), numeric, flagged=flagged)


def _headline(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary], warned: int) -> str:
    live = [summary for summary in summaries if summary.moved_to is None]
    count, waiting = len(live), sum(summary.state.not_open for summary in summaries)
    gone = len(summaries) - len(live) - waiting
    headline = f"{count:,} {'dataset' if count == 1 else 'datasets'}"
    if live and live[0].used:
        headline += f", the fullest {live[0].dataset} at {percent_used(live[0].used)} of its cap"
    if gone:
        headline += f"; {gone:,} that moved to another ledger"
    if waiting:
        headline += f"; {waiting:,} that {'is a copy' if waiting == 1 else 'are copies'} and not open yet"
    if warned:
        headline += f"; {warned:,} to look at"
    return headline + (f"; {len(unread):,} that cannot be read" if unread else "")


def _first_reason(unread: Sequence[UnreadableDataset]) -> str:
    if not unread:
        return ""
    more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
    return f"{unread[0].why}{more}"


def _row(summary: DatasetSummary) -> tuple[str, ...]:
    terms = summary.state.open_terms()
    return (
        summary.dataset,
        terms.unit,
        terms.adjacency,
        summary.added_up_by,
        f"epsilon {summary.state.epsilon!r} at delta = {terms.delta!r}",
        percent_used(summary.used),
        summary.block or "-",
        percent_used(summary.reserved) if summary.reserved else "-",
        f"{summary.state.latest} ({summary.state.head.seq:,})",
        "; ".join(summary.warnings),
    )


def _unread_row(unread: UnreadableDataset) -> tuple[str, ...]:
    return unread.dataset or "?", *["?"] * 8, "cannot be read"


def _data(summary: DatasetSummary) -> dict[str, Any]:
    terms = summary.state.open_terms()
    return {
        "ledger": summary.ledger,
        "dataset": summary.dataset,
        "unit": terms.unit,
        "adjacency": terms.adjacency,
        "filter": summary.added_up_by,
        "blocks": None if terms.family is None else terms.family.by,
        "epsilon_cap": summary.state.epsilon,
        "epsilon_guaranteed": summary.state.guaranteed,
        "delta": terms.delta,
        "share_spent": summary.used,
        "share_reserved": summary.reserved,
        "fullest_block": summary.block,
        "runs": summary.state.charges,
        "entries": summary.state.head.seq,
        "last_entry": summary.state.latest,
        "moved_to": summary.moved_to,
        "warnings": list(summary.warnings),
        "error": None,
    }


def _unread_data(unread: UnreadableDataset) -> dict[str, Any]:
    return {"ledger": unread.ledger, "dataset": unread.dataset, "error": unread.why}
