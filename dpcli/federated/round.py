"""One round that is charged: who takes part in it, and the noisy sum of what they send."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, InternalError
from dpcli.federated.noise import share_of_one
from dpcli.federated.plan import FederatedPlan
from dpcli.federated.server import clipped_sum, noise_of
from dpcli.numerics.arrays import np
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    from dpcli.federated.kept import CountedClients
    from dpcli.random.streams import Reals
    from dpcli.random.subsets import Indices


LARGEST = 2**40  # numbers of an update: more than any memory holds
BITS = 256  # of a client's number, so that a hash may be one


class Round(Displayed):
    """A round whose charge is durable: its noise may be drawn, once.

    number: of the plan's rounds, from 1. key: of the entry in the ledger that pays for it.
    """

    def __init__(
        self, plan: FederatedPlan, number: int, key: str, clients: Indices | str, kept: CountedClients | None = None
    ) -> None:
        self.number, self.key = number, key
        self._plan, self._clients, self._process, self._kept = plan, clients, this_process(), kept
        self._claim = threading.Lock()  # whoever takes it draws the noise; given back only where none was drawn

    def _line(self) -> str:
        return f"{self.number}, key={self.key!r}"

    @property
    def clients(self) -> Indices:
        """Numbers of the clients that take part, from 0, drawn as the file declares, unpredictably: to be kept secret, and possibly none.

        Raises InputError where the server has to draw them itself.
        """
        if isinstance(self._clients, str):
            raise InputError(f"{self._plan.path}: expected clients that the server draws itself, found {self._clients}")
        return self._clients

    @property
    def expected_clients(self) -> float:
        """What a sum is divided by for a mean: a public number, and never how many took part."""
        plan = self._plan
        if plan.population is None or plan.rate is None:
            raise InputError(f"{plan.path}: expected the number of clients and their share in a round, found neither")
        return float(plan.rate * plan.population)

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the clipping norm of whoever adds it; of one client where each adds a share."""
        charged: float = self._plan.entry.spec.noise_multiplier  # type: ignore[attr-defined]
        return share_of_one(self._plan.table, charged)

    def release(self, updates: Mapping[int, Any], size: int) -> Reals:
        """The sum of the clients' updates, each clipped to federated.clip, with the noise of this round: once.

        Args:
            updates: of each client at most one, by its number: `size` numbers in a row. One that is not finite counts as zero. Where there
                are none, the noise is released all the same.

        Raises InputError where it was released before, or its noise may have been drawn; an update is of somebody who was not drawn, or who
        takes part more often or sooner than [federated] says; or the server adds no noise of its own.
        """
        count = self._size(size)
        sent = self._sent(updates)
        found = clipped_sum(self._plan, sent, count)  # runs code of the caller's where an update is an object of his
        if self._process != this_process() or not self._claim.acquire(blocking=False):
            raise InputError(
                f"round {self.number}: expected one release, found another: it would need noise that nobody has paid for"
            )
        self._count(sent)
        return np.asarray(found + noise_of(self._plan, count))

    def _count(self, sent: Mapping[int, Any]) -> None:
        """Note who takes part; where that is refused no noise was drawn, and the round may be released without them."""
        try:
            if self._kept is not None:
                self._kept.take(self.number, sent)
        except BaseException:
            self._claim.release()
            raise

    def _size(self, size: object) -> int:
        """As a plain number. Raises InputError where it is none, or more than an array can have."""
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= LARGEST:
            found = "another number" if isinstance(size, int | float | np.number) else type(size).__name__
            raise InputError(
                f"round {self.number}: expected a size from 0 to {LARGEST:,}, how many numbers an update has, found {found}"
            )
        return int(size)

    def _sent(self, updates: Mapping[int, Any]) -> dict[int, Any]:
        """Each client's one update, by a plain number. Raises InputError for anything else."""
        known = None if isinstance(self._clients, str) else frozenset(self._clients.tolist())
        sent: dict[int, Any] = {}
        if not isinstance(updates, Mapping):
            raise InputError(f"round {self.number}: expected updates by the numbers of clients, found {type(updates).__name__}")
        for client, update in updates.items():
            if isinstance(client, bool) or not isinstance(client, int | np.integer):
                raise InputError(f"round {self.number}: expected clients by whole numbers, found {type(client).__name__}")
            number = int(client)
            if number.bit_length() > BITS:
                raise InputError(
                    f"round {self.number}: expected clients by whole numbers of {BITS} bits at most, found a larger one"
                )
            if number in sent:
                raise InputError(f"round {self.number}: expected at most one update of each client, found two of client {number}")
            if number < 0 or (known is not None and number not in known):
                raise InputError(
                    f"round {self.number}: expected updates of clients that were drawn for it, found one of client {number}"
                )
            sent[number] = update
        return sent

    def __reduce__(self) -> NoReturn:
        raise InternalError("a round is never copied: it is charged for one release")
