"""Access to the runs of a ledger in memory that does not grow with its history.

A *run* is a charge with its *key* (its name), its status and its cost (ledger_run.py). Most requests need only the run of their own key, so
that not all of them have to be in memory. A *checkpoint* is a stored state of the ledger, from which a reader continues without the entries
before it (checkpoint.py).

`EarlierRuns` looks up runs that were charged before a checkpoint. `ForgetfulRuns` is for a *replay*, which reads all entries from the first
one: it keeps the ended runs in a temporary file. Both take the place of the dict `LedgerState.runs`. `recent_runs` reads the last runs of a
chain, for `dpcli budget show`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, next_entry, single_entry
from dpcli.ledger.charges.ledger_run import STATUS_AFTER, Run, UnderWay, payer
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store

# Numbers of rows that are read at once, forwards from the first entry and backwards from the last one. They affect speed and memory alone.
FORWARD_PAGE, BACKWARD_PAGE = 1000, 64
ENDED = ("committed", "void")  # final statuses of a run


class EarlierRuns(Mapping[str, Run]):
    """The runs of a state that was read from a checkpoint, by key. A run before the checkpoint is looked up when it is needed.

    A looked-up row is checked against its own hash, and not its links to other entries, which `dpcli budget verify` checks. The first
    iteration reads every entry. `under_way` has the reservations that had not ended at the checkpoint.
    """

    def __init__(self, store: Store, dataset: str, end: Head, under_way: Mapping[str, UnderWay]) -> None:
        self._store, self._dataset, self._end, self._under_way = store, dataset, end, under_way
        self._known: dict[str, Run | None] = {}  # None marks a key that no run up to the checkpoint has
        self._complete = False  # whether every entry was read, so that `_known` has all runs

    def __setitem__(self, key: str, run: Run) -> None:  # `LedgerState` adds and replaces runs, and never deletes one
        self._known[key] = run

    def __getitem__(self, key: str) -> Run:
        if key not in self._known:
            self._known[key] = None if self._complete else self._look_up(key)
        run = self._known[key]
        if run is None:
            raise KeyError(key)
        return run

    def __iter__(self) -> Iterator[str]:
        if not self._complete:
            self._read_all()
        return (key for key, run in self._known.items() if run is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def with_prefix(self, prefix: str) -> list[Run]:
        """Return the runs whose keys begin with `prefix`, in the order in which they were charged. Only their entries are read."""
        if not self._complete:
            self._look_up_prefix(prefix)
        runs = [run for key, run in self._known.items() if run is not None and key.startswith(prefix)]
        return sorted(runs, key=lambda run: run.seq)

    def _look_up_prefix(self, prefix: str) -> None:
        entries: dict[str, list[LedgerEntry]] = {}  # by key
        for row in self._store.rows_of_prefix(self._dataset, prefix):
            entry = single_entry(row, self._dataset)
            if row.seq <= self._end.seq:
                entries.setdefault(entry.key, []).append(entry)
        for key in (*entries, *self._under_way):
            if key.startswith(prefix) and key not in self._known:
                self._known[key] = self._look_up(key) if key in self._under_way else self._ended_run(key, entries[key])

    def _read_all(self) -> None:
        """Read every entry up to the checkpoint. A run that is known already may have changed since, and is kept."""
        state = fold_entries(self._store, self._dataset, self._end.seq)
        later = {key: run for key, run in self._known.items() if run is not None}
        self._known = {run.key: run for run in state.runs.values()}
        self._known |= later
        self._complete = True

    def _look_up(self, key: str) -> Run | None:
        """Return the run with a key as it was at the checkpoint; None if there is none.

        Raises LedgerError if the entries about the key contradict the checkpoint or each other.
        """
        rows = (row for row in self._store.rows_of_key(self._dataset, key) if row.seq <= self._end.seq)
        entries = [entry for row in rows if (entry := single_entry(row, self._dataset)).key == key]  # a damaged index finds others
        under_way = self._under_way.get(key)
        if under_way is None:
            return self._ended_run(key, entries)
        # The checkpoint states the status and the entry of such a run, so that a damaged index cannot hide that it was started.
        row_of_charge = next(rows_up_to(self._store, self._dataset, end=under_way.seq, page=1, seq=under_way.seq - 1))
        entry = single_entry(row_of_charge, self._dataset)
        if entry.row.hash != under_way.hash:
            raise self._contradiction(key)
        return run_of(entry, under_way.status, counts_in(entries))

    def _ended_run(self, key: str, entries: Sequence[LedgerEntry]) -> Run | None:
        """Return a run that has ended, from all entries about it; None if there are no entries.

        Raises LedgerError if the entries do not consist of exactly one charge and one end.
        """
        if not entries:
            return None
        ends = [entry.kind for entry in entries if entry.kind in ("spend", "commit", "void")]
        charges = [entry for entry in entries if "cost" in entry.content]
        if len(charges) != 1 or len(ends) != 1:
            raise self._contradiction(key)
        return run_of(charges[0], STATUS_AFTER[ends[0]], counts_in(entries))

    def _contradiction(self, key: str) -> LedgerError:
        return LedgerError(
            f'{self._store.place}: dataset "{self._dataset}": the entries of the run "{key}" contradict the checkpoint: the ledger was '
            "damaged or changed by hand; dpcli budget verify reads all entries"
        )


class ForgetfulRuns(Mapping[str, Run]):
    """The runs of a replay. Ended runs are kept in a temporary file, without their costs and pipelines, which a replay does not need.

    Even a dictionary of the keys would grow with the history.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, Run] = {}
        self._ended = sqlite3.connect("", isolation_level=None)  # an unnamed file, which is deleted when the connection is closed
        self._ended.execute("CREATE TABLE run (key BLOB PRIMARY KEY, seq INTEGER, status TEXT, counts TEXT) WITHOUT ROWID")
        self._ended.execute("PRAGMA journal_mode = OFF")  # nothing has to survive a crash

    def close(self) -> None:
        """Delete the temporary file."""
        self._ended.close()

    def _execute(self, statement: str, values: tuple[bytes | int | str, ...] = ()) -> sqlite3.Cursor:
        """Execute a statement in the temporary file. Raises LedgerError if the file cannot be used."""
        try:
            return self._ended.execute(statement, values)
        except sqlite3.Error as error:
            raise LedgerError(
                f"the temporary file for the keys of ended runs cannot be used: {error}; nothing was written to the ledger: free space on "
                "the disk of temporary files, or name a folder on another disk in SQLITE_TMPDIR"
            ) from None

    def __setitem__(self, key: str, run: Run) -> None:
        if run.status not in ENDED:  # what `LedgerState` reads of such a run when it ends: who paid, and on which blocks
            window = {"window": list(run.window)} if run.window else {}
            self._under_way[key] = replace(run, content={"who": payer(run.content), **window})
            return
        self._under_way.pop(key, None)
        counts = json.dumps(dict(run.counts)) if run.counts else "{}"
        self._execute("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)", (_bytes(key), run.seq, run.status, counts))

    def __getitem__(self, key: str) -> Run:
        if key in self._under_way:
            return self._under_way[key]
        row = self._execute("SELECT seq, status, counts FROM run WHERE key = ?", (_bytes(key),)).fetchone()
        if row is None:
            raise KeyError(key)
        seq, status, counts = row
        return Run(key, seq, status, cost={}, content={}, counts=json.loads(counts))

    def __iter__(self) -> Iterator[str]:
        yield from (key.decode("utf-8", "surrogatepass") for (key,) in self._execute("SELECT key FROM run ORDER BY seq"))
        yield from self._under_way

    def __len__(self) -> int:
        count: int = self._execute("SELECT count(*) FROM run").fetchone()[0]
        return count + len(self._under_way)


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")  # a forged entry may contain a lone surrogate


