"""One run with many canaries: how many of the guesses about who was in it an (epsilon, delta) guarantee allows to be right."""

from __future__ import annotations

import math

from dpcli.audit.binomial import ROUNDING, tail
from dpcli.base.errors import InputError
from dpcli.numerics.arrays import np
from dpcli.numerics.roots import bracket_root

AT_ONCE = 4096  # terms of the search for alpha
LARGEST = 64.0  # nats; e^64 is refuted by no number of canaries that fits a computer
SOURCE = "Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (the theorem for approximate DP)"


def checked_guesses(canaries: int, guesses: int, correct: int) -> None:
    """Raise InputError unless 0 <= correct <= guesses <= canaries and there is a canary."""
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise InputError(
            "expected counts with correct <= guesses <= canaries and at least one canary, "
            f"found correct = {correct}, guesses = {guesses}, canaries = {canaries}"
        )


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """How likely so many correct guesses are, at most, under (epsilon, delta)-DP.

    Args:
        canaries: m, each in the run or not by the toss of a fair coin, independently.
        guesses: r, fixed before the run; the other canaries are not guessed about.
        correct: v of the guesses that are right.
        epsilon: nats, >= 0. delta: in [0, 1).

    Returns:
        min(1, beta + 2 m delta alpha), an upper bound, with beta = P(W >= v), alpha = max_i P(v > W >= v - i) / i for
        W ~ Binomial(r, e^eps / (1 + e^eps)).

    Raises:
        InputError: counts that contradict each other.

    Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (the theorem for approximate DP).
    """
    checked_guesses(canaries, guesses, correct)
    rate = 1.0 / (1.0 + math.exp(-epsilon))
    beta = float(tail(guesses, rate, np.array([float(correct)]))[0])
    excess = 2.0 * canaries * delta * _alpha(guesses, rate, correct, beta) if delta > 0.0 else 0.0
    return min(1.0, (beta + excess) * (1.0 + ROUNDING))


def _alpha(guesses: int, rate: float, correct: int, beta: float) -> float:
    """max_i (P(W >= v - i) - P(W >= v)) / i; the terms are at most 1 / i, so that far ones need not be looked at."""
    best, start = 0.0, 1
    while start <= correct and best * start < 1.0:
        i = np.arange(start, min(start + AT_ONCE, correct + 1), dtype=float)
        best = max(best, float(((tail(guesses, rate, correct - i) - beta) / i).max()))
        start += AT_ONCE
    return best


def epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """The largest epsilon that the guesses refute at `delta`, from below.

    Args:
        canaries, guesses, correct: as for `p_value`.
        delta: of the guarantee that is tested. significance: chance of refuting a true one, in (0, 1).

    Returns:
        A lower bound on epsilon (nats), at most 1e-9 below the root of p_value = significance; 0 where nothing is refuted. It is a bound
        even if p_value were not monotone: the value returned is refuted itself, and with it every smaller one.
    """

    def margin(epsilon: float) -> float:
        return significance - p_value(canaries, guesses, correct, epsilon, delta)

    if margin(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while margin(high) > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST:
            return low
    return bracket_root(margin, low, high, 1e-10)[0]
