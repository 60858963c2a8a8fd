"""Whether draws come from a law: chi-square over cells of about equal mass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw

SCALES = (0.3, 1.0, 7.7, 1000.25, 123456789.5)
LAWS: tuple[Callable[[float], NoiseLaw], ...] = (DiscreteLaplaceLaw, DiscreteGaussianLaw)


def p_value(draws: Sequence[int], law: NoiseLaw, cells: int = 40) -> float:
    """Of the draws under the law. Edges are the law's own: whole numbers, every cell expecting at least five draws."""
    count = len(draws)
    reach = 60.0 * max(law.spread, 1.0)
    grid = np.unique(np.round(np.linspace(-reach, reach, 200_001)))
    above = law.at_least(grid)  # decreasing
    edges, wanted = [], 1.0 - max(1.0 / cells, 5.0 / count)
    for x, tail in zip(grid, above, strict=True):
        if tail <= wanted and tail * count >= 5.0:
            edges.append(x)
            wanted = tail - max(1.0 / cells, 5.0 / count)
    tails = np.concatenate(([1.0], law.at_least(np.array(edges)), [0.0]))
    expected = -np.diff(tails) * count
    observed = np.histogram(np.array(draws, dtype=float), bins=[-np.inf, *(edge - 0.5 for edge in edges), np.inf])[0]
    keep = expected > 1.0
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(statistic, max(keep.sum() - 1, 1)))
