"""Smooth sensitivity: the reference values, and enumeration of every vote."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import CannotCertify
from dpcli.predict.pate.vote_account import Release, release_cost, released
from dpcli.predict.vote_bounds import (
    AnswerSensitivity,
    conditions,
    inverse_log_ndtr,
    log_answered,
    log_q_gaussian,
    rdp_gaussian,
    smooth,
    threshold_by_distance,
)
from tests.cases import of_each
from tests.predict.recipes import REFERENCE

CLOSE = 1e-9  # relative; of logarithms of q0, which the reference finds by a search that stops at 1e-11


LARGE = 1000  # teachers from which on every distance takes seconds


@of_each("case", [case for case in REFERENCE["smooth_gnmax"] if case["teachers"] < LARGE])
def test_answers(case: dict[str, Any]) -> None:
    require_answer(case)


@pytest.mark.nightly
@pytest.mark.long
def test_answers_of_many_teachers() -> None:
    (case,) = [case for case in REFERENCE["smooth_gnmax"] if case["teachers"] >= LARGE]
    require_answer(case)


def require_answer(case: dict[str, Any]) -> None:
    of = AnswerSensitivity(float(case["sigma"]), len(case["votes"]), case["order"])
    assert (of.log_q0, of.log_q1) == (pytest.approx(case["logq0"], rel=CLOSE), pytest.approx(case["logq1"], rel=CLOSE))
    (found,) = of.by_distance(np.array([case["votes"]]), case["teachers"])
    assert found[0] == pytest.approx(case["LS0"], rel=CLOSE, abs=0.0)
    assert (found.max(), found.argmax()) == (pytest.approx(case["LSmax"], rel=CLOSE), case["argmax_d"])
    assert smooth(found, case["beta"]) == pytest.approx(case["SS"], rel=CLOSE)


@of_each("case", REFERENCE["smooth_threshold"], told=lambda case: f"{case['votes'][:2]}")
def test_thresholds(case: dict[str, Any]) -> None:
    largest = np.array([float(max(case["votes"]))])
    (found,) = threshold_by_distance(largest, case["T"], case["sigma"], case["order"], case["teachers"])
    assert found[0] == pytest.approx(case["LS0"], rel=CLOSE, abs=1e-15)
    assert found.max() == pytest.approx(case["LSmax"], rel=CLOSE, abs=1e-15)
    assert smooth(found, case["beta"]) == pytest.approx(case["SS"], rel=CLOSE, abs=1e-15)


def test_what_the_release_costs() -> None:
    for case in REFERENCE["gnss_rdp"]:
        found = release_cost(Release(case["order"], case["beta"], case["sigma_ss"], 0.1))
        assert found == pytest.approx(case["rdp"], rel=CLOSE)
    for order, beta in ((20.0, 0.025), (1.0, 0.01), (30.0, 0.1)):
        with pytest.raises(CannotCertify, match="expected an order between 1 and"):
            release_cost(Release(order, beta, 5.0, 0.1))


def test_the_conditions() -> None:
    for case in REFERENCE["conditions"]:
        of = AnswerSensitivity(float(case["sigma"]), case["classes"], case["order"])
        assert conditions(of, 250) == tuple(case["C5,C6"])
    # As the published symbolic check answers them.
    for sigma, classes, order, c6 in (
        (40.0, 10, 20.0, True),
        (100.0, 150, 25.0, True),
        (10.0, 10, 15.0, False),
        (3.0, 2, 3.0, True),
    ):
        assert conditions(AnswerSensitivity(sigma, classes, order), 250) == (True, c6)


def test_where_votes_change_nothing_there_is_nothing_to_sanitise() -> None:
    of = AnswerSensitivity(0.5, 10, 64.0)
    assert of.log_q0 < -1000.0  # far off, and there
    with pytest.raises(CannotCertify, match="nothing to sanitise"):
        _ = AnswerSensitivity(0.01, 10, 64.0).log_q0


def every_vote(teachers: int, classes: int) -> list[tuple[int, ...]]:
    return [row for row in itertools.product(range(teachers + 1), repeat=classes) if sum(row) == teachers]


def neighbours(row: tuple[int, ...]) -> list[tuple[int, ...]]:
    """One teacher votes otherwise."""
    found = []
    for source, target in itertools.permutations(range(len(row)), 2):
        if row[source]:
            moved = list(row)
            moved[source] -= 1
            moved[target] += 1
            found.append(tuple(moved))
    return found


@of_each("teachers, classes, sigma, order", [(24, 2, 4.0, 3.0), (16, 3, 4.0, 3.0), (14, 3, 2.0, 2.0)])
@of_each("beta", [0.02, 0.1])
def test_the_smooth_bound_is_one(teachers: int, classes: int, sigma: float, order: float, beta: float) -> None:
    """Over every vote there is: not below the change to any neighbour, and e^beta apart at most from a neighbour's."""
    of = AnswerSensitivity(sigma, classes, order)
    assert conditions(of, teachers) == (True, True)
    rows = every_vote(teachers, classes)
    cost = dict(zip(rows, of.cost(log_q_gaussian(np.array(rows), sigma)).tolist(), strict=True))
    distances = of.by_distance(np.array(rows), teachers)
    bound = {row: smooth(one, beta) for row, one in zip(rows, distances, strict=True)}
    for row in rows:
        for other in neighbours(row):
            assert abs(cost[row] - cost[other]) <= bound[row] * (1.0 + 1e-9)
            assert bound[row] <= math.exp(beta) * bound[other] * (1.0 + 1e-9)


