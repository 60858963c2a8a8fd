"""Searches for roots, inverses and minima (numerics/roots.py): each ends on the side of the root that it promises, since the other side
would be a bound that does not hold, and after few evaluations.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.mechanisms.noise.normal_mixture import MixtureReplaceLoss
from dpcli.numerics import roots
from dpcli.numerics.mixture import Mixture, binomial_mixture
from dpcli.numerics.roots import bracket_root, expand_until, increasing_root, minimise_unimodal
from tests.cases import of_each
from tests.oracles import Array


@given(st.floats(1e-9, 1e9), st.sampled_from([0.2, 1.0, 3.0]), st.floats(1.5, 1e6))
def test_bracket_ends_on_both_sides_of_the_root(root: float, power: float, factor: float) -> None:
    def f(x: float) -> float:
        return 1.0 - (x / root) ** power

    low, high = bracket_root(f, 0.0, root * factor)
    assert f(low) > 0.0 >= f(high)
    assert high - low <= 1.01e-13 * high
    assert abs(high / root - 1.0) <= 1e-12  # the function's own rounding moves its sign change by a few ulp


def test_bracket_with_infinities_and_a_step() -> None:
    low, high = bracket_root(lambda x: math.inf if x < 3.0 else -math.inf, 0.0, 10.0)
    assert low < 3.0 <= high and high - low < 1e-12


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("flat at the root", lambda x: (1.0 - x) ** 9),
        ("kinked", lambda x: (1.0 - x) * (1e6 if x < 1.0 else 1e-6)),
        ("steep far away", lambda x: math.exp(min(50.0 * (1.0 - x), 700.0)) - 1.0),
        ("smooth", lambda x: -math.log(x) if x > 0.0 else math.inf),
        ("a step", lambda x: 1.0 if x < 1.0 else -3.0),
    ],
)
def test_bracket_asks_seldom(name: str, f: Callable[[float], float]) -> None:
    """Never much more often than halving would, and half as often where the function is smooth."""
    for far in (1.7, 31.0, 9e5):
        asked: list[float] = []
        low, high = bracket_root(lambda x, asked=asked: asked.append(x) or f(x), 0.0, far)  # type: ignore[misc]
        assert f(low) > 0.0 >= f(high) and high - low <= 1.01e-13 * high
        assert len(asked) <= {"smooth": 0.6, "steep far away": 0.6}.get(name, 1.7) * math.log2(far / 1e-13), name


def test_bracket_of_negative_abscissae() -> None:
    low, high = bracket_root(lambda x: -5.0 - x, -700.0, -1e-9)
    assert low <= -5.0 <= high and high - low < 1e-11


def test_bracket_of_a_noisy_function_still_keeps_its_promise() -> None:
    noise = random.Random(1)

    def f(x: float) -> float:
        return 2.0 - x + 1e-6 * noise.uniform(-1.0, 1.0)

    seen: dict[float, float] = {}
    low, high = bracket_root(lambda x: seen.setdefault(x, f(x)), 0.0, 9.0)
    assert seen[low] > 0.0 >= seen[high]


def test_expand_until() -> None:
    assert expand_until(lambda x: x > 100.0, 1.0, 2.0, 1e6) == 128.0
    assert expand_until(lambda x: x < 0.01, 1.0, 0.5, 1e6) == 0.5**7
    assert expand_until(lambda x: False, 1.0, 2.0, 1e6) == math.inf


@given(st.floats(-8.0, 8.0), st.floats(0.3, 3.0), st.floats(1e-3, 1e3))
def test_minimum_is_seen_and_near(centre: float, width: float, start: float) -> None:
    calls: dict[float, float] = {}

    def f(x: Array) -> Array:
        values = np.asarray(3.0 + ((np.log(x) - centre) / width) ** 2)
        calls.update(zip(x.tolist(), values.tolist(), strict=True))
        return values

    x, value = minimise_unimodal(f, start)
    assert calls[x] == value == min(calls.values())
    assert 3.0 <= value <= 3.0 + 1e-4 / width**2


@pytest.mark.parametrize("top", [3.0, 1e5])
def test_minimum_beside_a_cliff(top: float) -> None:
    """Renyi curves are finite up to some order and then infinite, or NaN where arithmetic gave up."""

    def f(x: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.where(x < top, 10.0 / x + x, np.where(x < 10.0 * top, np.inf, np.nan))

    x, value = minimise_unimodal(f)
    exact = 10.0 / min(top, math.sqrt(10.0)) + min(top, math.sqrt(10.0))
    assert x < top and exact <= value * (1 + 1e-12) <= exact * 1.05


def test_minimum_of_nothing_is_infinite() -> None:
    assert minimise_unimodal(lambda x: np.full_like(x, np.nan))[1] == math.inf


FEW = 16  # evaluations: what Newton's method needs, and a bisection does not do with


@given(st.floats(-3.0, 3.0), st.floats(-2.0, 2.0), st.floats(0.0, 0.3))
def test_values_of_a_known_inverse(log10_scale: float, shift: float, bend: float) -> None:
    """The inverse of x + bend sin(x), scaled, is within a few roundings of the x that it was evaluated at."""
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
