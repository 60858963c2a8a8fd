"""The exact accountant, by contour integrals: reference values to ten digits, closed forms, and an independent contour in thirty digits.

Extremes follow in which digits are easily lost. The second direction of the neighbouring relation is often shown to be no larger from the
first one's contour (`other_direction`), without a search of its own; both ways are compared.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from contextlib import suppress
from random import Random

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.accountants.base import Steps, join_equal_steps
from dpcli.accountants.directions import directions
from dpcli.accountants.exact import ACCOUNTANT as EXACT
from dpcli.accountants.exact import ExactProfile, ends_of, log_chernoff
from dpcli.analysis.account import account
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.atoms import TwoPointLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from dpcli.numerics.closed.normal import gaussian_delta, gaussian_epsilon
from dpcli.numerics.contour.certified import UNKNOWN, other_direction
from dpcli.numerics.contour.integral import log_hockey, total_cgf
from dpcli.numerics.contour.tilt_search import _tilt_by_parabolas, tilt_for
from dpcli.numerics.work import limited
from tests import oracles
from tests.accountants.one_step import KNOWN, Known
from tests.benchmarks.random_settings import Part, between, mechanism
from tests.cases import by_tier, fresh_random, of_each, tiered
from tests.strategies import entry, pipeline

ADD_REMOVE, REPLACE_ONE = Neighbours(Adjacency.ADD_REMOVE), Neighbours(Adjacency.REPLACE_ONE)


def sampled(rate: float, noise: float, neighbours: Neighbours = ADD_REMOVE) -> Mechanism:
    return GaussianSpec(noise_multiplier=noise).poisson(rate, neighbours)


@pytest.mark.parametrize("known", KNOWN)
def test_reference_values(known: Known) -> None:
    neighbours = Neighbours(Adjacency(known.adjacency))
    bound = ExactProfile(tuple((sampled(rate, noise, neighbours), steps) for rate, noise, steps in known.parts)).epsilon(
        known.delta
    )
    assert bound.lower is not None
    assert bound.lower * (1 - 1e-9) <= known.epsilon <= bound.upper * (1 + 1e-9)
    assert bound.upper - bound.lower <= 2e-9 * bound.upper


@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta"),
    tiered([(0.01, 4.0, 10000, 1e-5), (0.05, 2.0, 500, 1e-12), (256 / 60000, 1.1, 14063, 1e-5)], 1, 2),
)
def test_the_certified_interval_holds_in_thirty_digits(rate: float, noise: float, count: int, delta: float) -> None:
    """An independent contour integral in mpmath: delta at the upper end is at most delta, at the lower end at least."""
    bound = ExactProfile(((sampled(rate, noise), count),)).epsilon(delta)
    assert bound.lower is not None
    tilt = round(bound.detail["tilt"], 2)
    above, below = oracles.composed_delta(1.0 / noise, rate, count, (bound.upper, bound.lower), tilt)
    assert above <= delta <= below
    assert below - above <= 1e-6 * delta


@given(st.floats(-2.0, 1.0), st.floats(-200.0, -1.0), st.integers(1, 1000))
def test_gaussians_agree_with_the_closed_form(log10_mu: float, log_delta: float, count: int) -> None:
    mu, delta = 10.0**log10_mu / math.sqrt(count), math.exp(log_delta)
    low, high = gaussian_epsilon(mu * math.sqrt(count), delta)
    bound = ExactProfile(((Gaussian(mu), count),)).epsilon(delta)
    assert bound.lower is not None
    assert bound.lower <= high * (1 + 1e-12) + 1e-300
    assert bound.upper >= low * (1 - 1e-12)
    if low > 1e-3:
        assert bound.upper == pytest.approx(low, rel=1e-9)


@pytest.mark.parametrize(("mu", "e0", "count", "delta"), [(0.5, 0.3, 4, 1e-6), (1.0, 2.0, 1, 1e-10), (0.2, 0.05, 30, 1e-4)])
def test_a_gaussian_with_randomised_responses(mu: float, e0: float, count: int, delta: float) -> None:
    """Independent oracle: condition on the responses, delta(eps) = sum_j P(j) delta_mu(eps - l_j)."""
    bound = ExactProfile(((Gaussian(mu), 1), (Pure(e0), count))).epsilon(delta)

    def delta_at(epsilon: float) -> float:
        p = 1.0 / (1.0 + math.exp(-e0))
        return math.fsum(
            math.comb(count, j) * p**j * (1 - p) ** (count - j) * profile(mu, epsilon - (2 * j - count) * e0)
            for j in range(count + 1)
        )

    assert delta_at(bound.upper) <= delta * (1 + 1e-9)
    assert bound.lower is not None
    assert delta_at(bound.lower) >= delta * (1 - 1e-9)


def profile(mu: float, epsilon: float) -> float:
    """Return delta of a mu-Gaussian at any epsilon; at negative ones by delta(-e) = 1 - e^-e (1 - delta(e))."""
    if epsilon >= 0.0:
        return gaussian_delta(mu, epsilon)[1]
    return 1.0 - math.exp(epsilon) * (1.0 - gaussian_delta(mu, -epsilon)[1])


@pytest.mark.parametrize("delta", [1e-3, 1e-30, 1e-100, 1e-300])
def test_delta_and_epsilon_are_inverse(delta: float) -> None:
    steps: Steps = ((sampled(0.01, 1.0), 1000),)
    bound = ExactProfile(steps).epsilon(delta)
    there = ExactProfile(steps).delta(bound.upper)
    assert there.lower is not None
    assert there.lower <= delta * (1 + 1e-7)
    assert there.upper == pytest.approx(delta, rel=1e-6, abs=0.0)


@pytest.mark.parametrize(("delta", "other"), [(1e-5, (0.1, 23.7137)), (1e-5, (0.316228, 31.6228)), (1e-8, (0.1, 23.7137))])
def test_a_dear_step_beside_a_cheap_one(delta: float, other: tuple[float, float]) -> None:
    """The cheap step's characteristic function is asked for far out; there a line too high above the real one drowned it in rounding."""
    dear = sampled(0.1, 1.0)
    bound = ExactProfile(((dear, 1), (sampled(*other), 1))).epsilon(delta)
    assert bound.lower is not None
    assert dear.approx_dp(delta) <= bound.upper * (1 + 1e-9)  # one step's amplification is exact in the remove direction
    assert bound.upper <= bound.lower * (1 + 1e-9)


