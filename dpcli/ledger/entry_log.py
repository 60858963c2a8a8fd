"""The entries of one dataset in a store: read into a state, checked, and appended. `Ledger` (ledger.py) is a subclass with the requests.

A ledger is a hash chain of *entries*, such as a charge for a run. Entries never change, and the *head* is the last one (chain.py). The
*state* is what the entries add up to: caps, spending, runs (state.py). A *checkpoint* is a stored state, from which a reader continues
(checkpoint.py). A *request* decides, from a state, on the entry to append (requests.py). To *seal* an entry is to number it and to link it
to the head by a hash.

Two runs must not be charged to the same rest of a cap, so a decision must not rest on an outdated state. `append_all` reads first and then
enters `Store.writing`, which yields the *tail*, the end of the chain to which rows are appended. In a file this takes the lock, under which
the newest entries are read and the requests decide. A database locks nothing meanwhile. It refuses the entries (`HeadMoved`) if others have
appended what the decision may depend on, and the requests are asked again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from dpcli import __version__
from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, linked_entry, next_entry, seal
from dpcli.ledger.charges.ledger_run import Run
from dpcli.ledger.charges.past_runs import EarlierRuns, ForgetfulRuns, fold_entries, rows_up_to
from dpcli.ledger.checkpoint import checkpoint_of, is_due, state_at_checkpoint
from dpcli.ledger.governance.quotas import UnknownPeople
from dpcli.ledger.grammar import wrong_entry, wrong_size
from dpcli.ledger.requests import LedgerRequest
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import UNSURE, HeadMoved, Store, Tail

# Numbers of entries that are read at once: PAGE by `replay`, `reread` and copying.py, and STATE_PAGE by `state`. They affect speed and
# memory alone: larger pages are read faster.
PAGE, STATE_PAGE = 256, 4096
RETRY = 30.0  # longest time, in seconds, for which requests are asked again; arbitrary: nothing is written before they succeed


def account_name() -> str:
    """Return the account name of this process.

    In a ledger file the name does not prove who wrote an entry, because anyone who can write the file can write any name.
    """
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return f"uid {os.geteuid()}" if hasattr(os, "geteuid") else "unknown"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a request.

    Attributes:
        entry: The entry that was appended; None if the request had been granted before (`repeated`).
        run: The run that the request is about, in its new state.
        state: State of the ledger after the request.
        notes: Sentences for the user about a charge that is repeated; empty otherwise.
    """

    entry: LedgerEntry | None
    run: Run | None
    state: LedgerState
    notes: tuple[str, ...] = ()

    @property
    def repeated(self) -> bool:
        """True if the request had been granted before, so that nothing was written."""
        return self.entry is None


class KeyedRequest(NamedTuple):
    """A request, with the key of the run that it is about; "" if it is not about a run, or if its entry states the key."""

    request: LedgerRequest
    key: str = ""


