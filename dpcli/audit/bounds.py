"""Lower bounds on epsilon from counts of right guesses about the canaries of one run, and from counts of errors in many runs.

A *canary* is a record or gradient that a fair coin put into the run or left out; a guess says which. The rates of a test are its false
positive rate and its false negative rate. one_run.py and two_runs.py compare the bounds with a claim. Every bound holds except with a
probability `significance`, which the caller divides among the tests that it makes. Bounds are rounded down, so that a private program is
accused with at most that probability. Bounds that assume a Gaussian trade-off curve prove nothing about other programs, and never decide.
"""

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

# Allowances for rounding. Smaller ones might let a bound exceed the true epsilon.
ROUNDING = 1e-11  # relative allowance; the incomplete beta function has a relative error of about 1e-13
MARGIN = 1e-9  # relative allowance for the rounding of up to a million sums
ALPHA_TERMS = 4096  # number of terms of alpha that are computed in one array; affects only speed and memory
# Ends of searches: beyond them a smaller lower bound is returned, which is still valid.
LARGEST_EPSILON = 64.0  # in nats; no feasible number of canaries refutes a larger epsilon
LARGEST_MU = 64.0  # largest mu (sensitivity over standard deviation)
# Relative widths of the bracket at which the searches for epsilon and mu stop. They affect only accuracy: the lower end is returned.
ROOT_PRECISION, MU_PRECISION = 1e-10, 1e-7
TradeOff = Callable[[float], float]  # function from a false positive rate to a lower bound on the false negative rate
GUESSES_SOURCE = "Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (the theorem for approximate DP)"
CURVE_SOURCE = "Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235"
RATES_SOURCE = "Jagielski, Ullman, Oprea 2020, arXiv:2006.07709; Nasr et al. 2021, arXiv:2101.04535; Clopper & Pearson 1934"
GAUSSIAN_SOURCE = "Nasr et al. 2023, arXiv:2302.07956; Dong, Roth, Su 2022, arXiv:1905.02383, Corollary 2.13"


def binomial_tail(trials: int, rate: float, least: Array) -> Array:
    """Return P(Binomial(trials, rate) >= least) for each number in `least`, with a relative error of about 1e-13."""
    clipped = np.clip(least, 1.0, float(trials))
    chance = special.betainc(clipped, trials - clipped + 1.0, rate)
    return np.where(least <= 0.0, 1.0, np.where(least > trials, 0.0, chance))


def rate_upper(count: Array | float, trials: int, significance: float) -> Array:
    """Return the one-sided Clopper-Pearson upper bound on a rate, given `count` events in `trials` trials; 1 if every trial had the event.

    The true rate exceeds the bound with probability at most `significance`, in (0, 1).
    Source: Clopper & Pearson 1934, Biometrika 26(4), 404-413.
    """
    counts = np.asarray(count, dtype=float)
    clipped = np.minimum(counts, trials - 1.0)
    rate = special.betainccinv(clipped + 1.0, trials - clipped, significance) * (1.0 + ROUNDING)
    return np.where(counts >= trials, 1.0, np.minimum(rate, 1.0))


def rate_lower(count: Array | float, trials: int, significance: float) -> Array:
    """Return the one-sided Clopper-Pearson lower bound on a rate. It follows from `rate_upper` by symmetry, with the same arguments."""
    return np.asarray(1.0 - rate_upper(trials - np.asarray(count, dtype=float), trials, significance))


