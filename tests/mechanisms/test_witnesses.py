"""Witnesses: releases that an entry's keys allow, although no single pair is the worst of all that they allow.

In random files, what the witnesses cost is never above what exact, pld and rdp say of the entries themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from random import Random

import numpy as np
import pytest

from dpcli.accountants.base import Steps
from dpcli.base.errors import NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.exponential import BoundedRange, TwoCandidates
from dpcli.mechanisms.choice.noisy_max import noisy_maximum
from dpcli.mechanisms.choice.repeat_and_select import RepeatAndSelect
from dpcli.mechanisms.choice.trial_numbers import BinomialTrials, NegativeBinomial, PoissonTrials
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import sampled_gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.renyi import Renyi, Zcdp, ZcdpSpec
from dpcli.numerics.work import allowance

Witnessed = tuple[Mechanism, Mechanism, int]  # a mechanism, one that its keys allow and whose pair is attained, and a count


def drawn(random: Random, low: float, high: float) -> float:
    return math.exp(random.uniform(math.log(low), math.log(high)))


def choice(random: Random) -> Witnessed:
    epsilon = drawn(random, 1e-3, 6.0)
    return BoundedRange(epsilon), TwoCandidates(epsilon, random.uniform(0.3, 0.8) * epsilon), int(drawn(random, 1, 60))


def stated(random: Random) -> Witnessed:
    rho = drawn(random, 1e-6, 5.0)
    orders = tuple(sorted({1.0 + drawn(random, 0.1, 100.0) for _ in range(4)}))
    bound: Mechanism = random.choice([Zcdp(rho), Renyi(orders, tuple(rho * order for order in orders))])
    return bound, Gaussian(math.sqrt(2.0 * rho)), random.randint(1, 4)


def stated_with_failures(random: Random) -> Witnessed:
    """Draw delta-approximate (xi, rho)-zCDP, which allows a Gaussian with randomised response, and a release of everything at times."""
    spec = ZcdpSpec(rho=drawn(random, 1e-4, 1.0), xi=drawn(random, 1e-3, 1.0), delta=drawn(random, 1e-12, 1e-8))
    bound = spec.stated()
    witness = bound.witness(2.0)
    assert witness is not None and spec.delta == spec.delta_spent
    return bound, witness, random.randint(1, 4)


def noisy(random: Random) -> Witnessed:
    bound = noisy_maximum(drawn(random, 2e-3, 6.0), laplace=random.random() < 0.5)
    witness = bound.witness(1.0 + drawn(random, 0.01, 50.0))
    assert witness is not None
    return bound, witness, int(drawn(random, 1, 60))


def selected(random: Random) -> Witnessed:
    trials = random.choice([NegativeBinomial(random.choice([0.0, 1.0]), 0.2), PoissonTrials(3.0), BinomialTrials(6, 3.0)])
    bound = RepeatAndSelect(random.choice([Gaussian, Laplace])(drawn(random, 0.05, 1.5)), trials)
    witness = bound.witness(1.0 + drawn(random, 0.1, 30.0))
    assert witness is not None
    return bound, witness, random.randint(1, 3)


def itself(random: Random) -> Witnessed:
    mechanism: Mechanism = random.choice(
        [
            Gaussian(drawn(random, 0.02, 2.0)),
            Laplace(drawn(random, 0.02, 2.0)),
            Pure(drawn(random, 0.01, 1.0)),
            sampled_gaussian(drawn(random, 0.4, 2.0), drawn(random, 1e-3, 0.5), 1),
        ]
    )
    return mechanism, mechanism, int(drawn(random, 1, 100))


KINDS: tuple[Callable[[Random], Witnessed], ...] = (choice, stated, stated_with_failures, noisy, selected, itself)


def ends(steps: Steps, delta: float) -> tuple[dict[str, float], float]:
    """Return the upper bounds by accountant, and the largest lower bound."""
    uppers, lower = {}, 0.0
    for name in ("exact", "pld", "rdp"):
        with suppress(NotRepresentable), allowance(5e6), np.errstate(all="ignore"):
            bound = load(ACCOUNTANTS[name]).compose(steps).epsilon(delta)
            uppers[name], lower = bound.upper, max(lower, bound.lower or 0.0)
    return uppers, lower


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", KINDS[:4], ids=lambda kind: kind.__name__)
def test_what_is_allowed_is_covered(first: Callable[[Random], Witnessed]) -> None:
    random, seen, tried = Random(f"{SEED}/{first.__name__}"), 0, 0
    while tried < 5 or (seen < 2 and tried < 50):
        tried += 1
        file = [first(random), *(random.choice(KINDS)(random) for _ in range(random.randint(1, 2)))]
        delta = 10.0 ** random.uniform(-15.0, -1.0)
        uppers, _ = ends(tuple((bound, count) for bound, _, count in file), delta)
        _, lower = ends(tuple((allowed, count) for _, allowed, count in file), delta)
        seen += lower > 0.0 and bool(uppers.keys() & {"exact", "pld"})
        for name, upper in uppers.items():
            assert upper >= lower * (1.0 - 1e-9), (SEED, name, file, delta)
    assert seen >= 2
