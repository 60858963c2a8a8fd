"""Several mechanisms as one: on the same records (`Composed`), or on disjoint parts of the data (`Parallel`).

In `Composed`, a *part* is a mechanism with the number of its runs. The costs of parts add up: epsilons with a split of delta, Renyi
divergences, and losses of dominating pairs. `Parallel` has a *branch* for each disjoint part of the data, and costs as much as the worst
branch, because one record is in one part. `ComposedSpec` is an entry of a pipeline file that names other entries, its members. They share
one sample, so that sampling amplifies the whole group once, and never each member separately. A mechanism's *floor* is its `delta_floor`,
at and below which its epsilon may be infinite.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these
pairs, and `unclaimed` drops this claim. `witness` returns a mechanism that the keys allow, whose cost is a lower bound. `split_failure`
separates the probability that the pair reveals everything from the rest of the mechanism. Of a loss L, `cgf` bounds K(z) = log E_P[e^{z L}]
from above, and `tails` returns log tail probabilities under P and Q.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import Key
from dpcli.base.premise import SECRET, Premises, moves
from dpcli.base.stated import total  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss, in_direction
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.numerics.arrays import Array
from dpcli.numerics.closed.normal import gaussian_sum
from dpcli.numerics.work import shared  # a cache

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted
    from dpcli.numerics.grid.composed_pair import GridOutcomes
    from dpcli.numerics.tails import Tails


Parts = tuple[tuple[Mechanism, int], ...]


@dataclass(frozen=True, slots=True)
class Composed(Mechanism):
    """The adaptive composition of `parts`, each with its count.

    Epsilons and deltas add up (Dwork & Roth 2014, Theorem 3.16); the better of two splits of delta is used. Renyi divergences and rhos add
    up (Mironov 2017, arXiv:1702.07476, Proposition 1). For Gaussians, mu^2 adds up. The product of dominating pairs dominates (Zhu, Dong,
    Wang 2022, arXiv:2106.08567, Theorem 10).
    """

    is_composition: ClassVar[bool] = True  # a sample of it has a pair on a grid, which is rounded up

    parts: Parts

    def approx_dp(self, delta: float) -> float:
        """Return the smaller epsilon of two splits of delta; inf if delta does not cover the parts' floors."""
        best = math.inf
        if delta <= 0.0 or not any(_needs_more_than_floor(mechanism) for mechanism, _ in self.parts):  # there is nothing to split
            with suppress(NotRepresentable):
                best = _at_floors(self.parts, delta)
            return best
        for by_step in (True, False):
            with suppress(NotRepresentable):
                deltas = split_delta(self.parts, delta, by_step=by_step)
                steps = zip(self.parts, deltas, strict=True)
                best = min(best, total((count, mechanism.approx_dp(delta_of_step)) for (mechanism, count), delta_of_step in steps))
        return best

    def delta_floor(self) -> float:
        return math.fsum(count * mechanism.delta_floor() for mechanism, count in self.parts)

    def zcdp(self) -> float:
        return total((count, mechanism.zcdp()) for mechanism, count in self.parts)

    def zcdp_parts(self) -> tuple[float, float]:
        terms = [(count, *mechanism.zcdp_parts()) for mechanism, count in self.parts]
        return total((count, xi) for count, xi, _ in terms), total((count, rho) for count, _, rho in terms)

    def gdp(self) -> float:
        return gaussian_sum([(count, mechanism.gdp()) for mechanism, count in self.parts])

    def attained(self) -> bool:
        """Return whether all parts are attained. They are then attained on the same two datasets, as `Mechanism.attained` promises."""
        return all(mechanism.attained() for mechanism, _ in self.parts)

    def witness(self, order: float) -> Mechanism | None:
        """Return the composition of the parts' witnesses, which are attained on the same two datasets; None if a part has none."""
        witnesses = tuple((witness, count) for mechanism, count in self.parts if (witness := mechanism.witness(order)) is not None)
        return Composed(witnesses) if len(witnesses) == len(self.parts) else None

    def unclaimed(self) -> Mechanism:
        """Return the composition with each part unclaimed, because accountants use the parts one by one."""
        return Composed(tuple((mechanism.unclaimed(), count) for mechanism, count in self.parts))

    def split_failure(self) -> tuple[float, Composed]:
        split = [(mechanism.split_failure(), count) for mechanism, count in self.parts]
        if all(log_kept == 0.0 for (log_kept, _), _ in split):
            return 0.0, self
        log_kept = math.fsum(count * log_kept for (log_kept, _), count in split)
        return log_kept, Composed(tuple((rest, count) for (_, rest), count in split))

    def losses(self) -> tuple[PrivacyLoss, ...]:
        losses_of_parts = [(mechanism.losses(), count) for mechanism, count in self.parts]
        sums = []
        for direction in range(max(len(losses) for losses, _ in losses_of_parts)):
            terms = [(in_direction(losses, direction), count) for losses, count in losses_of_parts]
            sums.append(SumLoss(tuple(terms)))
        return tuple(sums)

    def rdp(self, orders: Array) -> Array:
        result = 0.0 * orders
        for mechanism, count in self.parts:
            result = result + count * mechanism.rdp(orders)
        return result


