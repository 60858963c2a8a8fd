"""Private selection, the best of a random number of runs, priced by the privacy profile of one run (choice/selection_profile.py):
enumerated selections in any order of preference cost no more, and one order nearly attains the bound.
"""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from scipy.stats import binom

from dpcli.accountants.pld import PldProfile
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.repeat_and_select import RepeatAndSelect
from dpcli.mechanisms.choice.selection_profile import log_all_runs
from dpcli.mechanisms.choice.trial_numbers import NegativeBinomial, PoissonTrials
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import sampled_gaussian
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from dpcli.numerics.arrays import Array
from tests.cases import fresh_random, of_each
from tests.mechanisms.trials import TRIALS, Counts, delta, generating, selected, worst_order

AT = (0.05, 0.4, 1.0, 2.5)
CELLS = 400
ROUNDING = 1e-13  # of sums of outcomes whose differences are no more


def normal(mu: float, orders: int) -> list[tuple[Array, Array]]:
    """Draw cells of N(0, 1) and N(mu, 1), in rising, falling and random orders of preference."""
    from scipy.stats import norm

    edges = np.concatenate(([-np.inf], np.linspace(-6.0, 6.0 + mu, CELLS - 1), [np.inf]))
    p, q = np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges - mu))
    random = np.random.default_rng(SEED)
    shuffles = [np.arange(CELLS), np.arange(CELLS)[::-1], *(random.permutation(CELLS) for _ in range(orders))]
    return [(p[order], q[order]) for order in shuffles]


def response(random: Random, epsilon: float, reveals: float) -> tuple[Array, Array]:
    """Draw the outcomes of one run that is (epsilon, reveals)-DP, in a random order of preference."""
    parts = random.randint(2, 5)
    q = np.array([random.random() ** 3 + 1e-3 for _ in range(parts)])
    odds = np.array([random.choice([-1.0, 1.0, random.uniform(-1.0, 1.0)]) for _ in range(parts)])
    p = q * np.exp(0.5 * epsilon * odds)
    p, q = p / p.sum() * (1.0 - reveals), q / q.sum() * (1.0 - reveals)
    order = np.array(random.sample(range(parts + 2), parts + 2))
    return np.append(p, [reveals, 0.0])[order], np.append(q, [0.0, reveals])[order]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("trials", TRIALS)
def test_no_selection_of_noise_does_worse(trials: Counts) -> None:
    for mu in (0.2, 1.0):
        profile = PldProfile(((RepeatAndSelect(Gaussian(mu), trials), 1),))
        uppers = [profile.delta(epsilon).upper for epsilon in AT]
        for p, q in normal(mu, 4):
            for epsilon, upper in zip(AT, uppers, strict=True):
                assert delta(selected(trials, p), selected(trials, q), epsilon) <= upper * (1.0 + 1e-9), (mu, epsilon)


@pytest.mark.long
@of_each("trials", TRIALS)
@of_each("mu", [0.3, 1.0, 2.0])
def test_an_order_of_the_outcomes_nearly_attains_the_bound(trials: Counts, mu: float) -> None:
    for log_delta in (-12.0, -20.0, -30.0):
        epsilon = RepeatAndSelect(Gaussian(mu), trials).approx_dp(math.exp(log_delta))
        p, q = worst_order(trials, mu, epsilon)
        # f' at each cell's middle: differences of f lose the digits of small cells
        best, other = (trials.mean * masses * np.exp(-trials.depth(1.0 - np.cumsum(masses) + 0.5 * masses)) for masses in (p, q))
        attained = delta(best, other, epsilon)
        assert 0.9 * math.exp(log_delta) < attained <= math.exp(log_delta) * (1.0 + 1e-9), log_delta


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("trials", TRIALS)
def test_no_selection_of_what_was_stated_does_worse(trials: Counts) -> None:
    """Among them runs that reveal everything with some probability, whose Renyi divergences are infinite."""
    random = Random(SEED)
    for epsilon, reveals in ((0.5, 0.0), (0.3, 1e-3), (1.5, 0.02)):
        inner: Mechanism = approx(epsilon, reveals) if reveals else Pure(epsilon)
        mechanism = RepeatAndSelect(inner, trials)
        profile = PldProfile(((mechanism, 1),))
        uppers = [profile.delta(at).upper for at in AT]
        for _ in range(8):
            p, q = response(random, epsilon, reveals)
            for at, upper in zip(AT, uppers, strict=True):
                found = delta(selected(trials, p), selected(trials, q), at)
                assert found <= upper * (1.0 + 1e-9) + ROUNDING, (SEED, at)
                if 1e-9 < found < 0.99:
                    with suppress(NotRepresentable):  # more than that may be revealed
                        assert mechanism.approx_dp(found * (1.0 - 1e-9)) >= at * (1.0 - 1e-9), (SEED, at)


def test_two_selections_add_up() -> None:
    trials = NegativeBinomial(1.0, 0.25)
    profile = PldProfile(((RepeatAndSelect(Gaussian(0.4), trials), 2),))
    for p, q in normal(0.4, 0):
        one, other = selected(trials, p), selected(trials, q)
        for epsilon in AT:
            assert delta(np.multiply.outer(one, one), np.multiply.outer(other, other), epsilon) <= profile.delta(epsilon).upper


