"""Requests that change the cap or the quotas of a ledger, and the proposals and approvals of a two-person ledger.

The *cap* is the epsilon that all runs on a dataset together may cost; a *quota* is the share of it that a person or a team may charge. The
field "caps" of an entry has the limits that follow from the cap, in the currency in which the ledger adds up costs. A ledger in declared
mode, whose runs were all fixed at the opening, has neither amendments nor quotas. A request (dpcli/ledger/requests.py) returns the content
of the entry that grants it; `Ledger` (dpcli/ledger/ledger.py) builds and appends it. In a two-person ledger such an entry needs a second
person: `Proposable` turns the request into a proposal (proposals.py), and `Approve` writes the entry that the proposal asks for. The field
"asks" of the proposal has the content of that entry.

A cap that is raised because of an output bounds nothing any more (`LedgerState.guaranteed`). So, after the first charge, whoever raises it
above what is guaranteed makes one of two statements. "unseen": nobody who decides on the cap had seen an output. "acknowledged": they know
that no epsilon is guaranteed from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.keys.words import has_words
from dpcli.ledger import amounts
from dpcli.ledger.chain import expiry_time, time_after
from dpcli.ledger.governance.proposals import MOST_DAYS_OPEN, USUAL_DAYS_OPEN, Proposal, proposal_numbered
from dpcli.ledger.requests import LedgerRequest, RunStep
from dpcli.ledger.state import LedgerState


@dataclass(frozen=True, slots=True)
class Amend:
    """A change of the cap on epsilon. All other terms of a ledger are fixed at its opening.

    Attributes:
        epsilon: The new cap.
        approver: The person who approves the change, in a ledger without the two-person rule.
        who: The person who asks for the change.
        unseen: The statement that nobody who decides on the raised cap had seen an output.
        acknowledged: The person accepts the consequence of the new cap. A cap that is raised after outputs were seen bounds nothing. A
            lower cap stops further runs, but does not reduce the privacy loss of earlier runs.
    """

    epsilon: float
    why: str
    approver: str
    who: str
    unseen: bool = False
    acknowledged: bool = False

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        terms = state.open_terms()
        if terms.mode == "declared":
            raise InputError("expected a ledger in adaptive mode to amend, found declared mode: its set of runs cannot be changed")
        if not 0.0 < self.epsilon < float("inf"):
            raise InputError(f"--epsilon: expected a number > 0, found {self.epsilon!r}")
        if self.epsilon < state.epsilon and not self.acknowledged:
            bound = "there is none" if state.guaranteed is None else f"it is the largest cap so far, epsilon {state.guaranteed!r}"
            raise InputError(
                f"--epsilon: a cap of {self.epsilon!r} stops further runs, but does not change the guarantee for earlier runs, as their "
                f"outputs may be the reason for lowering it: {bound}; --acknowledge lowers the cap all the same"
            )
        amendment = {"kind": "amend", "epsilon": self.epsilon, "caps": terms.caps(self.epsilon), "why": self.why}
        if terms.two_person:
            self._check_proposal()
            return amendment
        if not has_words(self.why) or not has_words(self.approver):
            raise InputError("--reason, --approver: state both in words")
        if self.approver.strip().casefold() == self.who.casefold():
            raise InputError(
                f"--approver: expected another person than {self.who}, who requests the change, found {self.approver!a}"
            )
        return {**amendment, "approver": self.approver, **output_statement(self.epsilon, state, self.unseen, self.acknowledged)}

    def _check_proposal(self) -> None:
        """Check the arguments of a proposal. Raises InputError if an argument belongs to the approval, or if there is no reason."""
        for flag, given in (("--approver", self.approver), ("--no-output-seen", self.unseen)):
            if given:
                raise InputError(f"{flag}: not in a two-person ledger: another person approves with dpcli budget approve")
        _require_reason(self.why)


def output_statement(epsilon: float, state: LedgerState, unseen: bool, acknowledged: bool) -> dict[str, bool]:
    """Return the field "unseen" of an amendment, which states that no output had been seen.

    The result is empty if no cap is guaranteed any more, if the new one does not exceed the guaranteed one (`state.largest`), or if the
    statement is replaced by the acknowledgement. Before the first charge no output exists. So the field is written then without a
    statement.

    Raises InputError if the cap is raised above the guarantee, with neither the statement nor the acknowledgement.
    """
    if state.guaranteed is None or epsilon <= state.largest:
        return {}
    if unseen or not state.charges:
        return {"unseen": True}
    if acknowledged:
        return {}
    raise InputError(
        f"--epsilon: expected at most {state.largest!r}, which is guaranteed, found {epsilon!r}: if a cap is raised because of an output, "
        "neither the old nor the new cap is a bound. Use --no-output-seen if nobody who decides this has seen an output of a run that was "
        "charged to this ledger. Otherwise use --acknowledge, after which no epsilon is guaranteed"
    )


@dataclass(frozen=True, slots=True)
class SetQuota:
    """A limit on the charges of a person, or of the members of a team together.

    Attributes:
        of: "person" or "team".
        name: Name of the person or team.
        members: Names of the team's members, sorted; for a person, only the person's name.
        share: The limit as a share of the cap, a decimal in [0, 1]; 1 removes the limit.
        alert_at: The share of the limit from which on a warning is shown, a decimal in [0, 1].
    """

    of: str
    name: str
    members: tuple[str, ...]
    share: str
    alert_at: str
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        if state.open_terms().mode == "declared":
            raise InputError("expected a ledger in adaptive mode for quotas, found declared mode: its runs are fixed")
        _require_reason(self.why)
        return {
            "kind": "quota",
            "of": self.of,
            "name": self.name,
            "members": list(self.members),
            "share": self.share,
            "alert_at": self.alert_at,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class SetRate:
    """The largest number of entries without a cost that each login may append to a dataset per day (UTC). A later limit replaces it."""

    per_day: int
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        state.open_terms()
        _require_reason(self.why)
        return {"kind": "rate", "per_day": self.per_day, "why": self.why}


@dataclass(frozen=True, slots=True)
class Proposable:
    """A request that becomes a proposal in a two-person ledger, and is granted at once in any other ledger.

    Attributes:
        expires: The time until which the proposal may be approved ("2030-12-31T00:00:00Z", "7d", "36h"); a week if None. A
            proposal to void a reservation expires with the reservation at the latest.
    """

    request: LedgerRequest
    expires: str | None = None

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        asks = self.request.entry(state, now)
        if not state.open_terms().two_person:
            if self.expires is not None:
                raise InputError(
                    f'--expires: expected none, as "{state.dataset}" is not a two-person ledger, found {self.expires[:40]}'
                )
            return asks
        if asks is None:
            return None
        until = expiry_time(self.expires or f"{USUAL_DAYS_OPEN}d", now)
        assert until is not None
        if until > time_after(now, MOST_DAYS_OPEN):
            raise InputError(f"--expires: expected at most {MOST_DAYS_OPEN} days, found {str(self.expires)[:40]}")
        if asks["kind"] == "void":  # a reservation that has expired cannot be given back
            until = min(until, state.run(asks["key"]).content.get("expires", until))
        return {"kind": "propose", "asks": asks, "expires": until}


@dataclass(frozen=True, slots=True)
class Approve:
    """The approval of a proposal by another person than its proposer. It makes the proposal effective.

    Attributes:
        seq: Number of the entry with the proposal.
        who: The person who approves.
        unseen, acknowledged: The two statements of `Amend`, if the proposal raises the cap.
    """

    seq: int
    who: str
    why: str
    unseen: bool = False
    acknowledged: bool = False

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        proposal = _require_open_proposal(state, self.seq)
        _require_reason(self.why)
        if proposal.made_by(self.who):
            raise LedgerError(
                f"entry {self.seq}: expected the approval of another person than {proposal.who}, who proposed it, found {self.who}"
            )
        if proposal.expires <= now:
            raise LedgerError(
                f"entry {self.seq}: expected a proposal within its time, found one that expired at {proposal.expires}"
            )
        signed = {"proposal": self.seq, "approval": self.why}
        return {**proposal.asks, **signed, **self._approval_fields(proposal, state, now)}

    def _approval_fields(self, proposal: Proposal, state: LedgerState, now: str) -> dict[str, Any]:
        """Return the fields that the approval adds to the entry. Raises an error if the proposal is not valid in the current state."""
        if proposal.asks["kind"] == "amend":
            _refuse_wider_caps(proposal, state)
            return {"approver": self.who, **output_statement(proposal.asks["epsilon"], state, self.unseen, self.acknowledged)}
        if proposal.asks["kind"] == "void":  # raises an error if the reservation can no longer be voided
            RunStep("void", proposal.asks["key"], self.who, proposal.asks["why"]).entry(state, now)
        return {}


@dataclass(frozen=True, slots=True)
class Refuse:
    """The closing of the proposal of entry `seq`. The proposer withdraws the proposal, or another person refuses it."""

    seq: int
    why: str

    def entry(self, state: LedgerState, now: str) -> dict[str, Any] | None:
        _require_open_proposal(state, self.seq)
        _require_reason(self.why)
        return {"kind": "refuse", "proposal": self.seq, "why": self.why}


def _require_open_proposal(state: LedgerState, seq: int) -> Proposal:
    """Return the open proposal of entry `seq`. Raises InputError without the two-person rule, and LedgerError if it is not open."""
    if not state.open_terms().two_person:
        raise InputError(f'expected a two-person ledger, found "{state.dataset}", which has no proposals')
    proposal = proposal_numbered(state.proposals, seq)
    if proposal is None:
        waiting = ", ".join(str(open_proposal.seq) for open_proposal in state.proposals.values()) or "none"
        raise LedgerError(
            f"expected the number of an entry with an open proposal ({waiting}), found {seq}: a proposal is closed when it is approved or "
            "refused, or when its subject changes (the cap was amended, the run was started, or somebody made a new proposal); nothing was "
            "written"
        )
    return proposal


def _require_reason(why: str) -> None:
    if not has_words(why):
        raise InputError("--reason: state why, in words")


def _refuse_wider_caps(proposal: Proposal, state: LedgerState) -> None:
    """Check that the caps of a proposal are not above the caps that follow from its epsilon. Raises LedgerError if they are.

    The proposer wrote both, but the approver reads only the epsilon.
    """
    caps = amounts.read(state.open_terms().caps(proposal.asks["epsilon"]))
    if amounts.exceeded(amounts.read(proposal.asks["caps"]), caps) is not None:
        raise LedgerError(
            f"entry {proposal.seq}: proposes caps that are wider than its epsilon {proposal.asks['epsilon']!r} allows"
        )
