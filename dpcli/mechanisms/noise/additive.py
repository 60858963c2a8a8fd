"""Additive noise: what the keys state under the neighbouring relation, and noise so small that it protects nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dpcli.base.errors import NotRepresentable
from dpcli.base.stated import multiple, quotient
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours

LARGEST_RATIO = 1e100  # sensitivity over noise; beyond it epsilon has no finite floating-point form worth printing
SMALLEST_RATIO = 1e-150  # below it the square underflows; such noise is accounted as this much, which is more


@dataclass(frozen=True, slots=True)
class NoPrivacy(Mechanism):
    """A release that is as good as the value itself; epsilon is taken to be infinite. ratio: sensitivity over noise."""

    ratio: float

    def _refusal(self) -> NotRepresentable:
        return NotRepresentable(f"the noise protects nothing: the sensitivity is {self.ratio:.3g} times as large")

    def approx_dp(self, delta: float) -> float:
        return math.inf

    def zcdp(self) -> float:
        raise self._refusal()

    def gdp(self) -> float:
        raise self._refusal()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        raise self._refusal()


def with_noise(kind: Callable[[float], Mechanism], ratio: float) -> Mechanism:
    """Additive noise at this sensitivity over noise; at the ends of what floating point holds, a bound on it."""
    if ratio > LARGEST_RATIO:
        return NoPrivacy(ratio)
    return kind(ratio) if ratio > SMALLEST_RATIO else kind(SMALLEST_RATIO).unclaimed()


def noise_problems(
    multiplier: float | None, noise_key: str, noise: float | None, sensitivity: float | None
) -> Iterator[tuple[str, str, str]]:
    """The rule shared by all additive noise: a noise_multiplier, or noise together with its sensitivity."""
    if multiplier is not None:
        for key, value in ((noise_key, noise), ("sensitivity", sensitivity)):
            if value is not None:
                yield key, f"either noise_multiplier, or {noise_key} with sensitivity", "both"
    elif noise is None:
        yield noise_key, f"noise_multiplier, or {noise_key} with sensitivity", "neither"
    elif sensitivity is None:
        yield "sensitivity", f"the sensitivity that {noise_key} is to cover, or noise_multiplier in place of {noise_key}", "nothing"


def noise_ratio(multiplier: float | None, noise: float | None, sensitivity: float | None, neighbours: Neighbours) -> float:
    """Sensitivity over noise under the neighbouring relation.

    `noise_multiplier` is relative to one record's contribution C: k records move the sum by k C, and by 2 k C if each is replaced.
    A stated `sensitivity` already is the query's under the file's adjacency and unit; only a larger group scales it.
    """
    if multiplier is not None:
        ratio = quotient(neighbours.records * (2.0 if neighbours.replaces else 1.0), multiplier)
    else:
        assert noise is not None and sensitivity is not None
        ratio = quotient(multiple(neighbours.group, sensitivity), noise)
    return max(ratio, SMALLEST_RATIO)