def test_both_directions_count() -> None:
    """A group of two: the add direction alone would be too small."""
    from dpcli.accountants.exact import directions

    assert len(directions(((sampled(0.1, 1.0), 10),))) == 2
    assert len(directions(((sampled(0.1, 1.0, REPLACE_ONE), 10), (Gaussian(1.0), 2)))) == 1


def test_user_level_is_what_an_independent_grid_finds() -> None:
    """The shipped user-level example: 0.846 by a pessimistic grid of another library."""
    import dpcli
    from tests.command import ROOT

    result = account(dpcli.load(ROOT / "examples" / "user-level.toml"))
    assert result.winner is not None
    assert result.winner.accountant.name == "exact"
    assert 0.8455 < result.upper < 0.8465


def test_contradictions_are_internal_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    import dpcli
    from dpcli.accountants.base import Bound
    from tests.command import ROOT

    monkeypatch.setattr(ExactProfile, "epsilon", lambda self, delta: Bound(10.0, 9.0))
    with pytest.raises(InternalError, match="contradict"):
        account(dpcli.load(ROOT / "examples" / "mnist.toml"))


def test_what_cannot_be_a_bound_is_an_internal_error() -> None:
    from dpcli.accountants.base import Bound, checked

    for bound in (Bound(-math.inf), Bound(-1.0), Bound(math.nan), Bound(1.0, 2.0), Bound(1.0, math.nan)):
        with pytest.raises(InternalError, match="this is a bug"):
            checked(bound)
    assert checked(Bound(math.inf)) == Bound(math.inf)


