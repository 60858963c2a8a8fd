"""What a server does in a round: draw clients as the file declares, and add up what they send, each clipped, with noise once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.federated.participation import scheme_of
from dpcli.federated.plan import FederatedPlan
from dpcli.federated.settings import KEPT
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Batched
from dpcli.numerics.arrays import np
from dpcli.random.streams import normals, system_entropy
from dpcli.train.sampling.schemes import sampler

if TYPE_CHECKING:
    from dpcli.mechanisms.sampling.schemes import Scheme
    from dpcli.random.streams import Reals
    from dpcli.random.subsets import Indices


NUMBERS = "biuf"  # the kinds of arrays of real numbers


def drawn(plan: FederatedPlan, clients: int | None) -> Iterator[Indices] | str:
    """The clients of one round after the other, by their numbers from 0; why not, where the server has to draw them itself.

    Args:
        clients: how many there really are; the declared number where None.

    Raises InputError where there are other clients than were declared, as `sampler` does.
    """
    kept = next((key for key in KEPT if getattr(plan.table, key) is not None), None)
    if kept is not None or isinstance(plan.entry.spec, CorrelatedSpec):
        return f"{kept or 'participations of correlated noise'}, which the server makes sure of"
    scheme = _scheme(plan)
    if plan.population is None or scheme is None:
        return "no population, or no share of it in a round"
    return sampler(scheme, plan.population, system_entropy().sampling, clients)


def _scheme(plan: FederatedPlan) -> Scheme | None:
    """The server's, with its rate; None where that is nowhere stated."""
    charged, cls, table = plan.entry.sampling, scheme_of(plan.table), plan.table
    if charged is not None and charged.scheme == table.sampling:
        return charged
    if not issubclass(cls, Batched):
        return cls(table.sampling)
    if table.clients_per_round is not None:
        return cls(table.sampling, batch_size=table.clients_per_round)
    return cls(table.sampling, rate=table.client_rate) if table.client_rate is not None else None


def clipped_sum(plan: FederatedPlan, updates: Mapping[int, Any], size: int) -> Reals:
    """The sum of the updates, each clipped, without noise: not to be seen by anybody.

    Raises InputError where the server adds no noise of its own, or an update has another size.
    """
    clip = _required_clip(plan)
    total = np.zeros(size)
    for client, update in updates.items():
        vector = _vector(client, update, size)
        with np.errstate(all="ignore"):  # what numpy would say, or raise, depends on the update
            total += clipped(vector, clip)
    return total


def _vector(client: int, update: Any, size: int) -> Reals:
    """The numbers of an update. Raises InputError for anything else; it says nothing of what is in there."""
    expected = f"update of client {client}: expected {size} numbers in a row, found"
    found = None
    with suppress(TypeError, ValueError, OverflowError):
        found = np.asarray(update)
    if found is None:  # here, as otherwise it would hold an error that quotes the update
        raise InputError(f"{expected} a {type(update).__name__} that is no array")
    if found.dtype.kind not in NUMBERS:
        raise InputError(
            f"{expected} an array of type {found.dtype.type.__name__}"
        )  # the names of its fields are part of an update
    if found.shape != (size,):
        raise InputError(f"{expected} an array of shape {found.shape}")
    with np.errstate(all="ignore"):
        return found.astype(np.float64)


def noise_of(plan: FederatedPlan, size: int) -> Reals:
    """The noise of one round: drawn anew at each call."""
    noise = float(plan.entry.spec.noise_multiplier)  # type: ignore[attr-defined]
    return np.asarray(nextafter(noise * _required_clip(plan), inf) * normals(size, system_entropy().noise)(size))


def clipped(update: Reals, clip: float) -> Reals:
    """The update within L2 norm `clip`, up to a relative 1e-15; one with a number that is not finite contributes zero (DP207)."""
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
        raise InputError(f"{plan.path}: federated.clip: expected the norm that an update is clipped to, found none")
    return plan.table.clip
