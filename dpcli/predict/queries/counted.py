"""The count of what a charged session may answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dpcli.predict.queries.open import FILE, open_queries
from dpcli.sessions.charged import Session

if TYPE_CHECKING:
    from dpcli.predict.queries.budget import QueryBudget


def counted(session: Session, total: int, place: str | None, moved: bool, name: str = "", things: str = "answers") -> QueryBudget:
    """The count of a session's answers, made where it begins. name: of a second count beside the first.

    Raises LedgerError where it cannot be relied on.
    """
    stated = place or os.path.join(session.folder, FILE)
    beside = f"{stated}-{name}" if name and place is not None else os.path.join(session.folder, f"{name}.db") if name else stated
    return open_queries(beside, session.identity, total, new=not session.counted, moved=moved, things=things)
