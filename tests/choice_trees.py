"""An independent enumeration of adaptive exponential mechanisms, and the height of the curve that must cover them.

The exponential mechanism selects a candidate with probability proportional to e^(epsilon score / 2). After each answer, an adaptive analyst
may choose the scores of the next mechanism, which makes a *tree* of answers. `ChoiceCurve` (dpcli/numerics/grid) claims an upper bound on
the hockey-stick curves of all such trees; tests compare it with random trees.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
from numpy.typing import NDArray

from dpcli.numerics.grid.choice_curve import ChoiceCurve

Array = NDArray[np.float64]


def tree(random: Random, epsilon: float, depth: int, candidates: int) -> tuple[Array, Array]:
    """Return the probabilities of all sequences of `depth` answers on two neighbouring datasets, for a random tree.

    The scores of each candidate differ by 1 between the datasets, up or down.
    """
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
    """Return lower and upper bounds on the height of a curve at x >= 0: at the next point, and on the chord between two points."""
    k = min(int(x / curve.spacing), len(curve.upper) - 2)
    left, right = math.exp(k * curve.spacing), math.exp((k + 1) * curve.spacing)
    share = (math.exp(x) - left) / (right - left)
    return float(curve.lower[k + 1]), float(curve.upper[k] * (1.0 - share) + curve.upper[k + 1] * share)