@pytest.mark.parametrize(("rate", "noise", "delta"), [(0.01, 1.0, 1e-6), (1e-6, 1.0, 1e-8), (0.9, 0.3, 1e-30), (0.1, 20.0, 1e-9)])
def test_one_step_by_its_tails(rate: float, noise: float, delta: float) -> None:
    """The oracle is the hockey-stick divergence in high precision, in the worse direction."""
    bound = ExactProfile(((sampled(rate, noise), 1),)).epsilon(delta)
    assert bound.lower is not None
    above, below = (
        max(oracles.sampled_gaussian_delta(1.0 / noise, rate, epsilon, side) for side in ("remove", "add"))
        for epsilon in (bound.upper, bound.lower)
    )
    assert above <= delta <= below
    assert bound.upper - bound.lower <= 1e-8 * bound.upper


@of_each("mechanism", [Laplace(0.3), Pure(1.0), Gaussian(0.7), RandomizedResponse(2.0, 5)])
@of_each("delta", [1e-12, 1e-3, 0.1])
def test_one_step_of_a_closed_form(mechanism: Mechanism, delta: float) -> None:
    bound = ExactProfile(((mechanism, 1),)).epsilon(delta)
    assert bound.lower is not None
    known = mechanism.approx_dp(delta)
    assert bound.lower <= known * (1 + 1e-12)
    assert bound.upper == pytest.approx(known, rel=1e-10)


def test_below_total_variation_nothing_is_lost() -> None:
    """A hundred steps at rate 1e-6 cannot tell neighbours apart with more than 1e-4."""
    bound = ExactProfile(((sampled(1e-6, 1.0), 100),)).epsilon(1e-3)
    assert (bound.lower, bound.upper) == (0.0, 0.0)


def test_many_different_phases() -> None:
    """Two hundred noises with the same sum of squares as one Gaussian; and beyond the limit a reason."""
    noises = [10.0 + 0.1 * i for i in range(200)]
    bound = ExactProfile(tuple((Gaussian(1.0 / noise), 3) for noise in noises)).epsilon(1e-6)
    low, high = gaussian_epsilon(math.sqrt(3 * math.fsum(noise**-2 for noise in noises)), 1e-6)
    assert bound.lower is not None
    assert bound.lower <= high and low <= bound.upper * (1 + 1e-12)
    sampled_ones = ExactProfile(tuple((sampled(0.01, 1.0 + 0.01 * i), 100) for i in range(200))).epsilon(1e-6)
    assert sampled_ones.lower is not None
    assert sampled_ones.upper - sampled_ones.lower <= 1e-9 * sampled_ones.upper
    with pytest.raises(NotRepresentable, match="different parts"):
        ExactProfile(tuple((Gaussian(1.0 + i), 1) for i in range(10_001))).epsilon(1e-6)


@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE_ONE], ids=["add-remove", "replace-one"])
def test_monotone(adjacency: Neighbours) -> None:
    """More steps, a higher rate, less noise and less delta cost more; the intervals, being narrow, say so strictly."""

    def between(rate: float = 0.01, noise: float = 1.2, count: int = 500, delta: float = 1e-6) -> tuple[float, float]:
        bound = ExactProfile(((sampled(rate, noise, adjacency), count),)).epsilon(delta)
        assert bound.lower is not None
        return bound.lower, bound.upper

    base = between()
    for dearer in (between(count=501), between(rate=0.01001), between(noise=1.199), between(delta=0.999e-6)):
        assert base[1] < dearer[0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [1, 10**6, 10**12])
def test_much_noise_on_a_sample_is_nearly_one_gaussian(count: int) -> None:
    """delta(0) tends to that of mu = rate sqrt(n) / noise, whatever the rate: digits of a small loss are not lost to those of 1."""
    for rate, noise in itertools.product((0.3, 0.6, 0.999997301684882), (1e5, 1e9, 1e13, 1e15)):
        mu = rate * math.sqrt(count) / noise
        if mu > 1e-2:
            continue
        with suppress(NotRepresentable):
            found = ExactProfile(((SampledGaussian(1.0 / noise, rate), count),)).delta(0.0)
            truth = gaussian_delta(mu, 0.0)
            assert found.upper >= truth[0] * (1.0 - mu - 1e-9), (rate, noise)
            assert (found.lower or 0.0) <= truth[1] * (1.0 + mu + 1e-9), (rate, noise)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("noise", [1e14, 1e17, 1e19])
