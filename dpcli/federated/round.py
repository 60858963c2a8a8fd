"""The charged round of a server: the clients that take part in it, and the noisy sum of their updates.

The rounds of one `dpcli.rounds` count who takes part, and no client takes part more often than they have paid for. So the counts need not
outlive a process: where a run goes on in another process, a client may take part as often again, and is charged as often again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, InternalError
from dpcli.federated.federated_plan import FederatedPlan
from dpcli.federated.judged import Participation, client_noise_multiplier, participation, scheme_of
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Batched
from dpcli.numerics.arrays import np
from dpcli.random.streams import normals, system_entropy
from dpcli.sessions.folder import this_process
from dpcli.train.sampling.batch_samplers import sampler

if TYPE_CHECKING:
    from dpcli.mechanisms.sampling.schemes import Scheme
    from dpcli.random.streams import Reals
    from dpcli.random.subsets import Indices


REAL_KINDS = "biuf"  # of numpy's types, those of real numbers
LARGEST_UPDATE = 2**40  # numbers of an update: more than any memory holds
CLIENT_BITS = 256  # of a client's number, so that a hash may be one


def client_batches(plan: FederatedPlan, clients: int | None) -> Iterator[Indices] | str:
    """Return the clients of each round, by number from 0; or, in words, why the server has to draw them itself.

    Args:
        clients: How many there really are; the declared number if None.

    Raises:
        InputError: If there are other clients than were declared, as `sampler` does.
    """
    kept = plan.table.kept_keys
    if kept or isinstance(plan.entry.spec, CorrelatedSpec):
        return f"{kept[0] if kept else 'participations of correlated noise'}, which the server makes sure of"
    scheme = _scheme(plan)
    if plan.population is None or scheme is None:
        return "no population, or no share of it in a round"
    return sampler(scheme, plan.population, system_entropy().sampling, clients)


def _scheme(plan: FederatedPlan) -> Scheme | None:
    """Return the server's scheme, with its rate; None if no rate is stated."""
    charged, cls, table = plan.entry.sampling, scheme_of(plan.table), plan.table
    if charged is not None and charged.scheme == table.sampling:
        return charged
    if not issubclass(cls, Batched):
        return cls(table.sampling)
    if table.clients_per_round is not None:
        return cls(table.sampling, batch_size=table.clients_per_round)
    return cls(table.sampling, rate=table.client_rate) if table.client_rate is not None else None


def clipped_sum(plan: FederatedPlan, updates: Mapping[int, Any], size: int) -> Reals:
    """Return the sum of the updates, each clipped, without noise: it must not be shown.

    Raises:
        InputError: If the server adds no noise of its own, or an update has another size.
    """
    clip = _required_clip(plan)
    total = np.zeros(size)
    for client, update in updates.items():
        vector = _vector(client, update, size)
        with np.errstate(all="ignore"):  # numpy's warnings depend on the update
            total += clipped(vector, clip)
    return total


def _vector(client: int, update: Any, size: int) -> Reals:
    """Return the numbers of an update. Raises InputError for anything else, without a value of the update."""
    expected = f"update of client {client}: expected {size} numbers in a row, found"
    array = None
    with suppress(TypeError, ValueError, OverflowError):
        array = np.asarray(update)
    if array is None:  # raised outside of the `with`, so that no error that quotes the update is attached
        raise InputError(f"{expected} a {type(update).__name__} that is no array")
    if array.dtype.kind not in REAL_KINDS:
        # Without the names of a structured type's fields, which are part of the update.
        raise InputError(f"{expected} an array of type {array.dtype.type.__name__}")
    if array.shape != (size,):
        raise InputError(f"{expected} an array of shape {array.shape}")
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def noise_of(plan: FederatedPlan, size: int) -> Reals:
    """Draw the noise of one round."""
    noise = float(plan.entry.spec.noise_multiplier)  # type: ignore[attr-defined]
    return np.asarray(nextafter(noise * _required_clip(plan), inf) * normals(size, system_entropy().noise))


def clipped(update: Reals, clip: float) -> Reals:
    """Return the update within L2 norm `clip`, up to a relative 1e-15; one that is not finite contributes zero (DP207)."""
    largest = float(np.max(np.abs(update), initial=0.0))
    if not np.isfinite(largest):
        return np.zeros_like(update)
    if largest == 0.0:
        return update
    scaled = update / largest  # its squares neither overflow nor vanish, but for those that add nothing to the norm
    norm = float(np.linalg.norm(scaled))
    return scaled * (clip / norm) if largest > clip / norm else update


def _required_clip(plan: FederatedPlan) -> float:
    if plan.table.observed:
        raise InputError(
            f'{plan.path}: federated.noise: expected "server" with release, found "{plan.table.noise}": clients add the noise'
        )
    if isinstance(plan.entry.spec, CorrelatedSpec):
        raise InputError(
            f'{plan.path}: mechanism["{plan.entry.name}"]: expected gaussian noise with release, found "{plan.entry.type}"'
        )
    if plan.table.clip is None:
        raise InputError(f"{plan.path}: federated.clip: set the L2 norm that an update is clipped to")
    return plan.table.clip


