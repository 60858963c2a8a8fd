"""Advanced composition: as published first, and with the sharper mean of the privacy loss.

Consumes each step's epsilon at its share of delta, with some delta kept as slack; both are searched for. epsilon = sum of mean losses
+ sqrt(2 log(1 / slack) sum of epsilon^2), and never more than the plain sum. Bounds: upper. delta = 0 is answered where every step is
pure, by the plain sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, merged, normalised, require_positive
from dpcli.accountants.slack import DeltaSplit, Groups, best_split
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.numerics.work import shared

_TOO_LARGE = "one step's epsilon is above 700: advanced composition overflows there, and basic is smaller"


def _expm1(epsilon: float) -> float:
    if epsilon > 700.0:
        raise NotRepresentable(_TOO_LARGE)
    return math.expm1(epsilon)


def classical_mean(epsilon: float) -> float:
    """eps (e^eps - 1): the bound on the mean loss used in 2010."""
    return epsilon * _expm1(epsilon)


def sharp_mean(epsilon: float) -> float:
    """eps (e^eps - 1)/(e^eps + 1): the largest mean loss of an eps-DP mechanism."""
    return epsilon * math.tanh(0.5 * epsilon)


def advanced_epsilon(groups: Groups, slack: float, mean: Callable[[float], float]) -> float:
    """sum of mean losses + sqrt(2 log(1/delta') sum eps^2), by Azuma-Hoeffding; never more than the plain sum."""
    largest = max((e for e, _, _ in groups), default=0.0) or 1.0
    if math.isinf(largest):
        return math.inf
    drift = math.fsum(n * mean(e) for e, _, n in groups)
    squares = math.fsum(n * (e / largest) ** 2 for e, _, n in groups)  # of what is above underflow, in units of the largest
    total = drift + largest * math.sqrt(2.0 * squares * -math.log(slack)) if slack < 1.0 else drift
    return total * (1.0 + 1e-14)


@shared(16)
def advanced_split(steps: Steps, delta: float, product: bool, mean: Callable[[float], float]) -> tuple[float, DeltaSplit]:
    """The split of delta that is best for `advanced_epsilon`, remembered: optimal composition uses it too."""
    return best_split(steps, delta, product, lambda s: advanced_epsilon(s.groups, s.slack, mean))


@dataclass(frozen=True, slots=True)
class AdvancedProfile(PrivacyProfile):
    """`product`: deltas combine as 1 - prod(1 - delta) rather than as a sum."""

    steps: Steps
    mean: Callable[[float], float]
    product: bool

    def epsilon(self, delta: float) -> Bound:
        require_positive(delta, "advanced composition")
        steps = merged(self.steps)
        value, split = advanced_split(steps, delta, self.product, self.mean)
        plain = Composed(steps).approx_dp(delta) if self.product else math.inf  # the theorem's first branch: the plain sum
        return Bound(plain, detail={"slack": 0.0}) if plain <= value else Bound(value, detail={"slack": split.slack})

    def shares(self, delta: float) -> tuple[float, ...]:
        _, split = advanced_split(self.steps, delta, self.product, self.mean)
        return normalised([n * e * e for e, _, n in split.groups])


ACCOUNTANT = Accountant(
    name="advanced",
    title="advanced composition",
    source="Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Theorems 3.4 and 3.5 (Hoeffding branch)",
    compose=lambda steps: AdvancedProfile(steps, sharp_mean, True),
    stepwise=True,
    cells=lambda parts: 1e4 * parts,
)
CLASSICAL = Accountant(
    name="advanced-classical",
    title="advanced composition, 2010",
    source="Dwork, Rothblum, Vadhan 2010; Dwork & Roth 2014, Theorem 3.20",
    compose=lambda steps: AdvancedProfile(steps, classical_mean, False),
    stepwise=True,
    cells=lambda parts: 1e4 * parts,
)
