"""Basic composition: epsilons and deltas add up.

Consumes each step's epsilon at its share of delta. Two ways to share delta are tried, and the smaller sum is used: every run of a mechanism
gets an equal share, or all runs of each mechanism together get one. Bounds: upper. They are exact for one step. delta = 0 is answered if
every step is pure. At delta = 0, steps may be chosen one after the other, from earlier outputs.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_approx_dp, shares_of
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed, split_delta


@dataclass(frozen=True, slots=True)
class BasicProfile(PrivacyProfile):
    """The privacy profile by basic composition: the sum of each step's epsilon at its share of delta (`Composed.approx_dp`)."""

    steps: Steps

    def epsilon(self, delta: float) -> Bound:
        steps = join_equal_steps(self.steps)
        # `Composed.approx_dp` returns inf where there is no answer. The next two raise NotRepresentable then, which says why.
        require_approx_dp(steps)
        split_delta(steps, delta, by_step=True)  # by_step: every run of a mechanism gets an equal share of delta
        return Bound(Composed(steps).approx_dp(delta))  # an exactly rounded sum of upper bounds

    def shares(self, delta: float) -> tuple[float, ...]:
        deltas = split_delta(self.steps, delta, by_step=True)
        parts = [count * mechanism.approx_dp(d) for (mechanism, count), d in zip(self.steps, deltas, strict=True)]
        return shares_of([0.0 if math.isinf(part) else part for part in parts])  # an infinite sum has no shares


ACCOUNTANT = Accountant(
    name="basic",
    title="basic composition",
    source="Dwork & Roth 2014, Theorem 3.16",
    compose=BasicProfile,
    adaptive=True,  # steps may be chosen from earlier outputs
    stepwise=True,  # it asks every step for its epsilon many times
    cells=lambda parts: 2e3 * parts,  # estimated work for this many different mechanisms
)
