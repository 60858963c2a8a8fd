"""Noise so small that it protects nothing: no representation at all, and the reason in words."""

from __future__ import annotations

import math

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss

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
