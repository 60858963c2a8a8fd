"""Probabilities of private choices by enumeration, and statistical tests of draws and of confidence intervals."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from scipy import stats

from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw

Table = dict[Hashable, float]


def softmax(scores: Sequence[int], scale: float) -> list[float]:
    best = max(scores)
    weights = [math.exp((score - best) / scale) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def peeled(scores: Sequence[int], k: int, scale: float) -> Table:
    """Return the probability of each sequence of k choices, each by softmax among the candidates that are left."""
    table: Table = {}
    for order in itertools.permutations(range(len(scores)), k):
        p, left = 1.0, list(range(len(scores)))
        for chosen in order:
            p *= softmax([scores[i] for i in left], scale)[left.index(chosen)]
            left.remove(chosen)
        table[order] = p
    return table


def flipped(scores: Sequence[int], scale: float) -> Table:
    """Return the probability of each choice by permute-and-flip, averaged over all orders of the candidates."""
    best, table = max(scores), dict.fromkeys(range(len(scores)), 0.0)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0 / len(orders)
        for i in order:
            take = math.exp((scores[i] - best) / scale)
            table[i] += reached * take
            reached *= 1.0 - take
    return dict(table)


def sparse(counts: Sequence[int], threshold: int, bar: DiscreteLaplaceLaw, query: DiscreteLaplaceLaw, answers: int) -> Table:
    """Return the probability of each sequence of answers of above-threshold, by a sum over the noise of the threshold."""
    reach = np.arange(-int(45 * bar.scale) - 5, int(45 * bar.scale) + 6)
    weight = np.exp(-np.abs(reach) / bar.scale)
    weight /= weight.sum()
    table: Table = {}
    for said in itertools.product((False, True), repeat=len(counts)):
        end = next((i + 1 for i in range(len(said)) if sum(said[: i + 1]) == answers), len(said))
        if any(said[end:]):
            continue
        p = weight
        for count, yes in zip(counts, said[:end], strict=False):
            above = query.at_least(threshold + reach - float(count))
            p = p * (above if yes else 1.0 - above)
        table[said[:end]] = float(p.sum())
    return table


def chi_square(draws: Sequence[Hashable], table: Mapping[Hashable, float]) -> float:
    """Return the p-value of the draws. Outcomes that are expected less than five times are one cell. It is 0 for an impossible outcome."""
    seen, count = Counter(draws), len(draws)
    if any(table.get(outcome, 0.0) == 0.0 for outcome in seen):
        return 0.0
    cells: dict[Hashable, list[float]] = {}
    for outcome, p in table.items():
        cell = cells.setdefault(outcome if p * count >= 5.0 else "rare", [0.0, 0.0])
        cell[0] += seen[outcome]
        cell[1] += p * count
    statistic = sum((observed - expected) ** 2 / expected for observed, expected in cells.values() if expected > 0.0)
    return float(stats.chi2.sf(statistic, max(len(cells) - 1, 1)))


def loss(p: Mapping[Hashable, float], q: Mapping[Hashable, float]) -> float:
    """Return the largest log(p / q) over all outcomes."""
    return max(math.log(p[outcome] / q[outcome]) for outcome in p.keys() | q.keys())


SURE = 1e-9  # probability with which a test of a correct interval may fail
MANY = 10_000  # repetitions from which on the rate of hits must also be within 1 % of the confidence


def covered(hits: Sequence[object], confidence: float, wider: float = 0.0) -> None:
    """Assert that the rate of hits of an interval agrees with its confidence. A correct interval may exceed it by `wider`."""
    count, hit_count = len(hits), sum(map(bool, hits))
    law = stats.binom(count, confidence)
    assert law.cdf(hit_count) > SURE
    assert stats.binom.sf(hit_count - 1, count, min(confidence + 0.005 + wider, 1.0)) > SURE  # half a percent for the lattice
    if count >= MANY:
        assert confidence - 0.01 <= hit_count / count <= confidence + 0.01 + wider


SCALES = (0.3, 1.0, 7.7, 1000.25, 123456789.5)
LAWS: tuple[Callable[[float], NoiseLaw], ...] = (DiscreteLaplaceLaw, DiscreteGaussianLaw)


def p_value(draws: Sequence[int], law: NoiseLaw, cells: int = 40) -> float:
    """Return the p-value of the draws under a law, by a chi-square test whose cells expect at least five draws each."""
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
