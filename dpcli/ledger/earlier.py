"""The runs of a state that began at a checkpoint: those since are remembered, the earlier ones are looked up where they are asked for.

A row that is looked up is checked by itself (its hash, its number, its dataset), and not against the chain before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, digest, entry_of, opened
from dpcli.ledger.state import NEXT, LedgerState, Run, UnderWay
from dpcli.ledger.stores.store import Store

PAGE = 1000  # rows that are read at once


class EarlierRuns(Mapping[str, Run]):
    """By key. To walk over them is to read every entry, once."""

    def __init__(self, store: Store, dataset: str, end: Head, under_way: Mapping[str, UnderWay]) -> None:
        self._store, self._dataset, self._end, self._under_way = store, dataset, end, under_way
        self._known: dict[str, Run | None] = {}  # None: there is no such run up to the checkpoint
        self._whole = False

    def __setitem__(self, key: str, run: Run) -> None:
        self._known[key] = run

    def __getitem__(self, key: str) -> Run:
        if key not in self._known:
            self._known[key] = None if self._whole else self._found(key)
        found = self._known[key]
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        self._read()
        return (key for key, run in self._known.items() if run is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def beginning(self, start: str) -> list[Run]:
        """The runs whose keys begin so, in the order in which they were charged; other entries are not read."""
        if not self._whole:
            found: dict[str, list[LedgerEntry]] = {}
            for entry in (alone(row, self._dataset) for row in self._store.beginning(self._dataset, start)):
                if entry.row.seq <= self._end.seq:
                    found.setdefault(entry.key, []).append(entry)
            for key in (*found, *self._under_way):
                if key.startswith(start) and key not in self._known:
                    self._known[key] = self._found(key) if key in self._under_way else self._ended(key, found[key])
        runs = (run for key, run in self._known.items() if run is not None and key.startswith(start))
        return sorted(runs, key=lambda run: run.seq)

    def _read(self) -> None:
        if not self._whole:
            state = LedgerState(self._dataset)
            for row in pages(self._store, self._dataset, self._end, PAGE):
                state.apply(opened(row, self._dataset, state.head))
            later = {key: run for key, run in self._known.items() if run is not None}
            self._known, self._whole = {**{run.key: run for run in state.runs.values()}, **later}, True

    def _found(self, key: str) -> Run | None:
        reserved = self._under_way.get(key)
        if reserved is not None:
            entry = alone(self._row(reserved.seq), self._dataset)
            if entry.row.hash != reserved.hash:
                raise self._contradiction(key)
            return run_of(entry, reserved.status, counts_in(self._about(key)))
        return self._ended(key, self._about(key))

    def _about(self, key: str) -> list[LedgerEntry]:
        rows = (row for row in self._store.about(self._dataset, key) if row.seq <= self._end.seq)
        return [entry for entry in (alone(row, self._dataset) for row in rows) if entry.key == key]

    def _ended(self, key: str, entries: Sequence[LedgerEntry]) -> Run | None:
        """What all entries of a key that is not under way say of it."""
        if not entries:
            return None
        ends = [entry.kind for entry in entries if entry.kind in ("spend", "commit", "void")]
        charges = [entry for entry in entries if "cost" in entry.content]
        if len(charges) != 1 or len(ends) != 1:
            raise self._contradiction(key)
        return run_of(charges[0], NEXT[ends[0]], counts_in(entries))

    def _row(self, seq: int) -> StoredRow:
        rows = self._store.after(self._dataset, seq - 1, 1)
        if not rows or rows[0].seq != seq:
            raise LedgerError(f'{self._store.place}: dataset "{self._dataset}", entry {seq}: missing: the ledger was damaged')
        return rows[0]

    def _contradiction(self, key: str) -> LedgerError:
        return LedgerError(
            f'{self._store.place}: dataset "{self._dataset}": what is found of the run "{key}" is not what was noted of it: the ledger was '
            "damaged or changed by hand; dpcli budget verify reads all of it"
        )


def pages(store: Store, dataset: str, end: Head, count: int, seq: int = 0) -> Iterator[StoredRow]:
    """The rows after `seq` up to `end`, so many at a time."""
    while seq < end.seq:
        rows = store.after(dataset, seq, min(count, end.seq - seq))
        yield from rows
        if not rows:
            raise LedgerError(f'{store.place}: dataset "{dataset}", entry {seq + 1}: missing: the ledger was damaged')
        seq = rows[-1].seq


def alone(row: StoredRow, dataset: str) -> LedgerEntry:
    """The entry in a row, checked by itself. Raises LedgerError where anything in it was changed."""
    place = f'dataset "{dataset}", entry {row.seq}'
    if digest(row.body) != row.hash:
        raise LedgerError(f"{place}: its content does not match its hash: the ledger was changed or damaged")
    entry = entry_of(row, place)
    if entry.content.get("seq") != row.seq or entry.content.get("dataset") != dataset:
        raise LedgerError(f"{place}: its content belongs elsewhere: the ledger was changed by hand")
    return entry


def run_of(entry: LedgerEntry, status: str, counts: Mapping[str, int]) -> Run:
    """The run of a charge that stands alone."""
    return Run(entry.key, entry.row.seq, status, amounts.read(entry.content["cost"]), entry.content, counts)


def counts_in(entries: Sequence[LedgerEntry]) -> dict[str, int]:
    """How far the session of a run has gone, by its entries in their order."""
    return {str(entry.content["of"]): int(entry.content["count"]) for entry in entries if entry.kind == "count"}
