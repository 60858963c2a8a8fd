"""The last runs of a chain, read from its end."""

from __future__ import annotations

from collections.abc import Sequence

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, opened
from dpcli.ledger.earlier import alone, run_of
from dpcli.ledger.state import NEXT, Run
from dpcli.ledger.stores.store import Store

PAGE = 64


def recent(store: Store, dataset: str, head: Head, count: int) -> list[Run]:
    """So many of the last runs up to `head`, in the order in which they were charged; each entry is checked against the one after it."""
    found: list[Run] = []
    status: dict[str, str] = {}  # whatever became of a run is further towards the end than its charge
    while head.seq and len(found) < count:
        first = max(head.seq - PAGE, 0)
        entries = _linked(store.after(dataset, first, head.seq - first), dataset, head, store.place)
        for entry in reversed(entries):
            if entry.kind in NEXT:
                status.setdefault(entry.key, NEXT[entry.kind])
            if "cost" in entry.content:
                found.append(run_of(entry, status[entry.key], {}))
        head = Head(first, str(entries[0].content["previous"]))
    return found[:count][::-1]


def _linked(rows: Sequence[StoredRow], dataset: str, end: Head, place: str) -> list[LedgerEntry]:
    """The entries of the rows, which lead to `end`."""
    found: list[LedgerEntry] = []
    head = Head(rows[0].seq - 1, str(alone(rows[0], dataset).content.get("previous"))) if rows else Head()
    for row in rows:
        found.append(opened(row, dataset, head))
        head = Head(row.seq, row.hash)
    if head != end:
        raise LedgerError(
            f'{place}: dataset "{dataset}", entry {end.seq}: is not what the entries before it lead to: the ledger was changed'
        )
    return found
