"""What one person asked for and another has to approve, in a ledger of two persons: nothing of it counts until then.

A proposal is about one subject: the cap, one quota, one run, or where the dataset moves. It is open until it is approved or refused, or
something else is said of its subject: the cap was amended, the run was started, somebody proposed anew. It is approved under its number,
so that nobody approves what he did not read. Source: NIST SP 800-53 Rev. 5, AC-3(2), dual authorization.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.file.toml.looks import looks
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.expiry import is_stamp

DAYS, MOST_DAYS = 7, 31  # for which a proposal is open where nothing is said, and at most


@dataclass(frozen=True, slots=True)
class Proposal:
    """seq, hash: of its entry. who: whoever proposed it. expires: when it can no longer be approved. asks: the entry that it would make."""

    seq: int
    hash: str
    who: str
    expires: str
    asks: Mapping[str, Any]

    def made_by(self, who: str) -> bool:
        """Whether the proposer is called so, or by a name that people do not tell from his."""
        return looks(self.who) == looks(who)


Proposals = Mapping[str, Proposal]  # by subject


def subject_of(content: Mapping[str, Any]) -> str:
    """What an entry is about, as far as proposals go; "" where no proposal is about that."""
    kind = content["kind"]
    if kind == "propose":
        return subject_of(content["asks"])
    moved = dict.fromkeys(("start", "commit", "void"), f"run {content.get('key')}")
    found = {"amend": "cap", "quota": f"quota of {content.get('of')} {content.get('name')}", "moved": "place"}
    return {**found, **moved}.get(str(kind), "")


def arrives(content: Mapping[str, Any]) -> bool:
    """Whether an entry only notes that a dataset has arrived where it moved: that it moves was approved before."""
    return content["kind"] == "moved" and "copy" in content


def proposal_of(entry: LedgerEntry) -> Proposal:
    """The proposal in an entry. Raises what a content that is none raises."""
    content = entry.content
    if not is_stamp(content["expires"]) or type(content["who"]) is not str:
        raise ValueError("expected a proposal of somebody, until some time")
    subject_of(content)
    return Proposal(entry.row.seq, entry.row.hash, content["who"], content["expires"], content["asks"])


def numbered(proposals: Proposals, seq: object) -> Proposal | None:
    """The open proposal of that number, None where there is none."""
    return next((each for each in proposals.values() if each.seq == seq), None)


def after(proposals: Proposals, entry: LedgerEntry) -> Proposals:
    """Those that are open after an entry, which was held against them."""
    content, subject = entry.content, subject_of(entry.content)
    refused = content["proposal"] if entry.kind == "refuse" else None
    kept = {name: each for name, each in proposals.items() if name != subject and each.seq != refused}
    if entry.kind == "propose":
        kept[subject] = proposal_of(entry)
    return kept if len(kept) != len(proposals) or entry.kind == "propose" else proposals


def refuse_unapproved(proposals: Proposals, entry: LedgerEntry) -> None:
    """Raise LedgerError where an entry that takes two persons is not what a second one approved, in time, of an open proposal.

    Whether two names only look alike is for those who write entries: one that is here must be readable for ever.
    """
    content = entry.content
    found = numbered(proposals, content.get("proposal"))
    sound = found is not None and found.who != content["who"] and str(content["when"]) < found.expires
    if found is None or not sound or any(content.get(name) != value for name, value in found.asks.items()):
        raise LedgerError("is not what another person approved")
