"""Quotas: what a person, or a team together, may charge at most, as a share of the cap (of each block's, if there are blocks).

Cap times share is exact: nothing is rounded up. What was voided counts no more; charges from before a quota count. A person is the exact
name that signs the charges: a login in a database, in a file the name of an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import charged_blocks, most_on_one_block
from dpcli.ledger.chain import LedgerEntry

ALERT_AT = "0.8"  # share of a quota from which charges warn, if nothing is stated
People = Mapping[str, Mapping[str, Decimal]]  # what each person's charges come to, as the ledger's spending is named


class UnknownPeople(LedgerError):
    """A quota after totals that say nothing of persons: all entries have to be read."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota.

    Attributes:
        seq, hash: Number and hash of its entry.
        of: Person or team.
        members: Who charges it.
        share: Share of each cap.
        alert_at: Of that share.
    """

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

    def used(self, people: People, caps: amounts.Amounts, window: Sequence[str], by_block: bool) -> dict[str, Decimal]:
        """Return what its members have charged together; `by_block`, on the fullest block of a window, or of all that were charged."""
        total: dict[str, Decimal] = {}
        for name in self.members:
            total = amounts.add(total, people.get(name, {}))
        if by_block:
            return most_on_one_block(total, caps, window or charged_blocks(total))
        return {name: total.get(name, Decimal(0)) for name in caps}


Quotas = Mapping[str, Quota]  # by subject


def quota_of(entry: LedgerEntry) -> Quota:
    """Return the quota in an entry. Raise what a content that is none raises."""
    content, share, alert = entry.content, Decimal(entry.content["share"]), Decimal(entry.content["alert_at"])
    if not (0 <= share <= 1 and 0 <= alert <= 1) or not all(type(name) is str for name in content["members"]):
        raise ValueError("expected shares from 0 to 1, of persons")
    return Quota(entry.row.seq, entry.row.hash, str(content["of"]), str(content["name"]), tuple(content["members"]), share, alert)


def quotas_of(quotas: Quotas, who: str) -> Iterator[Quota]:
    """Return the quotas that the charges of this person count for."""
    return (quota for quota in quotas.values() if who in quota.members)