class Round(Displayed):
    """A round whose charge is durable: its noise may be drawn, once.

    Attributes:
        number: Number of the plan's rounds, from 1.
        key: Key of the entry in the ledger that pays for it.
    """

    def __init__(
        self, plan: FederatedPlan, number: int, key: str, clients: Indices | str, kept: CountedClients | None = None
    ) -> None:
        self.number, self.key = number, key
        self._plan, self._clients, self._process, self._kept = plan, clients, this_process(), kept
        self._claim = threading.Lock()  # taken by the one release that draws the noise; freed only if none was drawn

    def _line(self) -> str:
        return f"{self.number}, key={self.key!r}"

    @property
    def clients(self) -> Indices:
        """Return the numbers of the clients that take part, from 0, drawn as the file declares: secret, and possibly none.

        Raises:
            InputError: If the server has to draw them itself.
        """
        if isinstance(self._clients, str):
            raise InputError(f"{self._plan.path}: expected clients that the server draws itself, found {self._clients}")
        return self._clients

    @property
    def expected_clients(self) -> float:
        """Return the number to divide a sum by for a mean: public, and not the number of clients that took part."""
        plan = self._plan
        if plan.population is None or plan.rate is None:
            raise InputError(f"{plan.path}: expected the number of clients and their share in a round, found neither")
        return float(plan.rate * plan.population)

    @property
    def noise_multiplier(self) -> float:
        """Return the noise over the clipping norm of whoever adds it; of one client where each adds a share."""
        charged: float = self._plan.entry.spec.noise_multiplier  # type: ignore[attr-defined]
        return client_noise_multiplier(self._plan.table, charged)

    def release(self, updates: Mapping[int, Any], size: int) -> Reals:
        """Return the sum of the clients' updates, each clipped to federated.clip, with the noise of this round: once.

        Args:
            updates: At most one update of each client, by its number: `size` numbers in a row. One that is not finite counts as zero. Where
                there are none, the noise is released all the same.

        Raises:
            InputError: If it was released before, or its noise may have been drawn; an update is of somebody who was not drawn, or who
                takes part more often or sooner than [federated] says; or the server adds no noise of its own.
        """
        count = self._size(size)
        sent = self._sent(updates)
        total = clipped_sum(self._plan, sent, count)  # before the claim, as it may run code of the caller's
        if self._process != this_process() or not self._claim.acquire(blocking=False):
            raise InputError(f"round {self.number}: released already: a second release would need noise that nobody has paid for")
        self._count(sent)
        return np.asarray(total + noise_of(self._plan, count))

    def _count(self, sent: Mapping[int, Any]) -> None:
        """Count who takes part. Where that is refused, no noise was drawn, and the round may be released with other clients."""
        try:
            if self._kept is not None:
                self._kept.take(self.number, sent)
        except BaseException:
            self._claim.release()
            raise

    def _size(self, size: object) -> int:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= LARGEST_UPDATE:
            stated = "another number" if isinstance(size, int | float | np.number) else type(size).__name__
            raise InputError(
                f"round {self.number}: expected a size from 0 to {LARGEST_UPDATE:,}, how many numbers an update has, found {stated}"
            )
        return int(size)

    def _sent(self, updates: Mapping[int, Any]) -> dict[int, Any]:
        """Return each client's one update, by a plain number. Raises InputError for anything else."""
        known = None if isinstance(self._clients, str) else frozenset(self._clients.tolist())
        sent: dict[int, Any] = {}
        if not isinstance(updates, Mapping):
            raise InputError(f"round {self.number}: expected updates by the numbers of clients, found {type(updates).__name__}")
        for client, update in updates.items():
            if isinstance(client, bool) or not isinstance(client, int | np.integer):
                raise InputError(f"round {self.number}: expected clients by whole numbers, found {type(client).__name__}")
            number = int(client)
            if number.bit_length() > CLIENT_BITS:
                raise InputError(
                    f"round {self.number}: expected clients by whole numbers of {CLIENT_BITS} bits at most, found a larger one"
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


class CountedClients:
    """A count of the rounds in which each client took part.

    Attributes:
        paid: Returns how many participations of one client are paid for.
    """

    def __init__(self, limit: Participation, paid: Callable[[], int]) -> None:
        self._limit, self._paid = limit, paid
        self._taken: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def take(self, number: int, clients: Iterable[int]) -> None:
        """Count the clients of one round, all or none. Raises InputError if one takes part too often or too soon, by [federated]."""
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


def client_counter(plan: FederatedPlan, paid: Callable[[], int]) -> CountedClients | None:
    """Return a counter of participations; None if only the draws of the server limit how often a client takes part.

    Args:
        paid: Returns the rounds that are paid for. One pass over the clients, or one round without passes, pays for one participation of
            each.
    """
    if not plan.table.kept_keys:
        return None
    return CountedClients(participation(plan.table, plan.rounds, plan.rate, first=True), lambda: paid() // plan.portion)
