"""A charged round of a server, with the clients that take part in it and the noisy sum of their updates.

In federated training, clients compute *updates* and the server adds them up. `Rounds` (rounds.py) charges a round in a ledger, as its
*plan* states (federated_plan.py), and hands out a `Round`; `release` clips each update, adds the noise and returns the sum, once. The set
of clients that were drawn is secret, and so is their number: a sum may be divided by `expected_clients` only. If the clients add the noise
themselves, `release` is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, InternalError
from dpcli.federated.federated_plan import FederatedPlan
from dpcli.federated.participations import scheme_of
from dpcli.federated.round_checks import client_noise_multiplier
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Batched
from dpcli.numerics.arrays import np
from dpcli.random.streams import grid_of, normals, round_to_grid, system_entropy
from dpcli.sessions.folder import this_process
from dpcli.train.sampling.batch_samplers import sampler

if TYPE_CHECKING:
    from dpcli.federated.participations import ParticipationCounter
    from dpcli.mechanisms.sampling.schemes import Scheme
    from dpcli.random.streams import Reals
    from dpcli.random.subsets import Indices


REAL_KINDS = "biuf"  # numpy's codes for types of real numbers
# Limits of arguments, which affect neither the noise nor the cost.
LARGEST_UPDATE = 2**40  # largest length of an update; no machine has memory for more
CLIENT_BITS = 256  # largest size of a client's number, so that a 256-bit hash can be used as a number
LARGEST_SHOWN = 10**18  # a larger size is not printed in a message


class Round(Displayed):
    """A round of a federated run that the ledger has charged. Its noise may be drawn once.

    Attributes:
        number: Number of the round in the plan, which counts from 1.
        key: Key of the ledger entry that pays for the round.
    """

    # `clients` are the clients that take part, or the reason why the server draws them itself. `counter` refuses clients that take part too
    # often; it is None if the server enforces no limit.
    def __init__(
        self,
        plan: FederatedPlan,
        number: int,
        key: str,
        clients: Indices | ServerDraws,
        counter: ParticipationCounter | None = None,
    ) -> None:
        self.number, self.key = number, key
        self._plan, self._clients, self._process, self._counter = plan, clients, this_process(), counter
        self._claim = threading.Lock()  # held by the one call of `release` that draws the noise; freed only if no noise was drawn

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        return f"{self.number}, key={self.key!r}"

    @property
    def clients(self) -> Indices:
        """The numbers of the clients that take part, which count from 0. They are drawn as the file declares.

        The set of these clients is secret. It may be empty.

        Raises InputError if the server has to draw the clients itself.
        """
        if isinstance(self._clients, ServerDraws):
            raise InputError(f"{self._plan.path}: expected clients that the server draws itself, found {self._clients.reason}")
        return self._clients

    @property
    def expected_clients(self) -> float:
        """The expected number of clients in a round, by which a sum may be divided. It is public, unlike the true number.

        Raises InputError if the file does not state the number of clients, or their share in a round.
        """
        plan = self._plan
        if plan.population is None or plan.rate is None:
            missing = [word for word, value in (("their number", plan.population), ("their share", plan.rate)) if value is None]
            raise InputError(
                f"{plan.path}: expected the number of clients and their share in a round, found no statement of {' and '.join(missing)}"
            )
        return float(plan.rate * plan.population)

    @property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise over the clipping norm, for the noise of the server or the share of each client."""
        charged_multiplier: float = self._plan.entry.spec.noise_multiplier  # type: ignore[attr-defined]
        return client_noise_multiplier(self._plan.table, charged_multiplier)

    def release(self, updates: Mapping[int, Any], size: int) -> Reals:
        """Return the sum of the clients' updates, each clipped to federated.clip, plus the noise of this round.

        A round can be released once. The noise is released even if there are no updates.

        Args:
            updates: One update for each client, by the number of the client. An update is an array of `size` numbers. If one of them is not
                finite, the update counts as zero.
            size: Length of every update.

        Raises:
            InputError: If the round was released before, or its noise may have been drawn; if an update comes from a client that was not
                drawn, or that takes part more often or sooner than [federated] allows; or if the clients add the noise.
        """
        length = self._checked_size(size)
        sent = self._updates_by_client(updates)
        total = clipped_sum(self._plan, sent, length)  # before the lock is taken, because it may run code of the caller
        if self._process != this_process() or not self._claim.acquire(blocking=False):
            raise InputError(f"round {self.number}: already released: a second release would need noise that was not charged")
        self._count_participations(sent)
        noisy: Reals = round_to_grid(total + draw_noise(self._plan, length), grid_of(_noise_std(self._plan)))
        return noisy

    def _count_participations(self, sent: Mapping[int, Any]) -> None:
        """Count the participations of the clients. If a client is refused, the round may still be released with other clients."""
        try:
            if self._counter is not None:
                self._counter.take(self.number, sent)
        except BaseException:
            self._claim.release()
            raise

    def _checked_size(self, size: object) -> int:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= LARGEST_UPDATE:
            given = type(size).__name__
            if isinstance(size, int | float) and not abs(size) > LARGEST_SHOWN:  # also for NaN
                given = repr(size)
            raise InputError(
                f"round {self.number}: expected a size from 0 to {LARGEST_UPDATE:,}, the length of an update, found {given}"
            )
        return int(size)

    def _updates_by_client(self, updates: Mapping[int, Any]) -> dict[int, Any]:
        """Return the updates by client number. Raises InputError for a client that is invalid, repeated or was not drawn."""
        drawn = None if isinstance(self._clients, ServerDraws) else frozenset(self._clients.tolist())
        sent: dict[int, Any] = {}
        if not isinstance(updates, Mapping):
            raise InputError(f"round {self.number}: expected updates by client numbers, found {type(updates).__name__}")
        for client, update in updates.items():
            if isinstance(client, bool) or not isinstance(client, int | np.integer):
                raise InputError(f"round {self.number}: expected whole numbers of clients, found {type(client).__name__}")
            client_number = int(client)
            if client_number.bit_length() > CLIENT_BITS:
                raise InputError(
                    f"round {self.number}: expected whole numbers of clients with at most {CLIENT_BITS} bits, found a larger number"
                )
            if client_number in sent:
                raise InputError(
                    f"round {self.number}: expected at most one update of each client, found two of client {client_number}"
                )
            if client_number < 0 or (drawn is not None and client_number not in drawn):
                raise InputError(
                    f"round {self.number}: expected updates of clients that were drawn for it, found an update of client {client_number}"
                )
            sent[client_number] = update
        return sent

    def __reduce__(self) -> NoReturn:
        raise InternalError("a round cannot be copied, as it was charged for one release")


