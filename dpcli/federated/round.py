"""One round that is charged: who takes part in it, and the noisy sum of what they send."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.errors import InputError, InternalError
from dpcli.federated.noise import share_of_one
from dpcli.federated.plan import FederatedPlan
from dpcli.federated.server import noisy_sum

if TYPE_CHECKING:
    from dpcli.train.noise.randomness import Reals
    from dpcli.train.sampling.draws import Indices


class Round:
    """A round whose charge is durable: its noise may be drawn, once.

    number: of the plan's rounds, from 1. key: of the entry in the ledger that pays for it.
    """

    def __init__(self, plan: FederatedPlan, number: int, key: str, clients: Indices | str) -> None:
        self.number, self.key = number, key
        self._plan, self._clients, self._process, self._released = plan, clients, os.getpid(), False

    def __repr__(self) -> str:
        return f"Round({self.number}, key={self.key!r})"

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

        Raises InputError where it was released before, an update is of somebody who was not drawn, or the server adds no noise of its own.
        """
        if not isinstance(self._clients, str):
            stranger = next((client for client in updates if client not in self._clients), None)
            if stranger is not None:
                raise InputError(
                    f"round {self.number}: expected updates of clients that were drawn for it, found one of client {stranger}"
                )
        if self._released or self._process != os.getpid():
            raise InputError(
                f"round {self.number}: expected one release, found another: it would need noise that nobody has paid for"
            )
        found = noisy_sum(self._plan, updates, size)
        self._released = True
        return found

    def __reduce__(self) -> NoReturn:
        raise InternalError("a round is never copied: it is charged for one release")
