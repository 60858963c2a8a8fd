"""Tables of many sampled Gaussians (numerics/mixture.py), which are evaluated together because one by one takes too long: the same CGFs,
characteristic functions, intervals and Renyi curves as those of the losses one by one.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.renyi_curve import renyi_curves
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureLoss, MixtureRemoveLoss
from dpcli.numerics.contour import integral
from dpcli.numerics.contour.integral import stacked
from dpcli.numerics.mixture import binomial_mixture, cgfs, row_of, table_of

PAIRS = st.lists(st.tuples(st.floats(-2.0, 1.0), st.floats(-8.0, -0.01)), min_size=6, max_size=12)


def _losses(kind: type[MixtureLoss], pairs: list[tuple[float, float]]) -> list[MixtureLoss]:
    return [kind(binomial_mixture(10.0**shift, 10.0**rate, 1)) for shift, rate in pairs]  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [MixtureRemoveLoss, MixtureAddLoss])
@given(pairs=PAIRS, log_order=st.floats(-2.0, 2.5))
@settings(max_examples=15)
def test_every_row_is_the_loss_itself(kind: type[MixtureLoss], pairs: list[tuple[float, float]], log_order: float) -> None:
    """Upper bounds both, each at most 1e-12 relative above the same integral."""
    losses, z = _losses(kind, pairs), np.array([10.0**log_order, 1.0])
    rows = [row for loss in losses if (row := row_of(loss)) is not None]
    assert len(rows) == len(losses)
    with np.errstate(over="ignore"):
        table, single = cgfs(table_of(rows), z), np.array([loss.cgf(z) for loss in losses])
    assert table == pytest.approx(single, rel=3e-12, abs=0.0)


@pytest.mark.parametrize("kind", [MixtureRemoveLoss, MixtureAddLoss])
@given(pairs=PAIRS, t=st.floats(0.3, 8.0), step=st.floats(0.05, 2.0))
@settings(max_examples=15)
def test_a_stack_is_the_sum_of_its_rows(kind: type[MixtureLoss], pairs: list[tuple[float, float]], t: float, step: float) -> None:
    """Moments and characteristic functions add up; the stack's bound on the decay holds where the rows' values are known."""
    losses = [(loss, 1 + i) for i, loss in enumerate(_losses(kind, pairs))]
    ((whole, count),) = stacked(losses)
    assert count == 1
    found, rows = whole.tilted(t), [(loss.tilted(t), n) for loss, n in losses]
    for name in ("cumulant", "mean", "variance"):
        parts = [n * getattr(row, name) for row, n in rows]
        assert getattr(found, name) == pytest.approx(math.fsum(parts), abs=1e-12 * math.fsum(map(abs, parts)) + 1e-13)
    values = found.centred(step, 40, -30.0)
    one_by_one = sum(n * row.centred(step, 40, -30.0) for row, n in rows)
    assert np.abs(np.exp(values) - np.exp(one_by_one)).max() <= 1e-10  # e^-30 for each of at most 78 steps, and rounding
    y = step * np.arange(1.0, 40.0)
    assert np.all(np.exp(found.decay(y)) >= np.exp(np.asarray(one_by_one).real[1:]) - 1e-10)


def test_few_losses_and_other_losses_stay_as_they_are() -> None:
    """A table of a few rows is not worth it, and one of several records has more than one shift."""
    few = [(loss, 1) for loss in _losses(MixtureRemoveLoss, [(0.0, -2.0)] * 3)]
    assert stacked(few) == few
    several = [(MixtureRemoveLoss(binomial_mixture(0.5, 0.01 + 1e-4 * i, 2)), 1) for i in range(20)]
    assert list(stacked(several)) == several


def test_a_composition_of_many_is_the_same_without_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both intervals hold, so they meet; and they are as narrow."""
    steps = tuple((SampledGaussian(1.0 / (1.0 + 0.05 * i), 1e-3 * (1 + i % 7)), 20 + i) for i in range(40))
    tables = ExactProfile(steps).epsilon(1e-6)
    monkeypatch.setattr(integral, "MANY_LOSSES", 10**9)
    alone = ExactProfile((*steps[::-1],)).epsilon(1e-6)
    assert tables.lower is not None and alone.lower is not None
    assert max(tables.lower, alone.lower) <= min(tables.upper, alone.upper)
    assert tables.upper - tables.lower <= 1e-8 * tables.upper


def test_renyi_curves_are_those_of_the_mechanisms() -> None:
    """The curves come in the order of the mechanisms, whatever their families."""
    orders = np.array([1.01, 2.0, 7.5, 64.0])
    mechanisms = [SampledGaussian(0.7, 0.01), Gaussian(0.2), SampledGaussian(0.3, 0.2, 3), SampledGaussian(2.0, 1e-6)] * 2
    for mechanism, curve in zip(mechanisms, renyi_curves(tuple((m, 5) for m in mechanisms), orders), strict=True):
        assert curve == pytest.approx(mechanism.rdp(orders), rel=3e-12, abs=0.0)
