"""Amplification by sampling, for mechanisms of which only a curve is known: against enumeration of every sample of small random mechanisms,
under add-remove and replace-one, by Poisson and by fixed-size sampling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcli.base.errors import InputError
from dpcli.mechanisms.choice.randomized_response import RandomizedResponseSpec
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.noise.laplace_mixture import LaplaceMixtureReplaced
from dpcli.mechanisms.sampling.poisson import MAX_ORDER, PoissonReplaced, PoissonSampled, fixed_size
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.renyi import Renyi
from dpcli.numerics.mixture import binomial_mixture
from tests.cases import of_each
from tests.oracles import Array, FinitePairs, hockey_stick, renyi

ORDERS: Array = np.array([1.05, 1.5, 2.0, 2.6, 4.0, 9.5, 40.0, 256.0, 257.5, 300.0, 1000.0])
DELTAS = [0.2, 1e-2, 1e-4, 1e-7]
ROUNDING = 1e-9  # exact sums of a few dozen doubles, divided by order - 1 >= 0.05

sizes, seeds, rates = st.integers(2, 4), st.integers(0, 2**32 - 1), st.floats(-3.0, -0.02).map(lambda x: 10.0**x)


def outputs(rows: int, size: int, seed: int, spread: float) -> list[Array]:
    """Draw an output distribution for each state of the sample: full support, log-probabilities within about `spread`."""
    logs = np.random.default_rng(seed).uniform(0.0, spread, (rows, size))
    return [row / row.sum() for row in np.exp(logs)]


def inner(states: list[Array], distance: int) -> FinitePairs:
    """Return the unsampled mechanism, with the pairs of states that are at most `distance` apart."""
    close = [(a, b) for a, b in itertools.combinations(range(len(states)), 2) if b - a <= distance]
    return FinitePairs(tuple((tuple(states[a].tolist()), tuple(states[b].tolist())) for a, b in close))


def covers(bound: Mechanism, p: Array, q: Array) -> None:
    """Assert that the bound's Renyi curve and (epsilon, delta) lie above those of the exact pair, in both directions."""
    curve = bound.rdp(ORDERS)
    for order, value in zip(ORDERS.tolist(), curve.tolist(), strict=True):
        assert value >= max(renyi(p, q, order), renyi(q, p, order)) * (1.0 - ROUNDING) - 1e-13
    for delta in DELTAS:
        epsilon = bound.approx_dp(delta)
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta * (1.0 + ROUNDING) + 1e-15


def binomial(count: int, rate: float) -> list[float]:
    return [math.comb(count, j) * rate**j * (1.0 - rate) ** (count - j) for j in range(count + 1)]


def mix(states: list[Array], weights: dict[int, float]) -> Array:
    total: Array = np.zeros_like(states[0])
    for state, weight in weights.items():
        total = total + weight * states[state]
    return total


def shifted(weights: dict[int, float], choices: list[float], step: int) -> dict[int, float]:
    """Return the state's distribution after adding `step` times a count distributed as `choices`."""
    result: dict[int, float] = {}
    for (state, weight), (j, chance) in itertools.product(weights.items(), enumerate(choices)):
        result[state + step * j] = result.get(state + step * j, 0.0) + weight * chance
    return result


@given(sizes, seeds, rates, st.integers(0, 3), st.integers(1, 3), st.floats(0.1, 4.0))
def test_poisson_add_remove(size: int, seed: int, rate: float, others: int, group: int, spread: float) -> None:
    """The output depends on how many ones were drawn; `group` ones are removed, `others` stay."""
    states = outputs(others + group + 1, size, seed, spread)
    without = shifted({0: 1.0}, binomial(others, rate), 1)
    p, q = mix(states, shifted(without, binomial(group, rate), 1)), mix(states, without)
    covers(PoissonSampled(inner(states, group), any_sampled(rate, group)), p, q)


