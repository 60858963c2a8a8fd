"""The overview of all datasets of some ledgers as a document, for `dpcli budget overview`.

A *document* is what a command prints, before a format such as text or JSON is chosen (dpcli/document/document.py). Its `data` is the JSON,
`details` are the lines of the text, `notes` sentences below the tables, and `records` the lines of jsonl. dpcli/ledger/dataset_overview.py
reads the datasets, and explains the shares. A dataset may be cut into *blocks*, such as days, each with a cap of its own; the *fullest*
block has the largest used share. The table begins with the datasets that cannot be read. The others are sorted by the used share of their
caps, in descending order, and datasets that have moved to another ledger come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpcli.base.errors import LedgerError
from dpcli.base.rounding import counted, percent_used
from dpcli.document.document import Document, Table
from dpcli.ledger.documents.ledger_data import aligned_lines

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
    "to look at",  # the warnings
)


def overview_document(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary]) -> Document:
    """Return the document, with a row for each dataset. Its exit code is 4 if a dataset or ledger cannot be read."""
    table = _table(unread, summaries)
    live = [summary for summary in summaries if summary.moved_to is None]
    reasons = tuple(f"cannot be read: {dataset.why}" for dataset in unread)
    details = ["", *aligned_lines(table)]
    if reasons:
        details += ["", *reasons]
    errors: list[dict[str, Any]] = [
        {"ledger": dataset.ledger, "dataset": dataset.dataset, "error": dataset.why} for dataset in unread
    ]
    records = [*errors, *map(_data, summaries)]
    exit_code = LedgerError.exit_code if unread else 0
    return Document(
        _headline(unread, summaries),
        {"schema": "dpcli/budget-overview/v1", "datasets": records, "exit_code": exit_code},
        _verdict(unread, summaries),
        exit_code=exit_code,
        tables=(table,) if table.rows else (),
        total=str(len(live)),
        records=records,
        title="budgets",
        parts=tuple(summary.balance for summary in summaries if summary.balance is not None),
        notes=reasons,
        details=tuple(details),
        why=_first_reason(unread),
    )


def _verdict(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary]) -> Literal["pass", "warn", "unknown"]:
    if unread:
        return "unknown"
    return "warn" if any(summary.warnings for summary in summaries) else "pass"


def _table(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary]) -> Table:
    """Return the table. If there are several ledgers, its first column names the ledger of a dataset."""
    ledgers = [dataset.ledger for dataset in unread] + [summary.ledger for summary in summaries]
    rows = [*map(_unread_row, unread), *map(_row, summaries)]
    columns: tuple[str, ...] = COLUMNS
    title = f"datasets of {ledgers[0] if ledgers else 'no ledger'}"
    if len(set(ledgers)) > 1:
        rows = [(ledger, *row) for ledger, row in zip(ledgers, rows, strict=True)]
        columns, title = ("ledger", *COLUMNS), "datasets"
    warnings = [True] * len(unread) + [bool(summary.warnings) for summary in summaries]
    flagged = frozenset(index for index, is_flagged in enumerate(warnings) if is_flagged)
    numeric = frozenset(index for index, name in enumerate(columns) if name in ("used", "reserved"))
    return Table(title, columns, tuple(rows), numeric, flagged=flagged)


def _headline(unread: Sequence[UnreadableDataset], summaries: Sequence[DatasetSummary]) -> str:
    """Return the numbers of datasets in words. A dataset that was copied here and is not open yet counts as neither live nor gone."""
    live = [summary for summary in summaries if summary.moved_to is None]
    warned = sum(bool(summary.warnings) for summary in summaries)
    count, waiting = len(live), sum(summary.state.awaits_opening for summary in summaries)
    gone = len(summaries) - len(live) - waiting
    headline = counted(count, "dataset")
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
    """Return why the first unreadable dataset cannot be read, and the number of others; "" if all can be read."""
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
    unknown = ["?"] * (len(COLUMNS) - 2)
    return (unread.dataset or "?", *unknown, "cannot be read")


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
