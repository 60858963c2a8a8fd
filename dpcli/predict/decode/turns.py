"""Private tokens of one batch: each is charged before the bar that it is found by is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.base.errors import Denied, InternalError
from dpcli.predict.decode.compared import PublicTest
from dpcli.predict.queries.budget import QueryBudget
from dpcli.random.streams import Stream


@dataclass(slots=True)
class PrivateTurns:
    """budget: how many there are, counted durably. A bar is for one private token, in whichever text of the batch it comes.

    A process that ends loses its bar, and what was charged for it.
    """

    test: PublicTest
    budget: QueryBudget
    bar: int | None = None
    spent: bool = False

    def opened(self, stream: Stream) -> bool:
        """Whether there is a bar, a new one if need be. Raises LedgerError where the count cannot be relied on."""
        if self.bar is None and not self.spent:
            try:
                self.budget.take()
            except Denied:
                self.spent = True
                return False
            self.bar = self.test.bar(stream)
        return self.bar is not None

    def private(self, distance: int, stream: Stream) -> bool:
        """Whether the next token is private, by an open bar; if it is, the bar is used up."""
        if self.bar is None:
            raise InternalError("a comparison that nobody paid for: this is a bug in dpcli, and no token")
        found = self.test.private(distance, self.bar, stream)
        if found:
            self.bar = None
        return found
