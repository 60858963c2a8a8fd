"""The count of what a charged session may answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dpcli.base.errors import LedgerError
from dpcli.predict.queries.ledger import LedgerQueries
from dpcli.predict.queries.open import FILE, open_queries
from dpcli.sessions.charged import Session

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.queries.budget import QueryBudget


def counted(
    session: Session, ledger: Ledger | None, total: int, place: str | None, moved: bool, name: str = "", things: str = "answers"
) -> QueryBudget:
    """The count of a session's answers: in the ledger that was charged for it, and else in its folder, or at `place`.

    name: of a second count beside the first. Raises LedgerError where the count cannot be relied on.
    """
    if ledger is not None:
        return LedgerQueries(ledger, session.run, total, name or things)
    stated = place or os.path.join(session.folder, FILE)
    beside = f"{stated}-{name}" if name and place is not None else os.path.join(session.folder, f"{name}.db") if name else stated
    return open_queries(beside, session.identity, total, new=not session.counted, moved=moved, things=things)


def require_count_of(path: str, last: int, budget: QueryBudget) -> None:
    """Raise LedgerError where answers were released that the count does not know: it was put back to an earlier state.

    path, last: the file of answers, and the number of the last one in it. Where both were put back, nothing can be seen.
    """
    if last > budget.taken():
        raise LedgerError(
            f"{path}: expected at most {budget.taken():,} answers, as they are counted, found number {last:,}: the count was put back to "
            "an earlier state, and would grant answers twice; put its latest state there, or begin anew in another folder"
        )
