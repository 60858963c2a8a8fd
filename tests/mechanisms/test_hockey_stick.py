"""`approx_dp` of every mechanism: at the epsilon that it returns for a delta, the true delta is at most that, and only a little less.

True deltas are closed forms, quadratures and enumerations of this file and of tests/oracles.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.combined.composed import Composed, Parallel
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Free, Pure, approx
from dpcli.mechanisms.stated.renyi import Renyi, Zcdp
from tests import oracles
from tests.cases import of_each

DELTAS = [0.3, 1e-2, 1e-5, 1e-10, 1e-15]


def exact_and_tight(mechanism: Mechanism, delta_at: Callable[[float], mp.mpf], delta: float, tolerance: float = 1e-6) -> None:
    """Assert delta(eps) <= delta up to the rounding of eps (two ulp of it and of 1), and that delta is exceeded a little below eps."""
    epsilon = mechanism.approx_dp(delta)
    assert delta_at(epsilon * (1 + 4e-16) + 4e-16) <= mp.mpf(delta) * (1 + mp.mpf("1e-12"))
    if epsilon > 0.0:
        pure = mechanism.approx_dp(0.0)
        # Beside the pure epsilon, delta changes by an ulp of epsilon per step, 1e-16; elsewhere a small step down exceeds delta.
        assert pure - epsilon <= 1e-13 or delta_at(epsilon * (1 - tolerance) - 1e-12) >= delta * (1 - tolerance)


FINITE: list[tuple[Mechanism, tuple[list[mp.mpf], list[mp.mpf]]]] = [
    *((Pure(epsilon), oracles.response_pair(epsilon, 2)) for epsilon in (1e-3, 0.5, 2.0, 10.0)),
    *((RandomizedResponse(epsilon, k), oracles.response_pair(epsilon, k)) for epsilon, k in ((0.5, 2), (1.0, 4), (6.0, 50))),
    *((DiscreteLaplace(*at), oracles.discrete_laplace_pair(*at)) for at in ((1.0, 1), (2.0, 3), (0.5, 4), (10.0, 7))),
    *((DiscreteGaussian(*at), oracles.discrete_gaussian_pair(*at)) for at in ((0.4, 1), (1.0, 1), (1.0, 3), (5.0, 2))),
]


@of_each("delta", DELTAS)
@of_each(("mechanism", "pair"), FINITE)
def test_finitely_many_outcomes(mechanism: Mechanism, pair: tuple[list[mp.mpf], list[mp.mpf]], delta: float) -> None:
    tolerance = 1e-3 if isinstance(mechanism, DiscreteLaplace) and delta < 1e-9 else 1e-6
    exact_and_tight(mechanism, lambda e: oracles.finite_delta(*pair, e), delta, tolerance)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_small_epsilons_keep_their_digits(share: float) -> None:
    """delta(eps) = (e^e0 - e^eps) / (1 + e^e0), so eps = e0 - log1p's argument, to full relative accuracy and from above."""
    epsilon = 1e-9
    with mp.workdps(40):
        delta = share * epsilon / 2
        exact = mp.log(mp.exp(epsilon) - mp.mpf(delta) * (1 + mp.exp(epsilon)))
    assert exact * (1 - mp.mpf("1e-14")) <= Pure(epsilon).approx_dp(float(delta)) <= exact * (1 + mp.mpf("1e-12"))


@of_each("delta", DELTAS)
@of_each("epsilon", [1e-3, 0.5, 2.0, 10.0])
def test_laplace(epsilon: float, delta: float) -> None:
    """delta(eps) = 1 - e^{(eps - e0)/2} on [0, e0]; the formula itself is checked by quadrature below."""
    exact_and_tight(Laplace(epsilon), lambda e: -mp.expm1((mp.mpf(e) - mp.mpf(epsilon)) / 2) if e < epsilon else mp.mpf(0), delta)


@pytest.mark.parametrize(("epsilon", "at"), [(1.0, 0.3), (3.0, 0.0), (0.2, 0.15)])
def test_laplace_formula_by_quadrature(epsilon: float, at: float) -> None:
    def excess(x: mp.mpf) -> mp.mpf:
        return max(mp.exp(-abs(x - epsilon)) / 2 - mp.exp(at) * mp.exp(-abs(x)) / 2, mp.mpf(0))

    crossing = (mp.mpf(at) + epsilon) / 2
    exact = mp.quad(excess, [crossing, epsilon, epsilon + 20, mp.inf])
    assert float(exact) == pytest.approx(-math.expm1((at - epsilon) / 2), rel=1e-12)


