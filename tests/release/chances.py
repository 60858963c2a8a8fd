"""The laws of choices, by their definitions, as tables of outcomes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from scipy import stats

from dpcli.release.noise.laws import DiscreteLaplaceLaw

Table = dict[Hashable, float]


def softmax(scores: Sequence[int], scale: float) -> list[float]:
    best = max(scores)
    weights = [math.exp((score - best) / scale) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def peeled(scores: Sequence[int], k: int, scale: float) -> Table:
    """k choices, each by softmax of what is left."""
    table: Table = {}
    for order in itertools.permutations(range(len(scores)), k):
        p, left = 1.0, list(range(len(scores)))
        for chosen in order:
            p *= softmax([scores[i] for i in left], scale)[left.index(chosen)]
            left.remove(chosen)
        table[order] = p
    return table


def flipped(scores: Sequence[int], scale: float) -> Table:
    """Permute-and-flip: over all orders of visiting."""
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
    """What above-threshold says, summed over the noise of its threshold."""
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
    """The p-value of the draws; outcomes that are expected less than five times are one cell. An impossible outcome: 0."""
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
    """max log p / q over the outcomes of both."""
    return max(math.log(p[outcome] / q[outcome]) for outcome in p.keys() | q.keys())
