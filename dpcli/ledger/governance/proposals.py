"""Proposals: what one person asks for in a two-person ledger, and another approves.

A proposal is about one subject: the cap, one quota, one run, or where the dataset moves. It is open until it is approved or refused, or
another entry changes its subject: the cap was amended, the run was started, somebody proposed anew. It is approved under its number, so
that nobody approves what they did not read. Source: NIST SP 800-53 Rev. 5, AC-3(2), dual authorization.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.file.toml.looks import looks
from dpcli.ledger.chain import LedgerEntry, is_stamp

DAYS, MOST_DAYS = 7, 31  # for which a proposal is open if nothing is stated, and at most


@dataclass(frozen=True, slots=True)
class Proposal:
    """An open proposal.

    Attributes:
        seq, hash: Number and hash of its entry.
        expires: When it can no longer be approved.
        asks: The entry that it would make.
    """

    seq: int
    hash: str
    who: str
    expires: str
    asks: Mapping[str, Any]

    def made_by(self, who: str) -> bool:
        """Check whether the proposer has this name, or one that people do not tell from it."""
        return looks(self.who) == looks(who)


Proposals = Mapping[str, Proposal]  # by subject


def subject_of(content: Mapping[str, Any]) -> str:
    """Return the subject of an entry, "" if no proposal is about that."""
    kind = content["kind"]
    if kind == "propose":
        return subject_of(content["asks"])
    if kind in ("start", "commit", "void"):
        return f"run {content.get('key')}"
    return {"amend": "cap", "quota": f"quota of {content.get('of')} {content.get('name')}", "moved": "place"}.get(kind, "")


def is_arrival(content: Mapping[str, Any]) -> bool:
    """Check whether an entry only notes that a dataset has arrived where it moved: that it moves was approved before."""
    return content["kind"] == "moved" and "copy" in content


def proposal_of(entry: LedgerEntry) -> Proposal:
    """Return the proposal in an entry. Raise what a content that is none raises."""
    content = entry.content
    if not is_stamp(content["expires"]) or type(content["who"]) is not str:
        raise ValueError("expected a proposal of somebody, until some time")
    subject_of(content)
    return Proposal(entry.row.seq, entry.row.hash, content["who"], content["expires"], content["asks"])


def proposal_numbered(proposals: Proposals, seq: object) -> Proposal | None:
    """Return the open proposal of that number, None if there is none."""
    return next((each for each in proposals.values() if each.seq == seq), None)


def open_proposals_after(proposals: Proposals, entry: LedgerEntry) -> Proposals:
    """Return the proposals that are open after an entry, which was checked against them."""
    subject = subject_of(entry.content)
    refused = entry.content["proposal"] if entry.kind == "refuse" else None
    still_open = {name: each for name, each in proposals.items() if name != subject and each.seq != refused}
    return {**still_open, subject: proposal_of(entry)} if entry.kind == "propose" else still_open


def refuse_unapproved(proposals: Proposals, entry: LedgerEntry) -> None:
    """Raise LedgerError if an entry that takes two persons is not what a second one approved, in time, of an open proposal.

    Whether two names only look alike is for those who write entries: one that was written must be readable for ever.
    """
    content = entry.content
    proposal = proposal_numbered(proposals, content.get("proposal"))
    sound = proposal is not None and proposal.who != content["who"] and str(content["when"]) < proposal.expires
    if proposal is None or not sound or any(content.get(name) != value for name, value in proposal.asks.items()):
        raise LedgerError("is not what another person approved")
