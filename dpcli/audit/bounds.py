"""Lower bounds on epsilon that counts prove: of guesses about the canaries of one run, and of error rates over many runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.lazy import lazy
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.normal import gaussian_epsilon
from dpcli.numerics.roots import bracket_root

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

ROUNDING = 1e-11  # relative; the incomplete beta function is good to about 1e-13
AT_ONCE = 4096  # terms of alpha that are computed in one array
LARGEST_EPSILON = 64.0  # nats; e^64 is refuted by no number of canaries that fits a computer
GUESSES_SOURCE = "Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (the theorem for approximate DP)"
TradeOff = Callable[[float], float]  # false positive rate -> lowest false negative rate, from below
LARGEST_MU = 64.0  # sensitivity over standard deviation
MARGIN = 1e-9  # relative, for the rounding of up to a million sums
CURVE_SOURCE = "Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235"
RATES_SOURCE = "Jagielski, Ullman, Oprea 2020, arXiv:2006.07709; Nasr et al. 2021, arXiv:2101.04535; Clopper & Pearson 1934"
GAUSSIAN_SOURCE = "Nasr et al. 2023, arXiv:2302.07956; Dong, Roth, Su 2022, arXiv:1905.02383, Corollary 2.13"


def binomial_tail(trials: int, rate: float, least: Array) -> Array:
    """Return P(Binomial(trials, rate) >= least) for each of `least`: 1 up to 0, 0 beyond `trials`; relative error about 1e-13."""
    inside = np.clip(least, 1.0, float(trials))
    chance = special.betainc(inside, trials - inside + 1.0, rate)
    return np.where(least <= 0.0, 1.0, np.where(least > trials, 0.0, chance))


def rate_upper(count: Array | float, trials: int, significance: float) -> Array:
    """Return the largest rate that `count` of `trials` do not refute: exceeded by the truth with probability at most `significance`.

    Source: Clopper & Pearson 1934, Biometrika 26(4), 404-413, one-sided.

    Args:
        count: 0 to trials.
        significance: In (0, 1).

    Returns:
        An upper bound; 1 where every trial counted.
    """
    counts = np.asarray(count, dtype=float)
    inside = np.minimum(counts, trials - 1.0)
    rate = special.betainccinv(inside + 1.0, trials - inside, significance) * (1.0 + ROUNDING)
    return np.where(counts >= trials, 1.0, np.minimum(rate, 1.0))


def rate_lower(count: Array | float, trials: int, significance: float) -> Array:
    """Return the smallest rate that `count` of `trials` do not refute: a lower bound, from `rate_upper` of the other trials."""
    return np.asarray(1.0 - rate_upper(trials - np.asarray(count, dtype=float), trials, significance))


def checked_guesses(canaries: int, guesses: int, correct: int) -> None:
    """Raise InputError unless 0 <= correct <= guesses <= canaries and there is a canary."""
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise InputError(
            "expected counts with correct <= guesses <= canaries and at least one canary, "
            f"found correct = {correct}, guesses = {guesses}, canaries = {canaries}"
        )


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Bound how likely so many correct guesses are under (epsilon, delta)-DP.

    Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (the theorem for approximate DP).

    Args:
        canaries: m, each in the run or not by the toss of a fair coin, independently.
        guesses: r, fixed before the run; the other canaries are not guessed about.
        correct: v of the guesses that are right.
        epsilon: Nats, >= 0.
        delta: In [0, 1).

    Returns:
        min(1, beta + 2 m delta alpha), an upper bound, with beta = P(W >= v), alpha = max_i P(v > W >= v - i) / i for
        W ~ Binomial(r, e^eps / (1 + e^eps)).

    Raises:
        InputError: Counts that contradict each other.
    """
    checked_guesses(canaries, guesses, correct)
    rate = 1.0 / (1.0 + math.exp(-epsilon))
    beta = float(binomial_tail(guesses, rate, np.array([float(correct)]))[0])
    excess = 2.0 * canaries * delta * _alpha(guesses, rate, correct, beta) if delta > 0.0 else 0.0
    return min(1.0, (beta + excess) * (1.0 + ROUNDING))


def _alpha(guesses: int, rate: float, correct: int, beta: float) -> float:
    """Return max_i (P(W >= v - i) - P(W >= v)) / i; a term is at most 1 / i, so that late ones need not be computed."""
    best, start = 0.0, 1
    while start <= correct and best * start < 1.0:
        i = np.arange(start, min(start + AT_ONCE, correct + 1), dtype=float)
        best = max(best, float(((binomial_tail(guesses, rate, correct - i) - beta) / i).max()))
        start += AT_ONCE
    return best


