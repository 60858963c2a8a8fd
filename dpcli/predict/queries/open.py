"""From what a user writes (a path, or postgresql://...#name) to a budget of queries."""

from __future__ import annotations

from dpcli.base.lazy import load
from dpcli.ledger.stores.places import POSTGRES, path_of
from dpcli.predict.queries.budget import QueryBudget
from dpcli.predict.queries.count import ANSWERS, checked_count, checked_identity

FILE = "queries.db"  # in a run's folder
BUSY_SECONDS = 30.0


def open_queries(
    place: str,
    identity: str,
    total: int,
    *,
    new: bool = False,
    moved: bool = False,
    seconds: float = BUSY_SECONDS,
    things: str = ANSWERS,
) -> QueryBudget:
    """The count of a fitted system's answers.

    Args:
        place: a path, sqlite:///path, or postgresql://user@host/database#name.
        identity: a fingerprint of the system: what was fitted, on what, and every number of the file that its privacy depends on.
        total: how many answers its charge pays for.
        new: make the count where there is none: only when a system is fitted, before its first answer. A count that is there goes on.
            Without it a missing count is refused, as it may have been removed.
        moved: the file's first place is gone, and this is its latest state (--moved); nothing can check that.
        seconds: how long to wait for others.
        things: what is counted, in words.

    Raises:
        LedgerError: missing, locked, damaged, a copy, of another system, or for another total. InputError: the place cannot be read.
    """
    checked_identity(identity)
    checked_count(total, "total")
    if place.startswith(POSTGRES):
        found: QueryBudget = load("dpcli.predict.queries.postgres:PostgresQueries")(place, identity, total, new, seconds, things)
        return found
    from dpcli.predict.queries.sqlite import SqliteQueries, create

    path = path_of(place)
    if new:
        create(path, identity, total, seconds)
    return SqliteQueries(path, identity, total, moved, seconds, things)