def require_consistent_guesses(canaries: int, guesses: int, correct: int) -> None:
    """Raise InputError unless 0 <= correct <= guesses <= canaries and there is a canary."""
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise InputError(
            "expected counts with correct <= guesses <= canaries and at least one canary, "
            f"found correct = {correct}, guesses = {guesses}, canaries = {canaries}"
        )


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the probability of at least `correct` right guesses under (epsilon, delta)-DP.

    Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (the theorem for approximate DP).

    Args:
        canaries: Number m of canaries. An independent fair coin decides for each canary whether it is in the run.
        guesses: Number r of guesses, fixed before the run. There is no guess about the other canaries.
        correct: Number v of right guesses.
        epsilon: Epsilon in nats, >= 0.
        delta: Delta, in [0, 1).

    Returns:
        The upper bound min(1, beta + 2 m delta alpha), where beta = P(W >= v), alpha = max_i P(v > W >= v - i) / i, and
        W ~ Binomial(r, e^eps / (1 + e^eps)).

    Raises InputError if the counts contradict each other.
    """
    require_consistent_guesses(canaries, guesses, correct)
    rate = 1.0 / (1.0 + math.exp(-epsilon))
    beta = float(binomial_tail(guesses, rate, np.array([float(correct)]))[0])
    excess = 2.0 * canaries * delta * _alpha(guesses, rate, correct, beta) if delta > 0.0 else 0.0
    return min(1.0, (beta + excess) * (1.0 + ROUNDING))


def _alpha(guesses: int, rate: float, correct: int, beta: float) -> float:
    """Return max_i (P(W >= v - i) - P(W >= v)) / i. A term is at most 1 / i, so terms with large i are not computed."""
    best, start = 0.0, 1
    while start <= correct and best * start < 1.0:
        i = np.arange(start, min(start + ALPHA_TERMS, correct + 1), dtype=float)
        best = max(best, float(((binomial_tail(guesses, rate, correct - i) - beta) / i).max()))
        start += ALPHA_TERMS
    return best


def guesses_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """Return a lower bound on epsilon at `delta`, which is the largest epsilon that the guesses refute, rounded down.

    Args:
        canaries, guesses, correct: Numbers of canaries, of guesses about them, and of right guesses.
        delta: Delta of the guarantee that is tested.
        significance: Probability, in (0, 1), with which a true guarantee may be refuted.

    Returns:
        A lower bound on epsilon in nats, close to the root of p_value = significance and not above it; 0 if no epsilon is refuted, and
        LARGEST_EPSILON if that is refuted too. The guesses refute the returned epsilon itself, and therefore every smaller one.
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
    lower_end, _ = bracket_root(margin, low, high, ROOT_PRECISION)  # the guesses refute the lower end of the bracket
    return lower_end


def curve_excess(canaries: int, guesses: int, correct: int, curve: TradeOff, significance: float) -> float:
    """Return the excess of right guesses over what a trade-off curve allows. A positive excess refutes the curve at `significance`.

    Source: Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235 (the recursion over the number of correct guesses, with abstention).

    Args:
        canaries, guesses, correct: Numbers of canaries, of guesses about them, and of right guesses.
        curve: Lower bound on the symmetric trade-off function of the guarantee.
        significance: Probability with which a true guarantee may be refuted.

    Returns:
        right + wrong - guesses / canaries. Here `right` and `wrong` are lower bounds on the expected numbers of right and of wrong guesses,
        divided by the number of canaries, if `correct` or more guesses are right with probability `significance`. The recursion adds the
        outcomes with fewer right guesses, one number after the other: the curve forces a part of the probability to lie there, so both
        grow. The curve is refuted if they add up to more than guesses / canaries, which is the sum for any program.
    """
    require_consistent_guesses(canaries, guesses, correct)
    right, wrong = significance * correct / canaries, significance * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        forced = max(wrong, curve(1.0 - right))
        if forced == wrong:  # both no longer change
            break
        # An outcome with i right guesses adds to both in the ratio of its i right to its guesses - i wrong ones.
        right, wrong = min(right + (i / (guesses - i)) * (forced - wrong), 1.0), forced
    return right + wrong - (1.0 + MARGIN) * guesses / canaries


def gaussian_curve(mu: float) -> TradeOff:
    """Return the trade-off curve of a Gaussian, G_mu(a) = Phi(Phi^-1(1 - a) - mu) (Dong, Roth, Su 2022, arXiv:1905.02383)."""
    return lambda alpha: float(special.ndtr(special.ndtri(1.0 - alpha) - mu))


