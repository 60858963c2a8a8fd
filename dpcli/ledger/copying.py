"""A dataset moved from one ledger to another, its chain as it is: between files and databases.

The order, in which a death at any moment errs toward charging too much or not at all:

1. every entry is read once, checked as `replay` does, and taken in where it goes: in one transaction, which nobody sees before its end;
2. what was taken in is read again, and must lead to the same head;
3. the dataset is closed here, durably ("moved"): nobody is charged here from now on. What others wrote since step 1 goes along, as does
   that entry;
4. the writer's lock is taken here again, and held to the end of step 5: whoever copies at the same moment waits, and then finds that a copy
   was named. The copy is opened there ("copied"), and the transaction there ends: durable, whole, and the only one that can be charged;
5. under that lock a last entry here names it. A copy that was named is never made again;
6. the copy is verified.

After a death before 3 nothing has happened. After one between 3 and 4 nobody can charge it anywhere, and after one between 4 and 5 only
there: the same command goes on. What is there already must be a beginning of the same chain.

What is left: two transactions in two places do not end at once. Whoever dies, or loses the lock, between the commits of 4 and 5
leaves a copy that was not named. If it is also taken away from where it was made before the command is given again, a second one is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest

from dpcli.errors import LedgerError
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, digest, opened
from dpcli.ledger.checkpoint import checkpoint_of
from dpcli.ledger.earlier import pages
from dpcli.ledger.forgetful import ForgetfulRuns
from dpcli.ledger.grammar import TEXT, TYPES, seen
from dpcli.ledger.ledger import PAGE, Ledger, refuse_double
from dpcli.ledger.moving import Arrived, Open
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import address, created, open_ledger, open_store
from dpcli.ledger.stores.store import Store, Tail
from dpcli.ledger.verify import Verified, refuse_changed, verify

DAY = 86_400.0  # seconds that a database may take to take all of it in
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """One dataset that has moved. at: the end of its chain where it was; repeated: whether all was done before; verified: the copy."""

    dataset: str
    to: str
    at: Head
    repeated: bool
    verified: Verified


@dataclass(frozen=True, slots=True)
class Copying:
    """One dataset on its way: from the ledger that it is in to the one at `url`, in whose own transaction `fill` runs."""

    ledger: Ledger
    url: str
    why: str = ""
    new: bool = False
    progress: Progress | None = None

    def fill(self, target: Store, held: ExitStack) -> Naming:
        """Take all of it in and open it there (1 to 4), and what is to be done under the lock that `held` lets go of (5).

        Nothing is taken in where it is there already. Raises LedgerError where the chain is broken, has moved elsewhere, or `target` has
        another one under its name.
        """
        to, dataset = address(self.url, target), self.ledger.dataset
        self._refuse(target, to)
        self._refuse_one(target, to)
        with target.writing(dataset) as tail, closing(ForgetfulRuns()) as runs:
            there = self._arrived(target)
            if there:
                return self._locked(target, held, there)
            state = LedgerState(dataset, runs=runs)
            self._take(target, tail, state, self._end())
            self._read_again(target, state.head)
            self._refuse_origin()
            departure = self.ledger.leave(to, self.why).state.departure
            assert departure is not None
            self._take(target, tail, state, departure.at)
            naming = self._locked(target, held, "")
            return Naming(naming.ledger, naming.tail, self._open(target, tail, state).row.hash)

    def _locked(self, target: Store, held: ExitStack, copy: str) -> Naming:
        """Hold the dataset where it was. Raises LedgerError where a copy other than `copy` was named meanwhile."""
        ledger = self.ledger
        departure = ledger.state().departure
        if departure is not None and departure.copy == copy != "":
            return Naming(ledger, None, copy)
        tail = held.enter_context(ledger.store.writing(ledger.dataset))
        departure = ledger.state().departure  # what others wrote until now
        if departure is None or departure.copy not in ("", copy):
            raise LedgerError(f"{target.place}: {_second(ledger.dataset)}")
        return Naming(ledger, tail, copy)

    def _refuse(self, target: Store, to: str) -> None:
        store, state = self.ledger.store, self.ledger.state()
        if store.identity == target.identity:
            raise LedgerError(f"{store.place}: expected another ledger to copy to, found the same one")
        for each in (store, target):
            if each.outdated:
                raise LedgerError(
                    f"{each.place}: {each.outdated}; expected those of this version to move a dataset: dpcli budget upgrade"
                )
        damaged = store.check(self.ledger.dataset)
        if damaged:
            raise LedgerError(f"{store.place}: the database is damaged: {'; '.join(damaged[:3])}")
        refuse_changed(store, state)
        if state.departure is not None and state.departure.to != to:
            state.refuse_moved()

    def _refuse_one(self, target: Store, to: str) -> None:
        """In a ledger of two persons, propose the move where nobody has; raises LedgerError until another person has approved it."""
        state = self.ledger.state()
        if not state.open_terms().two_person or state.departure is not None:
            return
        self._refuse_origin()
        found = state.proposals.get("place")
        if found is None or found.asks["to"] != to or found.expires <= state.time(self.ledger.now()):
            found = self.ledger.leave(to, self.why).state.proposals["place"]
        raise LedgerError(
            f'dataset "{self.ledger.dataset}": expected a move to {to} that two persons want; entry {found.seq} of {found.who} '
            f"proposes it, until {found.expires}: once another person has approved that (dpcli budget approve LEDGER {found.seq} "
            "--reason TEXT), the same command moves it; nothing was moved"
        )

    def _refuse_origin(self) -> None:
        """Raise LedgerError where the copy could not say where it comes from, before anything is closed."""
        place = self.ledger.store.address
        if not TYPES["said"](place):
            raise LedgerError(
                f"{place!a}: expected a path of visible characters, at most {TEXT}, which the copy names: rename it first; nothing was "
                "moved"
            )

    def _arrived(self, target: Store) -> str:
        """The hash of the entry that opened it there, "" where none did. Raises LedgerError where it was, and is there no longer."""
        dataset, departure = self.ledger.dataset, self.ledger.state().departure
        if departure is None:
            return ""
        rows = target.after(dataset, departure.at.seq - 1, 2)
        there = len(rows) == 2 and rows[0].hash == departure.at.hash and departure.copy in ("", rows[1].hash)
        if departure.copy and not there:
            raise LedgerError(f"{target.place}: {_second(dataset)}")
        return rows[1].hash if there else ""

    def _end(self) -> Head:
        """Of what is copied: the entry that closed it, or the last."""
        state = self.ledger.state()
        return state.head if state.departure is None else state.departure.at

    def _take(self, target: Store, tail: Tail, state: LedgerState, end: Head) -> None:
        """Every entry after `state` up to `end`: checked, and taken in where it is not there already."""
        store, dataset, first = self.ledger.store, self.ledger.dataset, state.head.seq
        if not first and not target.opening(dataset):
            refuse_double(target, dataset, self.ledger.state().open_terms(), self.new)
        for row, held in zip_longest(pages(store, dataset, end, PAGE, first), _all(target, dataset, first)):
            if held is not None and held != row:
                raise LedgerError(
                    f'{target.place}: expected no "{dataset}", or a beginning of the chain in {store.place}, found another entry '
                    f"{held.seq}: a dataset is copied to a ledger that does not have it"
                )
            state.apply(opened(row, dataset, state.head))
            if held is None:
                tail.take(row)
            if self.progress is not None:
                self.progress(state.head.seq, end.seq)
        if state.head != end:
            raise LedgerError(f'{store.place}: dataset "{dataset}": its entries have changed while they were read')

    def _read_again(self, target: Store, end: Head) -> None:
        dataset, head = self.ledger.dataset, Head()
        for row in _all(target, dataset, 0):
            opened(row, dataset, head)
            head = Head(row.seq, row.hash)
        if head != end:
            raise LedgerError(f'{target.place}: dataset "{dataset}": what was written is not what is read: nothing was moved')

    def _open(self, target: Store, tail: Tail, state: LedgerState) -> LedgerEntry:
        asked = Open(self.ledger.store.address, digest(target.schema()), target.version, seen(self.why))
        entry = Ledger(target, self.ledger.dataset).append_in(tail, state, asked)
        if target.takes_notes:
            tail.note(checkpoint_of(state))
        assert entry is not None  # an opening is always written
        return entry


@dataclass(frozen=True, slots=True)
class Naming:
    """A copy that is about to be durable, by the hash of the entry that opened it. tail: of where it was; None: named before."""

    ledger: Ledger
    tail: Tail | None
    copy: str

    def done(self) -> Head:
        """Name it (5), durably when the lock is let go; the end of the chain that was copied."""
        state = self.ledger.state()
        departure = state.departure
        assert departure is not None
        if self.tail is not None:
            self.ledger.append_in(self.tail, state.rehearsal(), Arrived(self.copy))
        return departure.at


def _second(dataset: str) -> str:
    return (
        f'dataset "{dataset}" has arrived here before, and is here no longer: a second copy would be a second budget; restore this '
        "ledger from its own backup"
    )


def copied(source: str, target: str, dataset: str, why: str = "", new: bool = False, progress: Progress | None = None) -> Copied:
    """Move one dataset from the ledger at `source` to the one at `target`, made where there is none; done before, nothing is written.

    new: although its name looks like another one's there. Raises LedgerError as `Copying.fill`, and where the copy is not sound.
    """
    with open_ledger(source, dataset) as ledger:
        copying, departure = Copying(ledger, target, why, new, progress), ledger.state().departure
        with _told(ledger):
            at = _moved(copying)
        with open_ledger(target, dataset) as copy:
            verified = verify(copy, progress=progress)
            repeated = departure is not None and departure.copy != ""
            return Copied(dataset, address(target, copy.store), at, repeated, verified)


def _moved(copying: Copying) -> Head:
    """All but verify it (1 to 5); the end of the chain that was copied."""
    namings: list[Naming] = []
    with ExitStack() as held:
        created(copying.url, lambda target: namings.append(copying.fill(target, held)), DAY)
        return namings[-1].done()


@contextmanager
def _told(ledger: Ledger) -> Iterator[None]:
    """Whoever stops a move, or what does, where the dataset is closed by then: what its ledger says alone would not tell."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_standing(ledger) or "nothing was moved") from None
    except LedgerError as error:
        standing = _standing(ledger)
        raise LedgerError(f"{error}; {standing}" if standing and standing not in str(error) else str(error)) from None


def _standing(ledger: Ledger) -> str:
    """What to do about a dataset that was closed, and whose copy may not be open yet; "" where it was not closed or has arrived."""
    with suppress(LedgerError):
        departure = ledger.state().departure
        if departure is not None and not departure.copy:
            return f'"{ledger.dataset}" is closed in {ledger.store.place}: dpcli budget copy to {departure.to} completes the move'
    return ""


def all_of(url: str) -> tuple[str, ...]:
    """The datasets of a ledger. Raises LedgerError where it has none."""
    store = open_store(url)
    try:
        found = store.datasets()
    finally:
        store.close()
    if not found:
        raise LedgerError(f"{store.place}: expected a dataset to move, found none")
    return found


def _all(store: Store, dataset: str, seq: int) -> Iterator[StoredRow]:
    """The rows after `seq`, a page at a time."""
    while rows := store.after(dataset, seq, PAGE):
        yield from rows
        seq = rows[-1].seq
