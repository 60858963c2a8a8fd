"""Costs of votes and their smooth sensitivity: the reference values, a second computation in high precision, enumeration, and laws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import CannotCertify, NotRepresentable
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.predict.aggregators import Aggregator, ConfidentGnMax, GnMax, LnMax
from dpcli.predict.pate.vote_release import ReleaseParameters, cost_of_release, noisy_cost
from dpcli.predict.vote_bounds import log_answered, log_q_gaussian, log_q_laplace, rdp_gaussian, total_rdp_gaussian
from dpcli.predict.vote_sensitivity import (
    AnswerSensitivity,
    inverse_log_ndtr,
    monotone_conditions,
    smooth_bound,
    threshold_by_distance,
)
from tests.cases import of_each
from tests.predict.samples import GRID, REFERENCE, votes

CLOSE = 1e-9  # relative, as agreed; the values differ by rounding, and by ours being rounded up


def cost(aggregator: Aggregator, counts: Any, order: float) -> float:
    result = np.array([counts])
    return float(aggregator.cost(result, result.max(axis=1), np.ones(1)).rdp(np.array([order]))[0])


@of_each("case", REFERENCE["gnmax_votes"], told=lambda case: f"{case['votes'][:3]}-{case['sigma']}-{case['order']}")
def test_gnmax(case: dict[str, Any]) -> None:
    assert log_q_gaussian(np.array([case["votes"]]), case["sigma"])[0] == pytest.approx(case["logq"], rel=1e-12)
    assert cost(GnMax(case["sigma"]), case["votes"], case["order"]) == pytest.approx(case["rdp"], rel=CLOSE)
    assert case["order"] / case["sigma"] ** 2 == pytest.approx(case["rdp_data_independent"], rel=CLOSE)


def test_threshold() -> None:
    for case in REFERENCE["threshold"]:
        aggregator, largest = ConfidentGnMax(1.0, case["T"], case["sigma1"]), np.array([float(max(case["votes"]))])
        (part,) = aggregator.threshold_releases(largest)
        assert log_answered(largest, case["T"], case["sigma1"])[0][0] == pytest.approx(case["log_pr_answered"], rel=1e-12)
        assert part.rdp(np.array([case["order"]]))[0] == pytest.approx(case["rdp"], rel=CLOSE), case


def test_lnmax() -> None:
    for case in REFERENCE["lnmax"]:
        assert log_q_laplace(np.array([case["votes"]]), case["lambda"])[0] == pytest.approx(case["logq"], rel=1e-12)
        assert 2.0 / case["lambda"] == pytest.approx(case["pure_eps"], rel=1e-12)
        assert cost(LnMax(case["lambda"]), case["votes"], case["order"]) == pytest.approx(case["rdp"], rel=CLOSE), case


def on_grid(rdp: np.ndarray, delta: float, conversion: Any) -> tuple[float, float]:
    """Return the least epsilon over the published orders, and its order."""
    values = conversion(GRID, rdp, math.log(delta))
    return float(values.min()), float(GRID[values.argmin()])


@of_each("case", REFERENCE["tables"], told=lambda case: case["name"])
def test_a_published_table(case: dict[str, Any]) -> None:
    """The expected cost, by the classic conversion on the published orders."""
    counts = votes(case["n"], case["classes"], case["teachers"], case["conc_cycle"])
    aggregator: Any = GnMax(case["sigma2"])
    if case["T"] is not None:
        aggregator = ConfidentGnMax(case["sigma2"], case["T"], case["sigma1"])
    result = aggregator.expected_cost(counts, counts.max(axis=1))
    assert result.answered == pytest.approx(case["expected_answered"], rel=1e-12)
    rdp = result.rdp(GRID)
    if case["data_independent"]:
        rdp = GRID * result.answered / case["sigma2"] ** 2
        rdp += 0.0 if case["T"] is None else GRID * case["n"] / (2.0 * case["sigma1"] ** 2)
    epsilon, order = on_grid(rdp, case["delta"], classic)
    assert epsilon == pytest.approx(case["eps_classic"], rel=CLOSE)
    assert order == case["order"]


def test_the_tiny_table_by_both_conversions() -> None:
    case = REFERENCE["tiny_table"]
    counts = np.array(case["votes"])
    result = GnMax(case["sigma"]).expected_cost(counts, counts.max(axis=1))
    assert result.rdp(np.array([2.0, 10.0])) == pytest.approx([case["rdp_at_2"], case["rdp_at_10"]], rel=CLOSE)
    for conversion, name in ((classic, "classic"), (balle, "balle")):
        epsilon, order = on_grid(result.rdp(GRID), case["delta"], conversion)
        assert (epsilon, order) == (pytest.approx(case[f"eps_{name}"], rel=CLOSE), case[f"order_{name}"])
        assert result.epsilon(case["delta"], conversion)[0] <= epsilon  # over all real orders


def test_what_a_session_with_abstentions_is_charged() -> None:
    """The threshold of every query, whether it was answered or not, and the answers of those that were."""
    counts = votes(40, 10, 250, [0.98, 0.6])
    largest, answered = counts.max(axis=1), (np.arange(40) % 3 == 0).astype(float)
    aggregator, orders = ConfidentGnMax(40.0, 200.0, 150.0), np.array([2.0, 9.0, 40.0])
    thresholds = rdp_gaussian(np.minimum(*log_answered(largest, 200.0, 150.0)), math.sqrt(2.0) * 150.0, orders).sum(axis=0)
    answers = rdp_gaussian(log_q_gaussian(counts[answered > 0], 40.0), 40.0, orders).sum(axis=0)
    assert aggregator.cost(counts, largest, answered).rdp(orders) == pytest.approx(thresholds + answers, rel=1e-12)
    none = aggregator.cost(counts, largest, np.zeros(40)).rdp(orders)
    assert none == pytest.approx(thresholds, rel=1e-12) and np.all(none > 0.0)


def exactly(log_q: float, sigma: float, order: float) -> Any:
    """Theorem 6 with Proposition 10, as it is printed, in so many digits that 1 - q is not 1."""
    with mpmath.workdps(60 + round(-log_q)):
        log_q, s, a = mpmath.mpf(log_q), mpmath.mpf(sigma), mpmath.mpf(order)
        independent = a / s**2
        mu2 = s * mpmath.sqrt(-log_q)
        mu1 = mu2 + 1
        e1, e2, q = mu1 / s**2, mu2 / s**2, mpmath.exp(log_q)
        if mu1 < a or mu2 <= 1 or -log_q <= e2:
            return independent
        if log_q > (mu2 - 1) * e2 - mu2 * (mpmath.log(mu1 / (mu1 - 1)) + mpmath.log(mu2 / (mu2 - 1))):
            return independent
        base = (1 - q) / (1 - (q * mpmath.exp(e2)) ** ((mu2 - 1) / mu2))
        high = mpmath.exp(e1) / q ** (1 / (mu1 - 1))
        result = mpmath.log((1 - q) * base ** (a - 1) + q * high ** (a - 1)) / (a - 1)
        return min(independent, result)


@given(st.floats(-4.0, 3.5), st.floats(-1.0, 3.0), st.floats(0.0, 3.0))
def test_the_bound_is_never_below_its_formula(size: float, noise: float, above: float) -> None:
    log_q, sigma, order = -(10.0**size), 10.0**noise, 1.0 + 10.0 ** (above - 1.0)
    result = float(rdp_gaussian(np.array([log_q]), sigma, np.array([order]))[0, 0])
    exact = exactly(log_q, sigma, order)
    independent = order / sigma**2
    # A condition that holds by less than rounding may fail here, on the private side.
    assert result >= exact and (result <= float(exact) * (1.0 + 1e-11) + 1e-300 or result == pytest.approx(independent, rel=1e-12))


def test_an_order_close_to_1_costs_no_less_than_the_next() -> None:
    orders = 1.0 + 10.0 ** -np.arange(12.0, -1.0, -1.0)
    for log_q in (-0.5, -3.0, -30.0, -300.0):
        result = total_rdp_gaussian(np.array([log_q]), np.ones(1), 40.0, orders)
        assert np.all(np.diff(result) >= -1e-12 * result[:-1]) and np.all(result > 0.0)


def test_what_is_certain_costs_nothing_and_nonsense_is_an_internal_error() -> None:
    from dpcli.base.errors import InternalError

    assert rdp_gaussian(np.array([-np.inf]), 5.0, np.array([2.0, 64.0])).tolist() == [[0.0, 0.0]]
    for log_q, sigma, order in ((0.1, 5.0, 2.0), (math.nan, 5.0, 2.0), (-1.0, 0.0, 2.0), (-1.0, math.nan, 2.0), (-1.0, 5.0, 1.0)):
        with pytest.raises(InternalError):
            rdp_gaussian(np.array([log_q]), sigma, np.array([order]))


@of_each("noise", [5e-324, 1e-300, 1e-160, 1e160, 1e300, 1.7e308])
@of_each("entry", ["gnmax", "confident-gnmax", "lnmax"])
def test_noise_at_the_ends_of_what_a_number_can_be(entry: str, noise: float) -> None:
    """Never an error: too little noise makes sure what comes out, and costs nothing given votes that differ; too much never costs 0."""
    from dpcli.base.lazy import load
    from dpcli.file.pipeline.section import MECHANISM_TYPES
    from dpcli.mechanisms.neighbours import Adjacency, Neighbours
    from dpcli.predict.plugin import AGGREGATORS

    cls = load(MECHANISM_TYPES.registry[entry])
    keys = {name: noise if name in ("sigma", "scale", "threshold_sigma") else value for name, value in cls.example.items()}
    spec = cls(**keys)
    counts, orders = votes(7, 10, 250, [0.98, 0.3]), np.array([1.5, 8.0, 64.0])
    result = load(AGGREGATORS[entry]).of(spec).expected_cost(counts, counts.max(axis=1)).rdp(orders)
    assert np.all(result > 0.0 if noise > 1.0 else result >= 0.0) and not np.isnan(result).any()
    mechanism = spec.resolve(Neighbours(Adjacency.ADD_REMOVE, 1, 1))
    if noise < 1.0:
        with pytest.raises(NotRepresentable, match="the noise protects nothing"):
            mechanism.rdp(orders)
    else:
        assert np.all(mechanism.rdp(orders) >= 0.0)


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
    (result,) = of.by_distance(np.array([case["votes"]]), case["teachers"])
    assert result[0] == pytest.approx(case["LS0"], rel=CLOSE, abs=0.0)
    assert (result.max(), result.argmax()) == (pytest.approx(case["LSmax"], rel=CLOSE), case["argmax_d"])
    assert smooth_bound(result, case["beta"]) == pytest.approx(case["SS"], rel=CLOSE)


@of_each("case", REFERENCE["smooth_threshold"], told=lambda case: f"{case['votes'][:2]}")
def test_thresholds(case: dict[str, Any]) -> None:
    largest = np.array([float(max(case["votes"]))])
    (result,) = threshold_by_distance(largest, case["T"], case["sigma"], case["order"], case["teachers"])
    assert result[0] == pytest.approx(case["LS0"], rel=CLOSE, abs=1e-15)
    assert result.max() == pytest.approx(case["LSmax"], rel=CLOSE, abs=1e-15)
    assert smooth_bound(result, case["beta"]) == pytest.approx(case["SS"], rel=CLOSE, abs=1e-15)


def test_what_the_release_costs() -> None:
    for case in REFERENCE["gnss_rdp"]:
        result = cost_of_release(ReleaseParameters(case["order"], case["beta"], case["sigma_ss"], 0.1))
        assert result == pytest.approx(case["rdp"], rel=CLOSE)
    for order, beta in ((20.0, 0.025), (1.0, 0.01), (30.0, 0.1)):
        with pytest.raises(CannotCertify, match="expected an order between 1 and"):
            cost_of_release(ReleaseParameters(order, beta, 5.0, 0.1))
    # A square of sigma would underflow or overflow.
    assert cost_of_release(ReleaseParameters(4.0, 0.01, 1e-200, 0.1)) == math.inf
    change_of_scale = (-0.5 * math.log1p(-0.08) + 0.04) / 3.0
    assert cost_of_release(ReleaseParameters(4.0, 0.01, 1e200, 0.1)) == pytest.approx(change_of_scale, rel=CLOSE)


def test_the_conditions() -> None:
    for case in REFERENCE["conditions"]:
        of = AnswerSensitivity(float(case["sigma"]), case["classes"], case["order"])
        assert monotone_conditions(of, 250) == tuple(case["C5,C6"])
    # As the published symbolic check answers them.
    for sigma, classes, order, c6 in (
        (40.0, 10, 20.0, True),
        (100.0, 150, 25.0, True),
        (10.0, 10, 15.0, False),
        (3.0, 2, 3.0, True),
    ):
        assert monotone_conditions(AnswerSensitivity(sigma, classes, order), 250) == (True, c6)


def test_where_votes_change_nothing_there_is_nothing_to_sanitise() -> None:
    of = AnswerSensitivity(0.5, 10, 64.0)
    assert of.log_q0 < -1000.0  # far off, and there
    with pytest.raises(CannotCertify, match="nothing to sanitise"):
        _ = AnswerSensitivity(0.01, 10, 64.0).log_q0


def every_vote(teachers: int, classes: int) -> list[tuple[int, ...]]:
    return [row for row in itertools.product(range(teachers + 1), repeat=classes) if sum(row) == teachers]


def neighbours(row: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the votes where one teacher votes otherwise."""
    result = []
    for source, target in itertools.permutations(range(len(row)), 2):
        if row[source]:
            moved = list(row)
            moved[source] -= 1
            moved[target] += 1
            result.append(tuple(moved))
    return result


