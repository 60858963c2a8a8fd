"""One pair that dominates several symmetric ones, each with finitely many outcomes.

With y = e^eps, H(y) = sup_S P(S) - y Q(S) is convex and falling in y, linear between the likelihood ratios of its outcomes. The largest of
several is convex; its chords between the ratios of all of them lie above it and are convex, so they are the H of a pair (Zhu, Dong,
Wang 2022, arXiv:2106.08567, Proposition 8 and Lemma 9), whose outcomes have these ratios and which dominates each and, so, any adaptive
choice among them (Theorem 10). Pairs that are their own mirror image, H(y) = 1 - y + y H(1/y), have a largest one that is: outcomes of
positive loss say all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.numerics.arrays import Array, np

ROUNDING = 1e-11
MOST_NODES = 1000  # ratios above 1 that the pair has: of more, chords leave some out, which is above them still: 1e-4 of an epsilon
LOG_LEAST = -650.0  # of a tail under P that is told apart; what is beyond counts at the largest loss of all


def largest_pair(unit: float, pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """log Q and log dP/dQ of the outcomes of a pair above all of `pairs`, by at most 1e-11 in H(y) at common ratios while these are few.

    Args:
        unit: of the losses, nats.
        pairs: for each the losses of its outcomes in units, whole numbers, increasing and as many above 0 as below, and their log masses
            under P.

    What the masses lack of 1 is an outcome of loss 0.
    """
    nodes = np.unique(np.concatenate([[0], *(losses[losses > 0] for losses, _ in pairs)]))
    tails = np.max([_log_tail(nodes, losses, log_p) for losses, log_p in pairs], axis=0)
    last = max(int(np.searchsorted(-tails, -LOG_LEAST)) - 1, 0)
    kept, log_beyond = nodes[: last + 1], float(tails[last])
    steps = np.diff(kept) * unit
    fades, falls = np.exp(-steps).tolist(), (-np.expm1(-steps)).tolist()
    target = np.max([_curve(kept, losses, log_p, fades, falls) for losses, log_p in pairs], axis=0) * (1.0 + ROUNDING)
    some = np.append(np.arange(0, last, math.ceil(len(kept) / MOST_NODES)), last)
    kept, target = kept[some], target[some]
    steps = np.diff(kept) * unit
    fades, falls = np.exp(-steps).tolist(), (-np.expm1(-steps)).tolist()
    gap = float(nodes[-1] - kept[-1]) * unit
    beyond = math.exp(log_beyond) / -math.expm1(-gap) * (1.0 + 1e-9) if gap > 0.0 and log_beyond > -math.inf else 0.0
    mass = np.append(_masses(target.tolist(), fades, falls, beyond, gap), beyond)
    losses = np.append(kept[1:], nodes[-1]) * unit
    losses, log_p = losses[mass > 0.0], np.log(mass[mass > 0.0])
    return np.concatenate(((log_p)[::-1], log_p - losses)), np.concatenate((-losses[::-1], losses))


def _log_tail(nodes: Array, losses: Array, log_p: Array) -> Array:
    """log P(L > node)."""
    above = np.append(np.logaddexp.accumulate(log_p[::-1])[::-1], -np.inf)
    return np.asarray(above[np.searchsorted(losses, nodes, side="right")])


def _curve(nodes: Array, losses: Array, log_p: Array, fades: list[float], falls: list[float]) -> list[float]:
    """H at each node, from above: sums of terms that are not negative, from the last node down."""
    beyond = math.exp(float(_log_tail(nodes[-1:], losses, log_p)[0]))
    mass = np.zeros(len(nodes))
    inside = (losses >= nodes[0]) & (losses <= nodes[-1])
    mass[np.searchsorted(nodes, losses[inside])] = np.exp(log_p[inside])
    found, weight = [beyond], beyond
    for i in range(len(nodes) - 2, -1, -1):
        weight += float(mass[i + 1])  # the next node's ratio times Q beyond this one
        found.append(found[-1] + weight * falls[i])
        weight *= fades[i]
    return found[::-1]


def _masses(target: list[float], fades: list[float], falls: list[float], beyond: float, gap: float) -> list[float]:
    """P at every node but the first: the least that lifts H to `target`, from the last node down."""
    found: list[float] = []
    height, weight = beyond * -math.expm1(-gap), beyond * math.exp(-gap)
    for i in range(len(target) - 2, -1, -1):
        mass = max((target[i] - height) / falls[i] - weight, 0.0)
        found.append(mass)
        weight += mass
        height += weight * falls[i]
        weight *= fades[i]
    return found[::-1]
