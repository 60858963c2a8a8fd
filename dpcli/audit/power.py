"""The power of an audit by scores, which it tells beside a pass: a pass without power is said to be one.

Three answers. By the evidence alone: the epsilon that it would have proven had every guess been right. By a program: the factor x such that
a program with 1/x of its noise would have been found in 90 % of audits, by scores that tell as much of a record as the released sum
itself does: one number with noise, Gaussian for a claim with delta > 0, Laplace for one without, in the place where the claim is exact. Of
canaries that are gradients the scores' own distribution is known, and the audit is simulated as it is, with less noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import SampledSteps, right_guesses
from dpcli.audit.scores import guess_counts
from dpcli.base.lazy import lazy
from dpcli.base.rounding import down, up
from dpcli.numerics.closed.normal import gaussian_epsilon_upper
from dpcli.numerics.roots import bracket_root

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

MISSED = 0.1  # chance of missing a fault that "would have been found"
LARGEST = 64.0  # factor of the noise
THRESHOLDS = tuple(0.125 * k for k in range(-16, 97))

Beyond = Callable[[float], float]  # chance that noise is above a value


@dataclass(frozen=True, slots=True)
class Strongest:
    """Scores `shift` apart with this noise, for the program as it is claimed."""

    shift: float
    beyond: Beyond


def strongest(claim: Claim) -> Strongest | None:
    """The best scores against one noisy sum that costs exactly the claim; None where nothing is claimed to leak."""
    if claim.epsilon <= 0.0:
        return None
    if claim.delta <= 0.0:
        return Strongest(claim.epsilon, _laplace)
    high = 1.0
    while gaussian_epsilon_upper(high, claim.delta) < claim.epsilon and high < 1e3:
        high *= 2.0
    mu = bracket_root(lambda m: claim.epsilon - gaussian_epsilon_upper(m, claim.delta), 1e-9, high, 1e-6)[0]
    return Strongest(mu, lambda at: float(special.ndtr(-at)))


def _laplace(at: float) -> float:
    return 0.5 * math.exp(-at) if at > 0.0 else 1.0 - 0.5 * math.exp(at)


def least_factor(detects: Callable[[float], bool]) -> float:
    """The least x in [1, LARGEST] for which `detects`; inf where none is. To 1 %, rounded up."""
    if not detects(LARGEST):
        return math.inf
    low, high = 1.0, LARGEST
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if detects(middle) else (middle, high)
    return high


def guessed_right(attack: Strongest, factor: float, canaries: int, guesses: int, one_sided: bool) -> int:
    """Right guesses that are missed in MISSED of audits only: about the highest scores, and the lowest as well."""
    share = guesses / canaries if one_sided else 0.5 * guesses / canaries
    shift = attack.shift * factor

    def excess(at: float) -> float:
        return 0.5 * (attack.beyond(at - shift) + attack.beyond(at)) - share

    at = bracket_root(excess, -80.0, 80.0 + shift, 1e-9)[0] if share < 1.0 else -80.0
    right = min(0.5 * attack.beyond(at - shift) / share, 1.0 - 1e-12)
    return guesses - _many(guesses, 1.0 - right, MISSED)


def error_counts(attack: Strongest, factor: float, members: int, others: int) -> list[tuple[int, int]]:
    """(found, false alarms) at each threshold, each as bad as in half of MISSED of audits."""
    shift = attack.shift * factor
    return [
        (
            members - _many(members, 1.0 - attack.beyond(at - shift), 0.5 * MISSED),
            _many(others, attack.beyond(at), 0.5 * MISSED),
        )
        for at in THRESHOLDS
    ]


def _many(count: int, rate: float, level: float) -> int:
    """The least number of `count` that is exceeded with probability at most `level`."""
    return needed(count - 1, lambda most: float(special.bdtr(most, count, rate)) >= 1.0 - level)


def words(
    most: float,
    factor: float,
    claim: Claim,
    everything: str,
    attack: str = "the strongest attack there is",
    means: str = "scores that tell less of a record than the noisy sum itself find less: canaries that nobody would remember find nothing",
) -> tuple[str, ...]:
    """Say what the audit could have found, shortly, and how that is meant."""
    best = f"had {everything}, it would have proven epsilon >= {down(most)}"
    if math.isinf(factor):
        return (
            f"it could have found no fault: {best}, and epsilon <= {up(claim.epsilon)} is claimed",
            "more canaries or runs, or another number of guesses, would make it one",
        )
    fault = "no loss of noise is too small" if factor <= 1.01 else f"noise divided by {up(factor, 2)} or more"
    return (
        f"with {attack}, {fault} would have been found with {100 - 100 * MISSED:g} %",
        f"{best}; {means}",
    )


SIMULATED, OFTEN = 200, 0.94  # audits, and the share of them that shows 90 % but for a chance of 3 %
CHOSEN, JUDGED = 1, 2  # random numbers of the two simulations


@dataclass(frozen=True, slots=True)
class Guessing:
    """A way of guessing: a number of guesses, half of them at each end or all at the high one; needed: right ones that make a violation."""

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
    """Simulate how often each way of guessing finds a program with 1 / factor of its noise. No score is looked at."""
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
