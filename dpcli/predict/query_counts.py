"""The durable count of a session's answers, and the count in a ledger. sqlite_queries.py and postgres_queries.py hold it without a ledger.

A *session* is everything that one charge pays for: the privacy of all its answers is charged beforehand (prediction_session.py opens the
count). Each answer is counted before it is drawn: so no answer is drawn twice for one charge, without a charge, or beyond the total. A
crash between the count and the answer loses the answer, but never the count. In a *ledger*, the record of what was spent on a dataset, the
counts are entries of its chain, which a copy or a restored folder of the session cannot undo.

A *system* is the models, teachers or batches of texts that answer in one session. Its *identity* is a hash of the charged run and of
everything in the pipeline file that must not change while the session continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.ledger import Ledger

LARGEST_COUNT = 2**62  # fits into the signed 64-bit integers of SQLite and PostgreSQL
BUSY_SECONDS = 30.0  # longest wait for the lock of another process, which holds it only while it counts; arbitrary
ANSWERS = "answers"  # default noun for the counted answers
SHOWN_DIGITS = 12  # leading digits of an identity that a message shows
NOTHING_WRITTEN = "nothing was written"
UNSURE = "nothing is answered, and the request may have been counted or not: ask again, which is counted again"
LOST = "the number of past answers is not known: this system gives no more answers; a new fit needs a new charge"


class AnswerCounter(Protocol):
    """The durable count of one system's answers, which all processes that answer for it share.

    Attributes:
        total: Number of answers that may be granted in all.
    """

    @property
    def total(self) -> int: ...

    def taken(self) -> int:
        """Return the number of answers that have been granted."""
        ...

    def take(self, count: int = 1) -> int:
        """Grant `count` answers, or none, and return the number of the first. No other request gets these answers.

        Noise may be drawn only after this returns, when the count is durable.

        Raises:
            Denied: If fewer answers are left.
            LedgerError: If the store is locked or damaged, or counts another system.
            InputError: If `count` is not a whole number from 1 to LARGEST_COUNT.
        """
        ...


@dataclass(frozen=True, slots=True)
class CountState:
    """The state of the count of one fitted system: its identity, and the numbers of answers that may be and have been granted."""

    identity: str
    total: int
    taken: int

    def refuse_other(self, identity: str, total: int, place: str) -> None:
        """Raise LedgerError if this count belongs to another system, or has another total. `place` names the count in messages."""
        if self.identity != identity:
            raise LedgerError(
                f"{place}: counts the answers of another system ({self.identity[:SHOWN_DIGITS]}), expected {identity[:SHOWN_DIGITS]}: "
                "the file or the fit has changed; a new fit needs another place for its count"
            )
        if self.total != total:
            raise LedgerError(
                f"{place}: expected {total:,} answers in all, as the file states, found {self.total:,}: "
                "the number is fixed when the system is fitted and charged"
            )

    def after(self, count: int, place: str, counted_noun: str = ANSWERS) -> int:
        """Return the number of granted answers after `count` more. Raises Denied, in words with `counted_noun`, if fewer are left."""
        left = self.total - self.taken
        if count <= left:
            return self.taken + count
        if left:
            spent = f"{self.taken:,} of {self.total:,} {counted_noun} are spent: {left:,} are left, {count:,} were requested,"
        else:
            spent = f"all {self.total:,} {counted_noun} are spent:"
        raise Denied(f"{place}: {spent} more need a new fit and a new charge")


class LedgerQueries:
    """The count of a session in the ledger that was charged for its run, under the name `count_name`."""

    def __init__(self, ledger: Ledger, run: str, total: int, count_name: str) -> None:
        self._ledger, self._run, self.total, self._count_name = ledger, run, total, count_name

    def taken(self) -> int:
        return self._ledger.state().run(self._run).counts.get(self._count_name, 0)  # the first answer makes the count

    def take(self, count: int = 1) -> int:
        # The ledger returns the number of answers granted so far, of which the last `count` are these.
        return self._ledger.count(self._run, self._count_name, require_count(count), self.total) - count + 1


def require_count(count: int, name: str = "count") -> int:
    """Return `count`. Raises InputError unless it is an int from 1 to LARGEST_COUNT, not a bool; messages call it `name`."""
    if type(count) is not int or not 1 <= count <= LARGEST_COUNT:
        raise InputError(f"{name}: expected a whole number of answers, at least 1, found {count!r}")
    return count
