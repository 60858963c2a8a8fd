"""The power of an audit, which is the smallest fault that it would have detected. Every pass states its power.

An audit compares an attack on a program with the *claim*, an (epsilon, delta) pair and perhaps a trade-off curve (claim.py). one_run.py
audits guesses about *canaries*, each put into one run or left out by a coin; two_runs.py audits many runs with and without one record. Both
ask this file for the power, in two numbers. One is the epsilon that a perfect attack would have proven. The other is a *noise factor*: the
smallest x such that 90 % of audits detect a program with 1/x of its claimed noise.

The noise factor assumes the strongest attack, which sees the released sum itself. The noise of the sum is chosen so that the claim is
tight: Gaussian if delta > 0, and Laplace otherwise. The scores of gradient canaries have a known distribution (gradient_scores.py), so
their audits are simulated. `best_guessing_rule` also chooses, by simulation alone, how many guesses such an audit makes.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.audit.bounds import Counts
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import SampledSteps, simulated_guesses
from dpcli.audit.scores import guess_counts
from dpcli.base.lazy import lazy
from dpcli.base.rounding import down, up
from dpcli.numerics.closed.normal import gaussian_epsilon_upper
from dpcli.numerics.roots import bracket_root

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

# These values set the accuracy of the stated power and the time that it takes. They do not affect the soundness of a bound.
MISSED = 0.1  # probability of missing a fault that an audit "would have found"
LARGEST_FACTOR = 64.0  # end of the search for a noise factor; an audit that misses a larger one is stated to have no power
FACTOR_PRECISION = 1.01  # ratio of the two ends at which the search for a noise factor stops
THRESHOLDS = tuple(0.125 * k for k in range(-16, 97))  # thresholds in standard deviations above the mean score of others
FARTHEST_SCORE = 80.0  # end of the range of scores in standard deviations; the probability beyond is negligible
LEAST_SHIFT, LARGEST_SHIFT = 1e-9, 1e3  # ends of the search for the shift of the strongest attack
SHIFT_PRECISION = 1e-6  # relative width of the bracket at which that search stops
SCORE_PRECISION = 1e-9  # width of the bracket at which the search stops for the score beyond which an attack guesses
SIMULATED_AUDITS = 200  # number of simulated audits; enough to tell a share of 94 % from 90 %
# Share of simulated audits that must detect a fault. If less than 90 % of real audits detect a fault, this share is reached with
# probability 3 % at most.
DETECTED_SHARE = 0.94
CHOOSING_SEED, EVALUATING_SEED = 1, 2  # different seeds, so that the evaluation of a rule is independent of its choice


@dataclass(frozen=True, slots=True)
class StrongestAttack:
    """An attack whose scores have noise of scale 1 and are higher by `shift` for members: canaries, or runs with the record.

    If a program has 1 / factor of the noise, then in units of that noise the scores of members are higher by shift * factor.

    Attributes:
        shift: Difference of the mean scores of members and others.
        tail: Function that returns the probability that the noise exceeds a value.
    """

    shift: float
    tail: Callable[[float], float]

    def right_guesses(self, factor: float, canaries: int, guesses: int, one_sided: bool) -> int:
        """Return the number of right guesses that an audit reaches except with probability MISSED.

        The guesses are about the highest scores, and about as many of the lowest scores unless `one_sided`.
        """
        shift = self.shift * factor
        ends = 1 if one_sided else 2
        share = guesses / canaries / ends  # share of the scores with guesses at one end

        def excess(score: float) -> float:  # excess of the share of canaries above `score`; half of all are members
            return 0.5 * (self.tail(score - shift) + self.tail(score)) - share

        score = -FARTHEST_SCORE  # all canaries are guessed to be members
        if share < 1.0:
            score, _ = bracket_root(excess, -FARTHEST_SCORE, FARTHEST_SCORE + shift, SCORE_PRECISION)
        # Probability that a guess is right; at the lowest scores it is the same, by symmetry. It is kept below 1, so that the binomial
        # quantile is defined.
        right = min(0.5 * self.tail(score - shift) / share, 1.0 - 1e-12)
        return guesses - _binomial_quantile(guesses, 1.0 - right, MISSED)

    def counts(self, factor: float, members: int, others: int) -> list[Counts]:
        """Return the counts of a test at each of THRESHOLDS. Each of its two errors is larger with probability at most MISSED / 2."""
        shift = self.shift * factor
        counts = []
        for threshold in THRESHOLDS:
            missed = _binomial_quantile(members, 1.0 - self.tail(threshold - shift), 0.5 * MISSED)
            false_positives = _binomial_quantile(others, self.tail(threshold), 0.5 * MISSED)
            counts.append(Counts(members, others, members - missed, false_positives))
        return counts


def strongest_attack(claim: Claim) -> StrongestAttack | None:
    """Return the best attack on a noisy sum whose privacy cost equals the claim; None if the claimed epsilon is 0.

    If delta > 0, this is the attack on a Gaussian sum whose epsilon at the claim's delta is the claimed one. Such a sum may cost more than
    the program at other deltas, for example if the program samples its records. The claimed curve would then refute it although no noise is
    missing. In this case the attack is on the costliest Gaussian sum that the curve allows.
    """
    if claim.epsilon <= 0.0:
        return None
    if claim.delta <= 0.0:
        return StrongestAttack(claim.epsilon, _laplace_tail)
    # The lower ends of the brackets are used: a smaller shift is a weaker attack, which overstates no power.
    high = 1.0
    while gaussian_epsilon_upper(high, claim.delta) < claim.epsilon and high < LARGEST_SHIFT:
        high *= 2.0
    mu, _ = bracket_root(lambda m: claim.epsilon - gaussian_epsilon_upper(m, claim.delta), LEAST_SHIFT, high, SHIFT_PRECISION)
    if claim.has_curve and _height_above_curve(claim, mu) < 0.0:
        mu, _ = bracket_root(functools.partial(_height_above_curve, claim), LEAST_SHIFT, mu, SHIFT_PRECISION)
    return StrongestAttack(mu, lambda score: float(special.ndtr(-score)))


def _height_above_curve(claim: Claim, mu: float) -> float:
    """Return how far the error rates of a Gaussian with shift `mu` lie above the claimed curve, at the threshold where they are lowest.

    The result is negative if the curve excludes the rates at one of THRESHOLDS.
    """
    rates = [(float(special.ndtr(-threshold)), float(special.ndtr(threshold - mu))) for threshold in THRESHOLDS]
    return min(min(fnr - claim.trade_off(fpr), fpr - claim.trade_off(fnr)) for fpr, fnr in rates)


def _laplace_tail(score: float) -> float:
    """Return the probability that a Laplace variable of scale 1 exceeds a score."""
    return 0.5 * math.exp(-score) if score > 0.0 else 1.0 - 0.5 * math.exp(score)


def _binomial_quantile(count: int, rate: float, level: float) -> int:
    """Return the smallest number of successes in `count` trials that is exceeded with probability at most `level`."""
    return least_count(count - 1, lambda most: float(special.bdtr(most, count, rate)) >= 1.0 - level)  # bdtr: P(successes <= most)


def least_count(most: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest number from 0 to `most` for which `holds` is true; most + 1 if there is none.

    If `holds` is true for a number, it must be true for all larger numbers.
    """
    return bisect.bisect_left(range(most + 1), True, key=holds)


