"""Worst hockey-stick curves (numerics/grid/choice_curve.py), and pairs made from curves (numerics/grid/hockey_stick.py).

`choice_curve`: the worst curve of choices of bounded range, each made from the answers before it, against enumerated trees of choices,
closed forms for one and two choices, and the recursion itself. `symmetric_pair`: a pair from upper bounds on a curve. Whatever the bounds
look like, its masses add up to 1, and its own curve lies above the true one and, but for rounding, below the bounds.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from scipy import optimize, stats

from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.numerics.arrays import Array
from dpcli.numerics.grid.choice_curve import _one_more, choice_curve
from dpcli.numerics.grid.hockey_stick import symmetric_pair
from dpcli.numerics.tails import log_deltas, single_log_delta
from tests.choice_trees import height, tree

RANGES = (0.05, 0.4, 1.0, 3.0, 6.0)


@pytest.mark.parametrize("epsilon", [*RANGES, 15.0])
def test_no_tree_of_choices_does_worse(epsilon: float) -> None:
    random = Random(f"{SEED}/{epsilon}")
    for depth, candidates in ((1, 4), (2, 3), (3, 2), (5, 2)):
        curve = choice_curve(epsilon, depth, 32)
        for _ in range(30):
            p, q = tree(random, epsilon, depth, candidates)
            for x in (0.0, 0.3 * epsilon, epsilon, 0.8 * depth * epsilon):
                found = float(np.maximum(p - math.exp(x) * q, 0.0).sum())
                assert found <= height(curve, x)[1] * (1.0 + 1e-12) + 1e-15, (SEED, epsilon, depth, x)


@pytest.mark.parametrize("epsilon", RANGES)
def test_one_choice_has_its_closed_form(epsilon: float) -> None:
    curve = choice_curve(epsilon, 1, 40)
    x = np.minimum(curve.spacing * np.arange(41), epsilon)  # the last one is epsilon, rounded
    exact = (math.exp(0.5 * epsilon) - np.exp(0.5 * x)) ** 2 / math.expm1(epsilon)
    assert np.all(curve.upper >= exact * (1.0 - 1e-13) - 1e-30) and np.all(curve.lower <= exact)
    assert np.all(curve.upper <= exact * (1.0 + 1e-8) + 1e-15)


def worst_of_two(epsilon: float, x: float) -> float:
    """Return the supremum over w of the chord of the closed form, by a search over all w."""

    def one(s: float) -> float:
        inside = (math.exp(0.5 * epsilon) - math.sqrt(s)) ** 2 / math.expm1(epsilon)
        return 1.0 - s if s <= math.exp(-epsilon) else inside if s < math.exp(epsilon) else 0.0

    def chord(t: float) -> float:
        w = math.exp(x - t)
        share = math.expm1(t) / math.expm1(epsilon)
        return -((1.0 - share) * one(w) + share * one(w * math.exp(epsilon)))

    start = min(np.linspace(0.0, epsilon, 400).tolist(), key=chord)
    step = epsilon / 400
    found = optimize.minimize_scalar(chord, bounds=(max(start - step, 0.0), min(start + step, epsilon)), options={"xatol": 1e-12})
    return -float(min(found.fun, chord(start)))


@pytest.mark.parametrize("epsilon", RANGES)
def test_two_choices_are_the_worst_two(epsilon: float) -> None:
    curve = choice_curve(epsilon, 2, 256)
    for k in range(0, 512, 37):
        exact = worst_of_two(epsilon, k * curve.spacing)
        assert curve.lower[k] <= exact * (1.0 + 1e-9) + 1e-15
        assert exact * (1.0 - 1e-9) - 1e-15 <= curve.upper[k] <= exact * (1.0 + 2e-3 * max(epsilon, 1.0)) + 1e-7


def fixed(epsilon: float, count: int, t: float, x: float) -> float:
    """Return delta at x of `count` choices that all have losses t and t - epsilon."""
    high = math.expm1(epsilon - t) / (math.expm1(epsilon) * math.exp(-t))
    k = np.arange(count + 1)
    losses = k * t + (count - k) * (t - epsilon)
    return float((stats.binom.pmf(k, count, high) * -np.expm1(np.minimum(x - losses, 0.0))).sum())


@pytest.mark.parametrize(("epsilon", "count", "x"), [(1.0, 10, 7.0), (0.1, 10, 0.6), (1.0, 40, 20.0), (3.0, 6, 12.0)])
def test_choices_from_earlier_answers_are_worse_than_any_fixed_ones(epsilon: float, count: int, x: float) -> None:
    """A curve for choices that are fixed in advance would be below the lower bound here."""
    curve = choice_curve(epsilon, count, 96)
    k = round(x / curve.spacing)
    worst = max(fixed(epsilon, count, t, k * curve.spacing) for t in np.linspace(0.0, epsilon, 201)[1:-1])
    assert worst < curve.lower[k] < curve.upper[k] < curve.lower[k] * 1.1


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 4.0])
def test_bounds_close_as_the_grid_gets_finer(epsilon: float) -> None:
    coarse, fine = choice_curve(epsilon, 12, 32), choice_curve(epsilon, 12, 64)
    same = slice(0, 12 * 16)
    assert np.all(coarse.lower[same] <= fine.upper[::2][same]) and np.all(fine.lower[::2][same] <= coarse.upper[same])
    wide = coarse.upper[same] / coarse.lower[same] - 1.0
    narrow = fine.upper[::2][same] / fine.lower[::2][same] - 1.0
    assert np.median(narrow / wide) < 0.4  # of second order: a quarter


@pytest.mark.parametrize("epsilon", RANGES)
def test_the_pair_of_a_curve_is_not_below_it(epsilon: float) -> None:
    curve = choice_curve(epsilon, 7, 24)
    pair = symmetric_pair(curve.spacing, curve.upper)
    q = np.exp(pair.log_q)
    assert abs(np.exp(pair.log_p).sum() - 1.0) < 1e-12 and abs(q.sum() - 1.0) < 1e-12
    assert np.allclose(np.exp(pair.log_p)[::-1], q, rtol=1e-9)
    for k in range(0, 7 * 24 - 1, 5):
        x = k * curve.spacing
        low, high = (math.exp(value) for value in single_log_delta(pair, x * (1.0 + 1e-14)))
        assert curve.lower[k] <= high and low <= curve.upper[k] * (1.0 + 2e-9) + 1e-300
        mirrored = 1.0 - math.exp(-x) + math.exp(-x) * low
        assert single_log_delta(pair, -x)[1] >= math.log(mirrored) - 1e-8


@pytest.mark.parametrize("larger", [10, 16, 40])
def test_choices_of_two_ranges_in_turn_are_no_worse_than_the_pairs_of_each(larger: int) -> None:
    """Each chosen from the outputs of all before it, of either range: a lower bound on the worst such tree, in several orders."""
    smaller, spacing = 8, 1.0 / 8
    pairs = [symmetric_pair(spacing, choice_curve(spacing * m, 2, m).upper) for m in (smaller, larger)]
    losses = np.add.outer(pairs[0].losses, pairs[1].losses).ravel()
    masses = np.exp(np.add.outer(pairs[0].log_p, pairs[1].log_p)).ravel()
    for order in ((0, 1, 0, 1), (1, 0, 1, 0), (0, 1, 1, 0), (1, 0, 0, 1)):
        upper = lower = np.zeros(1)
        for which in order:
            m = (smaller, larger)[which]
            upper, lower = _one_more(upper, lower, spacing * m, m)
        product = [float(masses @ -np.expm1(np.minimum(spacing * k - losses, 0.0))) for k in range(len(lower))]
        assert np.all(lower <= np.array(product) * (1.0 + 1e-6)), order
        assert lower[0] > 0.9 * product[0], order


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
