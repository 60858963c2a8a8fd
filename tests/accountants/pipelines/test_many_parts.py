"""Compositions of many different parts: a question that takes too much work is refused before it costs anything, and grids for many losses
are as good as for few. A function that must not be reached is replaced by one that fails.
"""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

from dpcli.accountants import pld
from dpcli.accountants.advanced import ACCOUNTANT as ADVANCED
from dpcli.accountants.pld import PldProfile
from dpcli.base.errors import NotRepresentable
from dpcli.base.registry import MECHANISMS
from dpcli.exam.questions import question_sample
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.read import load
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussianLoss
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.numerics.contour.integral import build
from dpcli.numerics.grid.convolution import convolve
from dpcli.numerics.grid.lattice import Lattice
from dpcli.numerics.grid.survey import GridPart, common_unit
from dpcli.numerics.work import allowance, remaining
from tests.cases import by_tier
from tests.command import ROOT


def _never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("it was computed before it was refused")


def test_the_grid_refuses_what_it_cannot_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work that is left decides on a refusal; too little time only makes the grid coarser."""
    steps = tuple((Laplace(0.001 + 1e-6 * i), 1) for i in range(200))
    bound = PldProfile(steps, seconds=0.1).epsilon(1e-6)
    assert bound.lower is not None and bound.upper < 1.0
    monkeypatch.setattr(pld, "surveyed", _never)
    with allowance(2e6), pytest.raises(NotRepresentable, match="work"):
        PldProfile(steps).epsilon(1e-6)


def test_the_contour_refuses_atoms_before_it_tilts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A characteristic function that never decays has no certificate as it is, however many outcomes are looked at."""
    monkeypatch.setattr(DiscreteGaussianLoss, "tilted", _never)
    assert build(tuple((DiscreteGaussianLoss(20.0 + i, 1), 1) for i in range(20)), math.log(1e-6), 10.0) is None


def test_a_search_for_a_split_ends_with_its_first_where_the_others_are_not_affordable() -> None:
    """The first says what the others will cost."""
    steps = tuple((Gaussian(0.01 + 1e-5 * i), 1) for i in range(100))
    with allowance(3e5):
        before = remaining()
        with pytest.raises(NotRepresentable, match="work"):
            ADVANCED.compose(steps).epsilon(1e-6)
        assert 0.0 < before - remaining() <= 0.5 * before


def test_a_few_parts_plan_the_grid_of_many() -> None:
    """Hundred scales of noise, one of them far larger than the others: the interval holds and is as narrow as asked for."""
    steps = tuple((Laplace(0.01 + 1e-4 * i), 1) for i in range(60))
    bound = PldProfile(steps).epsilon(1e-6)
    assert bound.lower is not None
    assert bound.upper - bound.lower <= 1e-3 * bound.upper
    dear = PldProfile((*steps, (Laplace(1.0), 1))).epsilon(1e-6)
    assert dear.lower is not None and bound.upper < dear.lower
    assert dear.upper - dear.lower <= 2e-3 * dear.upper


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("step", by_tier(5, 1, None))
def test_a_lattice_is_of_losses_that_differ_from_nothing(step: int) -> None:
    """An atom at 0 is no unit: a grid of whole parts of it would be made without rounds, and coarser. step: one of so many questions."""
    for question in islice(chain.from_iterable(question_sample(kind, str(SEED)) for kind in MECHANISMS), 0, None, step):
        for mechanism, count in question.steps:
            with suppress(NotRepresentable):
                for loss in mechanism.losses():
                    unit = common_unit([GridPart(loss, pld.surveyed(loss), count)])
                    assert unit == 0.0 or unit > 1e-12, (SEED, question.label)


def test_an_atom_at_no_loss_is_no_unit() -> None:
    """Two outcomes alike to the last digits, and a rare one: eps of 1e-38 is no lattice."""
    mechanism = resolve(load(str(ROOT / "examples" / "pmixed.toml")))[0].mechanism
    for loss in mechanism.losses():
        assert common_unit([GridPart(loss, pld.surveyed(loss), 1024)]) == 0.0


def test_atoms_lie_on_the_grid() -> None:
    """A million weak Laplace steps: where their two atoms lie between grid points, nothing near this width is found in the time.

    4.88561588 is what dp-accounting's pessimistic estimate gives at a spacing of 1e-4; the truth is not above it.
    """
    bound = PldProfile(((Laplace(0.001), 10**6),)).epsilon(1e-6)
    assert bound.lower is not None
    assert bound.lower <= 4.88561588 and bound.upper <= 4.8857


@pytest.mark.parametrize("counts", [(1,), (3, 2), (40,), (16, 1), (9, 9, 3)])
def test_factors_and_logarithms_are_the_same_convolution(counts: tuple[int, ...]) -> None:
    """Both are compared with direct convolution; the error is within the bound that comes with it."""
    draws = np.random.default_rng(len(counts))
    parts = [(Lattice(1.0, 0.1, -2 * i, draws.dirichlet(np.ones(5)), 0.0, 0.0, 0.0, 0.0), n) for i, n in enumerate(counts)]
    plain = np.ones(1)
    for lattice, n in parts:
        for _ in range(n):
            plain = np.convolve(plain, lattice.weights)
    found = convolve(parts, sum(n * lattice.start for lattice, n in parts), len(plain) + 7)
    padded = np.append(plain, np.zeros(7))
    assert found.weights == pytest.approx(padded, abs=1e-13)
    assert math.sqrt(float(((found.weights - padded) ** 2).sum())) <= found.error <= 1e-9
