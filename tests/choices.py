"""Trees of exponential mechanisms by enumeration, and the height of a curve that covers them."""

from __future__ import annotations

import math
from random import Random

import numpy as np
from numpy.typing import NDArray

from dpcli.numerics.grid.choice_curve import ChoiceCurve

Array = NDArray[np.float64]


def tree(random: Random, epsilon: float, depth: int, candidates: int) -> tuple[Array, Array]:
    """Both laws of `depth` exponential mechanisms in a row, each with scores of its own after each earlier answer."""
    scores = [random.choice([0.0, random.uniform(-3.0, 3.0) / epsilon, random.uniform(-9.0, 9.0)]) for _ in range(candidates)]
    moved = [score + random.choice([-1.0, 1.0]) for score in scores]
    laws = [np.exp(0.5 * epsilon * (np.array(values) - max(values))) for values in (scores, moved)]
    p, q = (law / law.sum() for law in laws)
    if depth == 1:
        return p, q
    below = [tree(random, epsilon, depth - 1, candidates) for _ in range(candidates)]
    return np.concatenate([a * b for a, (b, _) in zip(p, below, strict=True)]), np.concatenate(
        [a * b for a, (_, b) in zip(q, below, strict=True)]
    )


def height(curve: ChoiceCurve, x: float) -> tuple[float, float]:
    """(lower, upper) bounds on a curve's height at x >= 0: the next point's, and the chord's."""
    k = min(int(x / curve.spacing), len(curve.upper) - 2)
    left, right = math.exp(k * curve.spacing), math.exp((k + 1) * curve.spacing)
    share = (math.exp(x) - left) / (right - left)
    return float(curve.lower[k + 1]), float(curve.upper[k] * (1.0 - share) + curve.upper[k + 1] * share)