@dataclass(frozen=True, slots=True)
class ServerDraws:
    """The reason, in words, why the server has to draw the clients itself."""

    reason: str


def client_batches(plan: FederatedPlan, clients: int | None) -> Iterator[Indices] | ServerDraws:
    """Return an iterator over the clients of each round, or the reason why the server has to draw the clients itself.

    Clients are numbered from 0.

    Args:
        clients: The true number of clients; None for the declared number.

    Raises:
        InputError: If the true number of clients contradicts the declared number (see `sampler`).
    """
    if plan.table.enforced_keys:
        return ServerDraws(f"{plan.table.enforced_keys[0]}, which the server enforces")
    if isinstance(plan.entry.spec, CorrelatedSpec):
        return ServerDraws("participations of correlated noise, which the server enforces")
    scheme = _scheme(plan)
    if plan.population is None or scheme is None:
        return ServerDraws("no population, or no share of the clients in a round")
    return sampler(scheme, plan.population, system_entropy().sampling, clients)


def _scheme(plan: FederatedPlan) -> Scheme | None:
    """Return the sampling scheme of the server with its rate; None if the scheme needs a rate that the file does not state."""
    charged_scheme, scheme_class, table = plan.entry.sampling, scheme_of(plan.table), plan.table
    if charged_scheme is not None and charged_scheme.scheme == table.sampling:
        return charged_scheme
    if not issubclass(scheme_class, Batched):
        return scheme_class(table.sampling)
    if table.clients_per_round is not None:
        return scheme_class(table.sampling, batch_size=table.clients_per_round)
    if table.client_rate is not None:
        return scheme_class(table.sampling, rate=table.client_rate)
    return None


