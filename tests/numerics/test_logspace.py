"""Functions of logarithms (numerics/logspace.py) against arithmetic of forty to 700 digits, and their values at infinities and 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.numerics.logspace import log1mexp, log_add, log_binomial, log_expm1, log_ndtr, log_ndtr_array, log_normal_ends, log_sub
from tests.cases import of_each

ROUNDING = 1e-15  # a handful of double roundings


def close(found: float, exact: mp.mpf, rtol: float = ROUNDING, atol: float = 0.0) -> bool:
    return bool(abs(mp.mpf(found) - exact) <= rtol * abs(exact) + atol)


def precisely(f: Callable[[mp.mpf], mp.mpf], x: float) -> mp.mpf:
    with mp.workdps(400 if abs(x) > 30.0 else 60):
        return f(mp.mpf(x))


@given(st.floats(-700.0, -1e-300))
def test_log1mexp(x: float) -> None:
    assert close(log1mexp(x), precisely(lambda v: mp.log(-mp.expm1(v)), x))


@given(st.floats(1e-300, 700.0))
def test_log_expm1(x: float) -> None:
    assert close(log_expm1(x), precisely(lambda v: mp.log(mp.expm1(v)), x), atol=ROUNDING)


@given(st.floats(-700.0, 700.0), st.floats(-700.0, 700.0))
def test_log_add_and_sub(a: float, b: float) -> None:
    with mp.workdps(700):
        total = mp.log(mp.exp(mp.mpf(a)) + mp.exp(mp.mpf(b)))
        assert close(log_add(a, b), total, atol=ROUNDING)
        if a > b:
            rest = mp.log(mp.exp(mp.mpf(a)) - mp.exp(mp.mpf(b)))
            assert close(log_sub(a, b), rest, atol=ROUNDING * (1.0 + abs(a)))


@of_each("x", [-1e5, -1e4, -300.0, -38.5, -20.001, -20.0, -19.999, -8.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 5.0, 8.2, 30.0])
def test_log_ndtr(x: float) -> None:
    with mp.workdps(60):
        v = mp.mpf(x)
        exact = mp.log1p(-mp.erfc(v / mp.sqrt(2)) / 2) if v > 0 else mp.log(mp.erfc(-v / mp.sqrt(2)) / 2)
    assert close(log_ndtr(x), exact, rtol=1e-15 * (2.0 + min(x * x, 1e3)), atol=1e-300)  # erfc magnifies the rounding of x by x^2


def test_edges() -> None:
    assert log1mexp(0.0) == -math.inf
    assert log_sub(1.0, 1.0) == -math.inf
    assert log_sub(-math.inf, -math.inf) == -math.inf
    assert math.isnan(log_sub(math.inf, math.inf))
    assert log_add(-math.inf, -math.inf) == -math.inf
    assert log_add(math.inf, 0.0) == math.inf
    assert log_expm1(0.0) == -math.inf
    assert log_expm1(1e308) == 1e308
    assert log_ndtr(-math.inf) == -math.inf


def test_the_array_of_normal_tails_is_the_same_function() -> None:
    x = np.concatenate((np.linspace(-60.0, 12.0, 2000), -np.geomspace(20.0, 1e150, 300), [-np.inf, np.inf, 0.0, -20.0]))
    expected = np.array([log_ndtr(value) for value in x.tolist()])
    assert log_ndtr_array(x) == pytest.approx(expected, rel=1e-14, abs=1e-16)
    assert [float(log_ndtr_array(np.array([value]))[0]) for value in x[::9].tolist()] == expected[::9].tolist()


@pytest.mark.parametrize("size", [1, 16, 17, 4001])
def test_both_ends_together_are_each_end_alone(size: int) -> None:
    x = np.concatenate(([0.0, -0.0, math.inf, -math.inf, 20.0, -20.0], np.linspace(-60.0, 60.0, size)))[:size]
    above, below = log_normal_ends(x)
    assert np.array_equal(above, log_ndtr_array(-x)) and np.array_equal(below, log_ndtr_array(x))


@given(st.integers(1, 64), st.one_of(st.floats(1e-300, 1.0, exclude_max=True), st.floats(0.01, 0.99)))
def test_binomial_probabilities_keep_all_their_digits(records: int, rate: float) -> None:
    q = Fraction(rate)
    for j, found in enumerate(log_binomial(records, rate)):
        exact = math.comb(records, j) * q**j * (1 - q) ** (records - j)
        with mp.workdps(60):
            assert abs(found - mp.log(mp.mpf(exact.numerator) / exact.denominator)) <= 4e-16 * (1.0 + abs(found))
