"""The meaning of a guarantee (analysis/meaning.py, curve.py): closed forms, laws, and numbers that err toward the attacker."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.analysis.curve import profile, trade_off
from dpcli.analysis.meaning import Meaning, meaning
from dpcli.base.errors import InputError, InternalError
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.model import Budget, PartitionKey, Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.numerics.closed.trade_off import delta_from_pairs, false_negatives, gaussian_above, pointwise_epsilon, total_variation
from tests.cases import by_tier
from tests.strategies import dp_sgd, entry, pipeline, pipelines

NORMAL = NormalDist()
ALPHAS = np.concatenate([[0.0], np.geomspace(1e-6, 0.5, 40), np.linspace(0.5, 1.0, 41)[1:]])


def gaussian_trade_off(mu: float, alpha: float) -> float:
    """Phi(Phi^-1(1 - alpha) - mu): Dong, Roth, Su 2022, arXiv:1905.02383, equation (6)."""
    if alpha in (0.0, 1.0):
        return 1.0 - alpha
    return NORMAL.cdf(-NORMAL.inv_cdf(alpha) - mu)


def response_trade_off(epsilon: float, alpha: float) -> float:
    """Randomised response of two answers: two straight lines that meet on the diagonal."""
    return max(0.0, 1.0 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1.0 - alpha))


def found(pipeline: Pipeline, *priors: float) -> Meaning:
    _, answer = meaning(pipeline, priors=priors or (0.01, 0.5))
    assert answer is not None
    return answer


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0, 8.0])
def test_a_gaussians_trade_off_is_the_closed_form(mu: float) -> None:
    answer = found(pipeline(entry("gaussian", noise_multiplier=1.0 / mu)))
    exact = np.array([gaussian_trade_off(mu, alpha) for alpha in ALPHAS])
    lower = trade_off(answer.curve, ALPHAS)
    assert np.all(lower <= exact + 1e-12)  # inv_cdf is good to 1e-15
    assert lower == pytest.approx(exact, rel=5e-3, abs=1e-5)
    advantage = 2.0 * NORMAL.cdf(mu / 2.0) - 1.0
    assert advantage <= answer.advantage <= advantage * (1.0 + 1e-9)
    assert mu <= answer.gaussian * (1.0 + 1e-9)
    assert answer.gaussian <= mu * (1.0 + 1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 20.0])
def test_randomised_response_is_piecewise_linear(epsilon: float) -> None:
    answer = found(pipeline(entry("randomized-response", epsilon=epsilon), adjacency="replace-one", delta=0.0), 0.01, 0.3, 0.5, 0.9)
    exact = np.array([response_trade_off(epsilon, alpha) for alpha in ALPHAS])
    lower = trade_off(answer.curve, ALPHAS)
    assert np.all(lower <= exact + 1e-15)
    assert lower == pytest.approx(exact, abs=1e-12)
    assert answer.advantage == pytest.approx(math.tanh(epsilon / 2.0), rel=1e-9)
    assert (answer.pointwise, answer.exception) == (pytest.approx(epsilon), 0.0)
    keep = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    for belief in answer.beliefs:
        p = belief.prior
        assert belief.posterior == pytest.approx(p * keep / (p * keep + (1.0 - p) * (1.0 - keep)), rel=1e-9)
        assert belief.success == pytest.approx(max(p, 1.0 - p, keep), rel=1e-9)  # follow the answer, or the prior


def test_sampled_gaussians_lie_between_their_certified_bounds() -> None:
    """The reference pipeline: delta(epsilon) certified on both sides, and consistent with the headline."""
    training = dp_sgd(1.1, 256 / 60000, 14040)
    curve = profile(training, np.linspace(0.0, 3.0, 61))
    assert np.all(curve.lower <= curve.upper)
    assert np.all(curve.upper <= curve.lower * (1.0 + 1e-6))
    assert float(np.interp(2.3795545188, curve.epsilons, np.log(curve.upper))) == pytest.approx(math.log(1e-5), abs=0.01)
    for epsilon in (0.5, 1.5, 3.0):
        single = account(training, accountants=["exact"], epsilon=epsilon)
        assert single.lower is not None
        together = profile(training, [epsilon])
        assert together.lower[0] <= single.upper * (1.0 + 1e-12)
        assert single.lower <= together.upper[0] * (1.0 + 1e-12)
        assert together.upper[0] == pytest.approx(single.upper, rel=1e-7)


def test_both_directions_count() -> None:
    """Removal is the worse direction at every epsilon here: the curve must not be that of addition."""
    from dpcli.accountants.exact import delta_on, directions

    steps = pipeline(entry("gaussian", rate=0.1, noise_multiplier=0.8, steps=20))
    from dpcli.file.pipeline.resolve import resolve

    sides = directions(tuple((c.mechanism, c.count) for c in resolve(steps)))
    assert len(sides) == 2
    for epsilon in (0.0, 0.7, 2.0):
        assert profile(steps, [epsilon]).upper[0] >= max(delta_on(side, epsilon)[0] for side in sides) * (1.0 - 1e-12)


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(pipelines())
def test_trade_offs_are_convex_non_increasing_symmetric_and_never_beat_guessing(stated: Pipeline) -> None:
    curve = profile(stated, np.linspace(0.0, 4.0, 33))
    f = trade_off(curve, ALPHAS)
    assert np.all(f <= 1.0 - ALPHAS + 1e-15)
    assert np.all(np.diff(f) <= 1e-14)
    slopes = np.diff(f) / np.diff(ALPHAS)
    assert np.all(np.diff(slopes) >= -1e-8 * (1.0 + np.abs(slopes[1:])))
    inside = f[(f > 1e-9) & (f < 1.0)]
    mirrored = trade_off(curve, inside)  # f is its own inverse: the pairs hold in both directions
    assert mirrored == pytest.approx(ALPHAS[(f > 1e-9) & (f < 1.0)], abs=1e-9)
    assert np.all(curve.lower <= curve.upper)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 5.0), st.floats(0.0, 6.0), st.floats(0.01, 0.99))
def test_pointwise_bounds_cover_the_loss_of_a_gaussian(mu: float, start: float, share: float) -> None:
    """P(L > e) = Phi(mu/2 - e/mu), which is more than delta(e): the bound must be above that quantile."""
    probability = share * gaussian_delta(mu, start)[1]
    if probability < 1e-250:
        return
    grid = np.linspace(0.0, start + 10.0 * mu, 200)
    bound = pointwise_epsilon(grid, np.array([gaussian_delta(mu, e)[1] for e in grid]), probability)
    quantile = mu * (mu / 2.0 - NORMAL.inv_cdf(probability)) if probability > 1e-300 else 0.0
    assert bound >= quantile - 1e-9


def test_a_stated_pair_alone_bounds_beliefs_at_twice_its_delta() -> None:
    """delta = P(L > e) - e^e Q(L > e) is no probability: from one pair, P(L > e + log 2) <= 2 delta is what follows."""
    answer = found(pipeline(entry("approx-dp", epsilon=1.0, delta=1e-5), delta=1e-5))
    assert answer.exception == 2e-5
    assert answer.pointwise == pytest.approx(1.0 + math.log(2.0), rel=1e-9)
    assert answer.beliefs[1].posterior == pytest.approx(2 * math.e / (1 + 2 * math.e), rel=1e-9)


def test_beliefs_of_a_gaussian_are_not_below_the_truth() -> None:
    mu = 0.7
    answer = found(pipeline(entry("gaussian", noise_multiplier=1.0 / mu)), 0.01, 0.2, 0.5, 0.8)
    for belief in answer.beliefs:
        p = min(belief.prior, 1.0 - belief.prior)
        odds = math.log((1.0 - p) / p)
        best = (1.0 - p) * NORMAL.cdf(odds / mu + mu / 2.0) + p * NORMAL.cdf(mu / 2.0 - odds / mu)
        assert best - 1e-12 <= belief.success <= best + 1e-9
        assert belief.blind == 1.0 - p
        assert belief.posterior > belief.prior
    assert answer.beliefs[2].success == pytest.approx(0.5 + answer.advantage / 2.0, abs=1e-9)


def test_pairs_imply_what_randomised_response_shows() -> None:
    at = np.linspace(0.0, 3.0, 31)
    exact = [max(0.0, math.exp(2.0) - math.exp(x)) / (1.0 + math.exp(2.0)) for x in at]
    found_ = delta_from_pairs(np.array([2.0, 700.0, 2.5]), np.array([0.0, 0.0, 0.3]), at)
    assert found_ == pytest.approx(np.array(exact), abs=1e-14)
    assert np.all(delta_from_pairs(np.array([1e5]), np.array([0.5]), at) == pytest.approx(1.0))
    assert list(delta_from_pairs(np.array([]), np.array([]), np.array([0.5]))) == [1.0]


def test_ends_of_the_curve() -> None:
    e, d = np.array([0.0, 1.0, 1000.0]), np.array([0.5, 0.25, 0.1])
    assert false_negatives(e, d, np.array([0.0, 1.0])) == pytest.approx([0.9, 0.0], abs=1e-14)
    assert list(false_negatives(np.array([]), np.array([]), ALPHAS)) == [0.0] * len(ALPHAS)
    assert gaussian_above(e, np.array([0.5, 1.0, 0.0])) == math.inf
    assert gaussian_above(e, np.zeros(3)) == 0.0
    assert pointwise_epsilon(e, d, 0.0) == pointwise_epsilon(e, d, 0.1) == math.inf
    assert total_variation(np.array([]), np.array([])) == 1.0


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 40.0])
def test_the_gaussian_above_a_gaussian_is_itself(mu: float) -> None:
    grid = np.linspace(0.0, mu * mu / 2.0 + 5.0 * mu, 60)
    exact = np.array([gaussian_delta(mu, e)[0] for e in grid])
    assert gaussian_above(grid, exact) == pytest.approx(mu, rel=1e-6)


def test_groups_and_infinite_guarantees() -> None:
    answer = found(dp_sgd(1.1, 0.004, 1000))
    assert [group.size for group in answer.groups] == [1, 2, 4]
    assert answer.groups[0].epsilon < answer.groups[1].epsilon < answer.groups[2].epsilon
    nothing, none = meaning(pipeline(entry("gaussian", noise_multiplier=1.0), delta=0.0))
    assert none is None
    assert math.isinf(nothing.upper)


@pytest.mark.long
def test_groups_that_no_rule_covers_say_why() -> None:
    from dataclasses import replace

    from dpcli.file.pipeline.model import PartitionKey

    parts = pipeline(entry("pure-dp", epsilon=0.5), entry("pure-dp", epsilon=0.25))
    split = tuple(replace(e, partition=PartitionKey("region", e.name)) for e in parts.mechanisms)
    answer = found(replace(parts, mechanisms=split))
    assert answer.groups[0].reason is None
    assert answer.groups[1].reason is not None and "several records" in answer.groups[1].reason


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, math.nan, math.inf])
def test_priors_out_of_range_are_refused(prior: float) -> None:
    with pytest.raises(InputError, match=r"--prior: expected a probability in \(0, 1\)"):
        meaning(dp_sgd(1.1, 0.004, 10), priors=[prior])


@pytest.mark.parametrize("epsilons", [[], [-1.0], [math.nan], [math.inf], [2.0, 1.0]])
def test_epsilons_out_of_range_are_refused(epsilons: list[float]) -> None:
    with pytest.raises(InputError, match="increasing order"):
        profile(dp_sgd(1.1, 0.004, 10), epsilons)


def test_nothing_released_is_nothing_learnt() -> None:
    answer = found(pipeline(entry("post-processing"), delta=0.0))
    assert answer.advantage <= 1e-14
    assert answer.gaussian == 0.0
    assert [belief.posterior for belief in answer.beliefs] == pytest.approx([0.01, 0.5])
    assert trade_off(answer.curve, ALPHAS) == pytest.approx(1.0 - ALPHAS, abs=1e-14)


AGREE = 5e-2  # where no interval is narrow, each looks for good pairs in its own way
NOTHING = 1e-12  # what rounding makes of a delta of 0
ONE_PROFILE = [
    pipeline(entry("pure-dp", epsilon=0.5, steps=10)),
    pipeline(entry("zcdp", rho=0.05)),
    pytest.param(
        pipeline(entry("laplace", noise_multiplier=0.192836241, rate=0.4, steps=3), adjacency="replace-one", delta=1e-6),
        marks=pytest.mark.long,
    ),
    pipeline(entry("approx-dp", epsilon=0.5, delta=1e-7, steps=10)),
    # Optimal composition is the best one at epsilon 0, and no competitor at the delta of the file.
    pipeline(entry("rdp", orders=(5.52,), values=(0.357,), steps=3), delta=1e-6),
]


def same_as_account(stated: Pipeline, said: str = "") -> None:
    """What is read off the profile is no more than what `account` says at that epsilon, give or take a twentieth."""
    _, answer = meaning(stated, priors=[0.2])
    if answer is None:
        return
    deltas = [min(account(stated, epsilon=epsilon).upper, 1.0) for epsilon in (0.0, math.log(0.8 / 0.2))]
    assert answer.advantage <= deltas[0] * (1.0 + AGREE) + NOTHING, said
    assert answer.beliefs[0].success <= (0.8 + 0.2 * deltas[1]) * (1.0 + AGREE), said
    if answer.exception == 0.0:
        assert answer.pointwise == pytest.approx(account(stated, delta=0.0).upper, rel=1e-9), said


MANY_EPSILONS = b"""format = 1

