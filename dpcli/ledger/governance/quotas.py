"""Quotas, which limit the charges of a person, or of all members of a team together, to a share of the cap.

The cap of a ledger is what all runs on its dataset together may cost (dpcli/ledger/terms.py). A quota keeps one person from using it up. It
guarantees nothing about privacy: the cap does. `LedgerState.over_quota` (dpcli/ledger/state.py) checks the quotas when a run is charged. If
the dataset has *blocks*, parts with caps of their own, a quota is a share of each block's cap. The product of cap and share is exact.
Charges from before a quota count against it, and voided charges do not. A person is identified by the exact name that signs the charges. In
a database this name is a login, and in a ledger file it is the name of an account. A *checkpoint* is a stored state of the ledger, from
which a reader continues; it contains the charges per person only if there are quotas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpcli.base.errors import LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import charged_blocks, most_on_one_block
from dpcli.ledger.chain import LedgerEntry

# The default of alert_at: a warning is shown once this share of a quota is used. It is arbitrary, and affects warnings alone.
ALERT_AT = "0.8"
People = Mapping[str, Mapping[str, Decimal]]  # the total charges of each person, with the keys of LedgerState.spent


class UnknownPeople(LedgerError):
    """Raised if a quota follows a checkpoint without totals per person, so that all entries have to be read."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota.

    Attributes:
        seq, hash: Number and hash of the entry that set the quota.
        of, name: "person" or "team", and the name of the person or team.
        members: The people whose charges count.
        share: The limit as a share of each cap.
        alert_at: A warning is shown once this share of the limit is used.
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
        """The name of the quota within a sentence: "the quota of ada", or "the quota of the team red"."""
        return f"the quota of {'' if self.of == 'person' else 'the team '}{self.name}"

    def limits(self, caps: amounts.Amounts) -> dict[str, Decimal]:
        """Return the largest total of each amount that the members may charge together."""
        return {name: amounts.EXACT.multiply(cap, self.share) for name, cap in caps.items()}

    def used(self, people: People, caps: amounts.Amounts, window: Sequence[str], by_block: bool) -> dict[str, Decimal]:
        """Return the total of each amount that the members have charged together.

        `by_block` states whether the dataset has blocks. The result is then the largest total on one block of the window, or of all charged
        blocks if the window is empty.
        """
        total: dict[str, Decimal] = {}
        for name in self.members:
            total = amounts.add(total, people.get(name, {}))
        if by_block:
            return most_on_one_block(total, caps, window or charged_blocks(total))
        return {name: total.get(name, Decimal(0)) for name in caps}


Quotas = Mapping[str, Quota]  # by subject: whom the quota is for (`subject_of` in proposals.py)


def quota_of(entry: LedgerEntry) -> Quota:
    """Return the quota in an entry. Raises KeyError, TypeError, ValueError or ArithmeticError if the content is not a quota."""
    content, share, alert = entry.content, Decimal(entry.content["share"]), Decimal(entry.content["alert_at"])
    if not (0 <= share <= 1 and 0 <= alert <= 1) or not all(type(name) is str for name in content["members"]):
        raise ValueError("expected members by name, and shares from 0 to 1")
    return Quota(entry.row.seq, entry.row.hash, str(content["of"]), str(content["name"]), tuple(content["members"]), share, alert)


def quotas_of(quotas: Quotas, who: str) -> Iterator[Quota]:
    """Return the quotas that limit the charges of this person."""
    return (quota for quota in quotas.values() if who in quota.members)