class EntryLog:
    """The entries of one dataset in a store.

    Reading starts at the last checkpoint, or at the first entry if there is no checkpoint. Each entry is checked against the hash chain
    when it is first read. The object caches the state, and later reads only fetch newer entries. The end of a `with` block closes the
    connection.

    Attributes:
        store: The store that contains the chain of the dataset.
        dataset: The name of the dataset. Whether the store has it is checked by the first method that reads the state.
        who: The person who signs the entries: the login of a database, or the name of this process's account.
        now: A function that returns the current time in UTC, in the form of entries (dpcli.ledger.chain.STAMP).
    """

    def __init__(self, store: Store, dataset: str, who: str = "", now: Callable[[], str] | None = None) -> None:
        self.store, self.dataset, self.now = store, dataset, now or store.now
        self.who = who or store.who or account_name()
        self._state = LedgerState(dataset, hides=store.hides)  # a store that hides datasets may have this one and not show it
        self._checkpoint_seq = 0  # number of the entry of the last checkpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store's connection."""
        self.store.close()

    def state(self) -> LedgerState:
        """Return the current state. Raises LedgerError if the ledger is missing, locked or damaged."""
        if not self._state.head.seq:
            self._state = state_at_checkpoint(self.store, self.dataset) or self._state
            self._checkpoint_seq = self._state.head.seq
        rows = None
        while rows is None or len(rows) == STATE_PAGE:
            rows = self.store.after(self.dataset, self._state.head.seq, STATE_PAGE)
            for row in rows:
                self._apply(row)
        self._state.open_terms()
        return self._state

    def _apply(self, row: StoredRow) -> LedgerEntry:
        """Apply the next row and return its entry. If it is a quota and the checkpoint has no totals per person, read all entries again."""
        entry = next_entry(row, self.dataset, self._state.head)
        try:
            self._state.apply(entry)
        except UnknownPeople:
            self._state = fold_entries(self.store, self.dataset, row.seq)
        return entry

    def _require_people(self) -> None:
        """Read all entries again if the charges per person are unknown. A checkpoint before the first quota does not contain them."""
        if self.state().people is None:
            self._state = fold_entries(self.store, self.dataset, self._state.head.seq)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return every entry, in order. Raises LedgerError if the chain is broken."""
        return tuple(entry for entry, _ in self.replay())

    def replay(self) -> Iterator[tuple[LedgerEntry, LedgerState]]:
        """Yield every entry with the state after it. Memory does not grow with the number of entries.

        The yielded state is the same object each time, and changes with the next entry. Its ended runs have no costs and no pipelines.

        Raises LedgerError if the chain is broken, or an entry contradicts the state before it.
        """
        with closing(ForgetfulRuns()) as runs:  # keeps the ended runs in a temporary file
            state = LedgerState(self.dataset, runs=runs, hides=self.store.hides)
            while rows := self.store.after(self.dataset, state.head.seq, PAGE):
                for row in rows:
                    entry = next_entry(row, self.dataset, state.head)
                    state.apply(entry)
                    yield entry, state

    def reread(self, end: Head) -> Iterator[LedgerEntry]:
        """Yield the entries up to `end`, the head that `replay` reached. Equal hashes say that they are those that it checked.

        Raises LedgerError if the entries no longer lead to `end`.
        """
        head = Head()
        for row in rows_up_to(self.store, self.dataset, end.seq, PAGE):
            entry = linked_entry(row, self.dataset, head)
            head = Head(row.seq, row.hash)
            yield entry
        if head != end:
            raise LedgerError(f'{self.store.place}: dataset "{self.dataset}": its entries have changed while they were read')

    def runs_with_prefix(self, prefix: str) -> Sequence[Run]:
        """Return the runs whose keys begin with `prefix`, in the order in which they were charged.

        The last character of `prefix` must be ASCII. Runs before the last checkpoint are looked up by the index of keys, which every charge
        relies on too. The hash of each such entry is checked, but not its links in the chain.
        """
        runs = self.state().runs
        if isinstance(runs, EarlierRuns):  # the state was read from a checkpoint
            return runs.with_prefix(prefix)
        return [run for run in runs.values() if run.key.startswith(prefix)]

    def _append(self, request: LedgerRequest, key: str, even_moved: bool = False) -> Receipt:
        (receipt,) = self.append_all([KeyedRequest(request, key)], even_moved)
        return receipt

    def append_all(self, requests: Sequence[KeyedRequest], even_moved: bool = False) -> tuple[Receipt, ...]:
        """Append the entries of requests, in order, all or none. If a request raises an error, nothing is written.

        If others have appended what the requests depend on meanwhile, they are applied to the new state again, for up to `RETRY` seconds.

        Args:
            even_moved: Whether entries may be appended even if the dataset has moved: for an upgrade, and for the steps of the move.

        Raises:
            Denied, InputError: As the requests.
            LedgerError: As the requests, or the ledger cannot be read or written, or the dataset has moved.
            KeyboardInterrupt: The user interrupted. Its message says whether entries may have been written.
        """
        end = time.monotonic() + RETRY
        while True:
            try:
                return self._append_once(requests, even_moved)
            except HeadMoved:
                if time.monotonic() > end:
                    raise

    def _append_once(self, requests: Sequence[KeyedRequest], even_moved: bool) -> tuple[Receipt, ...]:
        """Append the entries of requests as `append_all` does. Raises HeadMoved if others have appended meanwhile."""
        state = self.state()  # most reading happens before a file is locked
        entries: list[LedgerEntry | None] = []
        try:
            with self.store.writing(self.dataset) as tail:
                for row in tail.after(state.head.seq):
                    self._apply(row)
                state = self._state
                if not even_moved:
                    state.refuse_moved()
                trial = state.rehearsal()  # a copy: the cached state contains only entries that the store has
                for request, _ in requests:
                    entries.append(self._append_entry(tail, trial, request))
                if self._is_checkpoint_due(trial, entries):
                    tail.put_checkpoint(checkpoint_of(trial))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(UNSURE if any(entries) else "nothing was written") from None
        # The rows are durable now. A database may have given them other numbers, after the rows of others: so they are taken as stored.
        stored = map(self._apply_stored, tail.new)
        entries = [None if entry is None else next(stored) for entry in entries]
        state = self._state
        if any(entries) and self._is_checkpoint_due(state, entries):
            self._checkpoint_seq = state.head.seq  # the checkpoint that was written above, or that the server made by itself
        receipts = []
        for entry, (_, key) in zip(entries, requests, strict=True):
            if not key and entry is not None:
                key = entry.key
            receipts.append(Receipt(entry, state.runs.get(key), state))
        return tuple(receipts)

    def _apply_stored(self, row: StoredRow) -> LedgerEntry:
        """Apply a row that was appended, after the rows that others have appended before it, and return its entry."""
        count_between = row.seq - self._state.head.seq - 1
        if count_between > 0:
            for other in self.store.after(self.dataset, self._state.head.seq, count_between):
                self._apply(other)
        return self._apply(row)

    def _is_checkpoint_due(self, state: LedgerState, entries: Sequence[LedgerEntry | None]) -> bool:
        """Return whether a checkpoint is due. It is due at once after a quota, which needs totals per person, and when a copy is opened."""
        return is_due(state, self._checkpoint_seq) or any(
            entry is not None and entry.kind in ("quota", "copied") for entry in entries
        )

    def _append_entry(self, tail: Tail, state: LedgerState, request: LedgerRequest) -> LedgerEntry | None:
        """Append the entry of a request, apply it to `state` and return it. Return None if the request was granted before.

        The entry is written when the caller ends `Store.writing`.
        """
        now = self.now()
        content = request.entry(state, now)
        if content is None:
            return None
        entry = self._seal_and_apply(content, now, state)
        tail.append(entry.row)
        return entry

    def _with_signature(self, content: Mapping[str, Any], now: str = "") -> dict[str, Any]:
        return {**content, "who": self.who, "when": now or self.now(), "dpcli": __version__}

    def _seal_and_apply(self, content: Mapping[str, Any], now: str, state: LedgerState) -> LedgerEntry:
        """Return the sealed entry with this content, and apply it to `state`.

        The entry is applied as a later reader applies it. So no entry is written that a reader refuses.

        Raises InputError if the content breaks the grammar of entries, or is too long.
        """
        entry = seal(self._with_signature(content, now), self.dataset, state.head)
        wrong = wrong_size(entry.row.body) or wrong_entry(entry.content)
        if wrong is not None:
            raise InputError(f"{wrong}; nothing was written")
        state.apply(next_entry(entry.row, self.dataset, state.head))
        return entry

    def first_own_entry(self, state: LedgerState, request: LedgerRequest) -> LedgerEntry:
        """Return the first entry that only the copy of a moving dataset has, sealed, and apply it to `state`. The caller appends it.

        Args:
            state: The state after the copied entries.
            request: A `dpcli.ledger.stores.move_requests.PrepareCopy`.
        """
        now = self.now()
        content = request.entry(state, now)
        assert content is not None
        return self._seal_and_apply(content, now, state)
