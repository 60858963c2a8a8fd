"""Optimal composition of (epsilon, delta) guarantees: the best bound that follows from these numbers alone.

Consumes each step's epsilon at its share of delta, and composes randomised responses with these epsilons: no mechanisms with the same
epsilons cost more. Nothing else about the steps is used. Bounds: upper. delta is split as for advanced composition, and if there are
several different epsilons, the losses are rounded up to a lattice.
"""

from __future__ import annotations

import math

from dpcli.accountants.advanced import DeltaSplit, Groups, advanced_split, sharp_mean
from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, shares_of
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.numerics.closed.two_point_sums import MAX_COUNT, two_point_epsilon

MAX_EPSILON = 300.0  # largest epsilon of a step; above it, basic composition is as good


def optimal_epsilon(groups: Groups, slack: float) -> float:
    """Return an upper bound on epsilon of the composition of randomised responses with the groups' epsilons, at delta = `slack`.

    A group is (epsilon, delta, count). Its delta is not counted here: `slack` is what the groups leave of the whole delta.

    Raises NotRepresentable if there are more than MAX_COUNT steps or if a step's epsilon is above MAX_EPSILON.
    """
    counts: dict[float, int] = {}
    for epsilon, _, count in groups:
        if epsilon > 0.0:
            counts[epsilon] = counts.get(epsilon, 0) + count
    if sum(counts.values()) > MAX_COUNT:
        raise NotRepresentable(f"more than {MAX_COUNT:.0e} steps are too many to sum; advanced composition gives nearly the same")
    if any(math.isinf(epsilon) or epsilon > MAX_EPSILON for epsilon in counts):
        raise NotRepresentable("one step's epsilon is above 300; basic composition is as good there")
    return two_point_epsilon(tuple(sorted(counts.items())), slack)


@dataclass(frozen=True, slots=True)
class OptimalProfile(PrivacyProfile):
    """The privacy profile by optimal composition.

    delta is split among the steps in the way that is best for advanced composition. That split is cheap to find, and nearly the best here.
    """

    steps: Steps

    def _split(self, steps: Steps, delta: float) -> DeltaSplit:
        """Return the split that advanced composition uses, for deltas that combine as 1 - prod(1 - delta)."""
        return advanced_split(steps, delta, product=True, mean=sharp_mean)[1]

    def epsilon(self, delta: float) -> Bound:
        steps = join_equal_steps(self.steps)
        if delta <= 0.0:  # there, the composition of randomised responses costs the sum of their epsilons
            return Bound(Composed(steps).approx_dp(0.0))
        split = self._split(steps, delta)
        value, plain = optimal_epsilon(split.groups, split.slack), Composed(steps).approx_dp(delta)
        return Bound(plain, detail={"slack": 0.0}) if plain <= value else Bound(value, detail={"slack": split.slack})

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return the shares of the sum of epsilons at delta = 0, and else of the sum of their squares, as for advanced composition."""
        if delta <= 0.0:
            return shares_of([count * mechanism.approx_dp(0.0) for mechanism, count in self.steps])
        return shares_of([n * e * e for e, _, n in self._split(self.steps, delta).groups])


ACCOUNTANT = Accountant(
    name="optimal",
    title="optimal composition",
    source="Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Theorem 3.3; heterogeneous Murtagh & Vadhan 2016, arXiv:1507.03113",
    compose=OptimalProfile,
    stepwise=True,  # it asks every step for its epsilon many times
    cells=lambda parts: 2e4 if parts == 1 else 2e5 * parts,  # estimated work for this many different mechanisms
)
