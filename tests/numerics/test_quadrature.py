"""Pieces of the quadrature of CGFs (numerics/quadrature.py): Bernoulli remainders to full relative accuracy, against 80 digits, and node
distances at which the trapezoidal rule gives a known Gaussian moment to 1e-12.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.numerics.quadrature import log_bernoulli, step_size
from tests.cases import of_each


@given(st.floats(-14.0, 2.5), st.floats(-12.0, 0.5), st.sampled_from([-1.0, 1.0]))
def test_log_bernoulli(log10_z: float, log10_size: float, sign: float) -> None:
    """log((1+d)^p - 1 - p d), p = z + 1, at log(1+d) = sign * 10^log10_size, from where everything cancels to where nothing does."""
    z, log_ratio = 10.0**log10_z, sign * 10.0**log10_size
    with mp.workdps(80):
        p = 1 + mp.mpf(z)
        exact = mp.log(mp.expm1(p * mp.mpf(log_ratio)) - p * mp.expm1(mp.mpf(log_ratio)))
    found = log_bernoulli(np.array([[z]]), np.array([log_ratio]))[0, 0]
    assert abs(found - exact) <= 5e-13 + 1e-15 * abs(exact)  # 1e-12 of slack covers it


def test_log_bernoulli_of_equal_likelihoods() -> None:
    with np.errstate(divide="ignore"):
        assert log_bernoulli(np.array([[1.0]]), np.array([0.0]))[0, 0] == -np.inf


def test_log_bernoulli_of_large_ratios() -> None:
    assert log_bernoulli(np.array([[2.0]]), np.array([800.0]))[0, 0] == pytest.approx(2400.0)


@of_each("slope", [1e-3, 0.1, 1.0, 5.0])
@of_each("p", [1.01, 2.0, 20.0, 300.0])
def test_trapezoid_of_a_known_moment(slope: float, p: float) -> None:
    """E[(e^{s x - s^2/2})^p] = e^{s^2 p (p-1) / 2} under the normal weight, at the node distance that `step_size` chooses."""
    step = step_size(p, slope)
    centre = p * slope
    nodes = np.arange(np.floor((centre - 11.0) / step), np.ceil((centre + 11.0) / step) + 1.0) * step
    log_terms = p * (slope * nodes - 0.5 * slope**2) - 0.5 * nodes**2 - 0.5 * np.log(2.0 * np.pi) + np.log(step)
    exact = 0.5 * slope**2 * p * (p - 1.0)
    assert np.logaddexp.reduce(log_terms) == pytest.approx(exact, rel=1e-12, abs=1e-12)
