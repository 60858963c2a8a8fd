"""The count in the ledger that was charged for a session: entries of its chain, which no copy or restored folder takes back."""

from __future__ import annotations

from typing import Self

from dpcli.base.errors import LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.predict.queries.budget import Granted
from dpcli.predict.queries.count import checked_count


class LedgerQueries:
    """The answers of a run that were granted up to now, of `total`; things: what they are, in words.

    Raises LedgerError where the ledger's definitions are too old to count.
    """

    def __init__(self, ledger: Ledger, run: str, total: int, things: str) -> None:
        require_counting(ledger)
        self._ledger, self._run, self._total, self._things = ledger, run, total, things

    @property
    def total(self) -> int:
        return self._total

    def taken(self) -> int:
        return self._ledger.state().run(self._run).counts.get(self._things, 0)

    def take(self, count: int = 1) -> Granted:
        after = self._ledger.count(self._run, self._things, checked_count(count), self._total)
        return Granted(after - count + 1, count, self._total)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def require_counting(ledger: Ledger) -> None:
    """Raise LedgerError where the definitions of a ledger's database do not let in how far a session has gone."""
    if not ledger.store.takes_counts:
        raise LedgerError(
            f"{ledger.store.place}: expected definitions that count answers, found those of version {ledger.store.version}: "
            "dpcli budget upgrade makes them anew; nothing was drawn"
        )
