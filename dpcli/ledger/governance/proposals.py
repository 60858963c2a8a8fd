"""Proposals of a two-person ledger: one person asks for a change, and another person approves it.

A ledger, the account book of a dataset's privacy budget, is opened with or without this rule. With it, nobody can change the cap, void a
reservation, set a quota or a rate, move the dataset or acknowledge a finding alone. `Proposable`, `Approve` and `Refuse` (amendments.py)
are the requests; this module says which proposals are open.

A proposal has one subject: the cap, a quota, the rate, a run, the place to which the dataset moves, or a finding. It is open until it is
approved or refused, or until another entry changes its subject. Such an entry amends the cap, starts the run, or makes another proposal
about the subject. An approval states the number of the proposal, so that nobody approves another proposal than the one that they have
read.

Source: NIST SP 800-53 Rev. 5, AC-3(2), dual authorization.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.file.toml.confusables import skeleton
from dpcli.ledger.chain import LedgerEntry, is_stamp

# The days for which a proposal is open, by default and at most. They are arbitrary; a database also enforces the second.
USUAL_DAYS_OPEN, MOST_DAYS_OPEN = 7, 31


@dataclass(frozen=True, slots=True)
class Proposal:
    """An open proposal.

    Attributes:
        seq, hash: Number and hash of the entry that made the proposal.
        expires: The time from which on the proposal can no longer be approved.
        asks: The content of the entry that an approval writes.
    """

    seq: int
    hash: str
    who: str
    expires: str
    asks: Mapping[str, Any]

    def made_by(self, who: str) -> bool:
        """Return whether the proposer has this name, or a name that looks the same."""
        return skeleton(self.who) == skeleton(who)  # names that look alike have the same skeleton


Proposals = Mapping[str, Proposal]  # by subject


def subject_of(content: Mapping[str, Any]) -> str:
    """Return the subject of an entry or proposal, such as "cap" or "run week-7"; "" if no proposal can be about its subject."""
    kind = content["kind"]
    if kind == "propose":
        return subject_of(content["asks"])
    if kind in ("start", "commit", "void"):
        return f"run {content.get('key')}"
    if kind == "acknowledge":
        return f"finding {content.get('finding')}"
    subjects = {"amend": "cap", "quota": f"quota of {content.get('of')} {content.get('name')}", "moved": "place", "rate": "rate"}
    return subjects.get(kind, "")


def is_arrival(content: Mapping[str, Any]) -> bool:
    """Return whether an entry records that a moved dataset has arrived. Such an entry needs no approval, because the move was approved."""
    return content["kind"] == "moved" and "copy" in content


def proposal_of(entry: LedgerEntry) -> Proposal:
    """Return the proposal in an entry. Raises KeyError, TypeError, ValueError or AttributeError if the content is not a proposal."""
    content = entry.content
    if not is_stamp(content["expires"]) or type(content["who"]) is not str:
        raise ValueError("expected a proposal with its proposer and a time")
    subject_of(content)  # raises an error if the content asks for nothing
    return Proposal(entry.row.seq, entry.row.hash, content["who"], content["expires"], content["asks"])


def proposal_numbered(proposals: Proposals, seq: object) -> Proposal | None:
    """Return the open proposal with the number `seq`; None if there is none."""
    return next((proposal for proposal in proposals.values() if proposal.seq == seq), None)


def open_proposals_after(proposals: Proposals, entry: LedgerEntry) -> Proposals:
    """Return the proposals that are open after an entry. The entry must have been checked against the proposals before it."""
    subject = subject_of(entry.content)
    refused = entry.content["proposal"] if entry.kind == "refuse" else None
    still_open = {name: proposal for name, proposal in proposals.items() if name != subject and proposal.seq != refused}
    if entry.kind == "propose":
        still_open[subject] = proposal_of(entry)
    return still_open


def refuse_unapproved(proposals: Proposals, entry: LedgerEntry) -> None:
    """Check that another person approved an open proposal with the content of this entry in time. Raises LedgerError if not.

    A proposer and an approver whose names only look the same are refused when an entry is written. They are not refused here, so that every
    written entry stays readable.
    """
    content = entry.content
    proposal = proposal_numbered(proposals, content.get("proposal"))
    is_approved = (
        proposal is not None
        and proposal.who != content["who"]
        and str(content["when"]) < proposal.expires
        and all(content.get(name) == value for name, value in proposal.asks.items())
    )
    if not is_approved:
        raise LedgerError("its content is not an open proposal that another person approved")