def guesses_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """Return the largest epsilon that the guesses refute at `delta`, from below.

    Args:
        canaries, guesses, correct: As for `p_value`.
        delta: Delta of the guarantee that is tested.
        significance: Chance of refuting a true one, in (0, 1).

    Returns:
        A lower bound on epsilon (nats), at most 1e-9 below the root of p_value = significance; 0 if nothing is refuted. It is a bound
        even if p_value were not monotone: the value returned is refuted itself, and with it every smaller one.
    """

    def margin(epsilon: float) -> float:
        return significance - p_value(canaries, guesses, correct, epsilon, delta)

    if margin(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while margin(high) > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST_EPSILON:
            return low
    return bracket_root(margin, low, high, 1e-10)[0]


def curve_excess(canaries: int, guesses: int, correct: int, curve: TradeOff, significance: float) -> float:
    """Return by how much so many correct guesses exceed what a trade-off curve allows; above 0 it is refuted at `significance`.

    Source: Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235 (the recursion over the number of correct guesses, with abstention).

    Args:
        canaries, guesses, correct: As for the one-run bound: fair coins, guesses fixed before the run.
        curve: The symmetric trade-off function of the guarantee, from below.
        significance: Chance of refuting a true one.

    Returns:
        r + h - guesses / canaries. If `correct` or more were right with probability `significance`, at least r of the mass would be right
        answers and h wrong ones in the run's worst part, growing with each number of right answers that the curve forces to be likely
        too; more than all there is refutes it.
    """
    checked_guesses(canaries, guesses, correct)
    right, wrong = significance * correct / canaries, significance * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        forced = max(wrong, curve(1.0 - right))
        if forced == wrong:
            break
        right, wrong = min(right + (i / (guesses - i)) * (forced - wrong), 1.0), forced
    return right + wrong - (1.0 + MARGIN) * guesses / canaries


def gaussian_curve(mu: float) -> TradeOff:
    """Return the trade-off curve of a Gaussian, G_mu(a) = Phi(Phi^-1(1 - a) - mu) (Dong, Roth, Su 2022, arXiv:1905.02383)."""
    return lambda alpha: float(special.ndtr(special.ndtri(1.0 - alpha) - mu))


def guesses_mu_lower(canaries: int, guesses: int, correct: int, significance: float) -> float:
    """Return the largest mu such that the guesses refute mu-Gaussian DP: a lower bound, at least 0."""

    def excess(mu: float) -> float:
        return curve_excess(canaries, guesses, correct, gaussian_curve(mu), significance)

    low, high = 0.0, 0.25
    if guesses == 0 or excess(low) <= 0.0:
        return 0.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST_MU:
            return low
    return bracket_root(excess, low, high, 1e-7)[0]


def guesses_gaussian_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """Return the epsilon of the largest Gaussian that the guesses refute."""
    return _gaussian_epsilon(guesses_mu_lower(canaries, guesses, correct, significance), delta)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at `delta` > 0 of a Gaussian; a bound on the program only if its trade-off curve is a Gaussian's."""
    if delta <= 0.0:
        raise InputError(f"expected a delta > 0 for a Gaussian's epsilon, which is infinite without, found {delta!r}")
    return gaussian_epsilon(mu, delta)[0] if mu > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one test: it said "in" in `true_positives` of `members` runs with the record, `false_positives` of `others` without."""

    members: int
    others: int
    true_positives: int
    false_positives: int

    def __post_init__(self) -> None:
        if not (0 <= self.true_positives <= self.members and 0 <= self.false_positives <= self.others):
            raise InputError(
                "expected true_positives <= members and false_positives <= others, "
                f"found {self.true_positives} of {self.members} and {self.false_positives} of {self.others}"
            )
        if not (self.members and self.others):
            raise InputError(f"expected runs with the record and without it, found {self.members} and {self.others}")

    def scaled(self, members: int, others: int) -> Counts:
        """Return the counts of as good a test on so many runs, rounded against the test."""
        false_positives = -(-self.false_positives * others // self.others)
        return Counts(members, others, self.true_positives * members // self.members, false_positives)


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Upper bounds on both error rates of one test, which hold together at the stated confidence."""

    false_positive: float
    false_negative: float


def error_rates(counts: Counts, significance: float) -> ErrorRates:
    """Return Clopper-Pearson bounds on both rates, each at half of the significance."""
    positive = float(rate_upper(counts.false_positives, counts.others, 0.5 * significance))
    negative = float(rate_upper(counts.members - counts.true_positives, counts.members, 0.5 * significance))
    return ErrorRates(positive, negative)


def rates_epsilon_lower(rates: ErrorRates, delta: float) -> float:
    """Return the largest epsilon that error rates of at most these refute at `delta`, in both directions: a lower bound (nats), at least 0.

    1 - fnr <= e^eps fpr + delta, and the same with the rates exchanged, hold for every test (Wasserman & Zhou 2010,
    arXiv:0811.2501, Theorem 2.4). Both rates are bounded by one event, so every delta may be asked about.
    """
    positive, negative = rates.false_positive, rates.false_negative
    return max(_one_sided_epsilon(positive, negative, delta), _one_sided_epsilon(negative, positive, delta))


def _one_sided_epsilon(false_positive: float, false_negative: float, delta: float) -> float:
    gain = 1.0 - false_negative - delta
    return max(0.0, math.log(gain / false_positive) - ROUNDING) if gain > 0.0 else 0.0


def rates_mu_lower(rates: ErrorRates) -> float:
    """Return the largest mu such that error rates of at most these refute mu-Gaussian DP: a lower bound, at least 0."""
    mu = -special.ndtri(rates.false_positive) - special.ndtri(rates.false_negative)
    return max(0.0, float(mu) * (1.0 - ROUNDING))


def rates_gaussian_epsilon_lower(rates: ErrorRates, delta: float) -> float:
    """Return the epsilon of the largest Gaussian that the rates refute."""
    return _gaussian_epsilon(rates_mu_lower(rates), delta)
