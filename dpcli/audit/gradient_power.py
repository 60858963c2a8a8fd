"""Which guesses an audit of gradient canaries makes, and the least loss of noise that it finds: both by simulating that audit.

Neither looks at a score: the simulation knows the claim, the file's steps and the number of canaries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpcli.audit.gradient_scores import SampledSteps, right_guesses
from dpcli.audit.power import LARGEST, least_factor
from dpcli.audit.scores import guess_counts

SIMULATED, OFTEN = 200, 0.94  # audits, and the share of them that shows 90 % but for a chance of 3 %
CHOSEN, JUDGED = 1, 2  # random numbers of the two simulations


@dataclass(frozen=True, slots=True)
class Guessing:
    """So many guesses, half of them at each end or all at the high one; needed: right ones that make a violation."""

    guesses: int
    one_sided: bool
    needed: int

    @property
    def low(self) -> int:
        """Guesses about the lowest scores."""
        return 0 if self.one_sided else self.guesses // 2


def needed(guesses: int, refutes: Callable[[int], bool]) -> int:
    """The least number of right guesses that is a violation; guesses + 1 where none is."""
    low, high = -1, guesses + 1
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return high


def shares(steps: Sequence[SampledSteps], factor: float, canaries: int, ways: Sequence[Guessing], seed: int) -> list[float]:
    """How often each way of guessing finds a program with 1 / factor of its noise."""
    high, low = right_guesses(steps, factor, canaries, SIMULATED, seed)
    return [float((high[:, way.guesses - way.low] + low[:, way.low] >= way.needed).mean()) for way in ways]


def least_found(steps: Sequence[SampledSteps], canaries: int, ways: Sequence[Guessing]) -> float:
    """The factor by which noise must be smaller for one of the ways of guessing to find it in 90 % of audits; inf where none is."""
    if all(way.needed > way.guesses for way in ways):
        return math.inf
    return least_factor(lambda factor: max(shares(steps, factor, canaries, ways, JUDGED)) >= OFTEN)


def best_guessing(steps: Sequence[SampledSteps], canaries: int, refutes: Callable[[int, int], bool]) -> tuple[int, bool]:
    """The number of guesses, and whether they are about the highest scores alone, that find the smallest loss of noise.

    Args:
        refutes: (guesses, right ones) -> whether that is a violation, judged by this test alone.
    """
    ways = []
    for count in guess_counts(canaries):
        least = needed(count, lambda right, count=count: refutes(count, right))  # type: ignore[misc]
        ways += [Guessing(count, one_sided, least) for one_sided in (False, True) if least <= count]
    if not ways:
        return canaries, False
    factor = least_factor(lambda factor: max(shares(steps, factor, canaries, ways, CHOSEN)) >= OFTEN)
    often = shares(steps, min(factor, LARGEST), canaries, ways, CHOSEN)
    best = ways[often.index(max(often))]
    return best.guesses, best.one_sided
