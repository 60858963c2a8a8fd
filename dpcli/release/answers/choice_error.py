"""Error bounds for choices by noisy scores: modes, top-k, quantiles and thresholds. The bounds do not depend on data.

The measures call it for their expected errors. A *score* is a whole number that says how good a candidate is, such as the count of a value;
a mechanism chooses with noise. The *slack* is how far the chosen score may be below the best one, except with a stated probability of
*failure*. *Peeling* is k choices in turn, each among the remaining candidates. The *sparse vector technique* says which counts reach a
threshold. Bounds are rounded up: accuracy is at least as good as stated. Privacy does not depend on them.
"""

from __future__ import annotations

import math

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import np
from dpcli.release.answers.noise_tails import FINE, OMITTED, blocks, require_resolvable
from dpcli.release.noise.laws import failure_of, smallest_whole
from dpcli.release.noise.selection import SparseVectorLaws

# e^x is a finite double up to this x. Larger logarithms of odds are reduced to it, because odds / (1 + odds) is rounded to 1 in both cases.
LARGEST_EXPONENT = 700.0
ROUNDED_UP = 1.0 + 1e-14  # factor that exceeds the rounding errors of the few operations before it


def slack(candidates: int, scale: float, failure: float) -> int:
    """Return the smallest integer t such that the chosen score is at most t below the best score, except with probability `failure`.

    The bound holds for all scores. Proof for the exponential mechanism with m candidates: The odds that the chosen score is more than t
    below the best one are at most (m - 1) e^{-(t+1)/scale} to 1. The odds are equal to this if m - 1 scores are t + 1 below the best one.
    Permute-and-flip is never worse (McKenna & Sheldon 2020, arXiv:2010.12603).

    candidates: number m of candidates.
    scale: score range / epsilon, where the *score range* is the largest change of the difference of two scores by one unit.

    Raises InputError if the probability is out of range.
    """
    if not 0.0 < failure < 1.0:
        raise InputError(f"expected a probability of failure in (0, 1), found {failure!r}")
    if candidates < 2:  # the only candidate is the best one
        return 0
    log_odds = math.log1p(-failure) - math.log(failure)
    # The formula solved for t. Rounding may make it too small, so the search begins there.
    start = max(0, math.ceil(scale * (math.log(candidates - 1) + log_odds)) - 1)
    return smallest_whole(lambda t: probability_beyond(candidates, scale, t) <= failure, start)


def probability_beyond(candidates: int, scale: float, t: int) -> float:
    """Return an upper bound, valid for all scores, on the probability that the chosen score is more than t below the best score."""
    if candidates < 2:
        return 0.0
    log_odds = math.log(candidates - 1) - (t + 1) / scale
    odds = math.exp(min(log_odds, LARGEST_EXPONENT))
    return odds / (1.0 + odds) * ROUNDED_UP


def peeling_slack(candidates: int, k: int, scale: float, failure: float) -> int:
    """Return t such that, except with probability `failure`, each of k choices by peeling is within t of the best remaining score.

    It is a union bound over the choices. Raises InputError if the probability is out of range.
    """
    return slack(candidates, scale, failure / k)


def threshold_slack(laws: SparseVectorLaws, queries: int, confidence: float) -> int:
    """Return an integer a that bounds the error of all answers of the sparse vector technique.

    laws: the noise of the threshold, which is drawn once, and the noise of each count.
    queries: number of counts that are compared with the threshold.

    With at least the stated confidence, every count that is reported to reach the threshold is at least threshold - a, and every other
    count is below threshold + a. The bound does not depend on data. Given the noise b of the threshold, the answer for a count fails if
    the noise of the count is above a + b or below b - a. A union bound adds, over the queries, the larger of these two probabilities, and
    averages the sum over b. If the noise of the threshold is wide, its numbers are divided into blocks, in which b is replaced by the
    number that is furthest from 0. The result is then about 1 % larger than necessary at most.

    Raises InputError if the confidence is not in (0, 1), or too close to 1.
    """
    failure = failure_of(confidence)
    require_resolvable(failure)
    lowest, mass, width = blocks(laws.threshold, FINE)  # FINE: blocks per scale of the noise
    furthest = np.maximum(np.abs(lowest), np.abs(lowest + (width - 1.0)))  # largest absolute value in each block

    def is_certified(distance: int) -> bool:
        failures = np.minimum(queries * laws.query.at_least(distance + 1.0 - furthest), 1.0)
        return float(mass @ failures) + OMITTED <= failure  # OMITTED bounds the probability that b is outside the blocks

    return smallest_whole(is_certified)
