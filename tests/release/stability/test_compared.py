"""How likely each release is right: against enumeration, against the mechanisms' own code, and in both pictures."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpcli.document.document import json_text
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.present.stability import document
from dpcli.registry import CHART_FORMATS, FORMATS, load
from dpcli.release.stability.compared import (
    GUMBEL,
    HISTOGRAM,
    PERMUTED,
    PTR,
    STABILITY,
    WAYS,
    Lead,
    _threshold,
    compared,
)
from dpcli.release.stability.histogram import released_keys
from dpcli.release.stability.mode import released_mode
from dpcli.release.stability.proposed import StabilityTest
from tests.brute.choices import exponential, permute_and_flip
from tests.cases import of_each
from tests.release.stability.enumeration import noise

ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
EPSILON, DELTA = 0.8, 1e-3


def counts(lead: Lead) -> dict[int, int]:
    return {i: lead.others + (lead.gap if i == 0 else 0) for i in range(lead.size)}


@of_each("adjacency", ADJACENCIES)
@of_each("gap", [1, 4, 12, 25])
def test_a_test_is_right_as_often_as_its_own_code(adjacency: Adjacency, gap: int) -> None:
    lead, test = Lead(EPSILON, DELTA, adjacency, gap, 3, 5), StabilityTest(EPSILON, DELTA)
    ordered = {f"{3 - i}": count for i, count in counts(lead).items()}  # the leader is the last by its name
    found = math.fsum(
        p
        for x, p in noise(test.scale, 80).items()
        if released_mode(ordered, test, lambda _: x, adjacency) == "3"  # noqa: B023
    )
    assert PTR.right(lead) == pytest.approx(found, rel=1e-9)


@of_each("size", [2, 3, 5])
@of_each("gap", [1, 4, 12])
def test_choices_are_right_as_often_as_by_enumeration(size: int, gap: int) -> None:
    lead = Lead(EPSILON, DELTA, Adjacency.ADD_REMOVE, gap, size)
    score = np.array(list(counts(lead).values()), dtype=float)
    for way, law in ((GUMBEL, exponential), (PERMUTED, permute_and_flip)):
        assert way.right(lead) == pytest.approx(float(law(EPSILON, lambda _: score)(())[0]), rel=1e-12)


@pytest.mark.long
@of_each("adjacency", ADJACENCIES)
@of_each("gap, others", [(1, 0), (4, 3), (12, 9), (30, 0)])
def test_histograms_are_right_as_often_as_by_enumeration(adjacency: Adjacency, gap: int, others: int) -> None:
    """Three values, every noise on each; ties go to any of them alike."""
    lead = Lead(EPSILON, DELTA, adjacency, gap, 3, others)
    law = noise(lead.sides / EPSILON, 45)
    threshold = _threshold(EPSILON, DELTA, adjacency)
    exact = {way.name: 0.0 for way in (HISTOGRAM, STABILITY)}
    values = np.array(sorted(law))
    p = np.array([law[x] for x in values.tolist()])
    first, second, third = (values + count for count in counts(lead).values())
    for (i, one), (j, two) in itertools.product(enumerate(first.tolist()), enumerate(second.tolist())):
        beaten = one >= np.maximum(two, third)
        ties = 1.0 + (one == two) + (one == third)
        exact[HISTOGRAM.name] += p[i] * p[j] * float(np.sum(p * beaten / ties))
        if others > 0:
            exact[STABILITY.name] += p[i] * p[j] * float(np.sum(p * beaten / ties)) * (one > threshold)
    if others == 0:
        found: list[Any] = [released_keys(counts(lead), threshold, lambda: x) for x in values.tolist()]  # noqa: B023
        exact[STABILITY.name] = float(p @ np.array([0 in keys for keys in found]))
    for way in (HISTOGRAM, STABILITY):
        assert way.right(lead) == pytest.approx(exact[way.name], rel=1e-6, abs=1e-8)  # tails of the enumeration end at 45


@of_each("adjacency", ADJACENCIES)
@of_each("way", WAYS, told=lambda way: way.name)
def test_a_larger_lead_and_a_smaller_domain_never_harm(way: Any, adjacency: Adjacency) -> None:
    for size in (2, 10**3, 10**12, 2**1000):
        found = [way.right(Lead(1.0, 1e-6, adjacency, gap, size)) for gap in (1, 2, 5, 9, 20, 60, 400, 3000)]
        assert all(0.0 <= p <= 1.0 for p in found) and found == sorted(found)
        assert found[-1] == pytest.approx(1.0)
    for gap in (3, 30):
        found = [way.right(Lead(1.0, 1e-6, adjacency, gap, size)) for size in (2, 3, 50, 10**6, 10**30)]
        assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_crossing_is_where_the_formulas_say(adjacency: Adjacency) -> None:
    """ln(1/delta) / epsilon and 2 ln(m/beta) / epsilon, but for what rounding to whole counts does."""
    found = compared(0.5, 1e-8, range(1, 5), (10, 10**4), adjacency)
    sides = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    for confidence in (0.9, 0.99):
        beta = 1.0 - confidence
        test = sides * (math.log(1e8) + math.log(0.5 / beta)) / 0.5
        assert abs(found.needed(PTR, 2, confidence) - test) <= 2.0 * sides
        assert abs(found.needed(GUMBEL, 10**4, confidence) - 2.0 * math.log(10**4 / beta) / 0.5) <= 1.0
        size = found.crossing(PTR, GUMBEL, confidence)
        assert (
            found.needed(GUMBEL, size, confidence)
            > found.needed(PTR, size, confidence)
            >= found.needed(GUMBEL, size - 1, confidence)
        )


@pytest.mark.parametrize(("adjacency", "others"), [(Adjacency.ADD_REMOVE, 0), (Adjacency.REPLACE_ONE, 100)])
def test_the_comparison_can_be_read_in_every_format(adjacency: Adjacency, others: int) -> None:
    shown = document(compared(1.0, 1e-6, range(1, 9), (10, 10**3, 10**6), adjacency, others))
    for name in ("text", "table", "markdown", "json", "csv"):
        assert load(FORMATS[name])(shown)
    for chart, name in itertools.product(shown.pictures, ("svg", "csv")):
        assert load(CHART_FORMATS[name])(chart)
    assert "propose-test-release" in shown.headline
    assert json_text(shown.data).count('"propose-test-release"') == 4
    labels = " ".join(line.label for line in shown.pictures[0].lines)
    assert ("and stability histogram" in labels) == (others == 0)
