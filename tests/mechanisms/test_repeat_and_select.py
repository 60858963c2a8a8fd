"""Private selection, the best of a random number of runs, by its theorems on pure, Renyi and zCDP costs: against enumeration, closed forms
and figures of another library.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy.special import logsumexp, ndtr

import dpcli
from dpcli.analysis.account import account
from dpcli.base.errors import DpcliError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.choice import trial_numbers
from dpcli.mechanisms.choice.randomized_response import RandomizedResponseSpec
from dpcli.mechanisms.choice.repeat_and_select import RepeatAndSelect, RepeatAndSelectSpec
from dpcli.mechanisms.choice.trial_numbers import NegativeBinomial, PoissonTrials, TrialsTable
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.combined.group import Group
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.sampling.schemes import Poisson as PoissonSampling
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.work import CALL, TooMuchWork, allowance
from tests.cases import fresh_random, of_each
from tests.mechanisms.trials import NEGATIVE_BINOMIALS, TRIALS, Counts, generating, selected
from tests.strategies import entry, pipeline

ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 40.0])


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    kept = p > 0
    return float(logsumexp(order * np.log(p[kept]) + (1.0 - order) * np.log(q[kept]))) / (order - 1.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("trials", TRIALS, ids=str)
@pytest.mark.parametrize("e0", [0.1, 1.0, 3.0])
def test_pure_runs_by_enumeration(trials: Counts, e0: float) -> None:
    """Every pair of extreme points of e0-DP on three ordered outcomes, at many base rates."""
    bound = RepeatAndSelect(Pure(e0), trials)
    worst = 0.0
    for high in np.linspace(0.01, 0.99, 60):
        p = np.array([high, 1 - high])
        q = np.maximum(p * math.exp(-e0), 1 - np.minimum(p[::-1] * math.exp(e0), 1.0))
        q = np.array([max(q[0], 1 - math.exp(e0) * p[1]), 0.0])
        q[1] = 1 - q[0]
        for one, other in ((p, q), (q, p), (p[::-1], q[::-1]), (q[::-1], p[::-1])):
            a, b = selected(trials, one), selected(trials, other)
            a, b = a[a > 0], b[a > 0]
            worst = max(worst, float(np.abs(np.log(a / b)).max()))
            for order, value in zip(ORDERS, bound.rdp(ORDERS), strict=True):
                assert divergence(a, b, order) <= value * (1 + 1e-9)
    assert worst <= bound.approx_dp(0.0) * (1 + 1e-12)


@of_each("trials", TRIALS)
@of_each("mu", [0.1, 0.5, 1.5])
def test_gaussian_runs_by_summation(trials: Counts, mu: float) -> None:
    """The best of K draws of N(0, 1) against N(mu, 1), both ways and with either end as the better, on a fine partition."""
    edges = np.linspace(-12.0, 12.0 + mu, 6001)
    one, other = (np.diff(ndtr(np.concatenate(([-np.inf], edges - shift, [np.inf])))) for shift in (0.0, mu))
    value = RepeatAndSelect(Gaussian(mu), trials).rdp(ORDERS)
    for a, b in ((one, other), (other, one), (one[::-1], other[::-1]), (other[::-1], one[::-1])):
        p, q = selected(trials, a), selected(trials, b)
        seen = (p > 1e-200) & (q > 1e-200)
        for order, bound in zip(ORDERS[:5], value, strict=False):
            assert divergence(p[seen], q[seen], order) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("trials", NEGATIVE_BINOMIALS, ids=str)
def test_pure_is_below_the_corollary(trials: NegativeBinomial) -> None:
    """(2 + eta) epsilon is the limit of many trials."""
    for epsilon in (1e-3, 0.5, 2.0):
        assert epsilon <= trials.pure(epsilon) <= (2.0 + trials.eta) * epsilon
    assert NegativeBinomial(trials.eta, 1e-200).pure(0.5) == pytest.approx((2.0 + trials.eta) * 0.5, rel=1e-9)
    assert trials.pure(1e4) == pytest.approx(1e4 + (1 + trials.eta) * math.log(1 / trials.gamma), rel=1e-9)


@pytest.mark.parametrize("trials", NEGATIVE_BINOMIALS, ids=str)
def test_mean_is_the_derivative_at_one(trials: NegativeBinomial) -> None:
    step = 1e-6
    slope = (1.0 - generating(trials, np.array([1.0 - step]))[0]) / step
    assert trials.mean == pytest.approx(slope, rel=1e-3)


def test_zcdp_runs_in_closed_form() -> None:
    """eta = 1, mean 10, rho: the best b is sqrt(log(10)/rho), so D_a = rho a + 2 (2 sqrt(rho log 10) - rho) + log(10)/(a-1)."""
    rho, orders = 0.02, np.array([12.0, 20.0, 60.0])
    expected = rho * orders + 2.0 * (2.0 * math.sqrt(rho * math.log(10.0)) - rho) + math.log(10.0) / (orders - 1.0)
    found = NegativeBinomial(1.0, 0.1).rdp(Zcdp(rho), orders)
    assert found == pytest.approx(expected, rel=1e-5)
    assert (found >= expected * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    ("distribution", "mean", "eta", "epsilon"),
    [("geometric", 30.0, None, 2.5551), ("geometric", 10.0, None, 2.27131), ("logarithmic", 10.0, None, 1.90179),
     ("truncated-negative-binomial", 10.0, 0.5, 2.09701), ("poisson", 5.0, None, 1.84941)],
)  # fmt: skip
def test_figures_of_another_library(distribution: Any, mean: float, eta: float | None, epsilon: float) -> None:
    """dp_accounting 0.6, RepeatAndSelectDpEvent of a Gaussian of noise 4 at delta 1e-6, on 2,000 orders from 1.05 to 100."""
    trials = TrialsTable(distribution=distribution, mean=mean, eta=eta).distributed()
    steps = ((RepeatAndSelect(Gaussian(0.25), trials), 1),)
    assert load(ACCOUNTANTS["rdp"]).compose(steps).epsilon(1e-6).upper == pytest.approx(epsilon, rel=1e-4)


def mean_in_full(trials: NegativeBinomial) -> Any:
    """Return E[K] at the doubles gamma and eta in fifty digits."""
    with mp.workdps(50):
        eta, gamma = mp.mpf(trials.eta), mp.mpf(trials.gamma)
        return (1 - gamma) / gamma / -mp.log(gamma) if eta == 0 else eta * (1 - gamma) / (gamma * (1 - gamma**eta))


@of_each("eta", [-0.999, -0.9, -1e-3, -1e-12, 0.0, 1e-12, 1e-9, 0.3, 1.0, 1e6])
def test_stated_mean_is_never_undercut(eta: float) -> None:
    """The charged law has at least the stated mean, or the table is refused: as eta nears -1, no gamma has a large mean."""
    for mean in (1.0 + 1e-15, 1.0 + 1e-9, 1.001, 1.9, 1e4, 1e18):
        table = TrialsTable(distribution="truncated-negative-binomial", mean=mean, eta=eta)
        refused = bool(list(table.problems()))
        assert refused == (eta == -0.999 and mean >= 1e4), mean
        if refused:
            continue
        trials = table.distributed()
        assert isinstance(trials, NegativeBinomial)
        assert mean * (1.0 - 1e-15) <= mean_in_full(trials) <= trials.mean <= mean * (1.0 + 1e-5), mean


def tuned(inner: dict[str, Any], trials: TrialsTable, **privacy: Any) -> Any:
    first = replace(entry("gaussian", **inner), steps=50, sampling=PoissonSampling("poisson", 0.1))
    second = replace(
        entry("gaussian", noise_multiplier=1.0), type="repeat-and-select", spec=RepeatAndSelectSpec(mechanism="0", trials=trials)
    )
    return pipeline(first, second, **privacy)


def test_the_run_is_charged_once_with_its_own_sampling() -> None:
    geometric = TrialsTable(distribution="geometric", mean=10.0)
    charges = resolve(tuned({"noise_multiplier": 4.0}, geometric))
    assert [c.name for c in charges] == ["1"] and charges[0].count == 1
    (mechanism,) = [c.mechanism for c in charges]
    assert isinstance(mechanism, RepeatAndSelect) and isinstance(mechanism.inner, Composed)
    assert mechanism.inner.parts[0][1] == 50
    alone = account(
        replace(tuned({"noise_multiplier": 4.0}, geometric), mechanisms=tuned({"noise_multiplier": 4.0}, geometric).mechanisms[:1])
    )
    assert alone.upper < account(tuned({"noise_multiplier": 4.0}, geometric)).upper < 10 * alone.upper


def test_steps_of_a_gaussian_are_one_gaussian() -> None:
    file = tuned({"noise_multiplier": 4.0}, TrialsTable(distribution="geometric", mean=10.0))
    steps = replace(file.mechanisms[0], sampling=Unsampled("none"), steps=16)
    (charge,) = resolve(replace(file, mechanisms=(steps, file.mechanisms[1])))
    assert isinstance(charge.mechanism, RepeatAndSelect) and isinstance(charge.mechanism.inner, Gaussian)
    assert 1.0 <= charge.mechanism.inner.mu <= 1.0 + 1e-14


def test_a_stated_delta_is_multiplied_and_has_no_renyi_curve() -> None:
    mechanism: Mechanism = RepeatAndSelect(approx(1.0, 1e-9), NegativeBinomial(1.0, 0.1))
    for ask in (lambda: mechanism.approx_dp(0.9e-8), lambda: mechanism.rdp(ORDERS), mechanism.zcdp):
        with pytest.raises(NotRepresentable):
            ask()
    assert 1.0 < mechanism.approx_dp(1.1e-8) < RepeatAndSelect(Pure(1.0), NegativeBinomial(1.0, 0.1)).pure() * 1.002


FILE = """
format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
[[mechanism]]
name = "trial"
type = "pure-dp"
epsilon = 0.1
[[mechanism]]
name = "tune"
type = "repeat-and-select"
mechanism = "trial"
trials = { distribution = "geometric", mean = 10 }
"""


@of_each(("old", "new", "message"), [
        (", mean = 10", "", "trials: expected either mean or gamma, found neither"),
        ("mean = 10", "mean = 10, gamma = 0.1", "found mean and gamma"),
        ("mean = 10", "mean = 1", "a mean > 1"),
        ("mean = 10", "mean = 10, eta = 2", "no eta"),
        ('"geometric"', '"truncated-negative-binomial"', "eta, the shape"),
        ('"geometric", mean = 10', '"truncated-negative-binomial", mean = 10, eta = -0.999', "up to 2.01"),
        ('"geometric", mean = 10', '"poisson", gamma = 0.1', "mean, for poisson, found gamma"),
        ('"geometric"', '"binomial"', "most, the largest number of trials, found nothing"),
        ('"geometric", mean = 10', '"binomial", most = 20, gamma = 0.1', "mean, for binomial, found gamma"),
        ('"geometric", mean = 10', '"binomial", most = 10, mean = 10', "a mean of at most 0.999 times most"),
        ('mean = 10', "mean = 10, most = 20", "no most, which only binomial has"),
        ('mechanism = "trial"', 'mechanism = "trail"', "did you mean"),
        ('mechanism = "trial"', 'mechanism = "tune"', "its own"),
    ])  # fmt: skip
def test_bad_files(old: str, new: str, message: str, tmp_path: Any) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(FILE.replace(old, new))
    with pytest.raises(DpcliError, match=message):
        dpcli.load(file)


def test_pure_file(tmp_path: Any) -> None:
    """Three epsilon at most: epsilon + 2 log((e^eps + 0.1) / (1 + 0.1 e^eps))."""
    file = tmp_path / "pipeline.toml"
    file.write_text(FILE)
    exact = 0.1 + 2.0 * math.log((math.exp(0.1) + 0.1) / (1.0 + 0.1 * math.exp(0.1)))
    assert exact * 0.99 <= account(dpcli.load(file), delta=1e-9).upper <= exact * (1 + 1e-9) < 0.3


@of_each("mean", [1e-200, 1e-15, 1e-9, 1e-3, 0.5, 20.0, 1e15])
@of_each("inner", [Gaussian(1e-6), Gaussian(0.1), Gaussian(3.0), Pure(1e-9), Pure(0.3)])
def test_a_small_mean_of_trials_costs_what_it_costs(inner: Mechanism, mean: float) -> None:
    """The theorem in 450 digits: with 10^18 steps, what rounding takes from one of them is no longer small."""
    orders = np.array([1.0000001, 1.01, 1.5, 2.0, 7.0, 50.0, 1000.0])
    with mp.workdps(450):
        for order, found in zip(orders.tolist(), PoissonTrials(mean).rdp(inner, orders).tolist(), strict=True):
            z, one = mp.mpf(order) - 1, float(trial_numbers.cached_rdp(inner, np.array([order]))[0])
            growth = z * (mp.mpf(one) + mp.mpf(mean) * mp.mpf(trial_numbers._delta_of_run(inner, math.log1p(1.0 / (order - 1.0)))))
            exact = mp.log(mp.exp(-mp.mpf(mean)) + mp.mpf(mean) * mp.exp(growth)) / z
            assert exact <= found <= exact * (1 + mp.mpf("2e-12")) + mp.mpf(mean) ** 2 * mp.mpf("1e-3") / z


def test_a_search_over_what_a_group_of_releases_costs_is_counted_and_made_once() -> None:
    """One run's pure epsilon is asked for again and again: at delta = 0 there is no delta to split, and nothing to search."""
    run = Composed(((Group(Zcdp(1e-9), 1000), 50), (Group(Pure(0.1), 2), 3)))
    with allowance(10 * CALL):
        assert run.approx_dp(0.0) == math.inf
        assert Composed(run.parts[1:]).approx_dp(0.0) == pytest.approx(0.6)
        with pytest.raises(TooMuchWork):
            run.parts[0][0].approx_dp(1e-6)


