"""Tests of base/rounding.py: a printed upper bound is never below its number, and a printed lower bound never above it."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.rounding import down, figures, percent, percent_used, up
from tests.cases import of_each


@of_each(
    ("x", "above", "below"),
    [
        (2.59664191, "2.5967", "2.5966"),
        (1.0, "1.0000", "1.0000"),
        (0.5, "0.50000", "0.50000"),
        (0.0, "0", "0"),
        (1e-10, "1e-10", "1e-10"),
        (1.23456789e-10, "1.2346e-10", "1.2345e-10"),
        (0.0019387, "0.0019387", "0.0019387"),
        (0.00193871, "0.0019388", "0.0019387"),
        (5425.50984614, "5425.5099", "5425.5098"),
        (float("inf"), "inf", "inf"),
        (1e300, "1e+300", "1e+300"),
        (5e-324, "5e-324", "5e-324"),
        (0.1, "0.10000", "0.10000"),
        (0.999996, "1.0000", "0.99999"),
        (0.0999999, "0.10000", "0.099999"),
        (-0.999996, "-0.99999", "-1.0000"),
    ],
)
def test_examples(x: float, above: str, below: str) -> None:
    assert (up(x), down(x)) == (above, below)


@given(st.floats(min_value=0.0, allow_infinity=False, allow_nan=False), st.integers(0, 12))
def test_up_is_never_below_and_down_never_above(x: float, decimals: int) -> None:
    assert Fraction(down(x, decimals)) <= Fraction(repr(x)) <= Fraction(up(x, decimals))  # the shortest decimal of the double
    if x > 0:
        assert Fraction(up(x, decimals)) > 0


def test_percent() -> None:
    assert (percent(0.5), percent(float("nan"))) == ("50.0 %", "-")


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e14, max_value=1e14))
def test_figures_are_read_as_they_are_written(x: float) -> None:
    """Six significant digits, or all digits before the point if they are more; the ends of an interval are rounded outwards."""
    near, low, high = (float(figures(x, 6, way).replace(",", "")) for way in (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING))
    assert low <= x <= high and low <= near <= high
    assert abs(near - x) <= max(0.5, 5e-6 * abs(x)) if abs(x) >= 1e5 else abs(near - x) <= 5.0001e-6 * abs(x)
    assert abs(x) < 1e-5 or "e" not in figures(x).lower()


def test_figures() -> None:
    assert [figures(x) for x in (65257900.0, 1559.6, 0.95, 43.503370, -12.0, 0.0, math.inf)] == [
        "65,257,900", "1,559.6", "0.95", "43.5034", "-12", "0", "inf",
    ]  # fmt: skip


@given(st.integers(0, 10**6))
def test_a_share_in_percent_is_the_one_that_was_stated(millionths: int) -> None:
    """Rounded up to a tenth of a percent. A share of whole tenths stays: 0.07 gives 7.0 %, although 100 * 0.07 > 7 in floats."""
    number, sign = percent_used(millionths / 10**6).split(" ")
    exact = Decimal(millionths) / 10**4
    assert sign == "%" and exact <= Decimal(number) < exact + Decimal("0.1")
    if millionths % 1000 == 0:
        assert Decimal(number) == exact
