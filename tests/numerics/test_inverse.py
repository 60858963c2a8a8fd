"""The search for an increasing function's inverse: it ends where rounding begins, and soon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.mechanisms.noise.normal_mixture import MixtureReplaceLoss
from dpcli.numerics import roots
from dpcli.numerics.arrays import Array
from dpcli.numerics.mixture import Mixture, binomial_mixture
from dpcli.numerics.roots import increasing_root
from tests.cases import of_each

FEW = 16  # evaluations: what Newton's method needs, and a bisection does not do with


@given(st.floats(-3.0, 3.0), st.floats(-2.0, 2.0), st.floats(0.0, 0.3))
def test_values_of_a_known_inverse(log10_scale: float, shift: float, bend: float) -> None:
    """x + bend sin(x), scaled: within a few roundings of where it was evaluated."""
    scale, x = 10.0**log10_scale, np.linspace(-9.0, 9.0, 301)

    def function(at: Array) -> tuple[Array, Array]:
        return scale * (at + bend * np.sin(at) - shift), scale * (1.0 + bend * np.cos(at))

    found = increasing_root(function, function(x)[0], np.full_like(x, -10.0), np.full_like(x, 12.0))
    assert np.abs(found - x).max() <= 1e-13 * max(1.0, 1.0 / scale)


@of_each("loss", [False, True])
@of_each(
    "mixture",
    [
        binomial_mixture(0.25, 1e-4, 64),
        binomial_mixture(0.1, 0.1, 4),
        binomial_mixture(3.0, 0.9, 4),
        Mixture(math.log(0.2), (math.log(0.3), math.log(0.5)), (0.1, 9.0)),
    ],
)
def test_a_search_that_has_arrived_does_not_go_on(mixture: Mixture, loss: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "ROUNDS", FEW)
    at: Array = np.linspace(0.001, 3.0, 500)
    if loss:
        x = MixtureReplaceLoss(mixture)._outcome(at)
        value = mixture.log_ratio(x) - mixture.log_ratio(-x)
    else:
        value = mixture.log_ratio(mixture.outcome(at))
    np.testing.assert_allclose(value, at, rtol=1e-13, atol=1e-14 * (1.0 + mixture.reach**2))
