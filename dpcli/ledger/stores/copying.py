"""Moves of a dataset, with its unchanged chain, from one ledger to another: between files and databases.

A process that is killed at any moment leaves a dataset that can be charged in one place at most. The steps:

1. Read every entry once, check it as `replay` does, and append it at the target, in one transaction that nobody else sees yet.
2. Read the appended entries again; they must lead to the same head.
3. Close the dataset at its origin with a durable entry ("moved"). From then on nobody can charge it there. Copy this entry and those that
   others wrote since step 1.
4. Give the copy a unique name (`Prepare`), and commit the transaction at the target. The copy is durable, complete and closed.
5. Under the writer's lock at the origin, append a last durable entry that names the copy. A dataset never names a second copy.
6. Open the named copy at the target ("copied"). No other copy can be opened.
7. Verify the copy.

A death before step 3 changes nothing. Between 3 and 6 nobody can charge the dataset, and after 6 only the target can be charged. The same
command completes the move. If the target has entries already, they must be a beginning of the same chain. A copy that somebody moved
elsewhere, or a renamed draft, can be charged only if it was opened before.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import Head, StoredRow, digest, next_entry, unchecked_entry
from dpcli.ledger.grammar import LONGEST_TEXT, is_a, seen
from dpcli.ledger.ledger import PAGE, Ledger, refuse_known_data
from dpcli.ledger.past_runs import ForgetfulRuns, rows_up_to
from dpcli.ledger.requests import Open, Prepare
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import address_of, create_or_fill, open_ledger, open_store
from dpcli.ledger.stores.store import Store, Tail
from dpcli.ledger.verify import Verified, refuse_changed, verify

DAY = 86_400.0  # seconds that a database may take to take all of it in
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """A dataset that has moved.

    Attributes:
        at: The end of its chain at the old place.
        repeated: The move had been completed before.
        verified: Result of verifying the copy.
    """

    dataset: str
    to: str
    at: Head
    repeated: bool
    verified: Verified


@dataclass(frozen=True, slots=True)
class Copying:
    """A move of a dataset from its ledger to the one at `url`. `fill` runs in a transaction of the new ledger."""

    ledger: Ledger
    url: str
    why: str = ""
    progress: Progress | None = None

    def fill(self, target: Store) -> None:
        """Copy all entries, close the origin and name the copy (1 to 4); nothing if that was done.

        Raises:
            LedgerError: If the chain is broken, has moved elsewhere, or `target` has another one under its name.
        """
        to, dataset = address_of(self.url, target), self.ledger.dataset
        self._refuse(target, to)
        self._refuse_one(target, to)
        with target.writing(dataset) as tail, closing(ForgetfulRuns()) as runs:
            if self.durable_copy(target) is not None:
                return
            state = LedgerState(dataset, runs=runs)
            self._take(target, tail, state, self._end())
            self.read_again(target, state.head)
            self._refuse_origin()
            departure = self.ledger.leave(to, self.why).state.departure
            assert departure is not None
            self._take(target, tail, state, departure.at)
            self._prepare(target, tail, state)

    def name(self, copy: str) -> None:
        """Name the copy at the old place, under the writer's lock (5). Raises LedgerError if another was named meanwhile."""
        departure = self.ledger.state().departure
        assert departure is not None
        if departure.copy != copy:
            try:
                self.ledger.name_copy(copy)
            except LedgerError:
                if self.ledger.state().departure == departure:
                    raise
                raise LedgerError(f"{departure.to}: {_second_copy_message(self.ledger.dataset)}") from None

    def open(self, target: Ledger, copy: str) -> None:
        """Open the named copy (step 6), unless it is open."""
        request = Open(copy, self.ledger.store.address, digest(target.store.schema()), target.store.version, seen(self.why))
        target.append_all([(request, "")], even_moved=True)

    def _refuse(self, target: Store, to: str) -> None:
        store, state = self.ledger.store, self.ledger.state()
        if store.identity == target.identity:
            raise LedgerError(f"{store.place}: FROM and TO are one ledger")
        for each in (store, target):
            if each.outdated:
                raise LedgerError(
                    f"{each.place}: {each.outdated}; expected those of this version to move a dataset: dpcli budget upgrade"
                )
        damaged = store.check(self.ledger.dataset)
        if damaged:
            raise LedgerError(f"{store.place}: the database is damaged: {'; '.join(damaged[:3])}")
        refuse_changed(store, state)
        if state.departure is not None and (state.departure.prepared or state.departure.to != to):
            state.refuse_moved()

    def _refuse_one(self, target: Store, to: str) -> None:
        """In a two-person ledger, propose the move if nobody has. Raises LedgerError until another person has approved it."""
        state = self.ledger.state()
        if not state.open_terms().two_person or state.departure is not None:
            return
        self._refuse_origin()
        proposal = state.proposals.get("place")
        if proposal is None or proposal.asks["to"] != to or proposal.expires <= self.ledger.now():
            left = self.ledger.leave(to, self.why).state
            if left.departure is not None:  # proposed and approved by others meanwhile
                return
            proposal = left.proposals["place"]
        raise LedgerError(
            f'dataset "{self.ledger.dataset}": expected a move to {to} that two persons want; entry {proposal.seq} of {proposal.who} '
            f"proposes it, until {proposal.expires}: once another person has approved that (dpcli budget approve LEDGER {proposal.seq} "
            "--reason TEXT), the same command moves it; nothing was moved"
        )

    def _refuse_origin(self) -> None:
        """Check, before anything is closed, that the copy can name its origin. Raises LedgerError if not."""
        place = self.ledger.store.address
        if not is_a("said", place):
            raise LedgerError(
                f"{place!a}: expected a path of visible characters, at most {LONGEST_TEXT}, which the copy names: rename it first; "
                "nothing was moved"
            )

    def durable_copy(self, target: Store) -> DurableCopy | None:
        """Return the complete copy in the target; None if there is none. Raises LedgerError if another copy was named."""
        dataset, departure = self.ledger.dataset, self.ledger.state().departure
        if departure is None:
            return None
        rows = target.after(dataset, departure.at.seq - 1, 3)
        complete = len(rows) > 1 and rows[0].hash == departure.at.hash and departure.copy in ("", rows[1].hash)
        if departure.copy and not complete:
            raise LedgerError(f"{target.place}: {_second_copy_message(dataset)}")
        if not complete:
            return None
        entries = [unchecked_entry(row, f'{target.place}: dataset "{dataset}", entry {row.seq}') for row in rows[1:]]
        if entries[0].content.get("copy") != departure.at.hash:
            return None  # a later state of the ledger that it comes from
        return DurableCopy(Head(rows[1].seq, rows[1].hash), any(entry.kind == "copied" for entry in entries))

    def _end(self) -> Head:
        """Return the last entry to copy: the one that closed the dataset, or the end of the chain."""
        state = self.ledger.state()
        return state.head if state.departure is None else state.departure.at

    def _take(self, target: Store, tail: Tail, state: LedgerState, end: Head) -> None:
        """Check every entry after `state` up to `end`, and copy those that the target does not have."""
        store, dataset, first = self.ledger.store, self.ledger.dataset, state.head.seq
        if not first and not target.after(dataset, 0, 1):
            refuse_known_data(target, dataset, self.ledger.state().open_terms())
        for row, present in zip_longest(rows_up_to(store, dataset, end.seq, PAGE, first), _rows_after(target, dataset, first)):
            if present is not None and present != row:
                raise LedgerError(
                    f'{target.place}: expected no "{dataset}", or a beginning of the chain in {store.place}: entry {present.seq} '
                    f"differs: a dataset is copied to a ledger that does not have it"
                )
            state.apply(next_entry(row, dataset, state.head))
            if present is None:
                tail.take(row)
            if self.progress is not None:
                self.progress(state.head.seq, end.seq)
        if state.head != end:
            raise LedgerError(f'{store.place}: dataset "{dataset}": its entries have changed while they were read')

    def read_again(self, target: Store, end: Head) -> None:
        dataset, head = self.ledger.dataset, Head()
        for row in _rows_after(target, dataset, 0):
            next_entry(row, dataset, head)
            head = Head(row.seq, row.hash)
        if head != end:
            raise LedgerError(f'{target.place}: dataset "{dataset}": what was written is not what is read')

    def _prepare(self, target: Store, tail: Tail, state: LedgerState) -> None:
        copy = Ledger(target, self.ledger.dataset)
        entry = copy.first_own_entry(state, Prepare(secrets.token_hex(16)))
        tail.take(entry.row)


