"""The requests by which a dataset moves to another ledger. copying.py makes the move.

The method `entry` of a request (requests.py) reads the *state* of a ledger, that is, what all entries add up to (state.py). It returns the
content of the entry to append, or None if there is nothing to do. The *definitions* are the tables, triggers and SQL functions that guard
the entries.

A dataset moves to another ledger in four steps. At no time can both ledgers be charged, because the dataset would then have two budgets:

1. `Leave` closes the chain at its origin with an entry "moved", which names the target. All entries are then copied, including this one.
2. `PrepareCopy` appends the first entry that only the copy has. Its kind is "moved" too. It contains the hash of the closing entry and a
   random word. The hash of this entry becomes the name of the copy.
3. When the copy is durable, `Arrived` appends a last entry at the origin, which states the name of the copy.
4. Only then `OpenCopy` opens the copy with an entry "copied". It states who copied the dataset, from where, and which definitions guard it.

A copy that the origin never named stays closed. The `departure` of a state says how far a move has come: its target (`to`), the closing
entry, the name of the copy that the origin states (`copy`) and, if the chain is itself a copy that is not open, its own name (`prepared`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.keys.words import has_words
from dpcli.ledger.requests import nonempty
from dpcli.ledger.state import LedgerState


@dataclass(frozen=True, slots=True)
class Leave:
    """The closing of a dataset that moves to the ledger at `to`. A repeated request with this target writes nothing."""

    to: str
    why: str = ""

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.departure is None:
            if state.open_terms().two_person and not has_words(self.why):
                raise InputError("--reason: state why, as another person has to approve that the dataset moves")
            return {"kind": "moved", "to": self.to, **nonempty(why=self.why)}
        if state.departure.to != self.to:
            state.refuse_moved()
        return None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record, at the origin, of the durable copy to which the dataset has moved.

    A repeated request writes nothing. Another copy is refused, because the dataset would then have two budgets.

    Attributes:
        copy: Name of the copy, which is the hash of the copy's first own entry.
    """

    copy: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.departure is None:
            raise LedgerError(f'dataset "{state.dataset}": expected a dataset that has moved, found one that has not')
        if state.departure.prepared:
            raise LedgerError(f'dataset "{state.dataset}": expected the ledger at the origin, found the copy')
        if state.departure.copy == self.copy:
            return None
        if state.departure.copy:
            raise LedgerError(f'dataset "{state.dataset}": another copy was named before, in {state.departure.to}')
        return {"kind": "moved", "to": state.departure.to, "copy": self.copy}


@dataclass(frozen=True, slots=True)
class PrepareCopy:
    """The first entry that only the copy has. The hash of this entry is the name of the copy, which stays closed.

    Attributes:
        word: Random word that makes the name of the copy unique, because two attempts to copy must not share a name.
    """

    word: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        departure = state.departure
        if departure is None or departure.copy or departure.prepared:
            raise LedgerError(f'dataset "{state.dataset}": the chain to copy does not end with the entry that closed it')
        return {"kind": "moved", "to": departure.to, "copy": departure.closed_at.hash, "why": f"copy {self.word}"}


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """The opening of the copy that the origin has named. Nothing is written if the copy is open already.

    Attributes:
        name: Name of the copy, as the origin states it: the hash of the copy's first own entry.
        origin: Address of the ledger that the dataset comes from.
        schema, version: Hash and version number of the definitions that guard the copy in its new ledger.
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
            raise LedgerError(
                f'dataset "{state.dataset}": this copy is {state.departure.prepared[:16] or "unnamed"}, but the ledger at the origin named '
                f"the copy {self.name[:16]}"
            )
        copied = {"kind": "copied", "from": self.origin, "schema": self.schema, "version": self.version}
        return {**copied, **nonempty(why=self.why)}