@of_each("teachers, classes, sigma, order", [(24, 2, 4.0, 3.0), (16, 3, 4.0, 3.0), (14, 3, 2.0, 2.0)])
@of_each("beta", [0.02, 0.1])
def test_the_smooth_bound_is_one(teachers: int, classes: int, sigma: float, order: float, beta: float) -> None:
    """Over every vote there is: not below the change to any neighbour, and e^beta apart at most from a neighbour's."""
    of = AnswerSensitivity(sigma, classes, order)
    assert monotone_conditions(of, teachers) == (True, True)
    rows = every_vote(teachers, classes)
    cost = dict(zip(rows, of.cost(log_q_gaussian(np.array(rows), sigma)).tolist(), strict=True))
    distances = of.by_distance(np.array(rows), teachers)
    bound = {row: smooth_bound(one, beta) for row, one in zip(rows, distances, strict=True)}
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
    bound = [smooth_bound(one, beta) for one in threshold_by_distance(largest, threshold, sigma, order, teachers)]
    for i in range(teachers):
        assert abs(cost[i] - cost[i + 1]) <= min(bound[i], bound[i + 1]) * (1.0 + 1e-9)
        assert max(bound[i], bound[i + 1]) <= math.exp(beta) * min(bound[i], bound[i + 1]) * (1.0 + 1e-9)


