"""The participations of clients in rounds: how often [federated] lets a client take part, and the count of one process.

A *round* is one noisy sum of the updates of some clients (rounds.py). In a *pass* over the clients each of them takes part once. The fewer
rounds a client takes part in, the less a run costs it. round_checks.py compares `participation_limit` with what a file charges for. If
[federated] states a limit that the server enforces (`enforced_keys`), an instance of `dpcli.rounds` counts the participations of each
client, and allows no more of them than it has paid for. The counts need not be saved: if a run continues in another process, each client
may take part as often again, but the rounds are charged again too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import SAMPLING
from dpcli.federated.federated_settings import Federated
from dpcli.mechanisms.sampling.schemes import BallsInBins, Cyclic, OncePerEpoch, Scheme


@dataclass(frozen=True, slots=True)
class ParticipationLimit:
    """Limits on the participations of one client.

    Attributes:
        max_participations: Largest number of rounds in which a client takes part.
        min_separation: Smallest number of rounds from one participation to the next.
    """

    max_participations: int
    min_separation: int


def scheme_of(table: Federated) -> type[Scheme]:
    """Return the sampling scheme by which the server draws clients."""
    scheme: type[Scheme] = load(SAMPLING[table.sampling])
    return scheme


def participation_limit(table: Federated, rounds: int, rate: Fraction | None, begins_pass: bool) -> ParticipationLimit:
    """Return how often one client may take part in `rounds` consecutive rounds. Without any limit, it may take part in all of them.

    Args:
        rate: Share of the clients that take part in one round; None if it is unknown. A pass has at least floor(1 / rate) rounds.
        begins_pass: Whether the first of these rounds begins a pass. Otherwise the rounds may overlap one more pass.
    """
    most, separation = table.max_participations or rounds, table.min_separation or 1
    scheme = scheme_of(table)
    if rate is not None and issubclass(scheme, OncePerEpoch) and not issubclass(scheme, BallsInBins):
        pass_length = max(int(1 / rate), 1)
        # If the rounds may begin anywhere, then at worst the first of them ends a pass, and the second begins one.
        passes = _quotient_up(rounds, pass_length) if begins_pass else 1 + _quotient_up(rounds - 1, pass_length)
        most = min(most, passes)
        # Only with cyclic sampling do all passes have one order. Otherwise a client may come last in one pass and first in the next.
        if issubclass(scheme, Cyclic):
            separation = max(separation, pass_length)
    return ParticipationLimit(min(most, rounds, _quotient_up(rounds, separation)), min(separation, rounds))


def _quotient_up(count: int, length: int) -> int:
    """Return count / length, rounded up."""
    return -(-count // length)


class ParticipationCounter:
    """Counts the rounds in which each client took part, and refuses more participations than are allowed or paid for.

    Args:
        limit: The participations of one client that [federated] allows.
        paid: Function that returns the number of participations of one client that are paid for. It grows with each charge.
    """

    def __init__(self, limit: ParticipationLimit, paid: Callable[[], int]) -> None:
        self._limit, self._paid = limit, paid
        self._rounds_of_client: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, round_number: int, clients: Iterable[int]) -> None:
        """Count the clients of one round.

        Raises InputError if a client takes part too often, or too few rounds after another participation. No client is then counted.
        """
        chosen = tuple(clients)
        with self._lock:
            paid = self._paid()
            for client in chosen:
                self._refuse_excess(round_number, client, paid)
            for client in chosen:
                self._rounds_of_client.setdefault(client, []).append(round_number)

    def _refuse_excess(self, round_number: int, client: int, paid: int) -> None:
        """Raise InputError if a client takes part too often, or too few rounds after another participation."""
        most, separation = self._limit.max_participations, self._limit.min_separation
        earlier = self._rounds_of_client.get(client, [])
        # `abs`: rounds may be released in another order than they were charged.
        conflicting = next((other for other in earlier if abs(round_number - other) < separation), None)
        if conflicting is not None:
            raise InputError(
                f"round {round_number}: expected clients that take part at least {separation} rounds apart, found client {client}, who "
                f"took part in round {conflicting}"
            )
        if len(earlier) >= most:
            raise InputError(
                f"round {round_number}: expected clients that took part in fewer than {most} rounds, found client {client}"
            )
        if len(earlier) >= paid:
            raise InputError(
                f"round {round_number}: expected clients that take part at most once in each of the {paid} paid passes, found client "
                f"{client}, who took part in round {earlier[-1]}"
            )