def clipped_sum(plan: FederatedPlan, updates: Mapping[int, Any], size: int) -> Reals:
    """Return the sum of the clipped updates. The sum has no noise and must not be released.

    Raises InputError if the clients add the noise and not the server, or an update does not have `size` numbers.
    """
    clip = _required_clip(plan)
    total = np.zeros(size)
    for client, update in updates.items():
        vector = _vector(client, update, size)
        with np.errstate(all="ignore"):  # a warning by numpy would reveal something about the update
            total += clip_update(vector, clip)
    return total


def _vector(client: int, update: Any, size: int) -> Reals:
    """Return an update as an array of `size` numbers.

    Raises InputError if the update is not such an array. The message contains no value of the update.
    """
    expected = f"update of client {client}: expected an array of {size} numbers, found"
    array = None
    with suppress(TypeError, ValueError, OverflowError):
        array = np.asarray(update)
    if array is None:  # outside the `with`, so that the error has no context that quotes the update
        raise InputError(f"{expected} a {type(update).__name__} that is not an array")
    if array.dtype.kind not in REAL_KINDS:
        # Only the name of the type is shown, because the field names of a structured type are a part of the update.
        raise InputError(f"{expected} an array of type {array.dtype.type.__name__}")
    if array.shape != (size,):
        raise InputError(f"{expected} an array of shape {array.shape}")
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def draw_noise(plan: FederatedPlan, size: int) -> Reals:
    """Draw the Gaussian noise of one round."""
    return normals(size, system_entropy().noise, _noise_std(plan))


def _noise_std(plan: FederatedPlan) -> float:
    """Return the standard deviation of the noise of one round, noise_multiplier times the clipping norm. It is never rounded down."""
    noise = float(plan.entry.spec.noise_multiplier)  # type: ignore[attr-defined]
    return nextafter(noise * _required_clip(plan), inf)


def clip_update(update: Reals, clip: float) -> Reals:
    """Return the update, scaled down to L2 norm `clip` if its norm is larger. The norm is exact up to rounding in float64.

    An update with a number that is not finite is replaced by zeros, because no factor makes it short (`dpcli explain DP207`).
    """
    largest = float(np.max(np.abs(update), initial=0.0))
    if not np.isfinite(largest):
        return np.zeros_like(update)
    if largest == 0.0:
        return update
    scaled = update / largest  # no square overflows, and a square that underflows is too small to change the norm
    norm = float(np.linalg.norm(scaled))
    return scaled * (clip / norm) if largest > clip / norm else update  # the update has norm largest * norm, which may overflow


def _required_clip(plan: FederatedPlan) -> float:
    """Return the clipping norm. Raises InputError if the server does not add the noise of each round itself, or if the norm is missing."""
    if plan.table.observed:
        raise InputError(
            f'{plan.path}: federated.noise: expected "server" with release, found "{plan.table.noise}": clients add the noise'
        )
    if isinstance(plan.entry.spec, CorrelatedSpec):
        raise InputError(
            f'{plan.path}: mechanism["{plan.entry.name}"]: expected gaussian noise with release, found "{plan.entry.type}"'
        )
    if plan.table.clip is None:
        raise InputError(f"{plan.path}: federated.clip: set the L2 norm to which an update is clipped")
    return plan.table.clip