def guesses_mu_lower(canaries: int, guesses: int, correct: int, significance: float) -> float:
    """Return a lower bound on the mu of Gaussian DP, which is the largest mu that the guesses refute, or 0 if they refute none."""

    def excess(mu: float) -> float:
        return curve_excess(canaries, guesses, correct, gaussian_curve(mu), significance)

    low, high = 0.0, 0.25  # first bracket; the next one follows as long as the upper end is refuted
    if guesses == 0 or excess(low) <= 0.0:
        return 0.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST_MU:
            return low
    lower_end, _ = bracket_root(excess, low, high, MU_PRECISION)  # the guesses refute the lower end of the bracket
    return lower_end


def guesses_gaussian_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """Return the epsilon at `delta` for the largest mu of Gaussian DP that the guesses refute. Raises InputError unless delta > 0."""
    return _gaussian_epsilon(guesses_mu_lower(canaries, guesses, correct, significance), delta)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at `delta` of a Gaussian mechanism with this mu.

    This is a bound on the epsilon of a program only if the program's trade-off curve is the curve of a Gaussian mechanism.

    Raises:
        InputError: Delta is not positive.
    """
    if delta <= 0.0:
        raise InputError(f"expected a delta > 0, because the epsilon of Gaussian noise is infinite at delta = 0, found {delta!r}")
    if mu <= 0.0:
        return 0.0
    lower, _upper = gaussian_epsilon(mu, delta)
    return lower


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one membership test.

    Attributes:
        members: Number of runs with the record.
        others: Number of runs without the record.
        true_positives: Number of runs with the record for which the test says "in".
        false_positives: Number of runs without the record for which the test says "in".
    """

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
        """Return the counts that a test with the same rates would have on other numbers of runs.

        They are rounded against the test: true positives down, and false positives up.
        """
        false_positives = -(-self.false_positives * others // self.others)
        return Counts(members, others, self.true_positives * members // self.members, false_positives)


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Upper bounds on both error rates of one test. They hold jointly at the stated confidence."""

    false_positive: float
    false_negative: float


def error_rates(counts: Counts, significance: float) -> ErrorRates:
    """Return Clopper-Pearson upper bounds on both error rates, each at half of the significance."""
    positive = float(rate_upper(counts.false_positives, counts.others, 0.5 * significance))
    negative = float(rate_upper(counts.members - counts.true_positives, counts.members, 0.5 * significance))
    return ErrorRates(positive, negative)


def rates_epsilon_lower(rates: ErrorRates, delta: float) -> float:
    """Return a lower bound on epsilon in nats at `delta`, which is the largest epsilon that the error rates refute, or 0 if there is none.

    Under (epsilon, delta)-DP every test has 1 - fnr <= e^eps fpr + delta, and this also holds with the rates exchanged (Wasserman & Zhou
    2010, arXiv:0811.2501, Theorem 2.4). The bounds on the rates hold jointly, so the lower bounds for all delta hold together.
    """
    positive, negative = rates.false_positive, rates.false_negative
    return max(_one_sided_epsilon(positive, negative, delta), _one_sided_epsilon(negative, positive, delta))


def _one_sided_epsilon(false_positive: float, false_negative: float, delta: float) -> float:
    """Return log((1 - false_negative - delta) / false_positive), rounded down, or 0 if this is negative."""
    gain = 1.0 - false_negative - delta
    return max(0.0, math.log(gain / false_positive) - ROUNDING) if gain > 0.0 else 0.0


def rates_mu_lower(rates: ErrorRates) -> float:
    """Return a lower bound on the mu of Gaussian DP, which is the largest mu that the error rates refute, or 0 if they refute none."""
    mu = -special.ndtri(rates.false_positive) - special.ndtri(rates.false_negative)
    return max(0.0, float(mu) * (1.0 - ROUNDING))


def rates_gaussian_epsilon_lower(rates: ErrorRates, delta: float) -> float:
    """Return the epsilon at `delta` for the largest mu of Gaussian DP that the rates refute. Raises InputError unless delta > 0."""
    return _gaussian_epsilon(rates_mu_lower(rates), delta)
