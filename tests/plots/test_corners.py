"""The corners of a trade-off curve (analysis/trade_off_corners.py)."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpcli.analysis.trade_off_corners import corners
from dpcli.numerics.closed.trade_off import false_negatives

PAIRS = st.lists(st.tuples(st.floats(0.0, 40.0), st.floats(0.0, 0.999)), min_size=1, max_size=8)


def test_one_pair_bends_at_its_vertex() -> None:
    alphas = corners([(1.0, 0.1)])
    assert alphas[0] == 0.0
    assert alphas[-1] == 1.0
    assert math.isclose(alphas[1], 0.9 / (1.0 + math.e))
    assert math.isclose(alphas[2], 0.9)


def test_no_information_is_straight() -> None:
    assert corners([(0.0, 0.0)]) == (0.0, 1.0)


def test_nothing_known_is_flat() -> None:
    assert corners([(1e5, 0.3), (1.0, 1.0)]) == (0.0, 1.0)


@given(PAIRS)
def test_the_curve_is_straight_between_its_corners(pairs: list[tuple[float, float]]) -> None:
    alphas = np.array(corners(pairs))
    epsilons, deltas = np.array(pairs).T
    assert np.all(np.diff(alphas) > 0.0)
    drawn = false_negatives(epsilons, deltas, alphas)
    between = 0.5 * (alphas[1:] + alphas[:-1])
    true = false_negatives(epsilons, deltas, between)
    assert np.allclose(0.5 * (drawn[1:] + drawn[:-1]), true, rtol=0.0, atol=1e-9)
