"""The ledger of one dataset: may this run still be made?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Self

from dpcli import __version__
from dpcli.base.errors import CannotCertify, Denied, InputError, LedgerError, NotRepresentable
from dpcli.file.pipeline.parts import marked_by_a_blank
from dpcli.ledger.chain import Head, LedgerEntry, StoredRow, digest, next_entry, seal
from dpcli.ledger.checkpoint import checkpoint_of, is_due, state_at_checkpoint
from dpcli.ledger.filters.declared_set import declared_caps
from dpcli.ledger.filters.filter import Cost, sum_of
from dpcli.ledger.governance.amendments import Amend, Approve, Proposable, Refuse, SetQuota
from dpcli.ledger.governance.proposals import proposal_numbered
from dpcli.ledger.governance.quotas import ALERT_AT, UnknownPeople
from dpcli.ledger.grammar import LONGEST_ENTRY, seen, wrong_entry
from dpcli.ledger.past_runs import EarlierRuns, ForgetfulRuns, fold_entries, rows_up_to
from dpcli.ledger.requests import (
    OWN_KEY,
    Arrived,
    Charge,
    CountAnswers,
    Leave,
    LedgerRequest,
    Move,
    Retire,
    Upgrade,
    checked_key,
)
from dpcli.ledger.state import LedgerState, Run
from dpcli.ledger.stores.store import UNSURE, Store, Tail
from dpcli.ledger.terms import LedgerTerms
from dpcli.mechanisms.neighbours import Adjacency

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

PAGE, MANY = 256, 4096  # entries that are read at once: where they are let go, and where runs are kept


def account_name() -> str:
    """Return the account of this process. On a file it proves nothing: whoever may write that may write any name."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return f"uid {os.geteuid()}" if hasattr(os, "geteuid") else "unknown"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a request.

    Attributes:
        entry: The entry that was appended, None if it had been granted before (`repeated`).
        run: What it is about, as it now stands.
        notes: What whoever asked has to know besides, a line each.
    """

    entry: LedgerEntry | None
    run: Run | None
    state: LedgerState
    notes: tuple[str, ...] = ()

    @property
    def repeated(self) -> bool:
        """True if nothing had to be written."""
        return self.entry is None


def first_time(receipt: Receipt, key: str) -> Receipt:
    """Return the receipt of a run that was charged now. Raises LedgerError if it was before: its noise may have been drawn."""
    if receipt.repeated:
        raise LedgerError(f'key "{key}": expected a run that was not charged before, found one that was: {OWN_KEY}')
    return receipt


class Ledger:
    """A dataset in a store.

    Reading begins at its last checkpoint (dpcli.ledger.checkpoint), or at the first entry where there is none. Every entry from there on is
    checked against the chain when it is first read; what has been read is remembered, and a later read starts after it.
    At the end of a `with` its connection is closed.
    """

    def __init__(self, store: Store, dataset: str, who: str = "", now: Callable[[], str] | None = None) -> None:
        self.store, self.dataset, self.now = store, dataset, now or store.now
        self.who = who or store.who or account_name()
        self._state = LedgerState(dataset, hides=store.hides)
        self._noted = 0  # the entry of the last checkpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store's connection."""
        self.store.close()

    def state(self) -> LedgerState:
        """Return everything up to now. Raises LedgerError if the ledger is missing, locked or damaged."""
        if not self._state.head.seq:
            self._state = state_at_checkpoint(self.store, self.dataset) or self._state
            self._noted = self._state.head.seq
        rows = None
        while rows is None or len(rows) == MANY:
            rows = self.store.after(self.dataset, self._state.head.seq, MANY)
            for row in rows:
                self._take(row)
        self._state.open_terms()
        return self._state

    def _take(self, row: StoredRow) -> None:
        """Take in the next row; at the first quota after totals that say nothing of persons all entries are read."""
        try:
            self._state.apply(next_entry(row, self.dataset, self._state.head))
        except UnknownPeople:
            self._state = fold_entries(self.store, self.dataset, row.seq)

    def _know_people(self) -> None:
        """Read all entries where the totals that were noted say nothing of persons, as none was needed before a quota."""
        if self.state().people is None:
            self._state = fold_entries(self.store, self.dataset, self._state.head.seq)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return every entry, as `replay` checks it."""
        return tuple(entry for entry, _ in self.replay())

    def replay(self) -> Iterator[tuple[LedgerEntry, LedgerState]]:
        """Yield every entry, checked against the chain, and the state after it: read a page at a time, and not remembered."""
        with closing(ForgetfulRuns()) as runs:
            state = LedgerState(self.dataset, runs=runs, hides=self.store.hides)
            while rows := self.store.after(self.dataset, state.head.seq, PAGE):
                for row in rows:
                    entry = next_entry(row, self.dataset, state.head)
                    state.apply(entry)
                    yield entry, state

    def reread(self, end: Head) -> Iterator[LedgerEntry]:
        """Yield the entries up to `end`, to which `replay` came, checked against the chain."""
        head = Head()
        for row in rows_up_to(self.store, self.dataset, end.seq, PAGE):
            entry = next_entry(row, self.dataset, head)
            head = Head(row.seq, row.hash)
            yield entry
        if head != end:
            raise LedgerError(f'{self.store.place}: dataset "{self.dataset}": its entries have changed while they were read')

    def runs_beginning(self, start: str) -> Sequence[Run]:
        """Return the runs whose keys begin with `start`, an ASCII character at its end, in the order in which they were charged.

        Those up to the last checkpoint are found by the index of keys, on which every charge rests, and each is checked by itself.
        """
        runs = self.state().runs
        if isinstance(runs, EarlierRuns):
            return runs.beginning(start)
        return [run for run in runs.values() if run.key.startswith(start)]

    def cost(self, pipeline: Pipeline, delta: float | None = None) -> tuple[Cost, float]:
        """Return what one run would be charged, and the delta it is described at (the file's if None; 0 if it states none).

        Raises InputError if the run is stated for another dataset, unit or adjacency; CannotCertify, NotRepresentable if it has no
        cost; LedgerError if the dataset has moved.
        """
        terms = self._state.terms or self.state().open_terms()  # which no entry changes
        self._state.refuse_moved()
        if pipeline.privacy.dataset not in (None, self.dataset):
            raise InputError(
                f'{pipeline.path or "<pipeline>"}: privacy.dataset: expected "{self.dataset}", whose ledger this is, or none, found '
                f'"{pipeline.privacy.dataset}"'
            )
        terms.refuse_other_privacy(pipeline)
        at = next((d for d in (delta, pipeline.privacy.delta) if d is not None), 0.0)
        if not 0.0 <= at < 1.0:
            raise InputError(f"expected a delta in [0, 1), found {at!r}")
        try:
            return terms.price(pipeline, at), at
        except (CannotCertify, NotRepresentable) as refusal:
            raise type(refusal)(f"{refusal}{terms.filter_advice(pipeline, at)}") from None

    def spend(self, pipeline: Pipeline, key: str, delta: float | None = None, why: str = "", window: Sequence[str] = ()) -> Receipt:
        """Charge a run that is made at once; returns when the charge is durable, and only then may noise be drawn.

        Args:
            window: The blocks that it reads (names, FIRST..LAST), where the dataset has any; those of the pipeline if absent.

        Raises:
            Denied: If it does not fit: nothing is written then.
        """
        return self._charge(self._request("spend", pipeline, key, delta, why, None, window), pipeline)

    def spend_both(self, parts: Sequence[tuple[Pipeline, str]], together: Pipeline, why: str = "") -> tuple[Receipt, ...]:
        """Charge parts of one run, each under its key, all or none, as `spend` does.

        Args:
            together: The run that a refusal names.
        """
        requests = [self._request("spend", pipeline, key, None, why, None, ()) for pipeline, key in parts]
        try:
            return self.append_all([(request, request.key) for request in requests])
        except Denied:
            raise self._denied(replace(requests[0], cost=sum_of([one.cost for one in requests])), together) from None

    def reserve(
        self,
        pipeline: Pipeline,
        key: str,
        delta: float | None = None,
        why: str = "",
        expires: str | None = None,
        window: Sequence[str] = (),
    ) -> Receipt:
        """Charge a long run before it starts; `start` it before the first noise, `commit` it at its end.

        A run that is resumed draws fresh noise: what it does again is another run, with a key of its own.
        """
        return self._charge(self._request("reserve", pipeline, key, delta, why, expires, window), pipeline)

    def start(self, key: str, why: str = "") -> Receipt:
        """Note that noise is about to be drawn: from here on the reservation cannot be voided.

        Args:
            why: The reason, needed if it is somebody else's.
        """
        return self._append(Move("start", key, self.who, seen(why)), key)

    def commit(self, key: str, why: str = "") -> Receipt:
        """Note that a reserved run has ended; it stays charged.

        Args:
            why: The reason, needed if it is somebody else's, or was never started.
        """
        return self._append(Move("commit", key, self.who, seen(why)), key)

    def count(self, key: str, of: str, count: int, total: int) -> int:
        """Grant `count` more answers of a run, called `of`, all or none: how many that makes in all, at most `total`.

        Durable on return, and only then may their noise be drawn. A folder that is put back to an earlier state is no second grant.
        """
        entry = self._append(CountAnswers(key, of, count, total, self.who), key).entry
        assert entry is not None
        return int(entry.content["count"])

    def void(self, key: str, why: str, expires: str | None = None) -> Receipt:
        """Give back a reservation of which no noise was drawn, with the reason. Raises LedgerError if it was started or has expired.

        Args:
            expires: As in `amend`.
        """
        return self._append(Proposable(Move("void", key, self.who, seen(why)), expires), key)

    def amend(
        self,
        epsilon: float,
        why: str,
        approver: str = "",
        acknowledged: bool = False,
        expires: str | None = None,
        unseen: bool = False,
    ) -> Receipt:
        """Change the cap on epsilon; chained like every entry. In a ledger of two persons it is proposed, and changes when approved.

        Args:
            unseen: The approver's word that nobody who decides it has seen an output; the guarantee is then the new cap.
            acknowledged: Needed upwards without that word, as no epsilon is guaranteed then, and downwards, as a lower cap stops further
                runs and guarantees nothing about those that were made.
            expires: Until when another person may approve it (a time, 7d, 36h); a week if None.
        """
        return self._append(Proposable(Amend(epsilon, seen(why), seen(approver), self.who, unseen, acknowledged), expires), "")

    def approve(self, seq: int, why: str, unseen: bool = False, acknowledged: bool = False) -> Receipt:
        """Make what entry `seq` proposes effective. Raises LedgerError if it is not open, or is this person's own.

        Args:
            unseen, acknowledged: As in `amend`, of a cap that is raised.
        """
        proposal = proposal_numbered(self.state().proposals, seq)
        if proposal is not None and proposal.asks["kind"] == "quota":
            self._know_people()
        return self._append(Approve(seq, self.who, seen(why), unseen, acknowledged), "")

    def refuse(self, seq: int, why: str) -> Receipt:
        """Close the proposal of entry `seq`; its proposer withdraws it so."""
        return self._append(Refuse(seq, seen(why)), "")

    def quota(
        self,
        of: str,
        name: str,
        share: str,
        members: Sequence[str] = (),
        alert_at: str = ALERT_AT,
        why: str = "",
        expires: str | None = None,
    ) -> Receipt:
        """Limit what a person (`of`), or the members of a team together, may charge to a share of the cap; 1 lifts it.

        Args:
            expires: As in `amend`.
        """
        self._know_people()
        everybody = tuple(sorted({*members})) if of == "team" else (name,)
        return self._append(Proposable(SetQuota(of, name, everybody, share, alert_at, seen(why)), expires), "")

    def retire(self, window: Sequence[str], why: str) -> Receipt:
        """Close blocks for good, with the reason. Raises InputError if the dataset has none."""
        return self._append(Retire(self.window(window), seen(why)), "")

    def window(self, stated: Sequence[str]) -> tuple[str, ...]:
        """Return the blocks that are stated, in order; none if the dataset has none. Raises InputError if one is wrong."""
        family = (self._state.terms or self.state().open_terms()).family
        if family is None:
            if stated:
                raise InputError(f'--window: expected none, as "{self.dataset}" is not cut into blocks, found {stated[0]}')
            return ()
        if not stated:
            raise InputError(
                f'--window: expected the blocks of "{self.dataset}" that are read ({family.kind.word}): state them as window '
                "under [privacy], or by this flag of a command that charges a run"
            )
        return family.window(stated)

    def resolve_trailing(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return what is given to a flag, "last 7 days" as the blocks up to the day before this one, by the ledger's clock in UTC.

        Raises:
            InputError: If the blocks are not days or weeks.
        """
        if not given:
            return ()
        from dpcli.ledger.planning.schedule import trailing_of

        family = self.state().open_terms().family
        if family is None:
            return tuple(given)
        blocks: list[str] = []
        for text in given:
            trailing = trailing_of(text, family.kind)
            blocks += [text] if trailing is None else trailing.blocks(family.kind, date.fromisoformat(self.now()[:10]))
        return tuple(blocks)

    def stated_window(self, pipeline: Pipeline, given: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the blocks that a file says it reads, or that are given with it. Raises InputError if the two differ, or as `window`.

        Everything that is charged passes here: no run is charged on other blocks than it states. A blanked record may leave its block and
        enter another: under zero-out only entries are charged on blocks to which a blank adds nothing.
        """
        stated = pipeline.privacy.window or ()
        if given and stated and self.window(given) != self.window(stated):
            raise InputError(
                f"--window: {', '.join(given)[:60]} contradicts the window of {pipeline.path or '<pipeline>'} ({', '.join(stated)[:60]})"
            )
        blocks = self.window(given or stated)
        marked = marked_by_a_blank(pipeline.mechanisms) if blocks and pipeline.privacy.adjacency is Adjacency.ZERO_OUT else None
        if marked is not None:
            raise InputError(
                f'mechanism["{marked}"]: expected noise_multiplier and no max_batch_size: a record that is blanked may move between '
                "blocks, and this entry may tell where a blank is"
            )
        return blocks

    def upgrade(self) -> Receipt:
        """Note that the definitions which guard the entries were made again by a later version."""
        return self._append(Upgrade(digest(self.store.schema()), self.store.version), "", even_moved=True)

    def leave(self, to: str, why: str = "", expires: str | None = None) -> Receipt:
        """Close the dataset, as it moves to the ledger at `to` (dpcli.ledger.stores.copying). In a ledger of two persons it is proposed.

        Raises:
            LedgerError: If it moved elsewhere.
        """
        return self._append(Proposable(Leave(to, seen(why)), expires), "", even_moved=True)

    def name_copy(self, copy: str) -> Receipt:
        """Name its copy there, by the hash of that one's own first entry."""
        return self._append(Arrived(copy), "", even_moved=True)

    def first_own_entry(self, state: LedgerState, request: LedgerRequest) -> LedgerEntry:
        """Return the first entry of a copy that is its own, after `state`, which takes it in."""
        now = self.now()
        content = request.entry(state, now)
        assert content is not None
        return self._applied(content, now, state)

    def _charge(self, request: Charge, pipeline: Pipeline) -> Receipt:
        try:
            receipt = self._append(request, request.key)
        except Denied:
            raise self._denied(request, pipeline) from None
        return replace(receipt, notes=request.repeated(receipt.run)) if receipt.repeated and receipt.run else receipt

    def _denied(self, request: Charge, pipeline: Pipeline) -> Denied:
        from dpcli.ledger.denial import denial

        return Denied(denial(self.state(), pipeline, request.cost, request.delta, request.window, self.who))

    def _request(
        self,
        kind: str,
        pipeline: Pipeline,
        key: str,
        delta: float | None,
        why: str,
        expires: str | None,
        window: Sequence[str],
    ) -> Charge:
        from dpcli.file.pipeline.canonical import tables_of

        cost, at = self.cost(pipeline, delta)
        blocks = self.stated_window(pipeline, self.resolve_trailing(window))
        return Charge(kind, checked_key(key), tables_of(pipeline), at, cost, self.who, seen(why), expires, blocks)

    def _append(self, request: LedgerRequest, key: str, even_moved: bool = False) -> Receipt:
        """Append one request.

        Args:
            even_moved: As of `append_all`.
        """
        (receipt,) = self.append_all([(request, key)], even_moved)
        return receipt

    def append_all(self, requests: Sequence[tuple[LedgerRequest, str]], even_moved: bool = False) -> tuple[Receipt, ...]:
        """Append requests, with the keys of their runs, in order and in one transaction: all or none. Raise what any of them raises.

        Args:
            even_moved: Append them to a dataset that has moved too.
        """
        state = self.state()  # most of the reading before anybody has to wait
        entries: list[LedgerEntry | None] = []
        try:
            with self.store.writing(self.dataset) as tail:
                for row in tail.after(state.head.seq):
                    self._take(row)
                state = self._state
                if not even_moved:
                    state.refuse_moved()
                trial = state.rehearsal()
                for request, _ in requests:
                    entries.append(self.append_in(tail, trial, request))
                if self.store.takes_notes and self._notable(trial, entries):
                    tail.note(checkpoint_of(trial))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(UNSURE if any(entries) else "nothing was written") from None
        for entry in filter(None, entries):  # durable: only now are they remembered
            state.apply(entry)
        self._noted = state.head.seq if any(entries) and self._notable(state, entries) else self._noted
        return tuple(
            Receipt(entry, state.runs.get(key or ("" if entry is None else entry.key)), state)
            for entry, (_, key) in zip(entries, requests, strict=True)
        )

    def _notable(self, state: LedgerState, entries: Sequence[LedgerEntry | None]) -> bool:
        """Check whether a checkpoint is due: at once after a quota, which needs to know who was charged for what, and in an opened copy."""
        return is_due(state, self._noted) or any(entry is not None and entry.kind in ("quota", "copied") for entry in entries)

    def append_in(self, tail: Tail, state: LedgerState, request: LedgerRequest) -> LedgerEntry | None:
        """Append the entry of a request after `state`, which takes it in; None if none is needed. The caller ends the transaction."""
        now = self.now()
        content = request.entry(state, now)
        if content is None:
            return None
        before = state.head.seq
        entry = self._applied(content, now, state)
        tail.append(entry.row)
        if list(tail.after(before)) != [entry.row]:
            raise LedgerError(f"{self.store.place}: an entry was written and is not there: the ledger's definitions were changed")
        return entry

    def _signed(self, content: Mapping[str, Any], now: str = "") -> dict[str, Any]:
        return {**content, "who": self.who, "when": now or self.now(), "dpcli": __version__}

    def _applied(self, content: Mapping[str, Any], now: str, state: LedgerState) -> LedgerEntry:
        """Return the signed entry after `state`, which takes it in: what a later reading would refuse is not written."""
        entry = seal(self._signed(content, now), self.dataset, state.head)
        wrong = wrong_entry(entry.content)
        if wrong is None and len(entry.row.body) > LONGEST_ENTRY:
            wrong = f"expected an entry of at most {LONGEST_ENTRY:,} characters, found {len(entry.row.body):,}"
        if wrong is not None:
            raise InputError(f"{wrong}; nothing was written")
        state.apply(next_entry(entry.row, self.dataset, state.head))
        return entry


def open_dataset(store: Store, dataset: str, terms: LedgerTerms, who: str = "", now: Callable[[], str] | None = None) -> Ledger:
    """Append the opening entry of a new dataset. Raises LedgerError if it has one already, or its data under another name."""
    ledger = Ledger(store, dataset, who, now)
    caps = declared_caps(terms.declared) if terms.mode == "declared" else terms.caps(terms.epsilon)
    with store.writing(dataset) as tail:
        if tail.after(0):
            raise LedgerError(
                f'{store.place}: expected a new dataset, found "{dataset}", which has a ledger (its terms are fixed for good)'
            )
        refuse_known_data(store, dataset, terms)
        opening = {"kind": "open", "terms": terms.content(), "caps": caps}
        tail.append(ledger._applied(opening, ledger.now(), LedgerState(dataset)).row)
    return ledger


def refuse_known_data(store: Store, dataset: str, terms: LedgerTerms) -> None:
    """Raise LedgerError if the fingerprint is another dataset's: the same data under a second name would have a second budget."""
    stated = (terms.fingerprint or "").lower()  # a hash in capitals is the same hash
    for other in store.datasets() if stated else ():
        known = _terms_of(store, other) if other != dataset else None
        if known is not None and (known.fingerprint or "").lower() == stated:
            raise LedgerError(
                f'{store.place}: expected new data, found the fingerprint of dataset "{other}": its ledger goes on counting'
            )


def _terms_of(store: Store, dataset: str) -> LedgerTerms | None:
    """Return the terms of another dataset by its opening alone: what is wrong with its later entries is its own affair."""
    state = LedgerState(dataset)
    for row in store.after(dataset, 0, 1):
        state.apply(next_entry(row, dataset, state.head))
    return state.terms
