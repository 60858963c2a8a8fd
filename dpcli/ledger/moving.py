"""What is asked of a ledger as its dataset moves to another place: here it is closed, there it is opened.

Two copies that can both be charged would be two budgets. So the chain is closed here first, by an entry that says where it goes ("moved"),
and that entry goes along. The copy's next entry is its own: "moved" again, which names the closing entry as what it is a `copy` of, with a
word that no other copy has. Once that is durable, a last entry here names the copy by the hash of that one. Then alone it is opened
("copied": who copied it, from where, and which definitions guard it from then on). A copy that was not named is closed for good.

In a ledger of two persons one proposes the move and another approves it: a place of one's own choice has no guards, or those of one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.keys.words import has_words
from dpcli.ledger.state import LedgerState


@dataclass(frozen=True, slots=True)
class Leave:
    """Close a dataset, as it moves to the ledger at `to`. Asked for again, it is granted where it is the same place."""

    to: str
    why: str = ""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        two = state.open_terms().two_person
        if state.departure is None:
            if two and not has_words(self.why):
                raise InputError("--reason: expected why, as another person has to approve that the dataset moves, found nothing")
            return {"kind": "moved", "to": self.to, **({"why": self.why} if self.why else {})}
        if state.departure.to != self.to:
            state.refuse_moved()
        return None


@dataclass(frozen=True, slots=True)
class Arrived:
    """Name the copy that is durable where the dataset has moved to: `copy` is the hash of its own first entry."""

    copy: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.departure is None:
            raise LedgerError(f'dataset "{state.dataset}": expected one that has moved, found one that has not')
        if state.departure.prepared:
            raise LedgerError(f'dataset "{state.dataset}": expected the ledger that it comes from, found the copy')
        if state.departure.copy == self.copy:
            return None
        if state.departure.copy:
            raise LedgerError(f'dataset "{state.dataset}": another copy of it was named, in {state.departure.to}')
        return {"kind": "moved", "to": state.departure.to, "copy": self.copy}


@dataclass(frozen=True, slots=True)
class Prepare:
    """The first entry that is a copy's own: it is closed as before, and has a name. word: what no other copy has."""

    word: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        departure = state.departure
        if departure is None or departure.copy or departure.prepared:
            raise LedgerError(f'dataset "{state.dataset}": expected a chain that ends as it was closed, found another')
        return {"kind": "moved", "to": departure.to, "copy": departure.at.hash, "why": f"copy {self.word}"}


@dataclass(frozen=True, slots=True)
class Open:
    """Open the copy that was named: `name` is the hash of its own first entry, `origin` the place that it comes from.

    schema and version are of the definitions that guard it here. Nothing is written where it is open.
    """

    name: str
    origin: str
    schema: str
    version: int
    why: str = ""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.departure is None:
            return None
        if state.departure.prepared != self.name:
            raise LedgerError(f'dataset "{state.dataset}": expected the copy that was named where it comes from, found another')
        said = {"from": self.origin, "schema": self.schema, "version": self.version}
        return {"kind": "copied", **said, **({"why": self.why} if self.why else {})}