def recent_runs(store: Store, dataset: str, head: Head, count: int) -> list[Run]:
    """Return the last `count` runs up to `head`, or all if there are fewer, in the order in which they were charged.

    The runs have their last status, but not the numbers of answers that they were granted (`counts_in`).

    The entries are read backwards. Each is checked against the hash that the next entry states. Raises LedgerError if a hash differs.
    """
    runs: list[Run] = []
    status: dict[str, str] = {}  # the last status of each run, which is known before its charge is read
    while head.seq and len(runs) < count:
        first = max(head.seq - BACKWARD_PAGE, 0)
        entries = _linked_entries(store.after(dataset, first, head.seq - first), dataset, head, store.place)
        for entry in reversed(entries):
            if entry.kind in STATUS_AFTER:
                status.setdefault(entry.key, STATUS_AFTER[entry.kind])
            if "cost" in entry.content:
                runs.append(run_of(entry, status[entry.key], {}))
        head = Head(first, str(entries[0].content["previous"]))
    return runs[:count][::-1]


def _linked_entries(rows: Sequence[StoredRow], dataset: str, end: Head, place: str) -> list[LedgerEntry]:
    """Return the entries of the rows. Raises LedgerError if they do not lead to `end`."""
    entries: list[LedgerEntry] = []
    head = Head()
    if rows:  # the entry before the rows is not read: its hash is taken from the first of them
        first = single_entry(rows[0], dataset)
        head = Head(first.row.seq - 1, str(first.content.get("previous")))
    for row in rows:
        entries.append(next_entry(row, dataset, head))
        head = Head(row.seq, row.hash)
    if head != end:
        raise LedgerError(
            f'{place}: dataset "{dataset}", entry {end.seq}: does not follow from the entries before it: the ledger was changed'
        )
    return entries


def rows_up_to(store: Store, dataset: str, end: int, page: int, seq: int = 0) -> Iterator[StoredRow]:
    """Yield the rows after number `seq` up to number `end`, which are read `page` at a time. Raises LedgerError if rows are missing."""
    while seq < end:
        rows = store.after(dataset, seq, min(page, end - seq))
        if not rows:
            raise LedgerError(f'{store.place}: dataset "{dataset}", entry {seq + 1}: missing: the ledger was damaged')
        yield from rows
        seq = rows[-1].seq


def fold_entries(store: Store, dataset: str, end: int) -> LedgerState:
    """Return the state after all entries up to `end`, which are read from the first one. No checkpoint is used."""
    state = LedgerState(dataset)
    for row in rows_up_to(store, dataset, end, FORWARD_PAGE):
        state.apply(next_entry(row, dataset, state.head))
    return state


def run_of(entry: LedgerEntry, status: str, counts: Mapping[str, int]) -> Run:
    """Return the run that an entry charges, with the status and the counts that the caller read from later entries."""
    return Run(entry.key, entry.row.seq, status, amounts.read(entry.content["cost"]), entry.content, counts)


def counts_in(entries: Sequence[LedgerEntry]) -> dict[str, int]:
    """Return the number of granted answers of a run, by the name of the answers. The last entry of each name states the total."""
    return {str(entry.content["of"]): int(entry.content["count"]) for entry in entries if entry.kind == "count"}
