"""Curves with corners, and very many curves: what the search for an order must not miss, and must answer at all."""

from __future__ import annotations

import math
import random

import pytest

from dpcli.accountants.rdp import ACCOUNTANT
from dpcli.analysis.account import account
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.renyi import Zcdp
from tests.cases import tiered

ENTRY = '[[mechanism]]\nname = "m{}"\ntype = "gaussian"\nnoise_multiplier = {:.5f}\nsampling = {{ scheme = "poisson", rate = {:.7f} }}\n'
HEAD = 'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-6\n'


def test_a_smaller_delta_never_has_a_smaller_epsilon() -> None:
    """Of a stated curve on a sample, where bounds of two theorems meet at a corner."""
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
    found = account(parse((HEAD + entries).encode(), "many.toml"))
    assert math.isfinite(found.upper)
