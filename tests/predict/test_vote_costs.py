"""What votes cost: the reference values, a second computation in high precision, and laws."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.predict.voting.aggregators import Aggregator, ConfidentGnMax, GnMax, LnMax
from dpcli.predict.voting.gaussian_bound import rdp_gaussian, total_rdp_gaussian
from dpcli.predict.voting.winner import log_answered, log_q_gaussian, log_q_laplace
from tests.cases import of_each
from tests.predict.recipes import GRID, REFERENCE, votes

CLOSE = 1e-9  # relative, as agreed; the values differ by rounding, and by ours being rounded up


def cost(aggregator: Aggregator, counts: Any, order: float) -> float:
    found = np.array([counts])
    return float(aggregator.realised(found, found.max(axis=1), np.ones(1)).rdp(np.array([order]))[0])


@of_each("case", REFERENCE["gnmax_votes"], told=lambda case: f"{case['votes'][:3]}-{case['sigma']}-{case['order']}")
def test_gnmax(case: dict[str, Any]) -> None:
    assert log_q_gaussian(np.array([case["votes"]]), case["sigma"])[0] == pytest.approx(case["logq"], rel=1e-12)
    assert cost(GnMax(case["sigma"]), case["votes"], case["order"]) == pytest.approx(case["rdp"], rel=CLOSE)
    assert case["order"] / case["sigma"] ** 2 == pytest.approx(case["rdp_data_independent"], rel=CLOSE)


def test_gnmax_by_log_q() -> None:
    for case in REFERENCE["gnmax_logq"]:
        found = rdp_gaussian(np.array([float(case["logq"])]), case["sigma"], np.array([float(case["order"])]))[0, 0]
        assert found == pytest.approx(case["rdp"], rel=CLOSE), case


def test_threshold() -> None:
    for case in REFERENCE["threshold"]:
        aggregator, largest = ConfidentGnMax(1.0, case["T"], case["sigma1"]), np.array([float(max(case["votes"]))])
        (part,) = aggregator.thresholds(largest)
        assert log_answered(largest, case["T"], case["sigma1"])[0][0] == pytest.approx(case["log_pr_answered"], rel=1e-12)
        assert part.rdp(np.array([case["order"]]))[0] == pytest.approx(case["rdp"], rel=CLOSE), case


def test_lnmax() -> None:
    for case in REFERENCE["lnmax"]:
        assert log_q_laplace(np.array([case["votes"]]), case["lambda"])[0] == pytest.approx(case["logq"], rel=1e-12)
        assert 2.0 / case["lambda"] == pytest.approx(case["pure_eps"], rel=1e-12)
        assert cost(LnMax(case["lambda"]), case["votes"], case["order"]) == pytest.approx(case["rdp"], rel=CLOSE), case


@of_each("case", REFERENCE["tables"], told=lambda case: case["name"])
def test_a_published_table(case: dict[str, Any]) -> None:
    """The expected cost, by the classic conversion on the published orders."""
    counts = votes(case["n"], case["classes"], case["teachers"], case["conc_cycle"])
    aggregator: Any = GnMax(case["sigma2"])
    if case["T"] is not None:
        aggregator = ConfidentGnMax(case["sigma2"], case["T"], case["sigma1"])
    found = aggregator.expected(counts, counts.max(axis=1))
    assert found.answered == pytest.approx(case["expected_answered"], rel=1e-12)
    if case["data_independent"]:
        rdp = GRID * found.answered / case["sigma2"] ** 2
        rdp += 0.0 if case["T"] is None else GRID * case["n"] / (2.0 * case["sigma1"] ** 2)
        values = classic(GRID, rdp, math.log(case["delta"]))
        epsilon, order = float(values.min()), float(GRID[values.argmin()])
    else:
        epsilon, order = found.epsilon(case["delta"], classic, GRID)
    assert epsilon == pytest.approx(case["eps_classic"], rel=CLOSE)
    assert order == case["order"]


def test_the_tiny_table_by_both_conversions() -> None:
    case = REFERENCE["tiny_table"]
    counts = np.array(case["votes"])
    found = GnMax(case["sigma"]).expected(counts, counts.max(axis=1))
    assert found.rdp(np.array([2.0, 10.0])) == pytest.approx([case["rdp_at_2"], case["rdp_at_10"]], rel=CLOSE)
    for conversion, name in ((classic, "classic"), (balle, "balle")):
        epsilon, order = found.epsilon(case["delta"], conversion, GRID)
        assert (epsilon, order) == (pytest.approx(case[f"eps_{name}"], rel=CLOSE), case[f"order_{name}"])
        assert found.epsilon(case["delta"], conversion)[0] <= epsilon  # over all real orders


def test_what_a_session_with_abstentions_is_charged() -> None:
    """The threshold of every query, whether it was answered or not, and the answers of those that were."""
    counts = votes(40, 10, 250, [0.98, 0.6])
    largest, answered = counts.max(axis=1), (np.arange(40) % 3 == 0).astype(float)
    aggregator, orders = ConfidentGnMax(40.0, 200.0, 150.0), np.array([2.0, 9.0, 40.0])
    thresholds = rdp_gaussian(np.minimum(*log_answered(largest, 200.0, 150.0)), math.sqrt(2.0) * 150.0, orders).sum(axis=0)
    answers = rdp_gaussian(log_q_gaussian(counts[answered > 0], 40.0), 40.0, orders).sum(axis=0)
    assert aggregator.realised(counts, largest, answered).rdp(orders) == pytest.approx(thresholds + answers, rel=1e-12)
    none = aggregator.realised(counts, largest, np.zeros(40)).rdp(orders)
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
        found = mpmath.log((1 - q) * base ** (a - 1) + q * high ** (a - 1)) / (a - 1)
        return min(independent, found)


@given(st.floats(-4.0, 3.5), st.floats(-1.0, 3.0), st.floats(0.0, 3.0))
def test_the_bound_is_never_below_its_formula(size: float, noise: float, above: float) -> None:
    log_q, sigma, order = -(10.0**size), 10.0**noise, 1.0 + 10.0 ** (above - 1.0)
    found = float(rdp_gaussian(np.array([log_q]), sigma, np.array([order]))[0, 0])
    exact = exactly(log_q, sigma, order)
    independent = order / sigma**2
    # A condition that holds by less than rounding may fail here, on the private side.
    assert found >= exact and (found <= float(exact) * (1.0 + 1e-11) + 1e-300 or found == pytest.approx(independent, rel=1e-12))


VOTED = st.lists(st.integers(0, 300), min_size=2, max_size=6).filter(lambda counts: sum(counts) > 0)


@pytest.mark.long
@given(st.lists(VOTED.map(lambda counts: (counts * 6)[:6]), min_size=1, max_size=8), st.floats(1.0, 200.0), st.randoms())
def test_laws_of_the_sum(rows: list[list[int]], sigma: float, random: Any) -> None:
    """Order of queries and labels is irrelevant; n equal queries are n times one; more noise costs less; a query more costs more."""
    counts, orders = np.array(rows), np.array([1.5, 2.0, 8.0, 64.0])

    def total(chosen: np.ndarray, noise: float = sigma) -> np.ndarray:
        return GnMax(noise).expected(chosen, chosen.max(axis=1)).rdp(orders)

    mixed = counts[np.array(random.sample(range(len(rows)), len(rows)))][:, np.array(random.sample(range(6), 6))]
    assert total(mixed) == pytest.approx(total(counts), rel=1e-12, abs=0.0)
    assert total(np.repeat(counts, 3, axis=0)) == pytest.approx(3.0 * total(counts), rel=1e-12)
    assert np.all(total(counts) <= len(rows) * orders / sigma**2 * (1.0 + 1e-12))
    assert np.all(total(counts[:-1] if len(rows) > 1 else counts) <= total(counts) * (1.0 + 1e-12))


def test_an_order_close_to_1_costs_no_less_than_the_next() -> None:
    orders = 1.0 + 10.0 ** -np.arange(12.0, -1.0, -1.0)
    for log_q in (-0.5, -3.0, -30.0, -300.0):
        found = total_rdp_gaussian(np.array([log_q]), np.ones(1), 40.0, orders)
        assert np.all(np.diff(found) >= -1e-12 * found[:-1]) and np.all(found > 0.0)


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
    from dpcli.file.pipeline.section import MECHANISMS
    from dpcli.mechanisms.neighbours import Adjacency, Neighbours
    from dpcli.predict.plugin import AGGREGATORS

    cls = load(MECHANISMS.registry[entry])
    keys = {name: noise if name in ("sigma", "scale", "threshold_sigma") else value for name, value in cls.example.items()}
    spec = cls(**keys)
    counts, orders = votes(7, 10, 250, [0.98, 0.3]), np.array([1.5, 8.0, 64.0])
    found = load(AGGREGATORS[entry]).of(spec).expected(counts, counts.max(axis=1)).rdp(orders)
    assert np.all(found > 0.0 if noise > 1.0 else found >= 0.0) and not np.isnan(found).any()
    mechanism = spec.resolve(Neighbours(Adjacency.ADD_REMOVE, 1, 1))
    if noise < 1.0:
        with pytest.raises(NotRepresentable, match="the noise protects nothing"):
            mechanism.rdp(orders)
    else:
        assert np.all(mechanism.rdp(orders) >= 0.0)