@dataclass(frozen=True, slots=True)
class Parallel(Mechanism):
    """Parallel composition of `branches`, one for each disjoint part of the data (McSherry 2009, Theorem 4).

    It holds for add-remove, and for zero-out if a blank record adds nothing to any part. A replaced record may move from one part to
    another and change two. Accountants compose each branch with the steps outside of the parts (`cases`). The methods here are for callers
    that need this step alone, and return the largest value over the branches.
    """

    branches: tuple[Composed, ...]

    def cases(self) -> tuple[Parts, ...]:
        return tuple(dict.fromkeys(branch.parts for branch in self.branches))

    def attained(self) -> bool:
        """Return whether all branches are attained. For each part, some neighbours differ in a record of it as much as neighbours may."""
        return all(branch.attained() for branch in self.branches)

    def losses(self) -> tuple[PrivacyLoss, ...]:
        """Raise NotRepresentable, because the worst branch depends on the other steps and on delta."""
        raise NotRepresentable("disjoint parts have no single dominating pair")

    def approx_dp(self, delta: float) -> float:
        return max(branch.approx_dp(delta) for branch in self.branches)

    def delta_floor(self) -> float:
        return max(branch.delta_floor() for branch in self.branches)

    def zcdp(self) -> float:
        return max(branch.zcdp() for branch in self.branches)

    def gdp(self) -> float:
        return max(branch.gdp() for branch in self.branches)

    def rdp(self, orders: Array) -> Array:
        bound = self.branches[0].rdp(orders)
        for branch in self.branches[1:]:
            bound = bound.clip(min=branch.rdp(orders))
        return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedSpec(Spec):
    """Other entries of the file that run together on the same records. If this entry is sampled, they run on one sample.

    The members' cost is charged here and nowhere else, and everything that they release is released. A member's own steps count in each
    step of this entry. Entries that no composed entry names each draw a sample of their own. This costs less than two releases from one
    sample. Entries with the same `sample` key run on one sample too, and are priced in the same way as this entry.

    Neighbours: the relations that every member allows.

    Bounds: the members' epsilons, deltas, Renyi divergences and rhos add up, and their dominating pairs are multiplied. The result is exact
    if all members' bounds are. Gaussians on one sample are one Gaussian. The pair of any other sampled group is computed on a grid, which
    gives an upper bound. delta = 0 is answered if every member is pure.

    Source: Dwork & Roth 2014, Theorem 3.16; Mironov 2017, arXiv:1702.07476, Proposition 1; Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem
    10.
    """

    example: ClassVar[Mapping[str, Any]] = {"mechanisms": ["part"]}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    # What must hold for the cost. SECRET: every draw is fresh, and nobody sees it.
    premises: ClassVar[Premises] = (SECRET, moves("The parts cost what they state, and each runs once on the same records."))

    mechanisms: Annotated[tuple[str, ...], Key("names of the entries that run together")]

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        return BoundGroup(tuple(lookup(name) for name in self.mechanisms))


