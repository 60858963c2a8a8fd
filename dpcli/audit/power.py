"""The power of an audit: the smallest fault that it would have found, stated beside every pass.

Power is told twice. First as the epsilon that this much evidence would have proven, had every guess or run been judged right. Then as a
noise factor: the least x such that a program with 1/x of its claimed noise is found in 90 % of audits. The attacker is the strongest there
is: it scores by the released sum itself, one number with Gaussian noise for a claim with delta > 0 and Laplace noise for one without, so
that the claim is exact. Scores of canaries that are gradients have a known distribution, and their audits are simulated with less noise.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.audit.bounds import Counts
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

MISSED = 0.1  # probability of missing a fault that "would have been found"
LARGEST_FACTOR = 64.0  # a program with less than 1/64 of its noise is not considered
FACTOR_PRECISION = 1.01  # ratio of the ends of the search for a factor
THRESHOLDS = tuple(0.125 * k for k in range(-16, 97))  # standard deviations above the mean score of others
FARTHEST = 80.0  # standard deviations: no score lies beyond


@dataclass(frozen=True, slots=True)
class StrongestAttack:
    """Scores with noise of scale 1 that are `shift` higher for members.

    With 1 / factor of the noise, in units of that noise, they are shift * factor higher.

    Attributes:
        tail: Tail of the noise, the probability that it exceeds a value.
    """

    shift: float
    tail: Callable[[float], float]

    def right_guesses(self, factor: float, canaries: int, guesses: int, one_sided: bool) -> int:
        """Return how many guesses all but MISSED of audits have right: about the highest scores, and the lowest unless one_sided."""
        shift = self.shift * factor
        share = guesses / canaries if one_sided else 0.5 * guesses / canaries  # of all scores, guessed about at one end

        def excess(at: float) -> float:
            return 0.5 * (self.tail(at - shift) + self.tail(at)) - share

        at = bracket_root(excess, -FARTHEST, FARTHEST + shift, 1e-9)[0] if share < 1.0 else -FARTHEST
        right = min(0.5 * self.tail(at - shift) / share, 1.0 - 1e-12)
        return guesses - _binomial_quantile(guesses, 1.0 - right, MISSED)

    def counts(self, factor: float, members: int, others: int) -> list[Counts]:
        """Return the counts of a test at each of THRESHOLDS, where either error is larger in half of MISSED of audits."""
        shift = self.shift * factor
        return [
            Counts(
                members,
                others,
                members - _binomial_quantile(members, 1.0 - self.tail(at - shift), 0.5 * MISSED),
                _binomial_quantile(others, self.tail(at), 0.5 * MISSED),
            )
            for at in THRESHOLDS
        ]


def strongest_attack(claim: Claim) -> StrongestAttack | None:
    """Return the best scores against one noisy sum that costs exactly the claim; None if nothing is claimed to leak."""
    if claim.epsilon <= 0.0:
        return None
    if claim.delta <= 0.0:
        return StrongestAttack(claim.epsilon, _laplace_tail)
    high = 1.0
    while gaussian_epsilon_upper(high, claim.delta) < claim.epsilon and high < 1e3:
        high *= 2.0
    mu = bracket_root(lambda m: claim.epsilon - gaussian_epsilon_upper(m, claim.delta), 1e-9, high, 1e-6)[0]
    return StrongestAttack(mu, lambda at: float(special.ndtr(-at)))


def _laplace_tail(at: float) -> float:
    return 0.5 * math.exp(-at) if at > 0.0 else 1.0 - 0.5 * math.exp(at)


def _binomial_quantile(count: int, rate: float, level: float) -> int:
    """Return the least number of successes among `count` that is exceeded with probability at most `level`."""
    return least_count(count - 1, lambda most: float(special.bdtr(most, count, rate)) >= 1.0 - level)


def least_count(most: int, holds: Callable[[int], bool]) -> int:
    """Return the least whole number from 0 to `most` for which `holds`, as it does for all above; most + 1 if it never does."""
    return bisect.bisect_left(range(most + 1), True, key=holds)


def least_noise_factor(detects: Callable[[float], bool]) -> float:
    """Return the least factor in [1, LARGEST_FACTOR] that `detects`, within 1 % from above; inf if none is detected."""
    if not detects(LARGEST_FACTOR):
        return math.inf
    low, high = 1.0, LARGEST_FACTOR
    while high > FACTOR_PRECISION * low:
        middle = math.sqrt(low * high)
        if detects(middle):
            high = middle
        else:
            low = middle
    return high


def power_sentences(
    most: float,
    factor: float,
    claim: Claim,
    everything: str,
    attack: str = "the strongest attack there is",
    means: str = "scores that tell less of a record than the noisy sum itself find less: canaries that nobody would remember find nothing",
) -> tuple[str, str]:
    """Return what the audit could have found, in short, and what that means.

    Args:
        most: Epsilon that would have been proven, had `everything` (in words) happened.
        factor: Factor of the noise, inf if no loss is found.
    """
    best = f"had {everything}, it would have proven epsilon >= {down(most)}"
    if math.isinf(factor):
        return (
            f"it could have found no fault: {best}, and epsilon <= {up(claim.epsilon)} is claimed",
            "more canaries or runs, or another number of guesses, would make it one",
        )
    fault = "no loss of noise is too small" if factor <= FACTOR_PRECISION else f"noise divided by {up(factor, 2)} or more"
    return (
        f"with {attack}, {fault} would have been found with {100 - 100 * MISSED:g} %",
        f"{best}; {means}",
    )


SIMULATED_AUDITS = 200
FOUND_SHARE = 0.94  # of simulated audits: a fault that is found less often than 90 % reaches it with a chance of 3 %
CHOOSING_SEED, JUDGING_SEED = 1, 2  # the rule that was chosen is judged by other random numbers


@dataclass(frozen=True, slots=True)
class GuessingRule:
    """A number of guesses: half of them about the lowest scores unless one_sided.

    Attributes:
        needed: Right guesses that make a violation.
    """

    guesses: int
    one_sided: bool
    needed: int

    @property
    def low(self) -> int:
        """Return how many guesses are about the lowest scores."""
        return 0 if self.one_sided else self.guesses // 2


def detection_rates(
    steps: Sequence[SampledSteps], factor: float, canaries: int, rules: Sequence[GuessingRule], seed: int
) -> list[float]:
    """Return the share of simulated audits in which each rule finds a program with 1 / factor of its noise."""
    high, low = right_guesses(steps, factor, canaries, SIMULATED_AUDITS, seed)
    return [float((high[:, rule.guesses - rule.low] + low[:, rule.low] >= rule.needed).mean()) for rule in rules]


def _simulated_factor(steps: Sequence[SampledSteps], canaries: int, rules: Sequence[GuessingRule], seed: int) -> float:
    return least_noise_factor(lambda factor: max(detection_rates(steps, factor, canaries, rules, seed)) >= FOUND_SHARE)


def simulated_noise_factor(steps: Sequence[SampledSteps], canaries: int, rules: Sequence[GuessingRule]) -> float:
    """Return the least noise factor that one of the rules finds in 90 % of audits; inf if none does."""
    if all(rule.needed > rule.guesses for rule in rules):
        return math.inf
    return _simulated_factor(steps, canaries, rules, JUDGING_SEED)


def best_guessing_rule(steps: Sequence[SampledSteps], canaries: int, refutes: Callable[[int, int], bool]) -> GuessingRule:
    """Return the rule that finds the smallest loss of noise in simulated audits. No score is looked at.

    Args:
        refutes: (guesses, right ones) -> whether that is a violation, judged by this test alone.
    """
    rules = []
    for guesses in guess_counts(canaries):
        needed = least_count(guesses, lambda right, guesses=guesses: refutes(guesses, right))  # type: ignore[misc]
        if needed <= guesses:
            rules += [GuessingRule(guesses, one_sided, needed) for one_sided in (False, True)]
    if not rules:
        return GuessingRule(canaries, False, canaries + 1)
    factor = _simulated_factor(steps, canaries, rules, CHOOSING_SEED)
    rates = detection_rates(steps, min(factor, LARGEST_FACTOR), canaries, rules, CHOOSING_SEED)
    return rules[rates.index(max(rates))]
