"""Checking a ledger from end to end: the backend, the guards around the rows, the chain, its replay, every cost, and an anchor.

It is read twice, a page at a time: first the chain, so that what is broken is said before hours of pricing; then every cost. What is kept
does not grow with the history, but for the problems that are found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.chain import Head, LedgerEntry, digest
from dpcli.ledger.checkpoint import tallies, usable
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.price import SLACK, Prices, undeclared
from dpcli.ledger.proposals import Proposal, proposal_of
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store
from dpcli.ledger.terms import LedgerTerms

ANCHOR = "dpcli/anchor/v1"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found.

    entries: how many were checked. costs: how many were computed again. problems: what understates the spending. notes: what does not,
    and is better mended.
    """

    entries: int
    costs: int
    head: Head
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def verify(ledger: Ledger, anchor: Mapping[str, Any] | None = None, progress: Callable[[int, int], None] | None = None) -> Verified:
    """Check everything there is to check.

    Raises LedgerError for the first thing that cannot be right: a damaged store, changed guards, a broken chain, an entry that no sound
    ledger holds, or a chain that no longer contains the anchor. A cost that this version finds larger than the entry says is a problem
    in the result, and so are a run that was stated under other terms than the ledger's and a cap above what its epsilon allows: entries
    stay as they are, and the cap has to be amended.
    """
    damaged = ledger.store.check(ledger.dataset)
    if damaged:
        raise LedgerError(f"{ledger.store.place}: the database is damaged: {'; '.join(damaged[:3])}")
    state = replayed(ledger, anchor)
    terms = state.open_terms()
    refuse_changed(ledger.store, state)
    whole: list[str] = [*undeclared(terms)] if terms.mode == "declared" else []
    each: list[str] = []
    prices = Prices(terms)
    notes: list[str] = []
    proposed: dict[int, Proposal] = {}
    done = 0
    for entry in ledger.again(state.head):
        if entry.kind == "propose":
            proposed[entry.row.seq] = proposal_of(entry)
        elif terms.two_person and "approval" in entry.content:
            notes += _alike(proposed[entry.content["proposal"]], entry)
        if "caps" in entry.content and terms.mode != "declared":
            whole += _wide(terms, entry)
        if "cost" in entry.content:
            if progress is not None:
                progress(done, state.charges)
            done += 1
            each += prices.understated(entry)
    return Verified(state.head.seq, done, state.head, (*whole, *each), (*notes, *_notes(ledger)))


def refuse_changed(store: Store, state: LedgerState) -> None:
    """Raise LedgerError where what guards the entries is not what the chain says, at its opening, upgrade or copy.

    Of a copy that is not open the chain says what guards it where it comes from.
    """
    if not state.not_open and digest(store.schema()) != state.schema:
        again = " (dpcli budget upgrade notes it where a later version made them)" if store.version > state.version else ""
        raise LedgerError(f"{store.place}: the definitions that guard the entries were changed since the ledger was opened{again}")


def replayed(ledger: Ledger, anchor: Mapping[str, Any] | None) -> LedgerState:
    """What all entries come to, whatever is noted beside them.

    Raises LedgerError where the chain is broken, is not what the noted totals say, or no longer contains the anchor. An anchor stands for
    nothing unless all before it is read: totals that somebody else noted would be believed in its name.
    """
    state, noted = LedgerState(ledger.dataset, hides=ledger.store.hides), ledger.store.checkpoint(ledger.dataset)
    said = usable(noted, ledger.dataset)
    for _, state in ledger.replay():
        if said is not None and state.head.seq == said.get("seq") and not tallies(said, state):
            raise LedgerError(
                f'{ledger.store.place}: dataset "{ledger.dataset}", entry {state.head.seq}: the totals that were noted here are not what '
                "the entries add up to: the ledger was changed by hand, or by a program that cannot add"
            )
    state.open_terms()
    if said is not None and not 1 <= int(said["seq"]) <= state.head.seq:
        raise LedgerError(
            f'{ledger.store.place}: dataset "{ledger.dataset}": ends at entry {state.head.seq}, and totals were noted at {said["seq"]}: '
            "entries were lost"
        )
    if anchor is not None:
        _refuse_lost(ledger, state.head, anchor)
    return state


def anchor_of(ledger: Ledger) -> dict[str, Any]:
    """The head of the chain, to be kept elsewhere: a backup that was restored does not contain a later one."""
    state = ledger.state()
    state.refuse_moved()
    return {"schema": ANCHOR, "dataset": ledger.dataset, "seq": state.head.seq, "hash": state.head.hash, "when": ledger.now()}


def read_anchor(path: str) -> dict[str, Any]:
    """What `anchor` wrote to a file. Raises InputError where there is none, or something else."""
    from dpcli.file.toml.limits import read_bytes

    data = read_bytes(path)
    try:
        found = json.loads(data)
        sound = (
            found["schema"] == ANCHOR and type(found["seq"]) is int and type(found["hash"]) is str and type(found["dataset"]) is str
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise InputError(f"--anchor {path}: expected what dpcli budget anchor writes as json, found something else")
    return dict(found)


def _refuse_lost(ledger: Ledger, head: Head, anchor: Mapping[str, Any]) -> None:
    """Raise LedgerError where the chain does not contain the anchored entry: a backup was restored, or the history replaced."""
    place, seq = f'{ledger.store.place}: dataset "{ledger.dataset}"', anchor["seq"]
    if anchor["dataset"] != ledger.dataset:
        raise InputError(f"{place}: expected an anchor of this dataset, found one of {anchor['dataset']!r}")
    if head.seq < seq:
        raise LedgerError(f"{place}: ends at entry {head.seq}, the anchor was taken at {seq}: restored from an old backup (DP405)")
    row = ledger.row(seq) if seq >= 1 else None
    if row is None or row.hash != anchor["hash"]:
        raise LedgerError(f"{place}: entry {seq} is not the one that was anchored: another history was put in its place (DP405)")


def _wide(terms: LedgerTerms, entry: LedgerEntry) -> Iterator[str]:
    """Caps in the filter's currency that are above what this version derives from the epsilon they stand for."""
    epsilon = float(entry.content.get("epsilon", terms.epsilon))
    try:
        sound = amounts.read(terms.caps(epsilon))
    except InputError as error:  # nothing of it is left to spend
        yield f"entry {entry.row.seq}: no cap can be derived from epsilon {epsilon!r}: {error}"
        return
    for name, value in amounts.read(entry.content["caps"]).items():
        if name not in sound or value > sound[name] * SLACK:
            said = f"entry {entry.row.seq}: a cap of {value:.10g} of {name} for epsilon {epsilon!r}"
            yield f"{said}, this version finds {sound.get(name, Decimal(0)):.10g} (DP408)"


def _alike(proposal: Proposal, entry: LedgerEntry) -> Iterator[str]:
    """An approval by somebody whose name people do not tell from the proposer's; a file takes any name."""
    who = str(entry.content.get("who"))
    if proposal.made_by(who):
        yield f"entry {entry.row.seq}: {who} approved what {proposal.who} proposed, and the two names look alike"


def _notes(ledger: Ledger) -> Iterator[str]:
    """Guards of an earlier version: an entry that they let in may be one that no guard should; and totals that nobody can use."""
    amiss = ledger.store.outdated
    if amiss:
        yield f"{amiss}: dpcli budget upgrade makes them again"
    noted = ledger.store.checkpoint(ledger.dataset)
    if noted is not None and usable(noted, ledger.dataset) is None:
        yield "the totals that were noted beside the entries are damaged or of a later version, and not used: all entries are read instead"