@of_each("share", [0.5, 0.8])
@of_each(("epsilon", "at"), [(0.2, 0.0), (1.0, 0.0), (1.0, 0.7), (4.0, 1.0), (4.0, 3.9)])
def test_a_vector_of_the_same_l1_sensitivity_costs_no_more(epsilon: float, at: float, share: float) -> None:
    """Two Laplace coordinates that split e0: the hockey-stick of the product, by quadrature over the first loss."""
    one, two = mp.mpf(epsilon) * share, mp.mpf(epsilon) * (1 - share)

    def tail(e0: mp.mpf, level: mp.mpf) -> mp.mpf:
        """delta of one coordinate at any level, positive or negative."""
        return mp.mpf(0) if level >= e0 else 1 - mp.exp(level) if level <= -e0 else 1 - mp.exp((level - e0) / 2)

    atoms = tail(two, at - one) / 2 + mp.exp(-one) / 2 * tail(two, at + one)
    kinks = sorted({-one, one, *(k for k in (at - two, at + two) if -one < k < one)})
    middle = mp.quad(lambda loss: mp.exp((loss - one) / 2) / 4 * tail(two, at - loss), kinks)
    assert atoms + middle <= -mp.expm1((mp.mpf(at) - epsilon) / 2) * (1 + mp.mpf("1e-12"))


@of_each("delta", DELTAS)
@of_each("epsilon", [1e-3, 0.5, 2.0, 10.0])
def test_bounded_range(epsilon: float, delta: float) -> None:
    """The worst t at each eps', by a zooming grid over the exact two-outcome pairs."""

    def worst(at: float) -> mp.mpf:
        low, high = min(max(at, 0.0), epsilon), epsilon  # a loss below `at` costs nothing
        for _ in range(12):
            points = [low + (high - low) * i / 12 for i in range(13)]
            values = [oracles.finite_delta(*oracles.bounded_range_pair(epsilon, t), at) for t in points]
            best = max(range(13), key=values.__getitem__)
            low, high = points[max(best - 1, 0)], points[min(best + 1, 12)]
        return values[best]

    exact_and_tight(BoundedRange(epsilon), worst, delta)


@given(st.floats(0.01, 8.0), st.floats(0.01, 0.99), st.floats(-8.0, -0.3))
def test_stated_approx_dp(epsilon: float, share: float, log10_delta: float) -> None:
    """The dominating pair has an atom of the stated delta on each side; everything else is scaled by 1 - delta."""
    total = 10.0**log10_delta
    stated = share * total
    p, q = oracles.response_pair(epsilon, 2)
    with mp.workdps(oracles.DIGITS):
        kept = 1 - mp.mpf(stated)
        pair = ([mp.mpf(stated), *(kept * x for x in p), 0], [0, *(kept * x for x in q), mp.mpf(stated)])
    exact_and_tight(approx(epsilon, stated), lambda e: oracles.finite_delta(*pair, e), total, 1e-5)


def test_stated_approx_dp_says_nothing_below_its_delta() -> None:
    assert approx(1.0, 1e-5).approx_dp(1e-6) == math.inf
    assert approx(1.0, 1e-5).approx_dp(0.0) == math.inf
    assert approx(1.0, 1e-5).approx_dp(1e-5) == pytest.approx(1.0, rel=1e-9)
    assert approx(1.0, 1e-5).delta_floor() == 1e-5


@of_each("delta", DELTAS)
@of_each("mu", [1e-3, 0.5, 2.0, 20.0])
def test_gaussian(mu: float, delta: float) -> None:
    exact_and_tight(Gaussian(mu), lambda e: oracles.gaussian_delta(mu, e), delta)


@of_each("delta", [1e-2, 1e-5, 1e-9])
@of_each(("mu", "rate"), [(1.0, 0.01), (0.5, 0.5), (3.0, 1e-4), (0.3, 0.99)])
def test_sampled_gaussian(mu: float, rate: float, delta: float) -> None:
    """Amplification is exact in the remove direction, the larger one."""

    def worst(e: float) -> mp.mpf:
        return max(oracles.sampled_gaussian_delta(mu, rate, e, direction) for direction in ("remove", "add"))

    exact_and_tight(SampledGaussian(mu, rate), worst, delta)


@of_each("delta", [0.05, 1e-2, 1e-5])
@of_each(("mu", "rate"), [(1.0, 0.01), (0.5, 0.5), (0.25, 0.8)])
def test_sampled_gaussian_replaced(mu: float, rate: float, delta: float) -> None:
    """The pair's delta by quadrature beyond the crossing of the two mixtures."""

    def ratio(x: mp.mpf) -> mp.mpf:
        return (1 - rate + rate * mp.exp(mu * x - mu * mu / mp.mpf(2))) / (1 - rate + rate * mp.exp(-mu * x - mu * mu / mp.mpf(2)))

    epsilon = SampledGaussianReplaced(mu, rate).approx_dp(delta)
    crossing = mp.findroot(lambda x: mp.log(ratio(x)) - epsilon, (mp.mpf(-60), mp.mpf(90)), solver="anderson", tol=1e-20)
    parts = [(1 - rate) * (1 - mp.exp(epsilon)) * mp.ncdf(-crossing), rate * mp.ncdf(mu - crossing)]
    exact = mp.fsum(parts) - rate * mp.exp(epsilon) * mp.ncdf(-mu - crossing)
    assert exact <= delta * (1 + 1e-9)