def least_noise_factor(detects: Callable[[float], bool]) -> float:
    """Return the smallest factor in [1, LARGEST_FACTOR] for which `detects` is true; inf if it is false for LARGEST_FACTOR.

    If `detects` is true for a factor, it should be true for all larger ones. The result is then too large by at most 1 %.
    """
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
    most_provable: float,
    factor: float,
    claim: Claim,
    best_case: str,
    attack: str = "the strongest possible attack",
    remark: str = "scores that reveal less than the noisy sum detect less; canaries that a model does not memorise detect nothing",
) -> tuple[str, str]:
    """Return a sentence about the smallest fault that the audit could have found, and a sentence that explains it.

    Args:
        most_provable: Epsilon, in nats, that would have been proven in the best case.
        factor: Smallest noise factor that is detected; inf if none is.
        best_case: Description of the best case.
        attack: Name of the attack that `factor` assumes.
        remark: Clause about the power of other attacks, or about the computation.
    """
    best = f"with {best_case}, the audit would have proven epsilon >= {down(most_provable)}"
    if math.isinf(factor):
        return (
            f"the audit could not have detected any fault: {best}, and epsilon <= {up(claim.epsilon)} is claimed",
            "more canaries or runs, or another number of guesses, would give the audit power",
        )
    fault = "any loss of noise" if factor <= FACTOR_PRECISION else f"noise divided by {up(factor, 2)} or more"
    return (
        f"with {attack}, {fault} would have been detected with probability {100 - 100 * MISSED:g} %",
        f"{best}; {remark}",
    )


@dataclass(frozen=True, slots=True)
class GuessingRule:
    """A rule for guesses about canaries.

    Attributes:
        guesses: Number of guesses.
        one_sided: If True, all guesses are about the highest scores; otherwise half of them are about the lowest scores.
        needed: Number of right guesses from which the claim is refuted.
    """

    guesses: int
    one_sided: bool
    needed: int

    @property
    def low(self) -> int:
        """The number of guesses about the lowest scores."""
        return 0 if self.one_sided else self.guesses // 2


def detection_rates(
    steps: Sequence[SampledSteps], factor: float, canaries: int, rules: Sequence[GuessingRule], seed: int
) -> list[float]:
    """Return, for each rule, the share of simulated audits that detect a program with 1 / factor of its noise."""
    guesses = simulated_guesses(steps, factor, canaries, SIMULATED_AUDITS, seed)
    rates = []
    for rule in rules:
        right = guesses.high[:, rule.guesses - rule.low] + guesses.low[:, rule.low]
        rates.append(float((right >= rule.needed).mean()))
    return rates


def simulated_noise_factor(
    steps: Sequence[SampledSteps], canaries: int, rules: Sequence[GuessingRule], seed: int = EVALUATING_SEED
) -> float:
    """Return the smallest noise factor that one of the rules detects in a share DETECTED_SHARE of simulated audits; inf if none does."""
    if all(rule.needed > rule.guesses for rule in rules):
        return math.inf
    return least_noise_factor(lambda factor: max(detection_rates(steps, factor, canaries, rules, seed)) >= DETECTED_SHARE)


def best_guessing_rule(steps: Sequence[SampledSteps], canaries: int, refutes: Callable[[int, int], bool]) -> GuessingRule:
    """Return the rule that detects the smallest noise factor in simulated audits. The choice does not use the scores of the real audit.

    `refutes` returns, for the numbers of guesses and of right guesses, whether they refute the claim.
    """
    rules = []
    for guesses in guess_counts(canaries):
        needed = least_count(guesses, lambda right, guesses=guesses: refutes(guesses, right))  # type: ignore[misc]
        if needed <= guesses:
            rules += [GuessingRule(guesses, one_sided, needed) for one_sided in (False, True)]
    if not rules:  # no number of right guesses refutes the claim
        return GuessingRule(canaries, one_sided=False, needed=canaries + 1)
    factor = simulated_noise_factor(steps, canaries, rules, CHOOSING_SEED)
    rates = detection_rates(steps, min(factor, LARGEST_FACTOR), canaries, rules, CHOOSING_SEED)
    return rules[rates.index(max(rates))]
