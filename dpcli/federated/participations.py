"""The participations of clients in the rounds of one process.

An instance of `dpcli.rounds` counts the participations of each client, and allows no more participations than it has paid for. So the
counts need not be saved. If a run continues in another process, each client may take part as often again, but the rounds are charged again
too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from dpcli.base.errors import InputError
from dpcli.federated.federated_plan import FederatedPlan
from dpcli.federated.judged import Participation, participation


class ParticipationCounter:
    """Counts the rounds in which each client took part, and refuses more participations than are allowed or paid for.

    Args:
        limit: The participations of one client that [federated] allows.
        paid: Function that returns the number of participations of one client that are paid for.
    """

    def __init__(self, limit: Participation, paid: Callable[[], int]) -> None:
        self._limit, self._paid = limit, paid
        self._taken: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, number: int, clients: Iterable[int]) -> None:
        """Count the clients of one round.

        Raises:
            InputError: A client takes part too often, or too few rounds from another participation. No client is counted then.
        """
        chosen = tuple(clients)
        with self._lock:
            paid = self._paid()
            for client in chosen:
                self._refuse(number, client, paid)
            for client in chosen:
                self._taken.setdefault(client, []).append(number)

    def _refuse(self, number: int, client: int, paid: int) -> None:
        """Raise InputError if a client may not take part in this round."""
        taken: Sequence[int] = self._taken.get(client, ())
        conflicting = next((other for other in taken if abs(number - other) < self._limit.apart), None)
        if conflicting is not None:
            raise InputError(
                f"round {number}: expected clients that take part at least {self._limit.apart} rounds apart, found client {client}, who "
                f"took part in round {conflicting}"
            )
        if len(taken) >= self._limit.most:
            raise InputError(
                f"round {number}: expected clients that took part in fewer than {self._limit.most} rounds, found client {client}"
            )
        if len(taken) >= paid:
            raise InputError(
                f"round {number}: expected clients that take part at most once in each of the {paid} paid passes, found client "
                f"{client}, who took part in round {taken[-1]}"
            )


def client_counter(plan: FederatedPlan, paid: Callable[[], int]) -> ParticipationCounter | None:
    """Return a counter of participations; None if the server enforces no limit on participations in addition to its draws.

    Args:
        paid: Function that returns the number of rounds that are paid for. One pass over the clients pays for one participation of each
            client. Without passes, one round does.
    """
    if not plan.table.enforced_keys:
        return None
    return ParticipationCounter(participation(plan.table, plan.rounds, plan.rate, first=True), lambda: paid() // plan.portion)
