"""Stated deltas: a composition that reveals everything with some probability, and is another composition otherwise.

The references use mpmath alone: sums over all outcomes of randomised responses, and the closed privacy profile of the normal law, mixed
over the two losses of one randomised response.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from dpcli.accountants.base import Accountant, Failing, PrivacyProfile, Steps
from dpcli.analysis.account import account
from dpcli.analysis.curve import profile
from dpcli.base.errors import NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.mechanisms.combined.composed import Composed, Parallel
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.stated.pure_and_approx import approx
from dpcli.plots.epsilons import Question
from dpcli.plots.renyi_divergence import chart
from tests.cases import by_tier, fresh_random
from tests.strategies import entry, pipeline

FINITE = tuple(name for name, target in ACCOUNTANTS.items() if load(target).finite and load(target).sound)
Stated = list[tuple[float, float, int]]  # epsilon, delta and count of each statement


def accountant(name: str) -> Accountant:
    result: Accountant = load(ACCOUNTANTS[name])
    return result


def failure(stated: Stated) -> mp.mpf:
    return 1 - mp.fprod((1 - mp.mpf(delta)) ** count for _, delta, count in stated)


def responses_delta(stated: Stated, epsilon: mp.mpf) -> mp.mpf:
    """Return delta of the randomised responses alone: the sum over how many answers of each statement are true."""
    total = mp.mpf(0)
    for trues in itertools.product(*(range(count + 1) for _, _, count in stated)):
        log_p = loss = mp.mpf(0)
        ways = 1
        for true, (own, _, count) in zip(trues, stated, strict=True):
            e0 = mp.mpf(own)
            loss += (2 * true - count) * e0
            log_p += true * e0 - count * mp.log1p(mp.exp(e0))
            ways *= math.comb(count, true)
        total += ways * mp.exp(log_p) * max(mp.mpf(0), 1 - mp.exp(epsilon - loss))
    return total


def normal_delta(mu: float, epsilon: mp.mpf) -> mp.mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def mixed_delta(stated: Stated, mu: float, epsilon: mp.mpf) -> mp.mpf:
    """Return delta of one randomised response and normal noise."""
    ((own, _, _),) = stated
    share = 1 / (1 + mp.exp(-mp.mpf(own)))
    return share * normal_delta(mu, epsilon - own) + (1 - share) * normal_delta(mu, epsilon + own)


def drawn(source: random.Random) -> tuple[Steps, Callable[[mp.mpf], mp.mpf]]:
    """Draw steps with stated deltas, and return them with their true delta as a function of epsilon."""
    if source.random() < 0.5:
        stated = [
            (round(source.uniform(0.05, 2.0), 3), float(f"{10 ** source.uniform(-12, -2):.3g}"), source.randint(1, 6))
            for _ in range(source.randint(1, 3))
        ]
        steps: Steps = tuple((approx(epsilon, delta), count) for epsilon, delta, count in stated)
        rest = lambda at: responses_delta(stated, at)  # noqa: E731
    else:
        stated = [(round(source.uniform(0.05, 3.0), 3), float(f"{10 ** source.uniform(-12, -2):.3g}"), 1)]
        mu, count = round(10 ** source.uniform(-2, 0.5), 4), source.randint(1, 50)
        steps = ((Gaussian(mu), count), (approx(*stated[0][:2]), 1))
        whole = mu * math.sqrt(count)
        rest = lambda at: mixed_delta(stated, whole, at)  # noqa: E731
    fails = failure(stated)
    return steps, lambda at: fails + (1 - fails) * rest(at)


@pytest.mark.parametrize("cases", by_tier(4, 8, 400))
def test_every_bound_is_on_its_side_of_the_truth(cases: int) -> None:
    """Both questions, by each accountant that sets the failure aside, and the grid, which does not."""
    seed = fresh_random().randrange(2**32)
    source, seen = random.Random(seed), dict.fromkeys((*FINITE, "pld"), 0)
    with mp.workdps(50):
        for _ in range(cases):
            steps, truth = drawn(source)
            epsilon = source.uniform(0.05, 6.0)
            delta = truth(mp.mpf(epsilon))
            for name in seen:
                composed = accountant(name).profile(steps)
                for answer, at, exact in (
                    (composed.epsilon, float(delta) * (1 - 1e-15), mp.mpf(epsilon)),
                    (composed.delta, epsilon, delta),
                ):
                    try:
                        bound = answer(at)
                    except NotRepresentable:
                        continue
                    seen[name] += 1
                    assert bound.upper >= exact * (1 - mp.mpf(10) ** -13), (seed, name, at, steps)
                    assert (bound.lower or 0.0) <= exact * (1 + mp.mpf(10) ** -10), (seed, name, at, steps)
                    if name == "exact" and exact is delta and delta < 0.5:
                        assert bound.lower is not None and bound.upper <= delta * (1 + mp.mpf(10) ** -4), (seed, steps, epsilon)
    assert min(count for name, count in seen.items() if name != "analytic") > cases // 6, (seed, seen)


@pytest.mark.parametrize("name", FINITE)
def test_no_delta_is_left(name: str) -> None:
    steps: Steps = ((Gaussian(0.1), 3), (approx(1.0, 1e-8), 2))
    if name == "analytic":
        steps = ((Gaussian(0.1), 3), (approx(0.0, 1e-8), 2))
    composed = accountant(name).profile(steps)
    with mp.workdps(40):
        whole = float(failure([(1.0, 1e-8, 2)]))
    for delta in (1e-8, 1.99e-8, whole):
        with pytest.raises(NotRepresentable, match="the stated deltas alone add up to 2e-08"):
            composed.epsilon(delta)
    assert composed.epsilon(2.001e-8).upper < 30.0


def test_what_is_left_is_rounded_outward() -> None:
    """The two deltas of the rest bracket the true one, however little is left."""
    seed = fresh_random().randrange(2**32)
    source = random.Random(seed)
    with mp.workdps(60):
        for _ in range(200):
            own, count = 10 ** source.uniform(-15, -1), source.choice([1, 2, 7, 100])
            failing = Failing(PrivacyProfile(), count * math.log1p(-own))
            exact = 1 - (1 - mp.mpf(own)) ** count
            delta = min(float(exact) * (1 + 10 ** source.uniform(-14, 3)), 1 - 1e-9)
            left = (mp.mpf(delta) - exact) / (1 - exact)
            ends = [failing.delta_of_rest(delta, sign) for sign in (-1, 1)]
            assert ends[0] <= left and (left <= ends[1] or ends[1] == 1 - 2**-53), (seed, own, count, delta)
            inner = 10 ** source.uniform(-15, 0)
            whole = exact + (1 - exact) * mp.mpf(inner)
            assert failing.with_failure(inner, -1) <= whole <= failing.with_failure(inner, 1), (seed, own, count, inner)
            if left > 1e-3 * exact and delta < 0.5:
                assert ends[1] - ends[0] <= 1e-9 * ends[1], (seed, own, count, delta)


def nested(mechanism: Mechanism) -> list[Steps]:
    """Return the steps as they are, as one group, and as the dearer one of two disjoint parts."""
    inner = ((mechanism, 3), (Gaussian(0.2), 5))
    cheap = Composed(((approx(0.1, 1e-9), 1),))
    return [inner, ((Composed(inner), 1),), ((Parallel((cheap, Composed(inner))), 1),)]


def test_groups_and_disjoint_parts_cost_what_their_steps_cost() -> None:
    plain, *others = (accountant("exact").profile(steps).epsilon(1e-6) for steps in nested(approx(0.4, 1e-8)))
    for other in others:
        assert (other.upper, other.lower) == (plain.upper, plain.lower)
    grid = accountant("pld").profile(nested(approx(0.4, 1e-8))[0]).epsilon(1e-6)
    assert grid.lower is not None and plain.lower is not None
    assert grid.lower <= plain.upper and plain.lower <= grid.upper and plain.upper - plain.lower < 1e-6 < grid.upper - grid.lower
    assert all(
        sum(accountant(name).profile(nested(approx(0.4, 1e-8))[0]).shares(1e-6)) == pytest.approx(1.0) for name in FINITE[:1]
    )


def test_a_bound_without_a_lower_end_claims_none() -> None:
    charged = account(
        pipeline(entry("propose-test-release", epsilon=0.4, delta=1e-8), entry("gaussian", noise_multiplier=5.0), delta=1e-6)
    )
    assert charged.lower is None or charged.lower < charged.upper
    assert accountant("exact").profile(((approx(0.4, 1e-8).unclaimed(), 1),)).epsilon(1e-6).upper <= 0.4


def test_a_pipeline_is_priced_by_exact_and_its_curve_is_closed() -> None:
    subject = pipeline(entry("gaussian", noise_multiplier=3.0, steps=4), entry("approx-dp", epsilon=0.5, delta=1e-7), delta=1e-6)
    charged = account(subject)
    assert charged.winner is not None and charged.winner.accountant.name == "exact"
    curve = profile(subject, [0.1, 1.0, 2.0, 4.0])
    stated, mu = [(0.5, 1e-7, 1)], math.sqrt(4) / 3.0
    with mp.workdps(30):
        exact = [failure(stated) + (1 - failure(stated)) * mixed_delta(stated, mu, mp.mpf(at)) for at in curve.epsilons.tolist()]
    assert np.all(curve.lower <= np.array(exact, float) * (1 + 1e-13)) and np.all(
        curve.upper >= np.array(exact, float) * (1 - 1e-13)
    )
    assert np.all(curve.upper - curve.lower <= 1e-6 * curve.upper)


def test_a_filter_does_not_set_deltas_aside() -> None:
    """It is fixed before the first output, and limits rho alone."""
    keys = pipeline(entry("gaussian", noise_multiplier=5.0), entry("approx-dp", epsilon=0.5, delta=1e-8), delta=1e-6)
    adaptive = replace(keys, privacy=replace(keys.privacy, adaptive=True))
    assert all(row.bound is None for row in account(adaptive).rows)


@pytest.mark.parametrize("steps", [10**9, 10**18])
def test_an_astronomic_failure_promises_nothing(steps: int) -> None:
    """The rounding of its probability exceeds 1, and no lower end is negative."""
    subject = pipeline(entry("approx-dp", epsilon=0.5, delta=1e-3, steps=steps), delta=1e-6)
    for answer in (account(subject), account(subject, epsilon=1.0)):
        assert answer.winner is None


def test_reasons_and_lower_ends_are_those_of_the_entries() -> None:
    mixed = pipeline(entry("gaussian", noise_multiplier=3.0), entry("approx-dp", epsilon=0.5, delta=1e-8), delta=1e-6)
    (row,) = account(mixed, ["analytic"]).rows
    assert row.reason == f"it is not a Gaussian mechanism ({mixed.mechanisms[1].name})"
    witnessed = account(pipeline(entry("zcdp", rho=0.1), entry("approx-dp", epsilon=0.5, delta=1e-8), delta=1e-6))
    assert witnessed.lower is not None and 0.5 * witnessed.upper < witnessed.lower < witnessed.upper


def test_a_picture_of_the_orders_is_that_of_what_does_not_fail() -> None:
    subject = pipeline(entry("gaussian", noise_multiplier=3.0), entry("approx-dp", epsilon=0.5, delta=1e-8), delta=1e-6)
    picture = chart(Question(subject))
    (row,) = account(subject, ["rdp"]).rows
    (from_each, _) = picture.lines
    assert min(y for _, y in from_each.points) == pytest.approx(row.upper, rel=1e-3)
    assert "no stated delta fails" in picture.notes[-1]