@of_each("threshold, sigma", [(20.0, 4.0), (35.0, 3.0), (12.0, 6.0)])
def test_the_smooth_bound_of_a_threshold_is_one(threshold: float, sigma: float) -> None:
    teachers, beta, order = 40, 0.05, 6.0
    largest = np.arange(teachers + 1.0)
    log_q = np.minimum(*log_answered(largest, threshold, sigma))
    cost = rdp_gaussian(log_q, math.sqrt(2.0) * sigma, np.array([order]))[:, 0]
    bound = [smooth(one, beta) for one in threshold_by_distance(largest, threshold, sigma, order, teachers)]
    for i in range(teachers):
        assert abs(cost[i] - cost[i + 1]) <= min(bound[i], bound[i + 1]) * (1.0 + 1e-9)
        assert max(bound[i], bound[i + 1]) <= math.exp(beta) * min(bound[i], bound[i + 1]) * (1.0 + 1e-9)


def test_the_smooth_bound_of_a_sum_is_one() -> None:
    """Of two queries: d teachers that change their minds may move one of them and leave the other, or move both by less."""
    teachers, beta, order, sigma = 20, 0.05, 6.0, 3.0
    largest = np.arange(teachers + 1.0)
    rows = np.stack((largest, teachers - largest), axis=1).astype(int)
    of_threshold = threshold_by_distance(largest, 12.0, sigma, order, teachers)
    of_answer = AnswerSensitivity(4.0, 2, 3.0).by_distance(rows, teachers)
    apart = np.abs(largest[:, None] - largest)
    for found in (of_threshold, of_answer, of_threshold + of_answer):
        local = found[:, 0]
        for a, b in itertools.combinations(range(teachers + 1), 2):
            shrunk = np.exp(-beta * np.maximum(apart[a][:, None], apart[b]))
            assert smooth(found[a] + found[b], beta) >= (shrunk * (local[:, None] + local)).max() * (1.0 - 1e-12)


def test_a_release_is_below_the_costs_of_both_as_rarely_as_it_says() -> None:
    """The share of Z for which it is below what neighbouring votes may cost, found where the two meet."""
    for failure in (0.3, 0.05, 1e-4):
        release = Release(8.0, 0.01, 3.0, failure)
        low, high = -40.0, 40.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if released(1.0, 0.2, release, middle) < 1.2 else (low, middle)
        assert 0.5 * math.erfc(-high / math.sqrt(2.0)) == pytest.approx(failure, rel=1e-6)
    with pytest.raises(CannotCertify, match="a smaller beta"):
        released(1.0, 0.2, Release(2.0, 0.2, 20.0, 0.01), 0.0)


def test_the_inverse_of_the_normal_distribution() -> None:
    z = -np.concatenate((np.linspace(0.0, 40.0, 81), [100.0, 1000.0]))
    from dpcli.numerics.logspace import log_ndtr_array

    assert inverse_log_ndtr(log_ndtr_array(z)) == pytest.approx(z, rel=1e-11, abs=1e-11)
