"""Advanced composition, as first published (advanced-classical) and with a sharper mean of the privacy loss (advanced).

Consumes each step's epsilon at its share of delta. A part of delta, the slack, is kept for the theorem. A search finds a good split. Then
epsilon is the sum of the mean losses plus sqrt(2 log(1 / slack) sum of epsilon^2), which the whole loss exceeds with at most the
probability of the slack. With advanced, epsilon is never more than the sum of the steps' epsilons. Bounds: upper. It needs delta > 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.accountants.base import (
    Accountant,
    Bound,
    PrivacyProfile,
    Steps,
    join_equal_steps,
    require_approx_dp,
    require_positive,
    shares_of,
)
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed, split_delta
from dpcli.numerics.work import foresee, remaining, shared, spend  # limits on work, and a cache

# Accuracy and speed: every split of delta gives a sound value.
ROUNDS = 11  # golden sections of the share; they locate it to 0.1 on the logit scale, and the optimum is flat there
# Cells (units of work) of a closed form for one step's epsilon. A mechanism that takes more counts them itself.
EPSILON_CELLS = 400.0
MANY = 64  # most different steps for which both ways to share delta among them are tried; for more, only an equal share per run
LOGITS = (-9.0, 9.0)  # logits of the theorem's share that are searched: shares from 0.01 % to 99.99 %
GOLDEN_RATIO = 0.6180339887498949  # (sqrt(5) - 1) / 2, by which a golden section shrinks the interval
# Soundness: least slack relative to delta. Below it, the rounding of the steps' deltas matters.
LEAST_SLACK = 1e-15

Groups = tuple[tuple[float, float, int], ...]  # (epsilon, delta, count)


@dataclass(frozen=True, slots=True)
class DeltaSplit:
    """A split of delta between the steps and the composition theorem.

    groups: the steps as (epsilon, delta, count). slack: the delta that is left for the theorem.
    by_step: whether every run of a mechanism gets an equal share, or all runs of each mechanism together do.
    share: the theorem's share of what the steps' smallest deltas leave.
    """

    groups: Groups
    slack: float
    by_step: bool
    share: float


def split(steps: Steps, delta: float, share: float, *, by_step: bool, product: bool) -> DeltaSplit:
    """Return a split of delta in which the composition theorem gets `share` of what the steps' smallest deltas leave.

    by_step: whether every run of a mechanism gets an equal share of the rest, or all runs of each mechanism together do.
    product: whether the theorem's total is 1 - (1 - slack) prod (1 - delta_i), which leaves a little more slack than a sum.

    If every step has a finite epsilon at its smallest delta, `share` has no effect.

    Raises NotRepresentable if a step has no (epsilon, delta), if its own delta is 1, or if the steps' deltas leave nothing for the theorem.
    """
    require_approx_dp(steps)
    floors = math.fsum(count * mechanism.delta_floor() for mechanism, count in steps)  # up to `delta_floor`, epsilon may be inf
    if any(mechanism.delta_floor() >= 1.0 for mechanism, _ in steps):
        raise NotRepresentable("a step's own delta is 1, so it guarantees nothing")
    for_steps = delta if not _needs_delta(steps) else delta - share * (delta - _sum_of_floors(floors, steps, product))
    spend(EPSILON_CELLS * len(steps))
    deltas = split_delta(steps, for_steps, by_step=by_step)
    if max(deltas, default=0.0) >= 1.0:
        raise NotRepresentable("the steps' own deltas leave nothing for the composition")
    groups = tuple((m.approx_dp(d), d, n) for (m, n), d in zip(steps, deltas, strict=True))
    log_kept = math.fsum(n * math.log1p(-d) for _, d, n in groups)
    used = -math.expm1(log_kept) if product else math.fsum(n * d for _, d, n in groups)
    slack = (delta - used) / math.exp(log_kept) if product else delta - used
    if slack <= LEAST_SLACK * delta:
        raise NotRepresentable(
            f"the steps' own deltas add up to {used:.6g} and leave nothing of delta = {delta:g} for the composition"
        )
    return DeltaSplit(groups, slack * (1.0 - 1e-14), by_step, share)  # the slack is rounded down


def _needs_delta(steps: Steps) -> bool:
    """Return whether some step has no finite epsilon at its smallest delta."""
    return any(math.isinf(mechanism.approx_dp(mechanism.delta_floor())) for mechanism, _ in steps)


def _sum_of_floors(floors: float, steps: Steps, product: bool) -> float:
    """Return what the theorem takes for the sum of the steps' smallest deltas, whose plain sum is `floors`."""
    if not product:
        return floors
    log_kept = math.fsum(n * math.log1p(-m.delta_floor()) for m, n in steps)
    return min(floors, -math.expm1(log_kept))


def best_split(steps: Steps, delta: float, product: bool, value: Callable[[DeltaSplit], float]) -> tuple[float, DeltaSplit]:
    """Return the smallest value found over splits of delta, and the split that has it. Every split gives a sound value.

    If no step needs delta, there is nothing to choose. Otherwise the theorem's share is searched by golden sections on a logit scale. With
    2 to MANY different steps, this is done for both ways to share the rest among them.

    Raises NotRepresentable as `split` and `value` do.
    """
    if not _needs_delta(steps):
        only = split(steps, delta, 1.0, by_step=True, product=product)
        return value(only), only

    def best_of(by_step: bool) -> tuple[float, DeltaSplit]:
        return _golden(lambda t: split(steps, delta, 1.0 / (1.0 + math.exp(-t)), by_step=by_step, product=product), value)

    ways = (True, False) if 1 < len(steps) <= MANY else (True,)
    return min((best_of(by_step) for by_step in ways), key=lambda candidate: candidate[0])


