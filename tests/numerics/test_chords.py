"""Pairs (P, Q) made from upper bounds on a hockey-stick curve (`symmetric_pair` of numerics/grid/hockey_stick.py): whatever the bounds look
like, P and Q have mass 1, and the pair's own curve lies above the true one and, but for rounding, below the bounds.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.numerics.arrays import Array
from dpcli.numerics.grid.hockey_stick import symmetric_pair
from dpcli.numerics.tails import log_deltas, single_log_delta


def heights(random: Random, x: Array) -> tuple[Array, Array]:
    """Return the curve of a random pair's worse direction, and bounds on it that are too large by some amount and at most 1."""
    p, q = (np.array([random.uniform(0.0, 1.0) ** 4 for _ in range(5)]) + 1e-3 for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    true = np.array([max(np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in ((p, q), (q, p))) for e in x])
    kind = random.choice(["none", "factor", "each"])
    over = {"none": 1.0, "factor": random.uniform(1.0, 30.0), "each": np.array([random.uniform(1.0, 3.0) for _ in x])}[kind]
    return true, np.minimum(true * over + random.choice([0.0, 1e-6]), 1.0)


@pytest.mark.parametrize("points", [1, 2, 7, 60])
def test_the_pair_lies_between_what_it_bounds_and_the_bounds(points: int) -> None:
    random = Random(f"{SEED}/{points}")
    for _ in range(40):
        x = random.choice([0.02, 0.2, 1.0]) * np.arange(points + 1)
        true, bounds = heights(random, x)
        pair = symmetric_pair(float(x[1]), bounds)
        infinite = math.exp(pair.log_infinite)
        for mass in (np.exp(pair.log_p).sum() + infinite, np.exp(pair.log_q).sum() + infinite):
            assert mass == pytest.approx(1.0, abs=1e-9), SEED
        found = np.exp(log_deltas(pair, x * (1.0 - 1e-12)))
        assert np.all(true <= found * (1.0 + 1e-9) + 1e-14), SEED
        assert np.all(found <= bounds * (1.0 + 1e-8) + 1e-11), SEED
        mirrored = np.exp(log_deltas(pair, -x[:0:-1]))[::-1]
        assert np.all(1.0 - np.exp(-x[1:]) + np.exp(-x[1:]) * true[1:] <= mirrored * (1.0 + 1e-9)), SEED


@pytest.mark.parametrize("infinite", [0.0, 1e-9, 0.3])
def test_losses_of_every_size_are_bounded_or_refused(infinite: float) -> None:
    """Bounds on randomised response that are too large by a factor, down to epsilons below the distance of 1 to its next number."""
    random, made = Random(f"{SEED}/{infinite}"), 0
    for _ in range(60):
        epsilon, points = 10.0 ** random.uniform(-18.0, 0.5), random.choice([3, 200, 2048])
        x = epsilon / points * np.arange(points + 1)
        true = infinite + (1.0 - infinite) * -np.expm1(x - epsilon) / (1.0 + math.exp(-epsilon))
        bounds = np.minimum(true * random.choice([1.0, 1.0 + 1e-3, 30.0]), 1.0)
        try:
            pair = symmetric_pair(float(x[1]), bounds)
        except NotRepresentable:
            assert infinite > 1e-7 * epsilon / points, (SEED, epsilon, points)
            continue
        made += 1
        rest = np.exp(pair.log_infinite)
        assert np.exp(pair.log_p).sum() + rest == pytest.approx(1.0, abs=1e-8), (SEED, epsilon, points)
        for i in random.sample(range(points), 3):
            above = pair.losses > x[i] * (1.0 + 1e-14)
            masses, losses = np.exp(pair.log_p[above]), pair.losses[above]
            found = rest - (masses * np.expm1(x[i] - losses)).sum()  # of terms >= 0: to its last digits
            assert true[i] * (1.0 - 1e-11) <= found <= bounds[i] * (1.0 + 1e-8), (SEED, epsilon, points, i)
    assert made > 5


def test_many_deltas_are_each_of_them() -> None:
    pair = symmetric_pair(0.1, np.geomspace(0.5, 1e-12, 30))
    x = np.array([-1.0, 0.0, 0.05, 0.3, 1.7, 2.8, 5.0])
    for one, many in zip(x.tolist(), log_deltas(pair, x).tolist(), strict=True):
        assert many == pytest.approx(single_log_delta(pair, one)[1], rel=1e-12)
