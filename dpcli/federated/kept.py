"""How often a client takes part, and how far apart, held against what is charged, before the noise of a round is drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from dpcli.errors import InputError
from dpcli.federated.participation import Participation, participation
from dpcli.federated.plan import FederatedPlan
from dpcli.federated.settings import KEPT


class CountedClients:
    """The rounds in which each client took part; `alone` says whether all rounds of the run were this object's."""

    def __init__(self, path: str, limit: Participation, alone: Callable[[], bool]) -> None:
        self._path, self._limit, self._alone = path, limit, alone
        self._taken: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, number: int, clients: Iterable[int]) -> None:
        """Count the clients of one round, all or none. Raises InputError where one takes part too often or too soon, by [federated]."""
        if not self._alone():
            raise InputError(
                f"round {number}: expected all rounds of the key in one process, which counts how often a client takes part, as "
                f"{self._path} limits that; found rounds of another process: a run that goes on needs a key of its own"
            )
        chosen = tuple(clients)
        with self._lock:
            for client in chosen:
                self._refuse(number, client)
            for client in chosen:
                self._taken.setdefault(client, []).append(number)

    def _refuse(self, number: int, client: int) -> None:
        taken = self._taken.get(client, ())
        if len(taken) >= self._limit.most:
            raise InputError(
                f"round {number}: expected clients that took part in fewer than {self._limit.most} rounds, found client {client}"
            )
        near = next((other for other in taken if abs(number - other) < self._limit.apart), None)
        if near is not None:
            raise InputError(
                f"round {number}: expected clients that take part at least {self._limit.apart} rounds apart, found client {client}, who "
                f"took part in round {near}"
            )


def kept_of(plan: FederatedPlan, alone: Callable[[], bool]) -> CountedClients | None:
    """What is to be counted; None where nothing but the draws of the server limits how often a client takes part."""
    if all(getattr(plan.table, key) is None for key in KEPT):
        return None
    return CountedClients(plan.path, participation(plan.table, plan.rounds, plan.rate, first=True), alone)
