"""The rounding of one step's loss when there are many steps. n steps have n times the error of one, so CGFs and characteristic functions
need nearly all their digits, against sixty; and very many very small losses must cost what the normal law in their limit costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.mechanisms.choice.exponential import BoundedRange, RangeLoss
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.closed.normal import gaussian_epsilon
from dpcli.numerics.quadrature import SLACK
from tests.cases import of_each

Cgf = Callable[[Any, Any], Any]  # of z and epsilon, in high precision


def two_exponentials(z: Any, e0: Any) -> Any:
    return mp.log((z + 1) / (2 * z + 1) * mp.exp(z * e0) + z / (2 * z + 1) * mp.exp(-(z + 1) * e0))


def an_interval(z: Any, e0: Any) -> Any:
    return mp.log(mp.sinh((z + 0.5) * e0) / (2 * z + 1) / mp.sinh(e0 / 2))


def two_points(z: Any, e0: Any) -> Any:
    return mp.log((mp.exp((z + 1) * e0) + mp.exp(-z * e0)) / (1 + mp.exp(e0)))


LOSSES = of_each(
    ("make", "exact"), [(LaplaceLoss, two_exponentials), (RangeLoss, an_interval), (lambda e: Pure(e).losses()[0], two_points)]
)


@LOSSES
@of_each("epsilon", [1e-12, 1e-6, 2e-4, 0.02, 0.4, 1.3, 2.1, 6.4, 15.0, 40.0, 700.0])
def test_sharp_cgfs_are_above_by_no_more_than_lower_bounds_allow_for(
    make: Callable[[float], Any], exact: Cgf, epsilon: float
) -> None:
    """SLACK relative, however small: n steps have n times as much, and a lower bound takes off only its share of n K."""
    loss, at = make(epsilon), np.geomspace(1e-8, 1e8, 33)
    assert loss.tilted(0.25).exact_cgf
    with mp.workdps(60):
        for t, found in zip(at.tolist(), loss.cgf(at).tolist(), strict=True):
            true = exact(mp.mpf(t), mp.mpf(epsilon))
            assert true <= mp.mpf(found) <= true * (1 + mp.mpf(SLACK)), t


@of_each(
    ("epsilon", "t"), [*product((1e-9, 1e-6, 1e-3, 0.1, 1.0), (1e-3, 0.4, 3.0, 40.0)), *product((6.4, 14.0), (1e-6, 1e-3, 0.4))]
)
@LOSSES
def test_cgfs_beside_high_precision(make: Callable[[float], Any], exact: Cgf, t: float, epsilon: float) -> None:
    """K(t + iy) - K(t) - iy mean, times as many steps as can be asked about: until n K(t) or n K'' y^2 is some hundreds."""
    found = make(epsilon).tilted(t)

    def cgf(z: Any) -> Any:
        return exact(mp.mpmathify(z), mp.mpf(epsilon))

    with mp.workdps(60):
        mean, variance = (mp.diff(cgf, mp.mpf(t), order) for order in (1, 2))
        assert found.mean == pytest.approx(float(mean), rel=1e-9, abs=1.2e-16 * epsilon)  # a rounding of a loss
        for loss in (1e-12, 1e-8, 1e-3, 0.3):
            y = float(mp.sqrt(loss / variance))
            steps = max(1.0, min(600.0 / float(cgf(t)), 60.0 / loss))
            true = cgf(mp.mpc(t, y)) - cgf(t) - 1j * mp.mpf(y) * mp.mpf(found.mean)
            off = complex(mp.mpc(complex(found.centred(y, 2, -50.0)[1])) - true)
            turns = round(off.imag / (2.0 * math.pi))  # whole ones are none for whole numbers of steps
            turned = max(1.0, y * float(mean) * math.sqrt(steps))
            assert steps * abs(off - 2j * math.pi * turns) < 2e-13 + 3e-15 * math.sqrt(steps) * turned + 1e-15 * steps * float(
                cgf(t)
            )


@of_each("epsilon", [50.0, 800.0, 1e5])
@of_each("t", [1e-3, 0.4, 40.0])
def test_a_wide_range_has_an_exponential_end(epsilon: float, t: float) -> None:
    """e^{c x} up to epsilon is an exponential law below it: 1 / (1 + i y / c), where its other end is out of sight."""
    assert (t + 0.5) * epsilon > 20.0
    found = RangeLoss(epsilon).tilted(t)
    y = np.arange(4) * 0.3
    expected = 1j * y * (epsilon - found.mean) - np.log(1.0 + 1j * y / (t + 0.5))
    turns = np.exp(found.centred(0.3, 4, -50.0) - expected)
    assert turns == pytest.approx(np.ones(4), abs=1e-9)


@of_each(("small", "share"), [(Laplace, 1.0), (Pure, 1.0), (BoundedRange, 1.0 / 3.0)])
@of_each(("steps", "epsilon"), [(10**12, 1e-8), (10**14, 1e-9), (10**9, 1e-7), (10**6, 1e-5)])
def test_very_many_very_small_losses_are_a_normal_one(
    small: Callable[[float], Any], share: float, steps: int, epsilon: float
) -> None:
    """The limit has variance n epsilon^2, or a third of it if a loss lies anywhere in its range. The rest is of relative size epsilon."""
    skew = epsilon / 3.0 if small is Laplace else 0.0  # twice the mean is less
    found = ExactProfile(((Gaussian(0.3), 1), (small(epsilon), steps))).epsilon(1e-6)
    limit = gaussian_epsilon(math.sqrt(0.09 + share * steps * epsilon**2 * (1.0 - skew)), 1e-6)[1]
    assert found.lower is not None
    assert found.lower <= limit * (1.0 + 3e-9) and found.upper >= limit * (1.0 - 3e-9)
    assert found.upper <= found.lower * (1.0 + 1e-7)