def test_pure_guarantees_of_any_size_are_never_below_those_of_two_outcomes() -> None:
    """Epsilon from 1e-18 to 300 and any gamma: what a corner of pure DP shows, in many digits; and the mean of the trials."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    with mp.workdps(340):
        for _ in range(300):
            epsilon = 10.0 ** random.choice((random.uniform(-18.0, -5.0), random.uniform(-6.0, 2.5)))
            gamma = random.choice((10.0 ** random.uniform(-280.0, -1e-3), 1.0 - 10.0 ** random.uniform(-15.0, -0.1)))
            eta = random.choice((0.0, 1.0, random.uniform(-0.99, 3.0), 10.0 ** random.uniform(-12.0, 5.0)))
            trials = NegativeBinomial(eta, gamma)
            g, e, h = mp.mpf(gamma), mp.mpf(epsilon), mp.mpf(eta)
            mean = (1 / g - 1) * (h / (1 - g**h) if eta else -1 / mp.log(g))
            assert mean <= trials.mean <= mean * (1 + mp.mpf("2e-8")), (seed, trials)
            corner = e + (1 + h) * mp.log((mp.exp(e) + g) / (1 + g * mp.exp(e)))
            assert corner <= trials.pure(epsilon) <= corner * (1 + mp.mpf("3e-14")), (seed, epsilon, trials)
            order = 1.0 + 10.0 ** random.uniform(-9.0, 6.0)
            z, p = mp.mpf(order) - 1, 1 / (1 + mp.exp(-e))
            renyi = mp.log(p * mp.exp(z * e) + (1 - p) * mp.exp(-z * e)) / z
            assert renyi <= float(Pure(epsilon).rdp(np.array([order]))[0]) <= renyi * (1 + mp.mpf("3e-14")), (seed, epsilon, order)


def test_a_category_that_is_hardly_kept_keeps_its_digits() -> None:
    for keep, categories in ((0.5 + 1e-12, 2), (0.5 + 1e-15, 2), (1.0 / 3.0 + 1e-13, 3), (0.9, 2), (1.0 - 1e-16, 100)):
        with mp.workdps(50):
            expected = mp.log(mp.mpf(keep) * (categories - 1) / (1 - mp.mpf(keep)))
            found = RandomizedResponseSpec(keep=keep, categories=categories).stated().approx_dp(0.0)
            assert abs(found / expected - 1) < 1e-15
