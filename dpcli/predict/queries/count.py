"""What is counted, and when it says no: the same whatever keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.base.errors import Denied, InputError, LedgerError

MOST = 2**62  # fits into the integers of every store
ANSWERS = "answers"  # what is counted, where nobody says
WRITTEN = "nothing was written"
UNSURE = "nothing is answered, and it may be counted or not: ask again, which counts anew"
LOST = "what was answered is not known: no more answers of this system; fit another one, which is charged for"


@dataclass(frozen=True, slots=True)
class Count:
    """How many answers of one fitted system are granted."""

    identity: str
    total: int
    taken: int

    def refuse_other(self, identity: str, total: int, place: str) -> None:
        """Raise LedgerError where the place counts the answers of another system, or another number of them."""
        if self.identity != identity:
            raise LedgerError(
                f"{place}: counts the answers of another system ({self.identity[:12]}), expected {identity[:12]}: "
                "the file or the fit has changed; a new fit needs a place of its own"
            )
        if self.total != total:
            raise LedgerError(
                f"{place}: expected {total:,} answers in all, as the file states, found {self.total:,}: "
                "the number is fixed when the system is fitted and charged"
            )

    def after(self, count: int, place: str, things: str = ANSWERS) -> int:
        """How many are granted after `count` more. things: what they are, in words. Raises Denied where there are not so many."""
        left = self.total - self.taken
        if count > left:
            spent = f"{self.taken:,} of {self.total:,} {things} are spent: {left:,} are left, found {count:,} asked for"
            spent = spent if left else f"all {self.total:,} {things} are spent"
            raise Denied(f"{place}: {spent}{',' if left else ':'} more of them are a new fit and a new charge")
        return self.taken + count


def checked_count(count: int, name: str = "count") -> int:
    """Raises InputError unless it is a whole number from 1 to 2^62."""
    if type(count) is not int or not 1 <= count <= MOST:
        raise InputError(f"{name}: expected a whole number of answers, at least 1, found {count!r}")
    return count


def checked_identity(identity: str) -> str:
    """Raises InputError unless it is a fingerprint: printable, not empty, at most 200 characters."""
    if not identity or not identity.isascii() or not identity.isprintable() or len(identity) > 200:
        raise InputError(f"identity: expected a fingerprint of at most 200 printable characters, found {identity[:60]!a}")
    return identity
