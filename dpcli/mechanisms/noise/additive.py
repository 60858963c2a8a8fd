"""Rules for all types of additive noise: the sensitivity over the noise that the keys state, and noise too small to protect anything.

The types "gaussian" and "laplace" use all of these rules, and other types some. Keys state the noise either relative to C, the bound on one
record's contribution (noise_multiplier), or absolutely, with a sensitivity under the file's adjacency. Both become one ratio, rounded up: k
records move a sum by k C, or by 2 k C under replace-one, and a group of units multiplies a stated sensitivity. A ratio above LARGEST_RATIO
becomes a mechanism with infinite epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dpcli.base.errors import NotRepresentable
from dpcli.base.stated import multiple, quotient  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours

LARGEST_RATIO = 1e100  # largest sensitivity over noise; beyond it epsilon is taken to be infinite, which is an upper bound
SMALLEST_RATIO = 1e-150  # soundness: a smaller sensitivity over noise is rounded up to this, because its square would underflow


@dataclass(frozen=True, slots=True)
class NoPrivacy(Mechanism):
    """A release whose noise is too small to protect anything, so that epsilon is taken to be infinite. ratio: sensitivity over noise."""

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
    """Return the mechanism of a noise type at a sensitivity over noise. kind: returns the mechanism at a ratio.

    A ratio above LARGEST_RATIO gives `NoPrivacy`. One below SMALLEST_RATIO is rounded up to it, without a claim that the pair is attained.
    """
    if ratio > LARGEST_RATIO:
        return NoPrivacy(ratio)
    return kind(ratio) if ratio > SMALLEST_RATIO else kind(SMALLEST_RATIO).unclaimed()


def noise_problems(
    multiplier: float | None, noise_key: str, noise: float | None, sensitivity: float | None
) -> Iterator[tuple[str, str, str]]:
    """Yield the violations of the rule that the keys state either noise_multiplier, or the noise and the sensitivity.

    Each is (key, expected, found). noise_key: name of the key with the noise.
    """
    if multiplier is not None:
        for key, value in ((noise_key, noise), ("sensitivity", sensitivity)):
            if value is not None:
                yield key, f"either noise_multiplier, or {noise_key} with sensitivity", "both"
    elif noise is None:
        yield noise_key, f"noise_multiplier, or {noise_key} with sensitivity", "neither"
    elif sensitivity is None:
        yield "sensitivity", f"the sensitivity that {noise_key} is to cover, or noise_multiplier in place of {noise_key}", "nothing"


def noise_ratio(multiplier: float | None, noise: float | None, sensitivity: float | None, neighbours: Neighbours) -> float:
    """Return the sensitivity over the noise under the neighbouring relation, rounded up, and at least SMALLEST_RATIO.

    A noise multiplier is relative to C, the bound on one record's contribution. k records move the sum by k C, or by 2 k C if each is
    replaced. A stated sensitivity is that of the query under the file's adjacency and unit, so only a group increases it.
    """
    if multiplier is not None:
        ratio = quotient(neighbours.contribution_bounds, multiplier)
    else:
        assert noise is not None and sensitivity is not None
        ratio = quotient(multiple(neighbours.group, sensitivity), noise)
    return max(ratio, SMALLEST_RATIO)
