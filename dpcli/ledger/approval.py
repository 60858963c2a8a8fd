"""Requests of a ledger of two persons: to propose what is asked for, to approve what another has proposed, or to refuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.keys.words import has_words
from dpcli.ledger import amounts
from dpcli.ledger.expiry import expiry, later
from dpcli.ledger.proposals import DAYS, MOST_DAYS, Proposal, numbered
from dpcli.ledger.requests import LedgerRequest, Move, raised
from dpcli.ledger.state import LedgerState


@dataclass(frozen=True, slots=True)
class Proposable:
    """A request that takes two persons where the ledger does, and is granted at once where it does not.

    expires: until when it may be approved (a time, 7d, 36h); a week where None.
    """

    request: LedgerRequest
    expires: str | None = None

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        asks = self.request.entry(state, now)
        if not state.open_terms().two_person:
            if self.expires is not None:
                raise InputError(
                    f'--expires: expected none, as "{state.dataset}" takes no second person, found {self.expires[:40]}'
                )
            return asks
        return None if asks is None else {"kind": "propose", "asks": asks, "expires": self._until(state.time(now))}

    def _until(self, now: str) -> str:
        found = str(expiry(self.expires or f"{DAYS}d", now))
        if found > later(now, days=MOST_DAYS):
            raise InputError(f"--expires: expected at most {MOST_DAYS} days, found {str(self.expires)[:40]}")
        return found


@dataclass(frozen=True, slots=True)
class Approve:
    """Make what entry `seq` proposes effective, by somebody else than its proposer.

    despite_clock: as in `Move`. unseen, acknowledged: as in `Amend`, of a cap that is raised.
    """

    seq: int
    who: str
    why: str
    despite_clock: bool = False
    unseen: bool = False
    acknowledged: bool = False

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        found = _open(state, self.seq)
        _require_reason(self.why)
        if found.made_by(self.who):
            raise LedgerError(
                f"entry {self.seq}: expected the approval of another person than {found.who}, who proposed it, found {self.who}"
            )
        if found.expires <= state.time(now):
            raise LedgerError(f"entry {self.seq}: expected a proposal within its time, found one that expired on {found.expires}")
        signed = {"proposal": self.seq, "approval": self.why}
        return {**found.asks, **signed, **self._checked(found, state, now)}

    def _checked(self, found: Proposal, state: LedgerState, now: str) -> dict[str, Any]:
        """What the approver adds, once what is proposed may be done as things stand."""
        if found.asks["kind"] == "amend":
            _refuse_wide(found, state)
            return {"approver": self.who, **raised(found.asks["epsilon"], state, self.unseen, self.acknowledged)}
        if found.asks["kind"] == "void":
            Move("void", found.asks["key"], self.who, found.asks["why"], self.despite_clock).entry(state, now)
        return {}


@dataclass(frozen=True, slots=True)
class Refuse:
    """Close the proposal of entry `seq` for good: its proposer withdraws it, or another refuses it."""

    seq: int
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        _open(state, self.seq)
        _require_reason(self.why)
        return {"kind": "refuse", "proposal": self.seq, "why": self.why}


def _open(state: LedgerState, seq: int) -> Proposal:
    if not state.open_terms().two_person:
        raise InputError(f'expected a ledger of two persons, found "{state.dataset}", in which nothing is proposed')
    found = numbered(state.proposals, seq)
    if found is None:
        waiting = ", ".join(str(each.seq) for each in state.proposals.values()) or "none"
        raise LedgerError(
            f"expected the number of an entry that proposes something and is still open ({waiting}), found {seq}: a proposal ends when it "
            "is approved or refused, and when what it is about has changed since (the cap was amended, the run was started, somebody "
            "proposed anew); nothing was written"
        )
    return found


def _require_reason(why: str) -> None:
    if not has_words(why):
        raise InputError("--reason: expected why, in words, found nothing")


def _refuse_wide(found: Proposal, state: LedgerState) -> None:
    """Raise LedgerError for caps above those of the epsilon that the approver reads: whoever proposed them wrote them."""
    caps = amounts.read(state.open_terms().caps(found.asks["epsilon"]))
    if amounts.exceeded(amounts.read(found.asks["caps"]), caps) is not None:
        raise LedgerError(f"entry {found.seq}: proposes caps that are wider than its epsilon {found.asks['epsilon']!r} allows")
