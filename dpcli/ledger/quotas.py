"""Quotas: the most that one person, or a team together, may charge, as a share of the cap (on each block, where there are blocks).

What was voided counts no more. A share is a decimal, and cap times share is exact: nothing is rounded up. Charges from before a quota
count towards it. A person is the exact name that signs his charges: a login in a database, in a file the name of an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.blocks.spread import fullest, opened_blocks
from dpcli.ledger.chain import LedgerEntry

ALERT_AT = "0.8"  # of a quota, where nothing is said
People = Mapping[str, Mapping[str, Decimal]]  # what each person's charges come to, as the ledger's spending is named


class UnknownPeople(LedgerError):
    """A quota after totals that say nothing of persons: all entries have to be read."""


@dataclass(frozen=True, slots=True)
class Quota:
    """seq, hash: of its entry. of: person or team. members: who charges it. share: of each cap; alert_at: of that, where it warns."""

    seq: int
    hash: str
    of: str
    name: str
    members: tuple[str, ...]
    share: Decimal
    alert_at: Decimal

    @property
    def words(self) -> str:
        """As a sentence names it."""
        return f"the quota of {'' if self.of == 'person' else 'the team '}{self.name}"

    def limits(self, caps: amounts.Amounts) -> dict[str, Decimal]:
        """What its members may charge together, of each amount."""
        return {name: amounts.EXACT.multiply(cap, self.share) for name, cap in caps.items()}

    def total(self, people: People) -> dict[str, Decimal]:
        """What its members have charged together."""
        found: dict[str, Decimal] = {}
        for name in self.members:
            found = amounts.add(found, people.get(name, {}))
        return found

    def used(self, people: People, caps: amounts.Amounts, window: Sequence[str], cut: bool) -> dict[str, Decimal]:
        """The same by the names of the caps; where the dataset is cut into blocks, on the fullest of a window, or of all of them."""
        total = self.total(people)
        if cut:
            return fullest(total, caps, window or opened_blocks(total))
        return {name: total.get(name, Decimal(0)) for name in caps}

    def share_used(self, used: amounts.Amounts, caps: amounts.Amounts) -> float:
        """How much of the quota is used, of the scarcest amount; rounded up a little."""
        return amounts.share(used, self.limits(caps))


Quotas = Mapping[str, Quota]  # by subject (dpcli.ledger.proposals)


def quota_of(entry: LedgerEntry) -> Quota:
    """The quota in an entry. Raises what a content that is none raises."""
    content, share, alert = entry.content, Decimal(entry.content["share"]), Decimal(entry.content["alert_at"])
    if not (0 <= share <= 1 and 0 <= alert <= 1) or not all(type(name) is str for name in content["members"]):
        raise ValueError("expected shares from 0 to 1, of persons")
    return Quota(entry.row.seq, entry.row.hash, str(content["of"]), str(content["name"]), tuple(content["members"]), share, alert)


def concerning(quotas: Quotas, who: str) -> Iterator[Quota]:
    """Those that somebody charges."""
    return (quota for quota in quotas.values() if who in quota.members)
