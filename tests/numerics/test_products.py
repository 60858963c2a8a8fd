"""Matrix products in tiles (numerics/products.py): the results are numpy's but for rounding, and no single product is so large that the
linear algebra library would share it among threads, which wait for each other on a busy machine.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.numerics import products
from dpcli.numerics.products import product

SIZES = st.sampled_from([1, 2, 3, 7, 40, 350])
DEPTHS = st.sampled_from([1, 2, 50, products.LINE - 1, products.LINE, products.LINE + 1, 2 * products.LINE + 3])


def drawn(seed: int, shape: tuple[int, ...], complex_: bool) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if complex_ else 0.0)


@given(
    st.integers(0, 99), SIZES, DEPTHS, SIZES, st.booleans(), st.booleans(), st.sampled_from(["matrices", "row", "column", "both"])
)
def test_they_are_numpys(seed: int, rows: int, depth: int, columns: int, left_: bool, right_: bool, kind: str) -> None:
    left = drawn(seed, (depth,) if kind in ("row", "both") else (rows, depth), left_)
    right = drawn(seed + 1, (depth,) if kind in ("column", "both") else (depth, columns), right_)
    found, expected = product(left, right), left @ right
    assert found.shape == expected.shape and found.dtype == expected.dtype
    # The rounding of a sum in another order: a unit in the last place for each term, of their sizes.
    assert np.all(np.abs(found - expected) <= 4e-16 * (depth + 4) * (np.abs(left) @ np.abs(right)) + 1e-300)


@pytest.mark.parametrize("shape", [(300, 700, 300), (1, 50_000, 1), (3, 9000, 1), (1, 9000, 3), (2, 3, 90_000), (501, 7, 2)])
def test_no_tile_is_shared_among_threads(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    asked: list[int] = []

    class Counted(np.ndarray):  # type: ignore[type-arg]
        def __matmul__(self, other: Any) -> Any:
            few = min(self.shape[0], other.shape[1]) <= 1
            asked.append(self.shape[0] * self.shape[1] * other.shape[1])
            assert asked[-1] <= (products.LINE if few else products.TILE)
            return np.asarray(self) @ np.asarray(other)

    left, right = drawn(1, (rows, depth), True).view(Counted), drawn(2, (depth, columns), True)
    with mock.patch.object(products.np, "atleast_2d", lambda array: array):
        product(left, right)
    assert sum(asked) == rows * depth * columns
