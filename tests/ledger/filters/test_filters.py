"""Tests of the privacy filters: against closed forms, against the accountants, and that each cap converts back within epsilon."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.base.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.ledger import amounts
from dpcli.ledger.filters.currencies import mu_of
from dpcli.ledger.filters.filter import filter_for_cap, filter_named
from dpcli.ledger.plugin import FILTERS
from dpcli.mechanisms.choice.randomized_response import RandomizedResponseSpec
from dpcli.numerics.closed.normal import gaussian_epsilon
from tests.ledger.cases import every
from tests.ledger.pipelines import gaussian, pipeline, pure

DELTA = 1e-6
EPSILONS = st.floats(0.01, 20.0)
DELTAS = st.sampled_from([1e-12, 1e-9, 1e-6, 1e-3, 0.1])


def opened(name: str, epsilon: float = 3.0, delta: float = DELTA):
    return filter_for_cap(name, epsilon, delta, {})


@pytest.mark.parametrize("name", FILTERS)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_what_is_within_the_caps_is_within_epsilon(name: str, epsilon: float, delta: float) -> None:
    found = opened(name, epsilon, delta)
    caps = amounts.read(found.caps(epsilon, delta))
    assert 0.0 < found.epsilon(caps, delta) <= epsilon * (1 + 1e-12)
    assert found.epsilon(caps, delta) >= epsilon * (1 - 1e-6)  # and the cap is not needlessly low
    assert found.epsilon(dict.fromkeys(caps, Decimal(0)), delta) <= epsilon


@pytest.mark.parametrize("name", FILTERS)
@given(first=EPSILONS, second=EPSILONS)
def test_a_larger_cap_is_larger_in_every_currency(name: str, first: float, second: float) -> None:
    low, high = sorted((first, second))
    found = opened(name, high)
    small, large = (amounts.read(found.caps(cap, DELTA)) if not _refused(found, cap) else None for cap in (low, high))
    if small and large:
        assert all(small[key] <= large[key] for key in small)


def _refused(found: object, cap: float) -> bool:
    try:
        found.caps(cap, DELTA)  # type: ignore[attr-defined]
    except InputError:
        return True
    return False


def test_parameters_survive_the_opening_entry() -> None:
    def survive(name: str) -> None:
        found = opened(name)
        assert filter_named(name, found.parameters()) == found
        assert found.source
        assert found.name == name

    every(FILTERS, survive)


def test_zcdp_costs_are_rho() -> None:
    assert Decimal(opened("zcdp").cost(gaussian(2.0, 8), DELTA).amounts["rho"]) == pytest.approx(Decimal(1), abs=Decimal("1e-14"))
    assert float(opened("zcdp").cost(gaussian(2.0, 8), DELTA).amounts["rho"]) >= 1.0


def test_rdp_costs_are_the_divergence_at_the_order_of_the_ledger() -> None:
    found = filter_for_cap("rdp", 3.0, DELTA, {"order": 10.0})
    assert float(found.cost(gaussian(2.0, 8), DELTA).amounts["rdp"]) == pytest.approx(10.0, rel=1e-12)  # a / (2 sigma^2) each


def test_the_order_is_the_one_that_lets_a_gaussian_spend_the_most() -> None:
    best = opened("rdp")
    order = best.parameters()["order"]

    def rho(at: float) -> float:
        return float(filter_for_cap("rdp", 3.0, DELTA, {"order": at}).caps(3.0, DELTA)["rdp"]) / at

    assert rho(order) >= max(rho(order * factor) for factor in (0.8, 0.95, 1.05, 1.25)) * (1 - 1e-9)
    # The zCDP filter converts at the best order for its own cap: the fixed order loses next to nothing there.
    assert rho(order) == pytest.approx(float(opened("zcdp").caps(3.0, DELTA)["rho"]), rel=1e-4)


def test_gdp_costs_are_squares_of_mu_and_the_cap_is_the_analytic_gaussian() -> None:
    found = opened("gdp")
    assert float(found.cost(gaussian(2.0, 8), DELTA).amounts["mu_squared"]) == pytest.approx(2.0, rel=1e-12)
    cap = float(found.caps(3.0, DELTA)["mu_squared"])
    assert gaussian_epsilon(math.sqrt(cap), DELTA)[0] == pytest.approx(3.0, rel=1e-9)


@given(epsilon=st.floats(1e-6, 500.0))
def test_a_pure_mechanism_is_gaussian_dp(epsilon: float) -> None:
    """The trade-off curve of randomised response touches the Gaussian's at its kink, and lies above it elsewhere."""
    from scipy.special import log_ndtr, ndtri_exp

    from dpcli.mechanisms.neighbours import Adjacency, Neighbours

    mu = mu_of(RandomizedResponseSpec(epsilon=epsilon).resolve(Neighbours(Adjacency.REPLACE_ONE)))
    log_kink = -epsilon - math.log1p(math.exp(-epsilon))
    assert log_ndtr(-mu / 2.0) <= log_kink  # mu is large enough
    assert mu <= -2.0 * ndtri_exp(log_kink) * (1.0 + 1e-8) + 1e-12  # and no larger than it must be
    for alpha in (0.001, 0.01, 0.1, 0.3, 0.5):
        beta = max(1.0 - math.exp(epsilon) * alpha if epsilon < 700 else 0.0, math.exp(-epsilon) * (1.0 - alpha), 0.0)
        from scipy.special import ndtr, ndtri

        assert ndtr(ndtri(1.0 - alpha) - mu) <= beta * (1.0 + 1e-9) + 1e-15


