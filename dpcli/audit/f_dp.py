"""One run against a whole trade-off curve: tighter than against one (epsilon, delta) pair, at the same number of canaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.audit.one_run import checked_guesses
from dpcli.base.errors import InputError
from dpcli.base.lazy import lazy
from dpcli.numerics.closed.normal import gaussian_epsilon
from dpcli.numerics.roots import bracket_root

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

TradeOff = Callable[[float], float]  # false positive rate -> lowest false negative rate, from below

LARGEST_MU = 64.0
MARGIN = 1e-9  # relative, for the rounding of up to a million sums
SOURCE = "Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235"


def excess(canaries: int, guesses: int, correct: int, curve: TradeOff, significance: float) -> float:
    """By how much so many correct guesses contradict a trade-off curve; above 0: refuted at `significance`.

    Args:
        canaries, guesses, correct: as for the one-run bound: fair coins, guesses fixed before the run.
        curve: the symmetric trade-off function of the guarantee, from below.
        significance: chance of refuting a true one.

    Returns:
        r + h - guesses / canaries. If `correct` or more were right with probability `significance`, at least r of the mass would be right
        answers and h wrong ones in the run's worst part, growing with each number of right answers that the curve forces to be likely
        too; more than all there is refutes it.

    Source: Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235 (the recursion over the number of correct guesses, with abstention).
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
    """G_mu(a) = Phi(Phi^-1(1 - a) - mu) (Dong, Roth, Su 2022, arXiv:1905.02383)."""
    return lambda alpha: float(special.ndtr(special.ndtri(1.0 - alpha) - mu))


def mu_lower(canaries: int, guesses: int, correct: int, significance: float) -> float:
    """The largest mu such that the guesses refute mu-Gaussian DP: a lower bound, at least 0."""

    def left(mu: float) -> float:
        return excess(canaries, guesses, correct, gaussian_curve(mu), significance)

    low, high = 0.0, 0.25
    if guesses == 0 or left(low) <= 0.0:
        return 0.0
    while left(high) > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST_MU:
            return low
    return bracket_root(left, low, high, 1e-7)[0]


def gaussian_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, significance: float) -> float:
    """The epsilon at `delta` > 0 of a Gaussian with that mu; a bound on the program only if its trade-off curve is a Gaussian's."""
    if delta <= 0.0:
        raise InputError(f"expected a delta > 0 for a Gaussian's epsilon, which is infinite without, found {delta!r}")
    mu = mu_lower(canaries, guesses, correct, significance)
    return gaussian_epsilon(mu, delta)[0] if mu > 0.0 else 0.0
