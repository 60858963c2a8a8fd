"""Errors of choices by noisy scores, before any data are seen: of modes, the k best, quantiles by rank, and thresholds."""

from __future__ import annotations

import math

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import np
from dpcli.release.answers.noise_tails import FINE, OMITTED, blocks, check_told
from dpcli.release.noise.laws import failure_of, smallest_whole
from dpcli.release.noise.selection import SparseVectorLaws


def slack(candidates: int, scale: float, failure: float) -> int:
    """The smallest whole t such that the choice scores at most t below the best one but with this probability, whatever the scores are.

    The odds of failure are those of all that are further below to those that are not, at most (m - 1) e^{-(t+1)/scale} to 1; that is
    attained by m - 1 scores at -(t + 1). So it is for the exponential mechanism; permute-and-flip is never worse (McKenna & Sheldon
    2020, arXiv:2010.12603).

    Args:
        candidates: m.
        scale: score range / epsilon.
        failure: probability, in (0, 1).
    """
    if not 0.0 < failure < 1.0:
        raise InputError(f"expected a probability of failure in (0, 1), found {failure!r}")
    if candidates < 2:
        return 0
    t = max(0, math.ceil(scale * (math.log(candidates - 1) + math.log1p(-failure) - math.log(failure))) - 1)
    return smallest_whole(lambda each: probability_beyond(candidates, scale, each) <= failure, t)  # doubles may have t too small


def probability_beyond(candidates: int, scale: float, t: int) -> float:
    """An upper bound of the probability that the choice scores more than t below the best, whatever the scores are."""
    if candidates < 2:
        return 0.0
    log_odds = math.log(candidates - 1) - (t + 1) / scale
    odds = math.exp(min(log_odds, 700.0))
    return odds / (1.0 + odds) * (1.0 + 1e-14)


def slack_of_each(candidates: int, k: int, scale: float, failure: float) -> int:
    """Return the slack of k choices by peeling: each is within t of the best that was left then, all at once but with this probability."""
    return slack(candidates, scale, failure / k)


def threshold_slack(laws: SparseVectorLaws, queries: int, confidence: float) -> int:
    """The smallest whole a with: at once, all that are said to reach the threshold are at least threshold - a, all others below it + a.

    With at least the confidence, before any data are seen. Given the noise b of the threshold, a count fails where its own noise is above
    a + b or below b - a: for each query the likelier of the two is counted, added over the queries and summed over b.
    Where the noise of the threshold is wide, b is taken for the furthest of its block: a is at most about 1 % larger than need be.
    """
    failure = failure_of(confidence)
    check_told(failure)
    lowest, mass, width = blocks(laws.threshold, FINE)
    furthest = np.maximum(np.abs(lowest), np.abs(lowest + (width - 1.0)))

    def holds(a: int) -> bool:
        each = np.minimum(queries * laws.query.at_least(a + 1.0 - furthest), 1.0)
        return float(mass @ each) + OMITTED <= failure

    return smallest_whole(holds)