@dataclass(frozen=True, slots=True)
class BoundGroup(Spec):
    """The members of a composed entry, or the entries that share a sample, with their counts."""

    members: tuple[tuple[Spec, int], ...]

    @property
    def contribution_form(self) -> bool:
        return all(spec.contribution_form for spec, _ in self.members)

    @property
    def sampling_refusal(self) -> str | None:
        return next((spec.sampling_refusal for spec, _ in self.members if spec.sampling_refusal), None)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Composed(tuple((spec.resolve(neighbours), count) for spec, count in self.members))

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism on a Poisson sample. Gaussians on one sample are one Gaussian.

        Any other group has a pair on a grid and a bound on its Renyi curve.
        """
        mu = 0.0  # one record's contribution over the noise of the one Gaussian
        if self.contribution_form:
            with suppress(NotRepresentable):
                mu = self.resolve(Neighbours(Adjacency.ADD_REMOVE)).gdp()
        if mu > 0.0:
            return GaussianSpec(noise_multiplier=min(1.0 / mu, sys.float_info.max)).poisson(rate, neighbours)
        return Spec.poisson(self, rate, neighbours)


@dataclass(frozen=True, slots=True)
class SumLoss:
    """The privacy loss of a composition: the sum of independent losses, each with a count."""

    parts: tuple[tuple[PrivacyLoss, int], ...]

    def cgf(self, z: Array) -> Array:
        result = 0.0 * z
        for loss, count in self.parts:
            result = result + count * loss.cgf(z)
        return result

    def tilted(self, t: float) -> Tilted:
        """Raise NotRepresentable. The accountants that tilt losses (numerics/contour) use the parts one by one."""
        raise NotRepresentable("a group is tilted part by part")

    def tails(self, at: Array) -> Tails:
        """Return the tails of a pair that dominates the composition.

        They are needed if entries that run together are sampled. Without sampling, accountants use the parts one by one.
        """
        return sum_outcomes(self).tails(at)


@shared(16)
def sum_outcomes(loss: SumLoss) -> GridOutcomes:
    """Return the finitely many outcomes of a pair that dominates the composition. They are cached."""
    from dpcli.numerics.grid.composed_pair import composed_outcomes

    return composed_outcomes(loss.parts)


def split_delta(parts: Parts, delta: float, *, by_step: bool) -> list[float]:
    """Return the delta of one run of each part: its floor plus, for runs that need more, a share of the rest of `delta`.

    by_step: whether every run gets an equal share of the rest. Otherwise every part does, and divides its share among its runs. For a part
    of 1 run and one of 9, a run of the second gets 1/10 or 1/18.
    Raises NotRepresentable if the floors alone exceed `delta`, or leave nothing for the steps that need more.
    """
    slack = delta - math.fsum(count * mechanism.delta_floor() for mechanism, count in parts)
    if slack < -1e-12 * delta:  # the floors exceed delta by more than rounding
        raise NotRepresentable(f"the stated deltas add up to {delta - slack:.6g}, more than delta = {delta:g}")
    needing_counts = [count for mechanism, count in parts if _needs_more_than_floor(mechanism)]
    if needing_counts and slack <= 0.0:
        raise NotRepresentable("the stated deltas use all of delta, and other steps need a part of it")
    shares = sum(needing_counts) if by_step else len(needing_counts)
    deltas = []
    for mechanism, count in parts:
        extra = 0.0
        if _needs_more_than_floor(mechanism):
            share = max(slack, 0.0) * (1 - 1e-13) / shares  # lowered by more than rounding, so that the shares do not exceed delta
            extra = share if by_step else share / count
        deltas.append(mechanism.delta_floor() + extra)
    return deltas


@shared(256)
def _needs_more_than_floor(mechanism: Mechanism) -> bool:
    """Return whether the mechanism's epsilon is infinite at its floor, but finite at some larger delta, for which 0.5 stands.

    The answer is cached for searches that ask often.
    """
    return math.isinf(mechanism.approx_dp(mechanism.delta_floor())) and not math.isinf(mechanism.approx_dp(0.5))


def _at_floors(parts: Parts, delta: float) -> float:
    """Return the sum of the epsilons at the parts' floors of delta. Raises NotRepresentable if they exceed `delta`."""
    split_delta(parts, delta, by_step=True)
    return _sum_at_floors(parts)


@shared(256)
def _sum_at_floors(parts: Parts) -> float:
    return total((count, mechanism.approx_dp(mechanism.delta_floor())) for mechanism, count in parts)
