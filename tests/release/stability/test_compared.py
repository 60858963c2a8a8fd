"""The comparison of ways to release a mode (stability/mode_comparison.py): against enumeration and the mechanisms' own code."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcli.base.lazy import load
from dpcli.base.registry import CHART_FORMATS, FORMATS
from dpcli.document.document import json_text
from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.release.cost import QueryCost
from dpcli.release.documents.stability import document
from dpcli.release.noise.laws import DiscreteLaplaceLaw
from dpcli.release.noise.samplers import noisy
from dpcli.release.noise.selection import count_range, exponential, permute_and_flip
from dpcli.release.noisy_answers import laplace_draw
from dpcli.release.stability.mode_comparison import (
    GUMBEL,
    HISTOGRAM,
    MECHANISMS,
    PERMUTED,
    PTR,
    STABILITY,
    ModeCase,
    compare_modes,
)
from dpcli.release.stability.propose_test import StabilityTest, released_mode
from dpcli.release.vectors import Contribution, least_threshold, sensitivity
from tests.cases import of_each, tiered
from tests.release.stability.enumeration import noise

ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
EPSILON, DELTA = 0.8, 1e-3


def counts(lead: ModeCase) -> dict[int, int]:
    return {i: lead.gap if i == 0 else 0 for i in range(lead.size)}


@of_each("adjacency", ADJACENCIES)
@of_each("gap", [1, 4, 12, 25])
def test_a_test_is_right_as_often_as_its_own_code(adjacency: Adjacency, gap: int) -> None:
    lead, test = ModeCase(EPSILON, DELTA, adjacency, gap, 3), StabilityTest(EPSILON, DELTA)
    ordered = {f"{3 - i}": count for i, count in counts(lead).items()}  # the leader is the last by its name
    found = math.fsum(
        p
        for x, p in noise(test.scale, 80).items()
        if released_mode(ordered, test, lambda _: x, adjacency) == "3"  # noqa: B023
    )
    assert PTR.right_probability(lead) == pytest.approx(found, rel=1e-9)


DRAWS = 400


@pytest.mark.needs("opendp")
@pytest.mark.parametrize(
    ("adjacency", "groups", "rows"), tiered([(one, *bounds) for bounds in ((1, 1), (2, 3)) for one in ADJACENCIES], 1, 3)
)
def test_every_way_is_right_as_often_as_what_dpcli_draws(adjacency: Adjacency, groups: int, rows: int) -> None:
    """The mechanisms that `dpcli release` calls, with their own noise; at the gap that is said to be needed, and at half of it."""
    domain = list(range(5))
    for way in MECHANISMS:
        of = ModeCase(EPSILON, DELTA, adjacency, 1, len(domain), groups, rows)
        needed = compare_modes(of, (1,), (len(domain),), 0.9).needed_gap(way, len(domain))
        assert way.right_probability(replace(of, gap=needed)) >= 0.9 and (
            needed == 1 or way.right_probability(replace(of, gap=needed - 1)) < 0.9
        )
        for gap in {needed, needed // 2 + 1}:
            lead = replace(of, gap=gap)
            draw = drawing(way.name, lead)
            right = sum(draw() for _ in range(DRAWS))
            p = stats.binomtest(right, DRAWS, min(max(way.right_probability(lead), 0.0), 1.0)).pvalue
            assert p > 1e-7, (way.name, lead, right / DRAWS, way.right_probability(lead))


def drawing(way: str, lead: ModeCase) -> Callable[[], bool]:
    """Whether a draw finds the leader, which is the last by its name; of what is drawn at the limits of a unit."""
    table = counts(lead)
    scores, reach = list(table.values()), count_range(lead.rows, lead.adjacency)
    if way == PTR.name:
        keyed = {f"{lead.size - i}": count for i, count in table.items() if count > 0}
        test = StabilityTest(lead.epsilon, lead.delta)
        return lambda: released_mode(keyed, test, laplace_draw, lead.adjacency, lead.rows) == f"{lead.size}"
    if way in (GUMBEL.name, PERMUTED.name):
        choose = exponential if way == GUMBEL.name else permute_and_flip
        return lambda: choose(scores, reach, lead.epsilon) == 0
    cost, moved = QueryCost(epsilon=lead.epsilon), sensitivity(lead.adjacency, Contribution(lead.groups, lead.rows, 1, 1))
    law, least = DiscreteLaplaceLaw(cost.laplace_scale(moved.l1)), -math.inf
    if way == STABILITY.name:
        spec = StabilityHistogramSpec(threshold=1, scale=law.scale, max_groups=lead.groups, max_rows=lead.rows)
        least, scores = least_threshold(spec, Neighbours(lead.adjacency), lead.delta), [count for count in scores if count > 0]

    def draw() -> bool:
        noised = noisy(scores, law)  # those without rows are last, and the leader has some
        best = max(noised)
        return noised[0] == best > least and random.choice([key for key, number in enumerate(noised) if number == best]) == 0

    return draw


@pytest.mark.long
@of_each("adjacency", ADJACENCIES)
@of_each("gap", [1, 4, 12, 30])
def test_histograms_are_right_as_often_as_by_enumeration(adjacency: Adjacency, gap: int) -> None:
    """Three values, every noise on each; ties go to any of them alike."""
    lead = ModeCase(EPSILON, DELTA, adjacency, gap, 3)
    law = noise(lead.noise.scale, 45)
    exact = 0.0
    values = np.array(sorted(law))
    p = np.array([law[x] for x in values.tolist()])
    first, second, third = (values + count for count in counts(lead).values())
    for (i, one), (j, two) in itertools.product(enumerate(first.tolist()), enumerate(second.tolist())):
        beaten = one >= np.maximum(two, third)
        ties = 1.0 + (one == two) + (one == third)
        exact += p[i] * p[j] * float(np.sum(p * beaten / ties))
    shown = float(p @ (first > lead.threshold))
    for way, right in ((HISTOGRAM, exact), (STABILITY, shown)):
        assert way.right_probability(lead) == pytest.approx(right, rel=1e-6, abs=1e-8)  # tails of the enumeration end at 45


@of_each("adjacency", ADJACENCIES)
@of_each("way", MECHANISMS, told=lambda way: way.name)
def test_a_larger_lead_and_a_smaller_domain_never_harm(way: Any, adjacency: Adjacency) -> None:
    for size in (2, 10**3, 10**12, 2**1000):
        found = [way.right_probability(ModeCase(1.0, 1e-6, adjacency, gap, size)) for gap in (1, 2, 5, 9, 20, 60, 400, 3000)]
        assert all(0.0 <= p <= 1.0 for p in found) and found == sorted(found)
        assert found[-1] == pytest.approx(1.0)
    for gap in (3, 30):
        found = [way.right_probability(ModeCase(1.0, 1e-6, adjacency, gap, size)) for size in (2, 3, 50, 10**6, 10**30)]
        assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_crossing_is_where_the_formulas_say(adjacency: Adjacency) -> None:
    """ln(1/delta) / epsilon and ln(m/beta) / epsilon, twice that where units are replaced; but for what rounding to whole counts does."""
    sides = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    for confidence in (0.9, 0.99):
        beta = 1.0 - confidence
        found = compare_modes(ModeCase(0.5, 1e-8, adjacency, 1, 2), range(1, 5), (10, 10**4), confidence)
        test = sides * (math.log(1e8) + math.log(0.5 / beta)) / 0.5
        assert abs(found.needed_gap(PTR, 2) - test) <= 2.0 * sides
        assert abs(found.needed_gap(GUMBEL, 10**4) - sides * math.log(10**4 / beta) / 0.5) <= 1.0
        size = found.crossing_size(PTR, GUMBEL)
        assert found.needed_gap(GUMBEL, size) > found.needed_gap(PTR, size) >= found.needed_gap(GUMBEL, size - 1)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_comparison_can_be_read_in_every_format(adjacency: Adjacency) -> None:
    shown = document(compare_modes(ModeCase(1.0, 1e-6, adjacency, 1, 2), range(1, 9), (10, 10**3, 10**6)))
    for name in ("text", "table", "markdown", "json", "csv"):
        assert load(FORMATS[name])(shown)
    for chart, name in itertools.product(shown.pictures, ("svg", "csv")):
        assert load(CHART_FORMATS[name])(chart)
    assert "propose-test-release" in shown.headline
    assert json_text(shown.data).count('"propose-test-release"') == 4
    labels = " ".join(line.label for line in shown.pictures[0].lines)
    assert ("and stability histogram" in labels) == (adjacency is Adjacency.ADD_REMOVE)