def test_the_smooth_bound_of_a_sum_is_one() -> None:
    """With two queries, d teachers that change their minds may move one of them and leave the other, or move both by less."""
    teachers, beta, order, sigma = 20, 0.05, 6.0, 3.0
    largest = np.arange(teachers + 1.0)
    rows = np.stack((largest, teachers - largest), axis=1).astype(int)
    of_threshold = threshold_by_distance(largest, 12.0, sigma, order, teachers)
    of_answer = AnswerSensitivity(4.0, 2, 3.0).by_distance(rows, teachers)
    apart = np.abs(largest[:, None] - largest)
    for result in (of_threshold, of_answer, of_threshold + of_answer):
        local = result[:, 0]
        for a, b in itertools.combinations(range(teachers + 1), 2):
            shrunk = np.exp(-beta * np.maximum(apart[a][:, None], apart[b]))
            assert smooth_bound(result[a] + result[b], beta) >= (shrunk * (local[:, None] + local)).max() * (1.0 - 1e-12)


def test_a_release_is_below_the_costs_of_both_as_rarely_as_it_says() -> None:
    """The share of Z for which it is below what neighbouring votes may cost, found where the two meet."""
    for failure in (0.3, 0.05, 1e-4):
        release = ReleaseParameters(8.0, 0.01, 3.0, failure)
        low, high = -40.0, 40.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if noisy_cost(1.0, 0.2, release, middle) < 1.2 else (low, middle)
        assert 0.5 * math.erfc(-high / math.sqrt(2.0)) == pytest.approx(failure, rel=1e-6)
    with pytest.raises(CannotCertify, match="a smaller beta"):
        noisy_cost(1.0, 0.2, ReleaseParameters(2.0, 0.2, 20.0, 0.01), 0.0)


def test_the_inverse_of_the_normal_distribution() -> None:
    z = -np.concatenate((np.linspace(0.0, 40.0, 81), [100.0, 1000.0]))
    from dpcli.numerics.logspace import log_ndtr_array

    assert inverse_log_ndtr(log_ndtr_array(z)) == pytest.approx(z, rel=1e-11, abs=1e-11)
