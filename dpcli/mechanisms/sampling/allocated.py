"""From a spec under random allocation to what one pass costs: which pair bounds it, and how often."""

from __future__ import annotations

import math
from contextlib import suppress

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.sampling.random_allocation import Arrival, Departure, RandomAllocation, SymmetricAllocation
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.post_processing import Free

UNPROVEN = (
    "amplification by balls in bins is proven for Gaussian noise with noise_multiplier, and otherwise for one record per unit under "
    'add-remove only; scheme = "cyclic" counts each pass as one unsampled run'
)


def allocated(spec: Spec, steps: int, participations: int, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """What one pass of `steps` costs in which each record takes part in k = `participations`, as a mechanism and its count.

    k > 1: the steps are split at random into k blocks of floor(t/k) or floor(t/k) + 1, and one step is drawn from each, which
    is a uniform choice of k; the hockey-stick divergence is jointly convex, so the worst split bounds the mixture, and given the
    split the pass is a function of k independent ones (after Feldman & Shenfeld 2025, arXiv:2502.08202).

    Raises InputError where no amplification is proven.
    """
    short, longer = divmod(steps, participations)
    blocks = [(size, count) for size, count in ((short, participations - longer), (short + 1, longer)) if count]
    parts = [(mechanism, count * times) for size, count in blocks for mechanism, times in (_one_of(spec, size, neighbours),)]
    return parts[0] if len(parts) == 1 else (Composed(tuple(parts)), 1)


def _one_of(spec: Spec, bins: int, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """One participation in one of `bins` steps."""
    mu = _gaussian(spec, neighbours)
    if mu == 0.0:
        return Free(), 1
    if mu is None and (neighbours.records > 1 or neighbours.adjacency is not Adjacency.ADD_REMOVE):
        return _without_privacy(spec.resolve(neighbours)), 1
    if bins == 1:
        return spec.resolve(neighbours), 1
    return (RandomAllocation(spec.resolve(neighbours), bins), 1) if mu is None else _gaussian_one_of(mu, bins, neighbours)


def _without_privacy(step: Mechanism) -> Mechanism:
    """A step whose noise protects nothing, which needs no proof; anything else is refused."""
    with suppress(NotRepresentable):
        if math.isinf(step.approx_dp(1.0 - 1e-9)):
            return step
    raise InputError(UNPROVEN)


def _gaussian(spec: Spec, neighbours: Neighbours) -> float | None:
    """One record's contribution over the noise, where the step is a Gaussian that says so; None elsewhere."""
    with suppress(NotRepresentable):
        if spec.contribution_form:
            return spec.resolve(Neighbours(Adjacency.ADD_REMOVE)).gdp()
        if neighbours.adjacency is Adjacency.ADD_REMOVE and neighbours.records == 1:
            return spec.resolve(neighbours).gdp()
    return None


def _gaussian_one_of(mu: float, bins: int, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """k records, each in a bin of its own drawing: noise of variance s^2 is the sum of m independent parts of variance s^2 / m.

    Give each of the m = k records that come or go (2 k where each is replaced: one goes and one comes) a part of its own: the pass is a
    function of m independent passes with one record each, at mu sqrt(m). At one bin this is exact: m (mu sqrt m)^2 = (m mu)^2.
    """
    records = neighbours.records
    if not neighbours.replaces:
        return SymmetricAllocation(Gaussian(mu * math.sqrt(records)), bins), records
    step = Gaussian(mu * math.sqrt(2.0 * records))
    return Composed(((Departure(step, bins), records), (Arrival(step, bins), records))), 1