@dataclass(frozen=True, slots=True)
class DurableCopy:
    """A durable copy up to the entry `end`, whose hash names it. It tells whether the copy can be charged."""

    end: Head
    open: bool

    @property
    def name(self) -> str:
        """The unique name of the copy."""
        return self.end.hash


def _second_copy_message(dataset: str) -> str:
    return (
        f'dataset "{dataset}" has arrived in this ledger before, and is gone: a second copy would be a second budget; restore this '
        "ledger from its own backup"
    )


def move_dataset(source: str, target: str, dataset: str, why: str = "", progress: Progress | None = None) -> Copied:
    """Move a dataset from the ledger at `source` to the one at `target`, which is made if it does not exist. Repeating it changes nothing.

    Raises LedgerError as `Copying.fill`, and where the copy is not sound.
    """
    with open_ledger(source, dataset) as ledger:
        repeated = _move(Copying(ledger, target, why, progress))
        departure = ledger.state().departure
        assert departure is not None
        with open_ledger(target, dataset) as copy:
            return Copied(dataset, address_of(target, copy.store), departure.at, repeated, verify(copy, progress=progress))


def _move(copying: Copying) -> bool:
    """Perform steps 1 to 6, all but the verification. Return True if the move had been completed before."""
    ledger = copying.ledger
    with _telling_where_it_stands(ledger):
        create_or_fill(copying.url, copying.fill, DAY)
    closed = ledger.state().departure
    with _telling_where_it_stands(ledger), open_ledger(copying.url, ledger.dataset) as copy:
        durable = copying.durable_copy(copy.store)
        if durable is None:
            raise LedgerError(f"{copy.store.place}: the copy was taken away while it was made")
        if not durable.open:
            copying.read_again(copy.store, durable.end)
        copying.name(durable.name)
        if not durable.open:
            with _telling_where_it_stands(ledger, ended=False):
                copying.open(copy, durable.name)
        return durable.open and closed is not None and closed.copy == durable.name


