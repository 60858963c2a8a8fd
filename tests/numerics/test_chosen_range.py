"""The worst curve of choices of bounded range, each made from the answers before it (`choice_curve` of numerics/grid/hockey_stick.py):
against enumerated trees of choices, closed forms for one and two choices, and the recursion itself.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from scipy import optimize, stats

from dpcli.exam.subjects import SEED
from dpcli.numerics.grid.hockey_stick import _one_more, choice_curve, symmetric_pair
from dpcli.numerics.tails import single_log_delta
from tests.choices import height, tree

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
    """sup over w of the chord of the closed form, by a search over all of it."""

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
    """delta at x of `count` choices that all have losses t and t - epsilon."""
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