def test_no_accountant_takes_a_very_small_loss_for_none(noise: float) -> None:
    """delta(0) of one Gaussian beneath the rounding of 1: what an accountant rounds to 0 must not be a delta that serves."""
    release = pipeline(entry("gaussian", noise_multiplier=noise))
    for row in account(release, epsilon=0.0).rows:
        if row.bound is not None and row.accountant.sound:
            assert row.upper >= gaussian_delta(1.0 / noise, 0.0)[0] * (1.0 - 1e-9), row.accountant.name


@of_each(
    ("epsilon", "count", "at"),
    [(4.351920708839023e-08, 8, 3.481493074323129e-07), (3.17512614268127e-09, 6, 1.9046734904564285e-08)],
)
def test_next_to_the_largest_loss_delta_keeps_its_digits(epsilon: float, count: int, at: float) -> None:
    """Only the largest loss exceeds this epsilon, by so little that Chernoff's bound is tight, at a tilt of 10^11 or more."""
    with mp.workdps(50):
        largest, log_mass = count * mp.mpf(epsilon), -count * mp.log1p(mp.exp(-mp.mpf(epsilon)))
        truth = float(mp.exp(log_mass) * -mp.expm1(at - largest))
    with suppress(NotRepresentable):
        found = ExactProfile(((Pure(epsilon), count),)).delta(at)
        assert (found.lower or 0.0) <= truth * (1.0 + 1e-9) and truth * (1.0 - 1e-9) <= found.upper
    assert math.exp(log_chernoff(((TwoPointLoss(epsilon), count),), at)) >= truth * (1.0 - 1e-9)


def test_losses_of_very_different_sizes_are_no_internal_error() -> None:
    steps = ((approx(6e183, 2e-219), 1), (Pure(3e-172), 1), (Laplace(3.303e10), 1))
    for profile in (ExactProfile(steps), EXACT.profile(steps)):
        with suppress(NotRepresentable):
            assert profile.epsilon(2.9e-89).upper > 5e183
        with suppress(NotRepresentable):
            assert profile.delta(0.875).upper > 0.5