@pytest.mark.parametrize(
    ("trials", "expected", "renyi"),
    [
        (NegativeBinomial(1.0, 0.1), 1.4302, 2.1534),
        (NegativeBinomial(0.0, 0.05), 1.2835, 1.85),
        (PoissonTrials(10.0), 1.8316, 2.3532),
    ],
)
def test_the_profile_is_sharper_than_the_renyi_curve(trials: Counts, expected: float, renyi: float) -> None:
    """One Gaussian run of noise 4 at delta 1e-5; what both are is asserted, so that neither can get lost."""
    found = RepeatAndSelect(Gaussian(0.25), trials).approx_dp(1e-5)
    assert found == pytest.approx(expected, rel=2e-2) and found < 0.9 * renyi


def chances_of(trials: Counts) -> Array:
    """Return P(K = k), the coefficients of the generating function."""
    size = 1 << 13
    return np.asarray(np.fft.fft(generating(trials, np.exp(2j * np.pi * np.arange(size) / size))).real / size)


def test_the_chances_of_every_number_of_runs() -> None:
    k = np.arange(1, 4)
    for trials in TRIALS:
        chances, first = chances_of(trials), trials.mean * math.exp(-float(trials.depth(np.ones(1))[0]))
        assert first == pytest.approx(float(chances[1]), rel=1e-9, abs=1e-13), trials
        assert trials.next_ratio(k.astype(float)) * chances[k] == pytest.approx(chances[k + 1], rel=1e-9, abs=1e-13), trials


@pytest.mark.long
@pytest.mark.parametrize("trials", TRIALS)
def test_a_release_of_all_runs_is_priced_by_their_number(trials: Counts) -> None:
    """k answers of randomised response are a binomial number of errors."""
    random, chances = fresh_random(), chances_of(trials)
    epsilon, x = random.uniform(0.05, 1.0), np.array([0.0, random.uniform(0.0, 1.0), 3.0])
    bounds, truths = np.exp(log_all_runs(Pure(epsilon), trials, x)), np.zeros(3)
    for count in range(1, 200):
        errors = np.arange(count + 1)
        q, p = (binom.pmf(errors, count, 1.0 / (1.0 + math.exp(sign * epsilon))) for sign in (1.0, -1.0))
        truths += chances[count] * np.maximum(q[:, None] - np.exp(x) * p[:, None], 0.0).sum(axis=0)
    assert (truths - 1e-12 <= bounds).all(), (epsilon, x, truths, bounds)
    assert bounds[0] <= 2.0 * truths[0] + 0.1, (epsilon, truths, bounds)


def test_runs_beyond_the_largest_number_keep_their_probability_if_gamma_is_tiny() -> None:
    """Each run reveals everything, so that delta is 1; 1 - gamma is rounded to a neighbour of 1."""
    random = fresh_random()
    for eta in (0.5, 1.0, 2.0):
        trials = NegativeBinomial(eta, 10.0 ** random.uniform(-16.0, -12.0))
        assert log_all_runs(Gaussian(60.0), trials, np.zeros(1))[0] >= -1e-9, trials


@pytest.mark.long
def test_many_selections_that_cost_little_are_priced_by_all_runs() -> None:
    """The bound for one selection alone has 14.31 and 10.28; a costly score has 7.81 for Gaussian runs."""
    few_steps = Composed(((sampled_gaussian(1.0, 0.001, 1), 1000),))
    for run, most in ((Gaussian(0.1), 11.04), (few_steps, 7.25)):
        selection = RepeatAndSelect(run, NegativeBinomial(1.0, 0.2))
        upper = PldProfile(((selection, 100),)).epsilon(1e-6).upper
        witness = selection.witness(16.0)
        lower = 0.0 if witness is None else PldProfile(((witness, 100),)).epsilon(1e-6).lower
        assert lower is not None and lower <= upper <= most, (run, lower, upper)


@pytest.mark.long
def test_selections_that_cost_little_are_priced_nearly_as_sharply() -> None:
    """The end of G is then near y = 1. At 0.98 of the bound, an order of the outcomes has a larger delta."""
    for mu, trials in ((0.01, NegativeBinomial(1.0, 0.1)), (0.003, PoissonTrials(1.0)), (0.03, NegativeBinomial(0.0, 0.05))):
        epsilon = RepeatAndSelect(Gaussian(mu), trials).approx_dp(1e-5)
        best, other = (
            trials.mean * masses * np.exp(-trials.depth(1.0 - np.cumsum(masses) + 0.5 * masses))
            for masses in worst_order(trials, mu, epsilon)
        )
        assert delta(best, other, epsilon) <= 1e-5 < delta(best, other, 0.98 * epsilon), (mu, trials, epsilon)


@pytest.mark.long
def test_a_run_of_many_steps_is_known_by_its_renyi_curve_where_its_pair_takes_too_long() -> None:
    inner = Composed(((sampled_gaussian(0.25, 0.1, 1), 50),))
    for trials in (NegativeBinomial(1.0, 0.1), PoissonTrials(3.0)):
        sharp = PldProfile(((RepeatAndSelect(inner, trials), 1),)).epsilon(1e-5).upper
        rough = RepeatAndSelect(inner, trials).approx_dp(1e-5)
        assert PldProfile(((inner, 1),)).epsilon(1e-5).upper < sharp <= rough * (1.0 + 1e-6)