[privacy]
adjacency = "replace-one"
delta = 1e-6
dataset_size = 1000

[[mechanism]]
name = "choice"
type = "exponential"
stated_for = "record"
epsilon = 7.0
sampling = { scheme = "fixed-size", batch_size = 30 }
steps = 3
"""


@pytest.mark.long
def test_a_profile_whose_work_ends_keeps_the_bounds_that_it_has() -> None:
    """The epsilons of this profile take more work than a profile may, so that none of them had an interval once."""
    same_as_account(parse(MANY_EPSILONS, "many.toml"))


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("stated", ONE_PROFILE, ids=lambda one: one.mechanisms[0].type)
def test_one_profile_answers_explain_and_account(stated: Pipeline) -> None:
    same_as_account(stated)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_type_has_one_profile(kind: str) -> None:
    from dpcli.exam.subjects import SEED, drawn

    subjects = drawn(kind, str(SEED))
    assert subjects
    subject = Random(f"{SEED}/{kind}").choice(subjects)
    same_as_account(subject.pipeline, subject.source)


@pytest.mark.parametrize("points", by_tier(4, 8, 19))
def test_disjoint_parts_have_the_largest_of_their_profiles(points: int) -> None:
    noise = [entry("gaussian", name="a", noise_multiplier=3.0, steps=4), entry("laplace", name="b", noise_multiplier=2.0)]
    common = entry("laplace", name="c", noise_multiplier=5.0)
    parts = tuple(replace(one, partition=PartitionKey("region", one.name)) for one in noise)
    whole, *alone = (replace(pipeline(common, delta=1e-5), mechanisms=(common, *some)) for some in (parts, *zip(parts)))
    grid = np.linspace(0.2, 2.0, points)
    curve, curves = profile(whole, grid), [profile(one, grid) for one in alone]
    assert curve.upper == pytest.approx(np.max([one.upper for one in curves], axis=0), rel=1e-6, abs=1e-12)
    assert curve.is_narrow()


def test_adaptive_pipelines_use_filters_alone() -> None:
    grid = np.linspace(0.0, 4.0, 9)
    steps = [entry("gaussian", rate=0.05, noise_multiplier=2.0, steps=10)]
    chosen = replace(pipeline(*steps, adaptive=True, delta=1e-6), budget=Budget(epsilon=4.0, delta=1e-6))
    fixed, adaptive = profile(pipeline(*steps), grid), profile(chosen, grid)
    assert np.all(adaptive.upper >= fixed.upper)
    assert not np.any(adaptive.lower)
    with pytest.raises(InputError, match="budget: a cap is missing"):
        profile(replace(chosen, budget=None), grid)


@pytest.mark.long
def test_bounds_that_exclude_each_other_are_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.analysis import curve

    def too_high(_: object, epsilons: np.ndarray, delta: float) -> curve.ProfileCurve:
        return curve.ProfileCurve(epsilons, np.ones_like(epsilons), np.full_like(epsilons, 0.9), delta)

    monkeypatch.setattr(curve, "TWO_SIDED", {"exact": too_high})
    with pytest.raises(InternalError, match="contradict"):
        profile(dp_sgd(1.1, 0.004, 100), [1.0])


@pytest.mark.parametrize("name", ["exact", "pld"])
@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
def test_each_way_to_a_whole_curve_encloses_the_closed_form(name: str, mu: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.analysis import curve

    monkeypatch.setattr(curve, "TWO_SIDED", {name: curve.TWO_SIDED[name]})
    steps = pipeline(entry("gaussian", steps=9, noise_multiplier=3.0 / mu))
    grid = np.linspace(0.0, mu * mu / 2.0 + 5.0 * mu, 50)
    answer = profile(steps, grid, delta=1e-6)
    exact = np.array([gaussian_delta(mu, e)[1] for e in grid])
    assert np.all(answer.lower <= exact * (1.0 + 1e-12))
    assert np.all(answer.upper >= exact * (1.0 - 1e-12))
    assert answer.is_narrow()


@pytest.mark.sampled
@pytest.mark.parametrize("count", [2, 6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_composed_randomised_responses_are_a_binomial_sum(count: int, epsilon: float) -> None:
    steps = pipeline(entry("randomized-response", steps=count, epsilon=epsilon), adjacency="replace-one")
    grid = np.linspace(0.0, 1.1 * count * epsilon, 40)
    p = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    weights = [math.comb(count, k) for k in range(count + 1)]
    exact = [
        sum(
            w * max(0.0, p**k * (1 - p) ** (count - k) - math.exp(x) * p ** (count - k) * (1 - p) ** k)
            for k, w in enumerate(weights)
        )
        for x in grid.tolist()
    ]
    answer = profile(steps, grid)
    assert np.all(answer.upper >= np.array(exact) * (1.0 - 1e-12))
    assert np.all(answer.lower <= np.array(exact) * (1.0 + 1e-12) + 1e-300)
    assert answer.upper == pytest.approx(np.array(exact), rel=0.1, abs=1e-9)


def test_a_curve_is_zero_from_the_pure_epsilon_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that bounds are narrow there, and accountants without lower bounds need not be run."""
    from dpcli.analysis import curve

    monkeypatch.setattr(curve, "_from_pairs", None)
    for scale in (159.0, random.uniform(20.0, 200.0)):
        steps = pipeline(entry("discrete-laplace", scale=scale, sensitivity=159))
        pure = curve.pure_epsilon(steps)
        answer = profile(steps, [0.0, 0.5 * pure, pure, 1.5 * pure], delta=0.0)
        assert (answer.upper[1] > 0.0, *answer.upper[2:]) == (True, 0.0, 0.0), scale