@contextmanager
def _telling_where_it_stands(ledger: Ledger, ended: bool = True) -> Iterator[None]:
    """Add to the error of a move that the dataset is closed, and how to complete the move.

    Args:
        ended: A copy that was named is open.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_what_completes_it(ledger, ended) or str(stop) or "nothing was moved") from None
    except LedgerError as error:
        standing = _what_completes_it(ledger, ended)
        raise LedgerError(f"{error}; {standing}" if standing and standing not in str(error) else str(error)) from None


def _what_completes_it(ledger: Ledger, ended: bool) -> str:
    """Return what to do about a dataset that was closed, and whose copy may not be open yet; "" if it was not closed or has arrived."""
    with suppress(LedgerError):
        departure = ledger.state().departure
        if departure is not None and not (departure.copy and ended):
            return f'"{ledger.dataset}" is closed in {ledger.store.place}: dpcli budget copy to {departure.to} completes the move'
    return ""


def dataset_names(url: str) -> tuple[str, ...]:
    """Return the datasets of a ledger. Raises LedgerError if it has none."""
    store = open_store(url)
    try:
        names = store.datasets()
    finally:
        store.close()
    if not names:
        raise LedgerError(f"{store.place}: no dataset to move{' that this login may see' if store.hides else ''}")
    return names


def _rows_after(store: Store, dataset: str, seq: int) -> Iterator[StoredRow]:
    """Yield the rows after `seq`, read in pages."""
    while rows := store.after(dataset, seq, PAGE):
        yield from rows
        seq = rows[-1].seq
