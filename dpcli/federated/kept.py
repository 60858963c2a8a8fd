"""How often a client takes part, and how far apart, held against what is charged, before the noise of a round is drawn.

Each object counts its own rounds, and pays for these by itself: one client takes part in no more of them than it has paid participations
for. So the counts need not outlive a process. What several of a key have charged adds up to at least what all their releases cost, and
where a run went on in another process a client may take part as often again, and is charged as often again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from dpcli.base.errors import InputError
from dpcli.federated.participation import Participation, participation
from dpcli.federated.plan import FederatedPlan
from dpcli.federated.settings import KEPT


class CountedClients:
    """The rounds in which each client took part. paid: how many participations of one client are paid for by now."""

    def __init__(self, limit: Participation, paid: Callable[[], int]) -> None:
        self._limit, self._paid = limit, paid
        self._taken: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, number: int, clients: Iterable[int]) -> None:
        """Count the clients of one round, all or none. Raises InputError where one takes part too often or too soon, by [federated]."""
        chosen = tuple(clients)
        with self._lock:
            paid = self._paid()
            for client in chosen:
                self._refuse(number, client, paid)
            for client in chosen:
                self._taken.setdefault(client, []).append(number)

    def _refuse(self, number: int, client: int, paid: int) -> None:
        taken: Sequence[int] = self._taken.get(client, ())
        near = next((other for other in taken if abs(number - other) < self._limit.apart), None)
        if near is not None:
            raise InputError(
                f"round {number}: expected clients that take part at least {self._limit.apart} rounds apart, found client {client}, who "
                f"took part in round {near}"
            )
        if len(taken) >= self._limit.most:
            raise InputError(
                f"round {number}: expected clients that took part in fewer than {self._limit.most} rounds, found client {client}"
            )
        if len(taken) >= paid:
            raise InputError(
                f"round {number}: expected clients that took part at most once in each pass, of which {paid} were paid for, found client "
                f"{client}, who took part in round {taken[-1]}"
            )


def kept_of(plan: FederatedPlan, paid: Callable[[], int]) -> CountedClients | None:
    """What is to be counted; None where nothing but the draws of the server limits how often a client takes part.

    paid: the rounds that are paid for by now. One pass over the clients, or one round without passes, pays for one participation of each.
    """
    if all(getattr(plan.table, key) is None for key in KEPT):
        return None
    return CountedClients(participation(plan.table, plan.rounds, plan.rate, first=True), lambda: paid() // plan.portion)
