"""The search for rho against closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.arrays import Array
from dpcli.numerics.orders import least_rho
from tests.cases import of_each


@of_each("kind", [Pure, Laplace])
@of_each("epsilon", [1e-4, 0.1, 1.0, 5.0, 40.0, 300.0])
def test_rho_of_a_bounded_loss(kind: Callable[[float], Pure | Laplace], epsilon: float) -> None:
    """Both closed forms are tight, the latter at z = 0."""
    mechanism = kind(epsilon)
    found = least_rho(mechanism.losses()[0].cgf, epsilon)
    assert mechanism.zcdp() * (1 - 1e-11) <= found <= mechanism.zcdp() * 1.0011


def test_rho_that_is_needed_at_a_large_order_is_found() -> None:
    """A rare, large loss: K(z)/(z(z+1)) has its maximum far from 0, and no order is missed."""

    def cgf(z: Array) -> Array:  # ratio e^50 with probability e^-60 under Q, else about 1
        return np.asarray(np.logaddexp(0.0, 50.0 * (z + 1.0) - 60.0)) - np.logaddexp(0.0, -10.0)

    z = np.geomspace(1e-3, 1e6, 200_000)
    most = float(np.max(cgf(z) / z / (z + 1.0)))
    assert math.isfinite(most) and most <= least_rho(cgf, 50.0) <= most * 1.01
