"""How advanced and optimal composition share delta between the steps and the composition itself."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.accountants.base import Steps, views
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import split_delta
from dpcli.numerics.work import foresee, remaining, spend

ROUNDS = 11  # to 0.1 on the logit scale, where the optimum is flat
STEP = 400.0  # cells of a closed form for one step's epsilon; what takes more says so itself
MANY = 64  # from here on only the split by step is tried

Groups = tuple[tuple[float, float, int], ...]  # (epsilon, delta, count)


@dataclass(frozen=True, slots=True)
class DeltaSplit:
    """The steps as (epsilon, delta) pairs, and the slack delta' that is left for the composition theorem."""

    groups: Groups
    slack: float
    by_step: bool
    share: float


def split(steps: Steps, delta: float, share: float, by_step: bool, product: bool) -> DeltaSplit:
    """Give `share` of what the floors leave to the composition and the rest to the steps.

    product: the theorem's total is 1 - (1 - delta') prod (1 - delta_i) rather than a sum, which leaves a little more slack.
    Raises NotRepresentable where delta cannot cover the steps' own.
    """
    views(steps, lambda mechanism: mechanism.approx_dp(mechanism.delta_floor()))  # says which ones have no (epsilon, delta)
    floors = math.fsum(count * mechanism.delta_floor() for mechanism, count in steps)
    if any(mechanism.delta_floor() >= 1.0 for mechanism, _ in steps):
        raise NotRepresentable("a step's own delta is 1: it promises nothing")
    spent = delta if not _needs_delta(steps) else delta - share * (delta - _total(floors, steps, product))
    spend(STEP * len(steps))
    deltas = split_delta(steps, spent, by_step)
    if max(deltas, default=0.0) >= 1.0:
        raise NotRepresentable("the steps' own deltas leave nothing for the composition")
    groups = tuple((m.approx_dp(d), d, n) for (m, n), d in zip(steps, deltas, strict=True))
    log_kept = math.fsum(n * math.log1p(-d) for _, d, n in groups)
    used = -math.expm1(log_kept) if product else math.fsum(n * d for _, d, n in groups)
    slack = (delta - used) / math.exp(log_kept) if product else delta - used
    if slack <= 1e-15 * delta:
        raise NotRepresentable(
            f"the steps' own deltas add up to {used:.6g} and leave nothing of delta = {delta:g} for the composition"
        )
    return DeltaSplit(groups, slack * (1.0 - 1e-14), by_step, share)


def _needs_delta(steps: Steps) -> bool:
    return any(math.isinf(mechanism.approx_dp(mechanism.delta_floor())) for mechanism, _ in steps)


def _total(floors: float, steps: Steps, product: bool) -> float:
    return min(floors, -math.expm1(math.fsum(n * math.log1p(-m.delta_floor()) for m, n in steps))) if product else floors


def best_split(steps: Steps, delta: float, product: bool, value: Callable[[DeltaSplit], float]) -> tuple[float, DeltaSplit]:
    """The split with the smallest value. Any split is sound; this only looks for a good one.

    Where no step needs delta there is nothing to choose. Otherwise the share is searched by golden section on a logit scale, and
    the better of two ways to share among the steps is taken.
    """
    if not _needs_delta(steps):
        only = split(steps, delta, 1.0, True, product)
        return value(only), only
    best: tuple[float, DeltaSplit] | None = None
    for by_step in (True, False) if 1 < len(steps) <= MANY else (True,):
        found = _golden(lambda t, by=by_step: split(steps, delta, 1.0 / (1.0 + math.exp(-t)), by, product), value)  # type: ignore[misc]
        best = found if best is None or found[0] < best[0] else best
    assert best is not None
    return best


def _golden(make: Callable[[float], DeltaSplit], value: Callable[[DeltaSplit], float]) -> tuple[float, DeltaSplit]:
    low, high, ratio = -9.0, 9.0, 0.6180339887498949
    before = remaining()
    left = make(high - ratio * (high - low))
    f_left = value(left)
    if math.isfinite(before):
        foresee((ROUNDS + 1) * (before - remaining()))  # or the first would be in vain
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