def _golden(make: Callable[[float], DeltaSplit], value: Callable[[DeltaSplit], float]) -> tuple[float, DeltaSplit]:
    """Return the smallest value found by golden sections, and its split.

    make: returns the split in which the theorem's share has the given logit, log(share / (1 - share)).
    """
    (low, high), ratio = LOGITS, GOLDEN_RATIO
    cells_before = remaining()
    left = make(high - ratio * (high - low))
    f_left = value(left)
    if math.isfinite(cells_before):
        foresee((ROUNDS + 1) * (cells_before - remaining()))  # refuse now if the search cannot be completed
    right = make(low + ratio * (high - low))
    f_right = value(right)
    for _ in range(ROUNDS):
        if f_left <= f_right:
            high = math.log(right.share / (1.0 - right.share))
            right, f_right = left, f_left
            left = make(high - ratio * (high - low))
            f_left = value(left)
        else:
            low = math.log(left.share / (1.0 - left.share))
            left, f_left = right, f_right
            right = make(low + ratio * (high - low))
            f_right = value(right)
    return (f_left, left) if f_left <= f_right else (f_right, right)


def classical_mean(epsilon: float) -> float:
    """Return eps (e^eps - 1), the bound of 2010 on the mean privacy loss of an eps-DP mechanism. Raises NotRepresentable on overflow."""
    if epsilon > 700.0:  # the product overflows from about 703 on
        raise NotRepresentable("one step's epsilon is above 700: advanced composition overflows there, and basic is smaller")
    return epsilon * math.expm1(epsilon)


def sharp_mean(epsilon: float) -> float:
    """Return eps (e^eps - 1)/(e^eps + 1), the largest mean privacy loss of an eps-DP mechanism."""
    return epsilon * math.tanh(0.5 * epsilon)


def advanced_epsilon(groups: Groups, slack: float, mean: Callable[[float], float]) -> float:
    """Return the sum of the mean losses + sqrt(2 log(1/slack) sum eps^2), by the Azuma-Hoeffding inequality, rounded up.

    It is inf if a step's epsilon is, and only the sum of the mean losses if `slack` is 1 or more. Raises NotRepresentable if `mean` does,
    as `classical_mean` does instead of overflowing.
    """
    largest = max((e for e, _, _ in groups), default=0.0) or 1.0
    if math.isinf(largest):
        return math.inf
    drift = math.fsum(n * mean(e) for e, _, n in groups)
    squares = math.fsum(n * (e / largest) ** 2 for e, _, n in groups)  # relative to the largest, which prevents underflow
    total = drift + largest * math.sqrt(2.0 * squares * -math.log(slack)) if slack < 1.0 else drift
    return total * (1.0 + 1e-14)


@shared(16)
def advanced_split(steps: Steps, delta: float, *, product: bool, mean: Callable[[float], float]) -> tuple[float, DeltaSplit]:
    """Return the smallest `advanced_epsilon` found and its split of delta. It is cached, because optimal composition uses it too.

    Every call names `product` and then `mean`, because the cache takes the same values in another form for another question.
    """
    return best_split(steps, delta, product, lambda s: advanced_epsilon(s.groups, s.slack, mean))


@dataclass(frozen=True, slots=True)
class AdvancedProfile(PrivacyProfile):
    """The privacy profile by advanced composition.

    mean: returns a bound on the mean privacy loss of an eps-DP mechanism.
    product: whether deltas combine as 1 - prod(1 - delta), and not as a sum.
    """

    steps: Steps
    mean: Callable[[float], float]
    product: bool

    def epsilon(self, delta: float) -> Bound:
        require_positive(delta, "advanced composition")
        steps = join_equal_steps(self.steps)
        value, chosen = advanced_split(steps, delta, product=self.product, mean=self.mean)
        plain = Composed(steps).approx_dp(delta) if self.product else math.inf  # the theorem's first branch, the sum of epsilons
        return Bound(plain, detail={"slack": 0.0}) if plain <= value else Bound(value, detail={"slack": chosen.slack})

    def shares(self, delta: float) -> tuple[float, ...]:
        _, chosen = advanced_split(self.steps, delta, product=self.product, mean=self.mean)
        return shares_of([n * e * e for e, _, n in chosen.groups])


ACCOUNTANT = Accountant(
    name="advanced",
    title="advanced composition",
    source="Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Theorems 3.4 and 3.5 (Hoeffding branch)",
    compose=lambda steps: AdvancedProfile(steps, sharp_mean, product=True),
    stepwise=True,  # it asks every step for its epsilon many times
    cells=lambda parts: 1e4 * parts,  # estimated work for this many different mechanisms
)
CLASSICAL = Accountant(
    name="advanced-classical",
    title="advanced composition, 2010",
    source="Dwork, Rothblum, Vadhan 2010; Dwork & Roth 2014, Theorem 3.20",
    compose=lambda steps: AdvancedProfile(steps, classical_mean, product=False),
    stepwise=True,  # it asks every step for its epsilon many times
    cells=lambda parts: 1e4 * parts,  # estimated work for this many different mechanisms
)
