"""How unlikely it is that noise changes what the votes say: upper bounds on probabilities, as logarithms.

A count is an integer and a gap between two counts at most the number of teachers, so that a table of that length holds every tail.
Source: Papernot et al. 2018, arXiv:1802.08908, Proposition 7; Papernot et al. 2017, arXiv:1610.05755, Lemma 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_ndtr_array, log_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
else:
    Counts = Any

FARTHEST = 1e300  # scales of noise between two counts, beyond which nothing changes
ROUNDING = 4e-15  # of a logarithm: more than the sum of a few hundred tails loses


def log_q_gaussian(counts: Counts, sigma: float) -> Array:
    """log of an upper bound on the probability that another label than the winner comes out of GNMax, shape (n,).

    Args:
        counts: (n, m) votes for each of m >= 2 labels.
        sigma: standard deviation of the noise on each count, in votes.
    """
    return _union(counts, lambda gaps: log_ndtr_array(gaps * (-1.0 / (math.sqrt(2.0) * sigma))))


def log_q_laplace(counts: Counts, scale: float) -> Array:
    """The same of LNMax: a label that lies g scales behind wins with probability (2 + g) e^-g / 4."""
    return _union(counts, lambda gaps: _log_laplace_tail(gaps, scale))


def _log_laplace_tail(gaps: Array, scale: float) -> Array:
    with np.errstate(over="ignore"):
        distance = np.minimum(gaps / scale, FARTHEST)
    return np.asarray(np.log(0.5 + 0.25 * distance) - distance)


def _union(counts: Counts, log_tail: Callable[[Array], Array]) -> Array:
    """log of the sum of the tails at the gaps behind the winner, at most log(1 - 1/m)."""
    ordered = np.sort(counts, axis=1)  # rows that differ in the order of labels alone have the same bits
    gaps = ordered[:, -1:] - ordered[:, :-1]
    most = int(gaps.max(initial=0))
    tails = log_tail(np.arange(most + 1.0))[gaps] if most < gaps.size else log_tail(gaps.astype(float))
    found = log_sum(tails)
    return np.asarray(np.minimum(found * (1.0 - ROUNDING) + ROUNDING, math.log1p(-1.0 / counts.shape[1])))


def log_answered(largest: Array, threshold: float, sigma: float) -> tuple[Array, Array]:
    """log of the probabilities that the largest count, with noise, reaches the threshold, and that it does not; each (n,).

    largest: (n,) whole votes, as the analysis of its sensitivity needs.
    """
    with np.errstate(over="ignore"):
        above = (largest - threshold) / sigma
    return _raised(log_ndtr_array(above)), _raised(log_ndtr_array(-above))


def _raised(log_p: Array) -> Array:
    """By more than it has lost; at most 0."""
    return np.asarray(np.minimum(log_p * (1.0 - ROUNDING) + ROUNDING, 0.0))
