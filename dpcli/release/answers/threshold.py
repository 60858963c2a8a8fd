"""How far from the threshold a count must be for the answer to be trusted."""

from __future__ import annotations

from dpcli.numerics.arrays import np
from dpcli.release.answers.combination import FINE, OMITTED, blocks, check_told
from dpcli.release.noise.laws import failure_of
from dpcli.release.noise.sparse import SparseVectorLaws


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

    def fails(a: int) -> bool:
        each = np.minimum(queries * laws.query.at_least(a + 1.0 - furthest), 1.0)
        return float(mass @ each) + OMITTED > failure

    low, high = -1, 1
    while fails(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
