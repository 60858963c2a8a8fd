"""The move of a dataset, with its unchanged chain, from one ledger to another. Each ledger is a file or a database.

The *chain* is the list of a ledger's entries, each with the hash of the one before (dpcli/ledger/chain.py). The dataset can be charged in
at most one ledger, no matter when the process is killed. A move has these steps:

1. Read every entry once, check it as `Ledger.replay` does, and append it at the target, in one transaction that is not visible to others.
2. Read the appended entries again. Their head must be the head of the origin.
3. Close the dataset at its origin with a durable entry ("moved"). From then on nobody can charge it there. Copy this entry, and the
   entries that others wrote since step 1.
4. Give the copy a unique name (`PrepareCopy` in move_requests.py), and commit the transaction at the target. The copy is now durable,
   complete and closed.
5. Under the writer's lock at the origin, append a last durable entry that names the copy. A dataset never names a second copy.
6. Open the named copy at the target with an entry ("copied"). No other copy can be opened.
7. Verify the copy.

If the process dies before step 3, nothing has changed. Between steps 3 and 6 nobody can charge the dataset. After step 6 it can be charged
only at the target. If the command is repeated, it completes the move. If the target already has entries of the dataset, they must be the
beginning of the chain at the origin. A file that someone moved or renamed by hand can be charged only if the copy in it was opened. The
`departure` of a ledger's state says how far the move has come: its target (`to`), the closing entry (`closed_at`) and the name of the copy.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import Head, StoredRow, digest, next_entry, unchecked_entry
from dpcli.ledger.charges.past_runs import ForgetfulRuns, rows_up_to
from dpcli.ledger.entry_log import PAGE, KeyedRequest
from dpcli.ledger.grammar import LONGEST_TEXT, is_a, visible_text
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.move_requests import OpenCopy, PrepareCopy
from dpcli.ledger.stores.places import address_of, create_or_fill, open_ledger, open_store, refuse_known_data
from dpcli.ledger.stores.store import Store, Tail
from dpcli.ledger.verify import NAMED_FAULTS, Verified, require_unchanged_definitions, verify

# The longest time of the transaction in which a database appends all entries, a day. It is far longer than other transactions may take
# (WORK_SECONDS in postgres_connection.py), because a chain may be long. It affects only waiting.
COPY_SECONDS = 86_400.0
Progress = Callable[[int, int], None]  # called with the number of entries that were copied, and the number of all entries


@dataclass(frozen=True, slots=True)
class MovedDataset:
    """A dataset that has moved.

    Attributes:
        to: Address of the target.
        closed_at: The entry by which the dataset was closed at its origin.
        repeated: True if an earlier command had completed the move.
        verified: The result of verifying the copy.
    """

    dataset: str
    to: str
    closed_at: Head
    repeated: bool
    verified: Verified


@dataclass(frozen=True, slots=True)
class DatasetMove:
    """The move of a dataset from its ledger to the ledger at `url`.

    Attributes:
        ledger: The ledger of the dataset at its origin.
        url: Path or URL of the target.
        why: Reason, which the entries of the move record.
        progress: Function that is called for each copied entry.
    """

    ledger: Ledger
    url: str
    why: str = ""
    progress: Progress | None = None

    def fill(self, target: Store) -> None:
        """Copy all entries, close the origin and name the copy (steps 1 to 4). Do nothing if `target` has the complete copy already.

        Raises LedgerError if the chain is broken, the dataset has moved elsewhere, or `target` has another chain under its name.
        """
        to, dataset = address_of(self.url, target), self.ledger.dataset  # the address that the entries of the move record
        self._require_movable(target, to)
        self._require_approval(target, to)
        with target.writing(dataset) as tail, closing(ForgetfulRuns()) as runs:
            if self.durable_copy(target) is not None:
                return
            state = LedgerState(dataset, runs=runs)
            self._copy_entries(target, tail, state, self._last_to_copy())
            self.check_written(target, state.head)
            self._require_recordable_address()
            departure = self.ledger.leave(to, self.why).state.departure
            assert departure is not None
            self._copy_entries(target, tail, state, departure.closed_at)
            self._name_copy(target, tail, state)

    def record_name(self, copy: str) -> None:
        """Record the name of the copy at the origin (step 5). Raises LedgerError if another copy was named meanwhile."""
        departure = self.ledger.state().departure
        assert departure is not None  # `fill` has closed the dataset
        if departure.copy != copy:
            try:
                self.ledger.name_copy(copy)
            except LedgerError:
                if self.ledger.state().departure == departure:  # no copy was named: the error has another reason
                    raise
                raise LedgerError(f"{departure.to}: {_second_copy_message(self.ledger.dataset)}") from None

    def open_copy(self, target: Ledger, copy: str) -> None:
        """Open the named copy (step 6). Do nothing if it is open already."""
        request = OpenCopy(
            copy, self.ledger.store.address, digest(target.store.schema()), target.store.version, visible_text(self.why)
        )
        target.append_all([KeyedRequest(request)], even_moved=True)

    def _require_movable(self, target: Store, to: str) -> None:
        """Check that the dataset can move to `target`.

        Raises LedgerError if both ledgers are the same, the definitions of one are outdated, the origin is damaged, or the dataset has
        moved elsewhere.
        """
        store, state = self.ledger.store, self.ledger.state()
        if store.identity == target.identity:
            raise LedgerError(f"{store.place}: FROM and TO are the same ledger")
        for end in (store, target):
            if end.outdated:
                raise LedgerError(
                    f"{end.place}: {end.outdated}; a move needs the definitions of this version: dpcli budget upgrade"
                )
        damaged = store.check(self.ledger.dataset)
        if damaged:
            raise LedgerError(f"{store.place}: the database is damaged: {'; '.join(damaged[:NAMED_FAULTS])}")
        require_unchanged_definitions(store, state)
        if state.departure is not None and (state.departure.prepared or state.departure.to != to):
            state.refuse_moved()

    def _require_approval(self, target: Store, to: str) -> None:
        """Check that a second person has approved the move, if the ledger needs that. If there is no open proposal, make one.

        Raises LedgerError if no other person has approved the move yet.
        """
        state = self.ledger.state()
        if not state.open_terms().two_person or state.departure is not None:
            return
        self._require_recordable_address()
        proposal = state.proposals.get("place")  # the subject of a proposal to move (`subject_of`)
        if proposal is None or proposal.asks["to"] != to or proposal.expires <= self.ledger.now():
            state = self.ledger.leave(to, self.why).state
            if state.departure is not None:  # others have proposed and approved the move meanwhile
                return
            proposal = state.proposals["place"]
        raise LedgerError(
            f'dataset "{self.ledger.dataset}": the move to {to} needs the approval of another person; entry {proposal.seq} of '
            f"{proposal.who} proposes it, until {proposal.expires}: after dpcli budget approve LEDGER {proposal.seq} --reason TEXT, repeat "
            "this command; nothing was moved"
        )

    def _require_recordable_address(self) -> None:
        """Check that an entry can contain the address of the origin. Raises LedgerError if not.

        This is checked before the origin is closed, because the copy could not be opened afterwards.
        """
        place = self.ledger.store.address
        if not is_a("said", place):  # the type of the field that records it
            raise LedgerError(
                f"{place!a}: expected a path of at most {LONGEST_TEXT} visible characters, as the copy records it: rename the file "
                "first; nothing was moved"
            )

    def durable_copy(self, target: Store) -> DurableCopy | None:
        """Return the complete copy in the target; None if there is none. Raises LedgerError if another copy was named."""
        dataset, departure = self.ledger.dataset, self.ledger.state().departure
        if departure is None:
            return None
        # The entry that closed the dataset, the first own entry of the copy, and the entry that opened it, as far as they exist.
        rows = target.after(dataset, departure.closed_at.seq - 1, 3)
        closing_hash, name = (rows[0].hash, rows[1].hash) if len(rows) > 1 else ("", "")
        if closing_hash != departure.closed_at.hash or departure.copy not in ("", name):
            if departure.copy:
                raise LedgerError(f"{target.place}: {_second_copy_message(dataset)}")
            return None
        own_entries = [unchecked_entry(row, f'{target.place}: dataset "{dataset}", entry {row.seq}') for row in rows[1:]]
        first = own_entries[0]
        if first.content.get("copy") != departure.closed_at.hash:
            return None  # the target holds the entries of the origin itself, and not a copy
        is_open = any(entry.kind == "copied" for entry in own_entries)
        return DurableCopy(Head(first.row.seq, name), is_open)

    def _last_to_copy(self) -> Head:
        """Return the last entry to copy: the entry that closed the dataset or, if it is open, the end of the chain."""
        state = self.ledger.state()
        return state.head if state.departure is None else state.departure.closed_at

    def _copy_entries(self, target: Store, tail: Tail, state: LedgerState, end: Head) -> None:
        """Check every entry after `state` up to `end`, apply it to `state`, and append it at the target if it is missing there.

        Raises LedgerError if the chain is broken, has changed meanwhile, or differs from the entries of the target.
        """
        store, dataset, start = self.ledger.store, self.ledger.dataset, state.head.seq
        if not start and not target.after(dataset, 0, 1):  # a dataset that is new to the target
            refuse_known_data(target, dataset, self.ledger.state().open_terms())
        rows, present_rows = rows_up_to(store, dataset, end.seq, PAGE, start), _rows_after(target, dataset, start)
        for row, present in zip_longest(rows, present_rows):  # `row` is None if the target has more entries
            if present is not None and present != row:
                raise LedgerError(
                    f'{target.place}: expected no dataset "{dataset}", or the beginning of its chain in {store.place}: entry '
                    f"{present.seq} differs; move the dataset to a ledger that does not have it"
                )
            state.apply(next_entry(row, dataset, state.head))
            if present is None:
                tail.append_copied(row)
            if self.progress is not None:
                self.progress(state.head.seq, end.seq)
        if state.head != end:
            raise LedgerError(f'{store.place}: dataset "{dataset}": its entries have changed while they were read')

    def _name_copy(self, target: Store, tail: Tail, state: LedgerState) -> None:
        """Append the first entry that only the copy has. Its hash is the name of the copy, which a random word makes unique."""
        tail.append_copied(Ledger(target, self.ledger.dataset).first_own_entry(state, PrepareCopy(secrets.token_hex(16))).row)

    def check_written(self, target: Store, end: Head) -> None:
        """Read the chain of the copy. Raises LedgerError if it does not end at `end`."""
        dataset, head = self.ledger.dataset, Head()
        for row in _rows_after(target, dataset, 0):
            next_entry(row, dataset, head)
            head = Head(row.seq, row.hash)
        if head != end:
            raise LedgerError(f'{target.place}: dataset "{dataset}": the entries that were written cannot be read back')


@dataclass(frozen=True, slots=True)
class DurableCopy:
    """A durable and complete copy.

    Attributes:
        end: The head of the chain after the copy's first own entry.
        is_open: Whether the copy can be charged.
    """

    end: Head
    is_open: bool

    @property
    def name(self) -> str:
        """The unique name of the copy, which is the hash of its first own entry."""
        return self.end.hash


def _second_copy_message(dataset: str) -> str:
    return (
        f'dataset "{dataset}" was moved to this ledger before, and is missing: a second copy would be a second budget; restore this '
        "ledger from its own backup"
    )


def move_dataset(source: str, target: str, dataset: str, why: str = "", progress: Progress | None = None) -> MovedDataset:
    """Move a dataset from the ledger at `source` to the ledger at `target`, which is created if it does not exist.

    An interrupted move is completed. If the move was completed before, nothing is written.

    Raises LedgerError if the dataset cannot be moved (see `DatasetMove.fill`), or the verification of the copy fails.
    """
    with open_ledger(source, dataset) as ledger:
        repeated = _move(DatasetMove(ledger, target, why, progress))
        departure = ledger.state().departure
        assert departure is not None
        with open_ledger(target, dataset) as copy:
            return MovedDataset(
                dataset, address_of(target, copy.store), departure.closed_at, repeated, verify(copy, progress=progress)
            )


def _move(move: DatasetMove) -> bool:
    """Perform steps 1 to 6. Return True if an earlier command had completed the move."""
    ledger = move.ledger
    with _advice_after_closing(ledger):
        create_or_fill(move.url, move.fill, seconds=COPY_SECONDS)
    before_naming = ledger.state().departure
    with _advice_after_closing(ledger), open_ledger(move.url, ledger.dataset) as copy:
        durable = move.durable_copy(copy.store)
        if durable is None:
            raise LedgerError(f"{copy.store.place}: the copy disappeared while the dataset was moved")
        if not durable.is_open:
            move.check_written(copy.store, durable.end)
        move.record_name(durable.name)
        if not durable.is_open:
            with _advice_after_closing(ledger, is_copy_closed=True):
                move.open_copy(copy, durable.name)
        return durable.is_open and before_naming is not None and before_naming.copy == durable.name


@contextmanager
def _advice_after_closing(ledger: Ledger, is_copy_closed: bool = False) -> Iterator[None]:
    """Add to the error of a move that failed after the dataset was closed that it is closed, and how to complete the move.

    Nothing is added if the origin names a copy, which may then be open already, unless `is_copy_closed` states that it is not.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_advice(ledger, is_copy_closed) or str(stop) or "nothing was moved") from None
    except LedgerError as error:
        advice = _advice(ledger, is_copy_closed)
        raise LedgerError(f"{error}; {advice}" if advice and advice not in str(error) else str(error)) from None


def _advice(ledger: Ledger, is_copy_closed: bool) -> str:
    """Return how to complete the move of a closed dataset; "" if the dataset is not closed, or if its copy may be open."""
    with suppress(LedgerError):  # of the ledger at the origin; the error that is reported is more important
        departure = ledger.state().departure
        if departure is not None and (is_copy_closed or not departure.copy):
            return f'"{ledger.dataset}" is closed in {ledger.store.place}: dpcli budget copy to {departure.to} completes the move'
    return ""


def dataset_names(url: str) -> tuple[str, ...]:
    """Return the names of a ledger's datasets. Raises LedgerError if there are none that the login may see."""
    with closing(open_store(url)) as store:
        names = store.datasets()
    if not names:
        raise LedgerError(f"{store.place}: no dataset to move{' that this login may see' if store.hides else ''}")
    return names


def _rows_after(store: Store, dataset: str, seq: int) -> Iterator[StoredRow]:
    """Yield the rows after entry `seq`, which are read in pages."""
    while rows := store.after(dataset, seq, PAGE):
        yield from rows
        seq = rows[-1].seq