Step = Callable[[float], tuple[Mechanism, float]]  # at a rate: the mechanism, and the variance of its loss over rate^2
LIMITS: tuple[tuple[str, Step], ...] = (
    ("gaussian", lambda rate: (SampledGaussian(1.0, rate), math.expm1(1.0))),
    ("gaussian, replaced", lambda rate: (SampledGaussianReplaced(1.0, rate), 4.0 * math.sinh(1.0))),
    ("laplace", lambda rate: (PoissonSampled(Laplace(1.0), rate), (2.0 * math.e + math.exp(-2.0)) / 3.0 - 1.0)),
    ("pure", lambda rate: (PoissonSampled(Pure(1.0), rate), (math.exp(2.0) + math.exp(-1.0)) / (1.0 + math.e) - 1.0)),
)


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("exponent", by_tier(9.0, 8.5, 10.0))
@pytest.mark.parametrize("kind", LIMITS, ids=lambda kind: kind[0])
def test_10_to_the_20_tiny_steps_are_a_gaussian(kind: tuple[str, Step], exponent: float) -> None:
    """The central limit theorem holds to about the rate. The rounding of one step's loss is not multiplied by the steps."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(3):
        rate = 10.0 ** random.uniform(-exponent - 0.5, -exponent)
        mechanism, variance = kind[1](rate)
        steps = round(random.uniform(0.1, 4.0) / rate**2)
        mu, epsilon = rate * math.sqrt(steps * variance), random.choice((0.0, random.uniform(0.1, 5.0)))
        delta = float(oracles.gaussian_delta(mu, epsilon))
        with suppress(NotRepresentable):
            bound = limited(ExactProfile(((mechanism, steps),)).delta)(epsilon)
            assert bound.lower is not None
            assert bound.lower <= delta * (1.0 + 1e-5), (seed, rate, steps, epsilon, delta, bound)
            assert delta * (1.0 - 1e-5) <= bound.upper, (seed, rate, steps, epsilon, delta, bound)
        if epsilon > 0.0 and delta < 0.5:
            with suppress(NotRepresentable):
                bound = limited(ExactProfile(((mechanism, steps),)).epsilon)(delta)
                assert bound.lower is not None
                assert bound.lower <= epsilon * (1.0 + 1e-5) + 1e-6, (seed, rate, steps, epsilon, delta, bound)
                assert epsilon * (1.0 - 1e-5) - 1e-6 <= bound.upper, (seed, rate, steps, epsilon, delta, bound)


@pytest.mark.parametrize("move", [101, 300])
def test_a_move_of_many_deviations_of_discrete_gaussian_noise(move: int) -> None:
    """The outcomes are too many for a table, but not for a contour. The noises of three steps add up, as each loss is linear in its own."""
    at = np.arange(-15, 16)
    one = np.exp(-0.5 * at**2) / np.exp(-0.5 * at**2).sum()
    total = np.convolve(np.convolve(one, one), one)
    losses = move * np.arange(-45, 46) + 1.5 * move * move
    bound = ExactProfile(((DiscreteGaussian(1.0, move), 3),)).epsilon(1e-6)
    assert bound.lower is not None
    deltas = [float(-(total * np.expm1(np.minimum(end - losses, 0.0))).sum()) for end in (bound.lower - 1e-6, bound.upper + 1e-6)]
    assert deltas[0] >= 1e-6 >= deltas[1], (move, bound)


KINDS = ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace")
ENOUGH = 3  # cases of each outcome


def drawn_sides(source: random.Random) -> tuple[tuple[tuple[object, int], ...], ...]:
    """Return the losses of both directions of one to three random sampled mechanisms."""
    parts = [
        Part(source.choice(KINDS), between(source, 1e-4, 0.5), between(source, 0.7, 20.0), round(between(source, 2.0, 3000.0)))
        for _ in range(source.randint(1, 3))
    ]
    return directions(join_equal_steps(tuple((mechanism(part), part.steps) for part in parts)))


def test_it_agrees_with_a_search_of_its_own() -> None:
    seed = fresh_random().randrange(2**32)
    source, covered, bounded = random.Random(seed), 0, 0
    while min(covered, bounded) < ENOUGH:
        sides = drawn_sides(source)
        log_delta = math.log(between(source, 1e-20, 1e-2))
        try:
            first, own = (ends_of(side, log_delta) for side in sides)
        except NotRepresentable:
            continue
        if not 0.0 < first.upper < math.inf:
            continue
        result = other_direction(sides[1], first, log_delta)
        if result is None:
            covered += 1
            assert own.lower <= first.upper, seed
        # With a bound on the first direction that is too small, the second one is not covered.
        result = other_direction(sides[1], first._replace(upper=own.lower * (1.0 - 1e-6)), log_delta)
        assert result is not None or own.lower == 0.0, seed
        if result is not None and result is not UNKNOWN:
            bounded += 1
            assert result.lower <= own.upper and own.lower <= result.upper, seed
            assert result.upper - result.lower <= 1e-8 * result.upper + 1e-12, (
                seed
            )  # rounding is absolute: 3.5e-13 at an epsilon of 2e-5


def test_a_tilt_by_parabolas_is_as_good_as_one_by_bisection() -> None:
    """Chernoff's bounds at the two tilts differ by less than a factor of e^3 in the integrand. By bisection it may be e^2."""
    seed = fresh_random().randrange(2**32)
    source, seen = random.Random(seed), 0
    while seen < 3 * ENOUGH:
        sides = drawn_sides(source)
        log_delta = math.log(between(source, 1e-20, 1e-2))
        if len(sides[0]) < 2 or (t := _tilt_by_parabolas(sides[0], log_delta)) is None:
            continue
        seen += 1
        tilts = np.geomspace(0.5 * t, 2.0 * t, 41)
        bounds = (total_cgf(sides[0], tilts) - log_delta + log_hockey(tilts)) / tilts
        assert t * (np.interp(t, tilts, bounds) - bounds.min()) < 3.0, seed
        assert tilt_for(sides[0], log_delta) == t, seed
