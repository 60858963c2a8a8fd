"""What is asked of a ledger as its dataset moves to another place: here it is closed, there it is opened.

Two copies that can both be charged would be two budgets. So the chain is closed here first, by an entry that says where it goes ("moved"),
and that entry goes along; what opens the copy is its next entry ("copied"), which says who copied it, from where, and which definitions
guard it from then on. Its `previous` is the hash of all that was copied. Once the copy is durable, a last entry here names it, and no other
copy is made.

In a ledger of two persons one proposes the move and another approves it: a place of one's own choice has no guards, or those of one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpcli.errors import InputError, LedgerError
from dpcli.keys.words import has_words
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
    """Note that the copy is durable where the dataset has moved to: `copy` is the hash of the entry that opened it."""

    copy: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.departure is None:
            raise LedgerError(f'dataset "{state.dataset}": expected one that has moved, found one that has not')
        if state.departure.copy == self.copy:
            return None
        if state.departure.copy:
            raise LedgerError(f'dataset "{state.dataset}": another copy of it was opened in {state.departure.to}')
        return {"kind": "moved", "to": state.departure.to, "copy": self.copy}


@dataclass(frozen=True, slots=True)
class Open:
    """Open a copy that is whole: `origin` is the place that it comes from; schema and version are of the definitions that guard it here."""

    origin: str
    schema: str
    version: int
    why: str = ""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        said = {"from": self.origin, "schema": self.schema, "version": self.version}
        return {"kind": "copied", **said, **({"why": self.why} if self.why else {})}