@of_each("mechanism", [Zcdp(0.4), Renyi((2.0, 8.0, 64.0), (0.8, 3.2, 25.6))])
@of_each("delta", DELTAS)
def test_renyi_guarantees_cover_the_gaussian_they_describe(mechanism: Mechanism, delta: float) -> None:
    """rho = 0.4 is a Gaussian of mu^2 = 0.8."""
    assert mechanism.approx_dp(delta) >= float(oracles.gaussian_epsilon(math.sqrt(0.8), delta))


def test_renyi_guarantees_need_delta() -> None:
    assert Zcdp(0.4).approx_dp(0.0) == Renyi((2.0,), (0.8,)).approx_dp(0.0) == Gaussian(1.0).approx_dp(0.0) == math.inf


@given(st.floats(0.05, 3.0), st.floats(0.05, 3.0), st.integers(1, 3), st.floats(-6.0, -0.5))
def test_composed_epsilons_cover_the_product(one: float, two: float, count: int, log10_delta: float) -> None:
    """Basic composition inside a mechanism, against subset enumeration of the composed worst cases."""
    composed, delta = Composed(((Pure(one), count), (Pure(two), 1))), 10.0**log10_delta
    exact = oracles.decreasing_root(lambda e: oracles.two_point_delta([one] * count + [two], e), delta, count * one + two)
    assert exact <= composed.approx_dp(delta) * (1.0 + 1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_composed_gaussians_share_delta(delta: float) -> None:
    composed = Composed(((Gaussian(0.3), 5), (Gaussian(0.7), 2)))
    assert composed.approx_dp(delta) >= float(oracles.gaussian_epsilon(math.sqrt(5 * 0.09 + 2 * 0.49), delta))
    assert composed.approx_dp(delta) == pytest.approx(
        min(
            5 * Gaussian(0.3).approx_dp(delta / 7) + 2 * Gaussian(0.7).approx_dp(delta / 7),
            5 * Gaussian(0.3).approx_dp(delta / 10) + 2 * Gaussian(0.7).approx_dp(delta / 4),
        ),
        rel=1e-9,
    )


def test_composed_stated_deltas_add_up() -> None:
    composed = Composed(((approx(0.1, 1e-6), 3), (approx(0.2, 2e-6), 1)))
    assert composed.delta_floor() == pytest.approx(5e-6, rel=1e-15)
    assert composed.approx_dp(5e-6) == pytest.approx(0.5, rel=1e-9)


def test_parallel_is_the_dearest_branch() -> None:
    cheap, dear = Composed(((Gaussian(0.3), 1),)), Composed(((Gaussian(0.2), 9),))
    both = Parallel((cheap, dear))
    assert both.gdp() == dear.gdp() and both.zcdp() == dear.zcdp()
    assert both.approx_dp(1e-6) == max(cheap.approx_dp(1e-6), dear.approx_dp(1e-6))
    mixed = Parallel((Composed(((Laplace(1.0), 1),)), cheap))
    assert mixed.approx_dp(1e-6) == max(Laplace(1.0).approx_dp(1e-6), cheap.approx_dp(1e-6))
    assert mixed.approx_dp(0.0) == math.inf


def test_post_processing_is_free() -> None:
    assert Free().approx_dp(0.0) == Free().zcdp() == Free().gdp() == 0.0


@of_each("inner", [Pure(0.7), Laplace(2.0), Gaussian(1.0), approx(1.0, 1e-3)])
@of_each("rate", [1e-6, 0.1, 0.9])
def test_a_sample_smaller_than_delta_hides_everything(inner: Mechanism, rate: float) -> None:
    sampled = PoissonSampled(inner, rate)
    assert sampled.approx_dp(rate) == 0.0
    assert 0.0 < sampled.approx_dp(rate * 5e-3) < inner.approx_dp(5e-3)
    assert sampled.delta_floor() == rate * inner.delta_floor()


def test_amplification_at_an_extreme_rate() -> None:
    with mp.workdps(400):
        exact = mp.log1p(mp.mpf(1e-260) * mp.expm1(mp.mpf(600.1)))
    assert PoissonSampled(Pure(600.1), 1e-260).approx_dp(0.0) >= exact
