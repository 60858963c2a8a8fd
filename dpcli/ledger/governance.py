"""Proposals, which one person makes and another approves, and quotas: what limits persons, beyond the cap.

A proposal is about one subject: the cap, one quota, one run, or where the dataset moves. It is open until it is approved or refused, or
another entry changes its subject: the cap was amended, the run was started, somebody proposed anew. It is approved under its number, so
that nobody approves what they did not read. Source: NIST SP 800-53 Rev. 5, AC-3(2), dual authorization.

A quota is the most that one person, or a team together, may charge, as a share of the cap (of each block's, where there are blocks). Cap
times share is exact: nothing is rounded up. What was voided counts no more; charges from before a quota count. A person is the exact name
that signs the charges: a login in a database, in a file the name of an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.file.toml.looks import looks
from dpcli.ledger import amounts
from dpcli.ledger.amounts import fullest, opened_blocks
from dpcli.ledger.chain import LedgerEntry, is_stamp

DAYS, MOST_DAYS = 7, 31  # for which a proposal is open where nothing is stated, and at most
ALERT_AT = "0.8"  # of a quota, where nothing is stated
People = Mapping[str, Mapping[str, Decimal]]  # what each person's charges come to, as the ledger's spending is named


@dataclass(frozen=True, slots=True)
class Proposal:
    """An open proposal. seq, hash: of its entry. expires: when it can no longer be approved. asks: the entry that it would make."""

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
    """Return the subject of an entry, "" where no proposal is about that."""
    kind = content["kind"]
    if kind == "propose":
        return subject_of(content["asks"])
    if kind in ("start", "commit", "void"):
        return f"run {content.get('key')}"
    return {"amend": "cap", "quota": f"quota of {content.get('of')} {content.get('name')}", "moved": "place"}.get(kind, "")


def arrives(content: Mapping[str, Any]) -> bool:
    """Check whether an entry only notes that a dataset has arrived where it moved: that it moves was approved before."""
    return content["kind"] == "moved" and "copy" in content


def proposal_of(entry: LedgerEntry) -> Proposal:
    """Return the proposal in an entry. Raise what a content that is none raises."""
    content = entry.content
    if not is_stamp(content["expires"]) or type(content["who"]) is not str:
        raise ValueError("expected a proposal of somebody, until some time")
    subject_of(content)
    return Proposal(entry.row.seq, entry.row.hash, content["who"], content["expires"], content["asks"])


def numbered(proposals: Proposals, seq: object) -> Proposal | None:
    """Return the open proposal of that number, None where there is none."""
    return next((each for each in proposals.values() if each.seq == seq), None)


def after(proposals: Proposals, entry: LedgerEntry) -> Proposals:
    """Return the proposals that are open after an entry, which was checked against them."""
    subject = subject_of(entry.content)
    refused = entry.content["proposal"] if entry.kind == "refuse" else None
    still_open = {name: each for name, each in proposals.items() if name != subject and each.seq != refused}
    return {**still_open, subject: proposal_of(entry)} if entry.kind == "propose" else still_open


def refuse_unapproved(proposals: Proposals, entry: LedgerEntry) -> None:
    """Raise LedgerError where an entry that takes two persons is not what a second one approved, in time, of an open proposal.

    Whether two names only look alike is for those who write entries: one that was written must be readable for ever.
    """
    content = entry.content
    proposal = numbered(proposals, content.get("proposal"))
    sound = proposal is not None and proposal.who != content["who"] and str(content["when"]) < proposal.expires
    if proposal is None or not sound or any(content.get(name) != value for name, value in proposal.asks.items()):
        raise LedgerError("is not what another person approved")


class UnknownPeople(LedgerError):
    """A quota after totals that say nothing of persons: all entries have to be read."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota. seq, hash: of its entry. of: person or team. members: who charges it. share: of each cap; alert_at: of that share."""

    seq: int
    hash: str
    of: str
    name: str
    members: tuple[str, ...]
    share: Decimal
    alert_at: Decimal

    @property
    def words(self) -> str:
        """The quota as a sentence names it."""
        return f"the quota of {'' if self.of == 'person' else 'the team '}{self.name}"

    def limits(self, caps: amounts.Amounts) -> dict[str, Decimal]:
        """Return what its members may charge together, of each amount."""
        return {name: amounts.EXACT.multiply(cap, self.share) for name, cap in caps.items()}

    def used(self, people: People, caps: amounts.Amounts, window: Sequence[str], cut: bool) -> dict[str, Decimal]:
        """Return what its members have charged together; of blocks (`cut`) on the fullest of a window, or of all of them."""
        total: dict[str, Decimal] = {}
        for name in self.members:
            total = amounts.add(total, people.get(name, {}))
        if cut:
            return fullest(total, caps, window or opened_blocks(total))
        return {name: total.get(name, Decimal(0)) for name in caps}


Quotas = Mapping[str, Quota]  # by subject


def quota_of(entry: LedgerEntry) -> Quota:
    """Return the quota in an entry. Raise what a content that is none raises."""
    content, share, alert = entry.content, Decimal(entry.content["share"]), Decimal(entry.content["alert_at"])
    if not (0 <= share <= 1 and 0 <= alert <= 1) or not all(type(name) is str for name in content["members"]):
        raise ValueError("expected shares from 0 to 1, of persons")
    return Quota(entry.row.seq, entry.row.hash, str(content["of"]), str(content["name"]), tuple(content["members"]), share, alert)


def concerning(quotas: Quotas, who: str) -> Iterator[Quota]:
    """Return the quotas that somebody charges."""
    return (quota for quota in quotas.values() if who in quota.members)
