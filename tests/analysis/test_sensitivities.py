"""What the glossary and the example of a lecture say of counts, sums and means: by search over all small tables and their neighbours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

import pytest

import dpcli
from dpcli.explain.glossary import TERMS
from tests.command import ROOT

Values = tuple[float, ...]
RANGES = [(0.0, 8.0), (-4.0, 4.0), (-2.0, 6.0), (3.0, 9.0)]
every_range = pytest.mark.parametrize(("low", "high"), RANGES)


def neighbours(adjacency: str, values: Values, sizes: range) -> Iterator[tuple[Values, Values]]:
    """Every pair of tables with these sizes, whose values are among those given; the order of rows does not matter."""
    for size in sizes:
        for table in combinations_with_replacement(values, size):
            for row in range(size):
                rest = table[:row] + table[row + 1 :]
                if adjacency == "replace-one":
                    yield from ((table, (*rest, value)) for value in values)
                elif adjacency == "zero-out":
                    yield table, (*rest, 0.0)
                elif size - 1 in sizes:
                    yield table, rest


def moved(query: Callable[[Values], Values], adjacency: str, values: Values, sizes: range, norm: int = 1) -> float:
    """How far a vector moves at most between neighbours."""
    pairs = neighbours(adjacency, values, sizes)
    return max(
        math.dist(query(a), query(b)) if norm == 2 else sum(abs(x - y) for x, y in zip(query(a), query(b), strict=True))
        for a, b in pairs
    )


def grid(low: float, high: float) -> Values:
    return tuple(low + i * (high - low) / 4.0 for i in range(5))


def mean(table: Values) -> Values:
    return (math.fsum(table) / len(table),)


def total(table: Values) -> Values:
    return (math.fsum(table),)


@every_range
def test_a_sum(low: float, high: float) -> None:
    largest = max(abs(low), abs(high))
    for sizes in (range(2), range(5)):  # however many units there are
        for adjacency, far in (("add-remove", largest), ("zero-out", largest), ("replace-one", high - low)):
            assert moved(total, adjacency, grid(low, high), sizes) == pytest.approx(far)


@every_range
@pytest.mark.parametrize("public", [2, 3, 4])
def test_a_mean(low: float, high: float, public: int) -> None:
    values, size = grid(low, high), range(public, public + 1)
    assert moved(mean, "replace-one", values, size) == pytest.approx((high - low) / public)
    assert moved(mean, "add-remove", values, range(1, public + 1)) == pytest.approx((high - low) / 2.0)  # from one unit to two

    def declared(table: Values) -> Values:
        return (math.fsum(table) / public,)

    assert moved(declared, "add-remove", values, range(5)) == pytest.approx(max(abs(low), abs(high)) / public)


@pytest.mark.parametrize(
    ("adjacency", "one", "manhattan", "euclidean"),
    [("add-remove", 1.0, 1.0, 1.0), ("replace-one", 1.0, 2.0, math.sqrt(2.0)), ("zero-out", 1.0, 1.0, 1.0)],
)
def test_a_count_and_counts_by_group(adjacency: str, one: float, manhattan: float, euclidean: float) -> None:
    """Groups are the values 1, 2 and 3; what is blanked is in none of them."""
    groups = (1.0, 2.0, 3.0)

    def by_group(table: Values) -> Values:
        return tuple(float(table.count(group)) for group in groups)

    assert moved(lambda table: (float(sum(value >= 2.0 for value in table)),), adjacency, groups, range(4)) == one
    assert moved(by_group, adjacency, groups, range(4)) == manhattan
    assert moved(by_group, adjacency, groups, range(4), norm=2) == pytest.approx(euclidean)


def test_the_exercise_of_the_average_salary() -> None:
    """The file's numbers follow from its own first line, as the search above gives them; the glossary says the same."""
    path = ROOT / "examples" / "average-salary.toml"
    pipeline = dpcli.load(path)
    (size, top) = re.findall(r"salary of ([\d,]+) employees, each clamped to \[0, (\d+)\]", path.read_text())[0]
    people, most = int(size.replace(",", "")), float(top)
    (entry,) = pipeline.mechanisms
    assert pipeline.privacy.dataset_size == people
    assert pipeline.privacy.adjacency.value == "replace-one"
    assert entry.spec.sensitivity == most / people == 200.0  # type: ignore[attr-defined]
    assert dpcli.account(pipeline).upper == pytest.approx(entry.spec.sensitivity / entry.spec.scale)  # type: ignore[attr-defined]
    said = TERMS["sensitivity-of-a-mean"]
    assert f"{people:,} employees in [0, {top}]: {top}/{people} = {most / people:g} (examples/{path.name})" in said
    assert f"and divide: {top} and 1 here" in said


def test_the_figures_of_the_glossary() -> None:
    values = grid(-100.0, 100.0)
    added, replaced = (moved(total, adjacency, values, range(4)) for adjacency in ("add-remove", "replace-one"))
    assert f"for [-100, 100] they are {added:g} and {replaced:g}" in TERMS["sensitivity-of-a-sum"]
    assert "under replace-one by 2 in L1 and sqrt(2) in L2" in TERMS["sensitivity-of-a-count"]
    assert "the mean itself moves by up to (high - low)/2 where one unit becomes two" in TERMS["sensitivity-of-a-mean"]
