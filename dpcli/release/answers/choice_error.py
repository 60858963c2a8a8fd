"""Error bounds of choices by noisy scores, known before any data are seen: for modes, top-k, quantiles and thresholds."""

from __future__ import annotations

import math

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import np
from dpcli.release.answers.noise_tails import FINE, OMITTED, blocks, require_resolvable
from dpcli.release.noise.laws import failure_of, smallest_whole
from dpcli.release.noise.selection import SparseVectorLaws


def slack(candidates: int, scale: float, failure: float) -> int:
    """Return the smallest whole t such that the chosen score is at most t below the best, except with this probability, for all scores.

    The odds of failure are those of all that are further below to those that are not, at most (m - 1) e^{-(t+1)/scale} to 1; that is
    attained by m - 1 scores at -(t + 1). So it is for the exponential mechanism; permute-and-flip is never worse (McKenna & Sheldon
    2020, arXiv:2010.12603).

    Args:
        candidates: m.
        scale: Score range / epsilon.
        failure: Probability, in (0, 1).
    """
    if not 0.0 < failure < 1.0:
        raise InputError(f"expected a probability of failure in (0, 1), found {failure!r}")
    if candidates < 2:
        return 0
    t = max(0, math.ceil(scale * (math.log(candidates - 1) + math.log1p(-failure) - math.log(failure))) - 1)
    return smallest_whole(lambda each: probability_beyond(candidates, scale, each) <= failure, t)  # doubles may have t too small


def probability_beyond(candidates: int, scale: float, t: int) -> float:
    """Return an upper bound of the probability that the chosen score is more than t below the best, for all scores."""
    if candidates < 2:
        return 0.0
    log_odds = math.log(candidates - 1) - (t + 1) / scale
    odds = math.exp(min(log_odds, 700.0))
    return odds / (1.0 + odds) * (1.0 + 1e-14)


def peeling_slack(candidates: int, k: int, scale: float, failure: float) -> int:
    """Return t such that each of k choices by peeling is within t of the best one left, all at once except with this probability."""
    return slack(candidates, scale, failure / k)


def threshold_slack(laws: SparseVectorLaws, queries: int, confidence: float) -> int:
    """Return the smallest whole a such that counts said to reach the threshold are at least threshold - a, others below threshold + a.

    This holds for all counts at once with at least the confidence, before any data are seen. Given the noise b of the threshold, a count
    fails where its own noise is above a + b or below b - a: for each query the likelier of the two is counted, added over the queries and
    summed over b. Where the noise of the threshold is wide, b is the furthest of its block: a is at most about 1 % larger than need be.
    """
    failure = failure_of(confidence)
    require_resolvable(failure)
    lowest, mass, width = blocks(laws.threshold, FINE)
    furthest = np.maximum(np.abs(lowest), np.abs(lowest + (width - 1.0)))

    def holds(a: int) -> bool:
        each = np.minimum(queries * laws.query.at_least(a + 1.0 - furthest), 1.0)
        return float(mass @ each) + OMITTED <= failure

    return smallest_whole(holds)
