"""The grid accountant pld against closed forms, reference values, enumeration, and the exact accountant; and its refinement of grids, which
must give a sound answer however little time there is.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcli.accountants import pld
from dpcli.accountants.base import join_equal_steps
from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.optimal import ACCOUNTANT as OPTIMAL
from dpcli.accountants.pld import PldProfile
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.prediction.ensemble import EnsembleMixture
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Free, Pure, approx
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.normal import gaussian_epsilon
from dpcli.numerics.grid.composed_losses import GridTarget, plan_grid
from dpcli.numerics.grid.survey import GridPart, common_unit, survey
from dpcli.numerics.work import allowance
from tests import oracles
from tests.accountants.one_step import KNOWN, Known
from tests.cases import by_tier, of_each, tiered

Steps = tuple[tuple[Mechanism, int], ...]


def steps_of(known: Known) -> Steps:
    kind = SampledGaussian if known.adjacency == "add-remove" else SampledGaussianReplaced
    return tuple((kind(1.0 / noise, rate) if rate < 1.0 else Gaussian(1.0 / noise), count) for rate, noise, count in known.parts)


@pytest.mark.parametrize("known", tiered([(one,) for one in KNOWN if one.parts[0][2] < 20000], 4, 6))
def test_reference_values_lie_in_an_interval_of_the_tolerance(known: Known) -> None:
    bound = PldProfile(steps_of(known)).epsilon(known.delta)
    assert bound.lower is not None and bound.lower <= known.epsilon <= bound.upper
    assert bound.upper - bound.lower <= 1e-3 * bound.upper


def test_a_finer_tolerance_is_met() -> None:
    bound = PldProfile(steps_of(KNOWN[0]), tolerance=3e-5).epsilon(KNOWN[0].delta)
    assert bound.lower is not None and bound.lower <= KNOWN[0].epsilon <= bound.upper
    assert bound.upper - bound.lower <= 3e-5 * bound.upper


@pytest.mark.long
def test_many_steps_are_composed_on_a_coarsening_grid() -> None:
    """10^6 steps at rate 1e-4: 0.9127034976 by 30-digit arithmetic."""
    bound = PldProfile(((SampledGaussian(1 / 0.8, 1e-4), 10**6),), tolerance=0.2, seconds=3.4).epsilon(1e-7)
    assert bound.lower is not None and bound.lower <= 0.9127034976 <= bound.upper
    assert bound.upper - bound.lower <= 0.2 * bound.upper


@of_each("delta", [0.3, 1e-3, 1e-10, 1e-30, 1e-100, 1e-250])
@of_each("mu", [0.1, 1.0, 5.0])
def test_gaussians_at_any_delta(mu: float, delta: float) -> None:
    bound = PldProfile(((Gaussian(mu / 5.0), 25),)).epsilon(delta)
    low, high = gaussian_epsilon(mu, delta)
    assert bound.lower is not None and bound.lower <= high and low <= bound.upper
    assert bound.upper - bound.lower <= 2e-3 * max(bound.upper, 0.1)


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"),
    [(0.1, 100, 1e-5), (10.0, 6, 1e-6), (1.0, 3, 1e-9), pytest.param(0.01, 10000, 1e-5, marks=pytest.mark.long)],
)
def test_pure_mechanisms_equal_the_optimal_theorem(epsilon: float, count: int, delta: float) -> None:
    """Kairouz, Oh, Viswanath 2015: k-fold randomised response, in closed form. 6 x 10 at 1e-6 is about 60, not 48."""
    steps: Steps = ((Pure(epsilon), count),)
    bound, optimal = PldProfile(steps).epsilon(delta), OPTIMAL.compose(steps).epsilon(delta)
    assert bound.lower is not None and bound.lower <= optimal.upper * (1.0 + 1e-12)
    exact = k_fold_response(epsilon, count, delta)
    assert bound.lower <= exact * (1.0 + 1e-9) and exact <= bound.upper * (1.0 + 1e-9)
    assert bound.upper - bound.lower <= 1e-5 * bound.upper


def k_fold_response(epsilon: float, count: int, delta: float) -> float:
    """Return epsilon at delta of k-fold binary randomised response, by the binomial sum and bisection."""
    j = np.arange(count + 1)
    losses, masses = (2 * j - count) * epsilon, stats.binom.pmf(j, count, 1.0 / (1.0 + math.exp(-epsilon)))
    return oracles.decreasing_root(
        lambda at: float((masses * -np.expm1(np.minimum(at - losses, 0.0))).sum()), delta, count * epsilon
    )


def test_stated_guarantees_compose_as_the_optimal_theorem_says() -> None:
    """(e, d) claims: 1 - (1-d)^k of infinite loss, the rest is randomised response."""
    bound = PldProfile(((approx(0.1, 1e-7), 10),)).epsilon(1e-5)
    lost = -math.expm1(10 * math.log1p(-1e-7))
    exact = k_fold_response(0.1, 10, (1e-5 - lost) / (1.0 - lost))
    assert bound.lower is not None and bound.lower <= exact * (1.0 + 1e-9) and exact <= bound.upper * (1.0 + 1e-9)
    assert bound.upper - bound.lower <= 1e-6
    with pytest.raises(NotRepresentable, match="revealed with probability 1e-06"):
        PldProfile(((approx(0.1, 1e-7), 10),)).epsilon(1e-7)


def brute_force(responses: list[tuple[float, int]], epsilon: float) -> float:
    """Return delta of several randomised responses, given as (epsilon, categories), by enumeration."""
    pairs = [oracles.response_pair(*response) for response in responses]
    p, q = ([math.prod(outcome) for outcome in itertools.product(*side)] for side in zip(*pairs, strict=True))
    return float(oracles.finite_delta(p, q, epsilon))


@given(st.floats(0.05, 2.0), st.integers(2, 5), st.floats(0.05, 2.0), st.integers(1, 3), st.integers(1, 3), st.floats(0.0, 2.0))
@settings(max_examples=25, deadline=None)
def test_finite_mechanisms_by_enumeration(e1: float, k: int, e2: float, n1: int, n2: int, epsilon: float) -> None:
    steps: Steps = ((RandomizedResponse(e1, k), n1), (Pure(e2), n2))
    exact = brute_force([(e1, k)] * n1 + [(e2, 2)] * n2, epsilon)
    bound = PldProfile(steps).delta(epsilon)
    assert bound.lower is not None
    assert bound.lower <= exact + 1e-12 and exact <= bound.upper + 1e-12


@pytest.mark.nightly
@pytest.mark.long
@given(
    st.floats(0.05, 2.0),
    st.integers(2, 5),
    st.floats(0.05, 2.0),
    st.integers(0, 2),
    st.integers(1, 2),
    st.sampled_from([-1.0, 0.0, 1.0]),
    st.floats(-9.0, 0.0),
)
@example(0.5, 2, 0.330078125, 1, 1, 1.0, math.log10(1.0 / 0.830078125 - 1.0))  # delta(1.0)
@example(0.5, 2, 1.7095374814192281, 0, 1, -1.0, -3.75)
@example(0.5, 2, 0.9210528454230777, 0, 1, -1.0, -4.2)
@settings(max_examples=25, deadline=None)
def test_about_the_largest_loss_an_answer_is_sound_and_there_is_one(
    e1: float, k: int, e2: float, n1: int, n2: int, side: float, log10_distance: float
) -> None:
    """There delta is all but 0, and the tilt that shows it is so large that the tilted composition sits on one point."""
    steps: Steps = (((RandomizedResponse(e1, k), n1),) if n1 else ()) + ((Pure(e2), n2),)
    epsilon = (n1 * e1 + n2 * e2) * (1.0 + side * 10.0 ** min(log10_distance, -1e-9 if side < 0.0 else 1.0))
    exact = brute_force([(e1, k)] * n1 + [(e2, 2)] * n2, epsilon)
    bound = PldProfile(steps).delta(epsilon)
    assert bound.lower is not None
    assert bound.lower <= exact * (1.0 + 1e-9) + 1e-14 and exact <= bound.upper * (1.0 + 1e-9) + 1e-14
    assert bound.upper <= 1.01 * exact + 1e-5  # about a cell


MECHANISMS = st.one_of(
    st.builds(Gaussian, st.floats(0.02, 2.0)),
    st.builds(SampledGaussian, st.floats(0.2, 1.5), st.floats(0.005, 0.5)),
    st.builds(SampledGaussianReplaced, st.floats(0.2, 1.5), st.floats(0.005, 0.5)),
)


@pytest.mark.long
@given(st.lists(st.tuples(MECHANISMS, st.integers(1, 200)), min_size=1, max_size=3), st.floats(-12.0, -2.0))
@settings(max_examples=25, deadline=None)
def test_the_contour_agrees(steps: list[tuple[Mechanism, int]], log10_delta: float) -> None:
    delta = 10.0**log10_delta
    grid = PldProfile(tuple(steps)).epsilon(delta)
    try:
        exact = ExactProfile(tuple(steps)).epsilon(delta)
    except NotRepresentable:
        return
    assert grid.lower is not None and exact.lower is not None
    assert grid.lower <= exact.upper * (1.0 + 1e-12) and exact.lower <= grid.upper * (1.0 + 1e-12)


ANY = st.one_of(
    MECHANISMS,
    st.builds(Laplace, st.floats(0.01, 2.0)),
    st.builds(Pure, st.floats(0.01, 2.0)),
    st.builds(approx, st.floats(0.01, 2.0), st.floats(1e-12, 1e-8)),
    st.builds(DiscreteLaplace, st.floats(0.5, 20.0), st.integers(1, 4)),
    st.builds(DiscreteGaussian, st.floats(0.5, 20.0), st.integers(1, 3)),
    st.just(Free()),
)


@pytest.mark.long
@given(st.lists(st.tuples(ANY, st.integers(1, 20)), min_size=1, max_size=3), st.floats(-5.0, -1.0))
@settings(max_examples=30, deadline=None)
def test_epsilon_and_delta_are_inverse_and_order_does_not_matter(steps: list[tuple[Mechanism, int]], log10_delta: float) -> None:
    delta = 10.0**log10_delta
    bound = PldProfile(tuple(steps)).epsilon(delta)
    again = PldProfile(tuple(reversed(steps))).epsilon(delta)
    assert (bound.lower, bound.upper) == (again.lower, again.upper)
    assert bound.lower is not None and 0.0 <= bound.lower <= bound.upper
    back = PldProfile(tuple(steps)).delta(bound.upper)
    assert back.lower is not None and back.lower <= delta * (1.0 + 1e-9)
    copies = tuple((mechanism, 1) for mechanism, count in steps for _ in range(count))
    assert PldProfile(copies).epsilon(delta).upper == bound.upper


def test_shares_follow_the_cost() -> None:
    shares = PldProfile(((Pure(0.1), 10), (Pure(0.2), 10), (Free(), 5))).shares(1e-5)
    assert math.fsum(shares) == pytest.approx(1.0)
    assert shares[2] == 0.0 and 2.5 < shares[1] / shares[0] < 5.0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("known", KNOWN[:4])
def test_little_time_answers_too(known: Known) -> None:
    """However coarse the grid has to be: about one, and two, thousandths of a second of it."""
    wide = math.inf
    for seconds in (0.001, 0.002, 0.1):
        bound = PldProfile(steps_of(known)).tuned(None, seconds).epsilon(known.delta)
        assert bound.lower is not None and bound.lower <= known.epsilon <= bound.upper < math.inf
        assert bound.upper - bound.lower <= wide
        wide = bound.upper - bound.lower


MIXED: Steps = (
    (SampledGaussian(3.0, 1.3e-4), 1000),
    (Laplace(0.05), 1),
    (BoundedRange(1.9), 1),
    (Pure(0.3), 3),
    (Pure(0.19), 10),
    (Zcdp(0.05), 100),
)


@pytest.mark.parametrize("cells", [1.4e7, 2e7, 3e7])
def test_a_second_grid_that_takes_too_much_leaves_what_the_first_has_shown(cells: float) -> None:
    """The interval is too wide at first, and more is begun with whatever work is left."""
    with allowance(cells):
        bound = PldProfile(MIXED).epsilon(6e-8)
    assert bound.upper - 24.74 < 0.01 and bound.lower is not None and bound.lower < bound.upper < 1.01 * bound.lower


def test_several_grids_say_what_the_best_of_them_says(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, real = ((Laplace(1.0), 3), (Gaussian(0.5), 2)), pld.curve_at_delta
    widths = iter([1e-3, 1e-1, None])

    def worse_each_time(losses: Any, log_delta: float, width: float, effort: Any) -> Any:
        share = next(widths)
        if share is None:
            raise NotRepresentable("no more")
        return real(losses, log_delta, share, effort)

    alone = real(directions(join_equal_steps(steps))[0], math.log(1e-5), 1e-3, PldProfile(steps, tolerance=1e-12).effort)[
        0
    ].epsilon(math.log(1e-5))
    monkeypatch.setattr(pld, "curve_at_delta", worse_each_time)
    bound = PldProfile(steps, tolerance=1e-12).epsilon(1e-5)
    assert (bound.lower, bound.upper) == pytest.approx(alone, rel=1e-6)


def test_delta_zero_is_refused() -> None:
    with pytest.raises(NotRepresentable, match="needs delta > 0"):
        PldProfile(((Gaussian(1.0), 1),)).epsilon(0.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "rate", "count", "log_delta"),
    [
        (9.070130463839718, 0.05969432446530406, 4, math.log(3.1018369464244466e-14)),
        (5.617623342103811, 0.7066314395934311, 66, -77.58751106653804),
    ],
)
def test_the_top_atom_is_never_lost(epsilon: float, rate: float, count: int, log_delta: float) -> None:
    """Sampled Laplace noise at tiny deltas: the largest loss alone, of mass (1-q)/2 e^-e + q/2, forces epsilon up."""
    bound = PldProfile(((PoissonSampled(Laplace(epsilon), rate), count),)).epsilon(math.exp(log_delta))
    largest = math.log1p(rate * math.expm1(epsilon))
    log_mass = count * math.log(0.5 * rate + 0.5 * (1.0 - rate) * math.exp(-epsilon))
    assert bound.upper >= count * largest + math.log1p(-math.exp(log_delta - log_mass)) - 1e-9


@pytest.mark.parametrize("draws", by_tier(None, 40, 250))
def test_places_far_from_zero_are_exact_or_refused(draws: int) -> None:
    """Many large losses beside a narrow one: cells whose numbers no machine word holds are not laid."""
    random, answered = Random(f"{SEED}/{draws}"), 0
    for _ in range(draws):
        heavy, light = (Pure(10.0 ** random.uniform(0.0, 2.6)), Gaussian(10.0 ** random.uniform(-14.0, -4.0)))
        steps = tuple((mechanism, int(10.0 ** random.uniform(0.0, 18.0))) for mechanism in (heavy, light))
        with suppress(NotRepresentable):
            delta = 10.0 ** random.uniform(-10.0, -1.0)
            found = PldProfile(steps, seconds=0.02).epsilon(delta)
            alone = gaussian_epsilon(light.mu * math.sqrt(steps[1][1]), delta)
            assert found.upper >= alone[0] * (1.0 - 1e-9), (SEED, steps, delta)
            assert (found.lower or 0.0) <= (steps[0][1] * heavy.epsilon + alone[1]) * (1.0 + 1e-9), (SEED, steps, delta)
            answered += found.upper < math.inf
    assert answered


@pytest.mark.parametrize("draws", by_tier(None, 1, 20))
def test_what_a_grid_loses_in_very_many_steps_is_counted(draws: int) -> None:
    """Losses far below any spacing that many steps allow: what is trimmed in each round may exceed every float, and is then infinite."""
    random = Random(f"{SEED}/many/{draws}")
    for step in (Gaussian, Laplace, Pure, BoundedRange) * draws:
        count = int(10.0 ** random.uniform(9.0, 18.0))
        steps = ((step(10.0 ** random.uniform(-1.0, 1.0) / math.sqrt(count)), count),)
        delta = 10.0 ** random.uniform(-20.0, -1.0)
        known = ExactProfile(steps).epsilon(delta)
        with suppress(NotRepresentable):
            found = PldProfile(steps, seconds=0.05).epsilon(delta)
            assert found.upper >= (known.lower or 0.0) * (1.0 - 1e-9), (SEED, steps, delta)
            assert (found.lower or 0.0) <= known.upper * (1.0 + 1e-9), (SEED, steps, delta)
        epsilon = random.uniform(0.3, 1.1) * known.upper
        with suppress(NotRepresentable):
            least = ExactProfile(steps).delta(epsilon).lower or 0.0
            assert PldProfile(steps, seconds=0.05).delta(epsilon).upper >= least * (1.0 - 1e-9), (SEED, steps, epsilon)


@pytest.mark.parametrize("place", [0.0, 1e-30, 1e-9, -1e-7])
def test_an_atom_beside_which_all_else_is_large_sets_no_grid(place: float) -> None:
    """Most of the mass at one loss next to 0: many steps are composed on a grid that coarsens, as they are without it."""
    loss = AtomicLoss((math.log(0.03), math.log(0.05), math.log(0.92)), (0.011, -0.0123, place))
    parts = [GridPart(loss, survey(loss), 1024)]
    assert abs(place) > 1e-12 or common_unit(parts) == 0.0
    target = GridTarget(20.0, math.log(1e-5), math.log(1e-8), -24.0)
    assert plan_grid(parts, target, 1e-4, common_unit(parts), 2e7).rounds[0] > 0


def test_an_example_in_which_nearly_every_token_costs_nothing_is_close() -> None:
    """The ratio is 1 but for 3 % of tokens: the interval is far narrower than asked for."""
    bound = PldProfile(((EnsembleMixture(80, 0.03, 1.375793, True), 1024),)).epsilon(1e-5)
    assert bound.lower is not None and bound.upper - bound.lower <= 1e-3 * bound.upper and bound.upper <= 8.0002


def test_three_weak_steps_at_a_tiny_delta_are_not_below_the_contour() -> None:
    steps = ((SampledGaussian(mu=0.858628027908137, rate=3.0650520944506763e-06), 3),)
    delta = 2.986923056511131e-22
    assert PldProfile(steps, seconds=1.0).epsilon(delta).upper >= (ExactProfile(steps).epsilon(delta).lower or 0.0) > 0.0045
