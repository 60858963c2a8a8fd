"""How far from the threshold a count must be for the answer to be trusted."""

from __future__ import annotations

from dpcli.numerics.arrays import np
from dpcli.release.noise.laws import half_width_beyond
from dpcli.release.noise.sparse import SparseVectorLaws


def threshold_slack(laws: SparseVectorLaws, queries: int, confidence: float) -> int:
    """The smallest whole a with: at once, all that are said to reach the threshold are at least threshold - a, all others below it + a.

    With at least the confidence, before any data are seen. Given the noise b of the threshold, a count fails where its own noise is above
    a + b or below b - a: for each query the likelier of the two is counted, added over the queries and summed over b.
    """
    failure = 1.0 - confidence
    reach = half_width_beyond(laws.threshold, 1e-3 * failure)
    noise = np.arange(-reach, reach + 1.0)
    mass = np.maximum(laws.threshold.at_least(noise) - laws.threshold.at_least(noise + 1.0), 0.0)

    def fails(a: int) -> bool:
        each = np.minimum(queries * laws.query.at_least(a + 1.0 - np.abs(noise)), 1.0)
        return float(mass @ each) + 1e-3 * failure > failure

    low, high = -1, 1
    while fails(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
