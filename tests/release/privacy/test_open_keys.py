"""Sums and means by keys that are not declared: the exact law of keys, counts and sums, against what the mechanisms are priced for."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from dpcli.analysis.account import account
from dpcli.file.pipeline.read import parse
from dpcli.release.aggregate import Total
from dpcli.release.query_entries import PricedQuery
from tests.inline import text_of
from tests.release.tables.files import document, priced

Cell = tuple[int, int] | None  # the count and the sum of a key, in steps; None where the key is not in the table
Atoms = Mapping[float, tuple[float, float]]  # probabilities under both tables, by their log ratio


def question(measure: str, adjacency: str, max_groups: int, noise: str) -> dict[str, Any]:
    query = {"name": "q", "measure": measure, "column": "n", "by": ["name"], "keys": "threshold", "delta": 0.01, "noise": noise}
    table = document({**query, "epsilon": 2.0, "max_groups": max_groups, "max_rows": 1}, adjacency=adjacency)
    table["privacy"]["delta"] = 0.02
    table["source"]["columns"] = {
        "name": {"type": "text"},
        "visitor": {"type": "text"},
        "n": {"type": "integer", "min": 0, "max": 2},
    }
    return table


def law_of_key(one: PricedQuery, before: Cell, after: Cell) -> Atoms:
    """Of one key: hidden, or shown with its noisy count and its noisy sum."""
    of_sum, of_keys = one.mechanisms
    threshold, reach = of_keys.keys["threshold"], 150
    grid = np.arange(-reach, reach + 1)

    def joint(cell: Cell) -> tuple[float, np.ndarray[Any, Any]]:
        if cell is None:
            return 1.0, np.zeros((reach, grid.size))
        counts, sums = (weights(release.keys, place - exact) for release, place, exact in places(cell))
        table = np.outer(counts, sums)
        return 1.0 - counts.sum(), table

    def places(cell: tuple[int, int]) -> Iterable[tuple[Any, np.ndarray[Any, Any], int]]:
        return (of_keys, threshold + 1 + np.arange(reach), cell[0]), (of_sum, grid, cell[1])

    (hidden, shown), (hidden_after, shown_after) = joint(before), joint(after)
    p, q = np.append(shown.ravel(), hidden), np.append(shown_after.ravel(), hidden_after)
    atoms: dict[float, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.round(np.log(p) - np.log(q), 6)
    for loss in np.unique(losses[~np.isnan(losses)]):
        atoms[float(loss)] = float(p[losses == loss].sum()), float(q[losses == loss].sum())
    return atoms


def weights(keys: Mapping[str, Any], distance: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The probabilities of the noise at these distances."""
    wide = np.arange(-4000, 4001)

    def height(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.exp(-np.abs(x) / keys["scale"]) if "scale" in keys else np.exp(-0.5 * (x / keys["sigma"]) ** 2)

    return height(distance) / height(wide).sum()


def hockey_stick(keys: list[Atoms], epsilon: float) -> float:
    """Of keys whose noises are independent."""
    whole = 0.0
    for atoms in itertools.product(*(each.values() for each in keys)):
        whole += max(0.0, math.prod(p for p, _ in atoms) - math.exp(epsilon) * math.prod(q for _, q in atoms))
    return whole


@pytest.mark.parametrize("measure", ["sum", "mean"])
@pytest.mark.parametrize(
    ("adjacency", "groups", "noise"),
    [("add-remove", 1, "laplace"), ("replace-one", 1, "laplace"), ("add-remove", 2, "laplace"), ("zero-out", 1, "gaussian")],
)
@pytest.mark.nightly
def test_keys_counts_and_sums_together_cost_what_they_are_priced(measure: str, adjacency: str, groups: int, noise: str) -> None:
    """A unit of value 2 that is alone in its keys, or shares them with few or with as many as the threshold."""
    table = question(measure, adjacency, groups, noise)
    (one,) = priced(table)
    pipeline = parse(text_of(table), "file.toml")
    value, many = 1 if measure == "mean" else 2, one.mechanisms[1].keys["threshold"]  # a mean's values are centred
    moves: list[tuple[Cell, Cell]] = [((count, value), (count - 1, 0) if count > 1 else None) for count in (1, 2, many, 2 * many)]
    pairs: list[tuple[tuple[Cell, Cell], ...]] = list(itertools.combinations_with_replacement(moves, groups))
    if adjacency == "replace-one":  # another key gains what this one loses, or the value changes
        pairs = [(left, right[::-1]) for left in moves for right in moves] + [(((many, 2), (many, 0)),)]
    law = {move: law_of_key(one, *move) for pair in pairs for move in (*pair, *(each[::-1] for each in pair))}
    for delta in (0.0101, 0.02, 0.1):
        epsilon, largest = account(pipeline, delta=delta).upper, 0.0
        for pair in pairs:
            for changed in (pair, tuple(move[::-1] for move in pair)):
                exact = hockey_stick([law[move] for move in changed], epsilon)
                assert exact <= delta * (1.0 + 1e-4), (measure, changed, delta, epsilon)
                largest = max(largest, exact)
        assert largest >= delta / 10.0, (delta, largest)  # the price is of the size of what it pays for


@pytest.mark.parametrize("measure", ["sum", *(pytest.param(name, marks=pytest.mark.long) for name in ("mean", "variance"))])
def test_only_keys_above_the_threshold_are_told(measure: str) -> None:
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    (one,) = priced(question(measure, "add-remove", 1, draw.choice(["laplace", "gaussian"])))
    shown: dict[str, int] = {}
    for key, units in (("few", 1), ("many", 100_000)):
        squares = (units,) if measure == "variance" else ()
        totals = {(key,): Total(units, units, (*squares, units))}
        answers = [one.query.answer(one.setting, totals) for _ in range(20)]
        shown[key] = sum(len(answer.rows) for answer in answers)
        assert all("keys that few units have are not shown" in answer.covers for answer in answers), seed
        assert all(("its noisy count is too high" in answer.covers) == (measure != "sum") for answer in answers), answers[0].covers
    assert shown["many"] == 20 and shown["few"] < 10, (seed, shown)  # 20 of chance 0.01 each: below 1e-15


def test_what_a_query_by_such_keys_may_not_state() -> None:
    for measure, more, key in (
        ("sum", {"error": {"within": 5}, "epsilon": None}, "error"),
        ("mean", {"count": 7}, "count"),
        ("sum", {"delta": None}, "delta"),
    ):
        table = question(measure, "add-remove", 1, "laplace")
        changed = {**table["query"][0], **more}
        table["query"] = [{name: value for name, value in changed.items() if value is not None}]
        with pytest.raises(Exception, match=rf"query\[1\]\.{key}"):
            parse(text_of(table), "file.toml")