def test_approx_costs_are_what_somebody_stated() -> None:
    assert opened("approx-dp").cost(pure(0.1), 0.0).amounts == {"epsilon": "0.1", "delta": "0"}
    assert opened("approx-dp").caps(0.3, 1e-6) == {"epsilon": "0.3", "delta": "0.000001"}


def test_approx_takes_the_tightest_accountant_for_the_run_itself() -> None:
    run = gaussian(1.1, 1000, 0.004)
    assert float(opened("approx-dp").cost(run, DELTA).amounts["epsilon"]) == pytest.approx(
        account(run, delta=DELTA).upper, rel=1e-15
    )


def test_advanced_is_the_closed_form() -> None:
    found = filter_for_cap("advanced", 3.0, DELTA, {"slack": 1e-7})
    half_squares = 0.5 * 40 * 0.1**2
    assert float(found.cost(pure(0.1), 0.0).amounts["half_squares"]) == pytest.approx(0.005, rel=1e-12)
    expected = half_squares + math.sqrt(4.0 * half_squares * math.log(1e7))
    total = {"half_squares": Decimal(repr(half_squares)), "delta": Decimal(0)}
    assert found.epsilon(total, DELTA) == pytest.approx(expected, rel=1e-12)
    assert Decimal(found.caps(3.0, DELTA)["delta"]) == Decimal("1e-6") - Decimal("1e-7")


def test_many_small_runs_last_longer_under_advanced_than_under_basic() -> None:
    run = pure(0.01)
    lasting = {
        name: min(cap / cost for key, cap in amounts.read(opened(name).caps(3.0, DELTA)).items() if (cost := _cost(name, run)[key]))
        for name in ("approx-dp", "advanced")
    }
    assert lasting["advanced"] > 9 * lasting["approx-dp"]


def _cost(name: str, run) -> dict[str, Decimal]:
    return amounts.read(opened(name).cost(run, 0.0).amounts)


WITHOUT_COST = [
    ("zcdp", gaussian(1.0, 10, 0.1), NotRepresentable, "sampling does not lower rho"),
    ("gdp", gaussian(1.0, 10, 0.1), NotRepresentable, "Gaussian noise without sampling"),
    (
        "rdp",
        pipeline('[[mechanism]]\nname = "a"\ntype = "approx-dp"\nepsilon = 1.0\ndelta = 1e-6\n'),
        NotRepresentable,
        "delta > 0",
    ),
    ("approx-dp", gaussian(1.0), CannotCertify, "no finite epsilon"),
]


def test_a_run_without_a_cost_is_refused_with_the_reason() -> None:
    for name, run, error, words in WITHOUT_COST:
        with pytest.raises(error, match=words):
            opened(name).cost(run, 0.0)


def test_filters_that_convert_need_a_delta() -> None:
    for name in ("zcdp", "rdp", "gdp", "advanced"):
        with pytest.raises(InputError, match="--delta"):
            filter_for_cap(name, 1.0, 0.0, {})


def test_an_order_that_the_conversion_eats_up_is_refused() -> None:
    with pytest.raises(InputError, match="conversion"):
        filter_for_cap("rdp", 0.01, 1e-9, {"order": 2.0}).caps(0.01, 1e-9)
    with pytest.raises(InputError, match="--order"):
        filter_for_cap("rdp", 1.0, 1e-9, {"order": 1.0})


def test_an_unknown_filter_names_them_all() -> None:
    with pytest.raises(InputError, match=r"approx-dp.*advanced"):
        filter_for_cap("pld", 1.0, 1e-6, {})


@given(st.lists(st.floats(0.0, 1e6), max_size=30))
def test_amounts_add_exactly_and_never_below(values: list[float]) -> None:
    total: dict[str, Decimal] = {"x": Decimal(0)}
    for value in values:
        total = amounts.add(total, amounts.read({"x": amounts.cost_text(value)}))
    exact = sum((amounts.decimal_of(value) for value in values), Decimal(0))
    assert total["x"] >= exact or math.isclose(float(total["x"]), float(exact), rel_tol=1e-15)
    back = total
    for value in values:
        back = amounts.subtract(back, amounts.read({"x": amounts.cost_text(value)}))
    assert back["x"] == 0


@given(st.floats(0.0, 1e300))
def test_a_cost_is_written_upwards(value: float) -> None:
    written = Decimal(amounts.cost_text(value))
    assert written >= amounts.decimal_of(value)
    assert written <= amounts.decimal_of(value) * (1 + Decimal("1e-18")) + Decimal("1e-330")
    assert amounts.float_above(written) >= written
    assert Decimal(amounts.cap_text(value)) <= Decimal(value)


def test_ten_tenths_are_one() -> None:
    total = {"x": Decimal(0)}
    for _ in range(10):
        total = amounts.add(total, amounts.read({"x": amounts.cost_text(0.1)}))
    assert total["x"] == 1


def test_amounts_that_nobody_wrote_are_refused() -> None:
    def refused(bad: object) -> None:
        with pytest.raises(LedgerError):
            amounts.read({"x": bad})

    every(["nan", "inf", "-1", "", "1e", "ten", 1.0, None, "9" * 500], refused)