@given(sizes, seeds, rates, st.integers(0, 2), st.integers(1, 2), st.floats(0.1, 4.0))
def test_poisson_replace_one(size: int, seed: int, rate: float, others: int, group: int, spread: float) -> None:
    """Contributions +1 become -1: a replacement is two removals long, and the inner curve covers both and one alone."""
    states = outputs(2 * group + others + 1, size, seed, spread)
    base = shifted({group: 1.0}, binomial(others, rate), 1)
    p, q = (mix(states, shifted(base, binomial(group, rate), sign)) for sign in (1, -1))
    covers(PoissonReplaced(inner(states, 2 * group), any_sampled(rate, group)), p, q)


@given(sizes, seeds, st.integers(2, 5), st.integers(1, 4), st.integers(0, 4), st.integers(1, 2), st.floats(0.1, 4.0))
def test_fixed_size_replace_one(size: int, seed: int, total: int, drawn: int, ones: int, group: int, spread: float) -> None:
    """Samples without replacement of 0/1 records; `group` zeros become ones."""
    drawn, group = min(drawn, total), min(group, total)
    ones = min(ones, total - group)
    states = outputs(drawn + group + 1, size, seed, spread)

    def released(records: list[int]) -> Array:
        samples = list(itertools.combinations(records, drawn))
        return sum((states[sum(sample)] for sample in samples), np.zeros(size)) / len(samples)

    rest = [1] * ones + [0] * (total - group - ones)
    bound = fixed_size(inner(states, group), drawn / total, group)
    covers(bound, released([1] * group + rest), released([0] * group + rest))


@given(sizes, seeds, rates, st.floats(0.1, 6.0))
def test_poisson_remove_direction_is_exact_at_integer_orders(size: int, seed: int, rate: float, spread: float) -> None:
    """With one pair and nobody else, the binomial expansion is an identity; `rdp` may exceed it only by the other direction."""
    one, other = outputs(2, size, seed, spread)
    pair = FinitePairs(((tuple(one.tolist()), tuple(other.tolist())),))
    sampled, orders = PoissonSampled(pair, rate), np.array([2.0, 3.0, 7.0])
    mixed = [(1.0 - rate) * b + rate * a for a, b in ((one, other), (other, one))]
    exact = [
        max(renyi(mixed[0], other, a), renyi(mixed[1], one, a), renyi(other, mixed[0], a), renyi(one, mixed[1], a)) for a in orders
    ]
    assert (sampled.rdp(orders) >= np.array(exact) * (1.0 - ROUNDING) - 1e-14).all()
    assert (sampled.rdp(orders) <= pair.rdp(orders) * (1.0 + ROUNDING)).all()


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.3, 0.2), (2.0, 1e-4)])
def test_generic_bound_lies_above_the_exact_gaussian(mu: float, rate: float) -> None:
    """Between integers its chords lie above; at small integers and rates it is nearly the same number."""
    orders = np.array([1.3, 2.0, 2.5, 6.0, 30.0])
    exact, bound = SampledGaussian(mu, rate).rdp(orders), PoissonSampled(Gaussian(mu), rate).rdp(orders)
    assert (bound >= exact * (1.0 - 1e-12)).all()
    assert rate > 0.01 or bound[1] <= 1.05 * exact[1]


@pytest.mark.parametrize("make", [PoissonSampled, PoissonReplaced])
@pytest.mark.parametrize("base", [Gaussian(0.7), Laplace(0.9)], ids=repr)
def test_rate_one_is_no_sampling(make: Callable[[Mechanism, float], Mechanism], base: Mechanism) -> None:
    sampled = make(base, 1.0)
    np.testing.assert_array_equal(sampled.rdp(ORDERS), base.rdp(ORDERS))
    assert sampled.zcdp() == base.zcdp()
    assert sampled.approx_dp(1e-6) == pytest.approx(base.approx_dp(1e-6), rel=1e-12)


