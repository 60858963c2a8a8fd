"""Products of matrices in the thread that asks for them, whatever a library's settings say.

A BLAS that may use several threads lets them wait for each other, which on a busy machine costs several times the product itself. Below
a size of its own each BLAS uses one thread: products are computed in tiles well below that of OpenBLAS (a hundred thousand multiplications
of two matrices, four thousand of a matrix and a vector).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dpcli.numerics.arrays import np

TILE = 1 << 16  # multiplications of two matrices
LINE = 2000  # of a vector


def product(left: Any, right: Any) -> Any:
    """left @ right, for arrays of one or two dimensions; rounded as a sum in any order is."""
    rows, columns = np.atleast_2d(left), right if right.ndim == 2 else right[:, None]
    found = _deep(rows, columns)
    return found.reshape(left.shape[:-1] + right.shape[1:])[()]


def _deep(left: Any, right: Any) -> Any:
    """In pieces of the sum, where one alone would be too long."""
    total = _wide(left[:, :LINE], right[:LINE])
    for start in range(LINE, left.shape[1], LINE):
        total += _wide(left[:, start : start + LINE], right[start : start + LINE])
    return total


def _wide(left: Any, right: Any) -> Any:
    (rows, depth), columns = left.shape, right.shape[1]
    if min(rows, columns) <= 1:
        tall = broad = max(1, LINE // max(depth, 1))
    else:
        tall = min(rows, max(2, math.isqrt(TILE // max(depth, 1))))
        broad = max(2, TILE // (max(depth, 1) * tall))
    if rows <= tall and columns <= broad:
        return left @ right
    found = np.empty((rows, columns), dtype=np.result_type(left, right))
    for top, bottom in _pieces(rows, tall):
        for first, last in _pieces(columns, broad):
            found[top:bottom, first:last] = left[top:bottom] @ right[:, first:last]
    return found


def _pieces(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Even ones of at most that size: a single row left over would be the product with a vector, which has a smaller limit."""
    number = max(1, -(-count // size))
    for k in range(number):
        yield count * k // number, count * (k + 1) // number