@pytest.mark.long
def test_pairs_of_one_sided_accountants_stay_above_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.analysis import curve

    monkeypatch.setattr(curve, "TWO_SIDED", {})
    grid = np.linspace(0.0, 6.0, 40)
    answer = profile(pipeline(entry("gaussian", noise_multiplier=1.0)), grid)
    exact = np.array([gaussian_delta(1.0, e)[1] for e in grid])
    assert np.all(answer.upper >= exact)
    assert np.all(answer.upper <= 40.0 * exact + 1e-7)
    assert not np.any(answer.lower)


@pytest.mark.parametrize("delta", [0.9, 0.3, 1e-3, 1e-30])
def test_the_delta_that_is_stated_does_not_blur_the_curve(delta: float) -> None:
    """At delta = 0.9 the headline is epsilon 0, which says next to nothing; the mechanism is the same."""
    answer = found(pipeline(entry("gaussian", noise_multiplier=1.0), delta=delta))
    for alpha, lower in zip(answer.alphas, answer.false_negatives, strict=True):
        exact = gaussian_trade_off(1.0, alpha)
        assert lower <= exact + 1e-12
        if alpha >= 0.001:
            assert lower == pytest.approx(exact, abs=1e-3)
    assert answer.gaussian == pytest.approx(1.0, rel=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [1e-4, 1e-12, 50.0, 5000.0])
def test_very_small_and_very_large_epsilons(epsilon: float) -> None:
    answer = found(pipeline(entry("pure-dp", epsilon=epsilon), delta=0.0), 1e-9, 0.5, 1.0 - 1e-9)
    exact = np.array([response_trade_off(min(epsilon, 700.0), alpha) for alpha in ALPHAS])
    assert np.all(trade_off(answer.curve, ALPHAS) <= exact + 1e-12)
    assert trade_off(answer.curve, ALPHAS) == pytest.approx(exact, abs=1e-9)
    assert answer.advantage == pytest.approx(math.tanh(epsilon / 2.0), rel=1e-9, abs=1e-14)
    assert all(belief.prior < belief.posterior <= 1.0 and belief.blind <= belief.success <= 1.0 for belief in answer.beliefs)