@given(st.floats(0.05, 3.0), rates)
def test_sampling_never_costs_more_than_none(epsilon: float, rate: float) -> None:
    base = Laplace(epsilon)
    for sampled in (PoissonSampled(base, rate), PoissonReplaced(base, rate)):
        assert (sampled.rdp(ORDERS) <= base.rdp(ORDERS) * (1.0 + 1e-11)).all()
        assert sampled.approx_dp(0.0) <= base.approx_dp(0.0)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.316])
@pytest.mark.parametrize("make", [PoissonSampled, PoissonReplaced])
def test_no_jump_where_the_expansions_end(make: Callable[[Mechanism, float], Mechanism], rate: float) -> None:
    """A jump in the bound would be a valley of its own; past the last expansion its largest loss bounds what another order adds."""
    last, next_one = make(Laplace(1.0), rate).rdp(np.array([MAX_ORDER, MAX_ORDER + 1e-6]))
    assert next_one == pytest.approx(last, rel=1e-6)


@pytest.mark.parametrize("make", [PoissonSampled, PoissonReplaced])
def test_high_orders_stay_below_the_amplified_pure_epsilon(make: Callable[[Mechanism, float], Mechanism]) -> None:
    sampled = make(Laplace(0.05), 0.1)
    assert sampled.rdp(np.array([1e6]))[0] <= sampled.approx_dp(0.0) * (1.0 + 1e-9)


@given(st.floats(0.0, 1.0), st.integers(1, 50))
@example(1e-18, 5)
def test_any_sampled(rate: float, records: int) -> None:
    exact = 1 - (1 - Fraction(rate)) ** records
    assert any_sampled(rate, records) == pytest.approx(float(exact), rel=1e-12, abs=0.0)


def test_sampling_under_replace_one_needs_the_contribution_form() -> None:
    replaced = Neighbours(Adjacency.REPLACE_ONE)
    bare: list[Spec] = [GaussianSpec(sigma=1.0, sensitivity=1.0), LaplaceSpec(scale=1.0, sensitivity=1.0)]
    for spec in bare:
        with pytest.raises(InputError, match="needs noise_multiplier"):
            spec.poisson(0.1, replaced)
    assert LaplaceSpec(noise_multiplier=2.0).poisson(0.1, replaced) == LaplaceMixtureReplaced(binomial_mixture(0.5, 0.1, 1))
    assert GaussianSpec(noise_multiplier=2.0).poisson(0.1, replaced) == SampledGaussianReplaced(0.5, 0.1)


def test_sampled_randomized_response_is_not_priced_under_zero_out() -> None:
    """Absent: no response. Present: kept or changed. The two versions are then as far apart as without sampling."""
    with pytest.raises(InputError, match="needs noise_multiplier"):
        RandomizedResponseSpec(epsilon=1.0).poisson(0.1, Neighbours(Adjacency.ZERO_OUT))


@of_each("sampled", [PoissonSampled, PoissonReplaced])
@of_each("most", [2, 7, 64, 255, 256, 257, 1000])
@of_each("rate", [1e-3, 0.3])
def test_a_curve_that_is_stated_up_to_an_order_is_sampled_up_to_it(
    sampled: type[PoissonSampled] | type[PoissonReplaced], most: int, rate: float
) -> None:
    """At whole orders the result is that of the whole curve. Beyond the last stated order nothing is known."""
    whole = Gaussian(0.7)
    orders = tuple(float(order) for order in range(2, most + 1))
    stated = Renyi(orders, tuple(0.5 * 0.49 * order for order in orders))
    asked = np.array([order for order in (2.0, 3.0, 7.0, 33.0, 64.0, 200.0) if order <= most])
    known = sampled(stated, rate).rdp(asked)
    assert known == pytest.approx(sampled(whole, rate).rdp(asked), rel=1e-9, abs=0.0)
    assert np.isinf(sampled(stated, rate).rdp(np.array([most + 1.0, 1e5]))).all()
