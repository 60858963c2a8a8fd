"""Extreme losses and extreme curves: none at all, larger than any grid, with corners, or of thousands of kinds.

Each gets an answer or a refusal with a reason, and never a crash or a number that is too small.
"""

from __future__ import annotations

import math
import random

import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.rdp import ACCOUNTANT
from dpcli.analysis.account import account
from dpcli.base.errors import NotRepresentable
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.mechanism import PrivacyLoss
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.numerics.grid.survey import survey
from dpcli.numerics.tails import total_variation
from tests.cases import tiered

HEAD = 'format = 1\nprivacy = { unit = "example", adjacency = "add-remove", delta = 1e-6 }\n[[mechanism]]\nname = "a"\n'


def pipeline(keys: str) -> Pipeline:
    return parse((HEAD + keys).encode(), "a.toml")


def loss(keys: str) -> PrivacyLoss:
    (charge,) = resolve(pipeline(keys))
    return charge.mechanism.losses()[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [1, 2, 50, 10**16])
def test_what_loses_nothing_costs_nothing(steps: int) -> None:
    found = pipeline(f'type = "post-processing"\nsteps = {steps}\n')
    (charge,) = resolve(found)
    bound = ExactProfile(((charge.mechanism, charge.count),)).epsilon(1e-6)
    assert (bound.lower, bound.upper) == (0.0, 0.0)
    assert account(found).upper == 0.0
    assert account(found, runs=50).upper == 0.0
    assert account(found, epsilon=1.0).upper == 0.0


def test_a_total_variation_is_zero_only_where_nothing_is_lost() -> None:
    assert total_variation(loss('type = "post-processing"\n')) == 0.0
    assert total_variation(loss('type = "pure-dp"\nepsilon = 1e-320\n')) > 0.0


HUGE = (57.8, 283.0, 1e5, 1e6, 4e6, 1e10, 1e100, 1e300)
EACH_ONCE = [(epsilon, (1, 3)[k % 2]) for k, epsilon in enumerate(HUGE)]
OTHERS = [(epsilon, steps) for epsilon in HUGE for steps in (1, 3) if (epsilon, steps) not in EACH_ONCE]


@pytest.mark.sampled(0, 3)
@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "steps"), [*tiered(EACH_ONCE, 2, 6), *tiered(OTHERS, 0)])
def test_a_huge_epsilon_is_what_it_says(epsilon: float, steps: int) -> None:
    """At delta = 1e-6 the loss of one step is at most epsilon, and hardly less; a grid that reaches no such loss says so."""
    found = account(pipeline(f'type = "pure-dp"\nepsilon = {epsilon!r}\nsteps = {steps}\n'))
    assert 0.99 * steps * epsilon <= found.upper <= steps * epsilon * (1.0 + 1e-12)
    (grid,) = [row for row in found.rows if row.accountant.name == "pld"]
    assert grid.bound is not None or grid.reason
    below = account(found.pipeline, epsilon=0.5 * epsilon)
    assert 0.99 <= below.upper <= 1.0 or below.winner is None


def test_a_survey_that_sees_nothing_refuses() -> None:
    with pytest.raises(NotRepresentable, match="all losses are beyond 1e"):
        survey(loss('type = "pure-dp"\nepsilon = 1e10\n'))


def test_a_gaussian_of_almost_certain_loss() -> None:
    low, high = gaussian_delta(1e4, 57.0)
    assert low <= 1.0
    assert high == 1.0
    assert math.isfinite(low)


ENTRY = '[[mechanism]]\nname = "m{}"\ntype = "gaussian"\nnoise_multiplier = {:.5f}\nsampling = {{ scheme = "poisson", rate = {:.7f} }}\n'
MANY_HEAD = 'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-6\n'


def test_a_smaller_delta_never_has_a_smaller_epsilon() -> None:
    """The curve is a stated one on a sample, where bounds of two theorems meet at a corner."""
    source = random.Random(SEED)
    for _ in range(60):
        mechanism = PoissonSampled(Zcdp(10.0 ** source.uniform(-4.0, 0.5)), 10.0 ** source.uniform(-4.0, -0.05))
        profile = ACCOUNTANT.compose(((mechanism, int(10.0 ** source.uniform(0.0, 5.0))),))
        delta = 10.0 ** source.uniform(-12.0, -2.0)
        assert profile.epsilon(delta).upper <= profile.epsilon(delta / 100.0).upper * (1.0 + 1e-9), SEED


@pytest.mark.nightly
@pytest.mark.parametrize(("low", "high"), tiered([(0.001, 0.002), (1e-6, 1e-5)], 0, 1))
def test_thousands_of_different_steps_have_a_number(low: float, high: float) -> None:
    entries = "".join(ENTRY.format(i, 1.0 + i / 2000.0, low + (high - low) * i / 4000.0) for i in range(4000))
    found = account(parse((MANY_HEAD + entries).encode(), "many.toml"))
    assert math.isfinite(found.upper)
