"""Matrix products in the calling thread, and sums of rotations that are computed as matrix products.

If a BLAS library uses several threads, they wait for each other, which costs several times the product itself on a busy machine. Every BLAS
uses one thread for products below some size. For OpenBLAS this is a hundred thousand multiplications for two matrices, and four thousand
for a matrix and a vector. Products are therefore computed in tiles well below these sizes, which works whatever the library's settings are.

A sum of rotations e^{i y l} at equally spaced frequencies y is such a product, because e^{i (A + b) h l} = e^{i A h l} e^{i b h l}. For N
frequencies, each term needs a table of sqrt(N) coarse rotations and one of sqrt(N) fine rotations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.work import TABLE, hold, spend

TILE = 1 << 16  # most multiplications in one tile of a product of two matrices
LINE = 2000  # most multiplications in one tile of a product with a vector
BLOCK = 1 << 20  # most entries of a table of coarse rotations that are in memory at a time
FINE_ROTATIONS = (8, 32, 128, 512, 2048)  # numbers of fine rotations among which the cheapest is used for scattered frequencies
PRODUCT_COST = 0.03  # cost of one term of a matrix product, relative to that of one rotation


def product(left: Any, right: Any) -> Any:
    """Return left @ right, for arrays of one or two dimensions. The terms of each sum are added in an unspecified order."""
    rows, columns = np.atleast_2d(left), right if right.ndim == 2 else right[:, None]
    result = _sum_of_pieces(rows, columns)
    return result.reshape(left.shape[:-1] + right.shape[1:])[()]


def _sum_of_pieces(left: Any, right: Any) -> Any:
    """Return left @ right, with the sum over the inner dimension computed in pieces of at most LINE terms."""
    total = _tiled(left[:, :LINE], right[:LINE])
    for start in range(LINE, left.shape[1], LINE):
        total += _tiled(left[:, start : start + LINE], right[start : start + LINE])
    return total


def _tiled(left: Any, right: Any) -> Any:
    """Return left @ right, computed in tiles of rows and columns."""
    (rows, depth), columns = left.shape, right.shape[1]
    if min(rows, columns) <= 1:
        tall = broad = max(1, LINE // max(depth, 1))
    else:
        tall = min(rows, max(2, math.isqrt(TILE // max(depth, 1))))
        broad = max(2, TILE // (max(depth, 1) * tall))
    if rows <= tall and columns <= broad:
        return left @ right
    result = np.empty((rows, columns), dtype=np.result_type(left, right))
    for top, bottom in _pieces(rows, tall):
        for first, last in _pieces(columns, broad):
            result[top:bottom, first:last] = left[top:bottom] @ right[:, first:last]
    return result


def _pieces(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Divide `count` into ranges of at most `size`, as equal as possible.

    A single row that is left over would make a product with a vector, which must be smaller.
    """
    number = max(1, -(-count // size))
    for k in range(number):
        yield count * k // number, count * (k + 1) // number


def characteristic_less_one(weights: Array, loss: Array, step: float, count: int) -> ComplexArray:
    """Return SUM_j weights_j (e^{i y loss_j} - 1) at y = 0, step, ..., (count-1) step.

    With a = e^{i A} - 1 and b = e^{i B} - 1, e^{i(A+B)} - 1 = a b + a + b. So nothing cancels near 0.
    """
    fine, rows = _plan(count, len(loss))
    small = less_one(np.outer(step * np.arange(fine), loss))
    total = np.empty((rows, fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    for i in range(0, rows, block):
        large = less_one(np.outer(step * fine * np.arange(i, min(i + block, rows)), loss)) * weights
        total[i : i + block] = product(large, small.T) + large.sum(axis=1)[:, None]
    return np.asarray((total + product(small, weights)).ravel()[:count])


def characteristic_less_one_at(weights: Array, loss: Array, step: float, multiples: IndexArray) -> ComplexArray:
    """Return `characteristic_less_one` at the frequencies step * multiples, for increasing integers from 0 on.

    Only those coarse rotations are computed that some frequency needs.
    """
    terms = len(loss)
    coarse = [
        np.flatnonzero(np.diff(multiples // fine, prepend=-1)) for fine in FINE_ROTATIONS
    ]  # where each new one is first needed
    costs = [len(first) + fine + PRODUCT_COST * len(first) * fine for first, fine in zip(coarse, FINE_ROTATIONS, strict=True)]
    cheapest = int(np.argmin(costs))
    fine, first = FINE_ROTATIONS[cheapest], coarse[cheapest]
    rows = multiples[first] // fine
    hold(2.0 * fine * terms)
    spend(costs[cheapest] * terms + len(multiples))
    small = less_one(np.outer(step * np.arange(fine), loss))
    moved = product(small, weights)
    result = np.empty(len(multiples), dtype=complex)
    bounds = np.append(first, len(multiples))
    block = max(1, BLOCK // max(terms, fine))
    for i in range(0, len(rows), block):
        large = less_one(np.outer(step * fine * rows[i : i + block], loss)) * weights
        table = product(large, small.T) + large.sum(axis=1)[:, None] + moved
        start, end = bounds[i], bounds[min(i + block, len(rows))]
        chosen = multiples[start:end]
        result[start:end] = table[np.searchsorted(rows[i : i + block], chosen // fine), chosen % fine]
    return result


def characteristic_less_one_rows(weights: Array, loss: Array, step: float, count: int) -> ComplexArray:
    """Return `characteristic_less_one` of every row, as an array of shape (rows, count). weights, loss: shape (rows, terms)."""
    fine = math.isqrt(max(count - 1, 0)) + 1
    rows = -(-count // fine)
    spend((1.0 + 0.12 * (fine + rows) + 0.006 * rows * fine) * loss.size)  # a product costs less than an exponential
    small, large = _multiples(step * loss, fine), _multiples(step * fine * loss, rows)
    large *= weights[:, None, :]
    total = large @ small.transpose(0, 2, 1) + large.sum(axis=2)[:, :, None] + (small @ weights[:, :, None])[:, None, :, 0]
    return np.asarray(total.reshape(len(loss), rows * fine)[:, :count])


def _multiples(angle: Array, count: int) -> ComplexArray:
    """Return e^{i k angle} - 1 for k = 0, ..., count-1, along a new axis before the last.

    Each multiple is computed from the one before by the product formula of `characteristic_less_one`.
    """
    result = np.zeros((*angle.shape[:-1], count, angle.shape[-1]), dtype=complex)
    first = less_one(angle)
    for k in range(1, count):
        previous = result[..., k - 1, :]
        result[..., k, :] = previous * first + previous + first
    return result


def decaying_characteristic_less_one(weights: ComplexArray, loss: ComplexArray, step: float, count: int) -> ComplexArray:
    """Return `characteristic_less_one` for losses with Im >= 0 and for several rows of weights, one result row for each.

    The modulus of e^{i y loss} decreases with y for such losses.
    """
    fine, rows = _plan(count, len(loss))
    small = _faded_less_one(np.outer(step * np.arange(fine), loss))
    total = np.empty((len(weights), rows, fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    for i in range(0, rows, block):
        large = _faded_less_one(np.outer(step * fine * np.arange(i, min(i + block, rows)), loss))
        for k, weight in enumerate(weights):
            part = large * weight
            total[k, i : i + block] = part @ small.T + part.sum(axis=1)[:, None]
    total += (weights @ small.T)[:, None, :]
    return np.asarray(total.reshape(len(weights), -1)[:, :count])


def _faded_less_one(angle: ComplexArray) -> ComplexArray:
    """Return e^{i angle} - 1 for complex angles with Im >= 0, without cancellation near 0."""
    half, fall = np.sin(0.5 * angle.real), np.expm1(-angle.imag)
    result = np.empty(angle.shape, dtype=complex)
    result.real = fall - 2.0 * (1.0 + fall) * half * half
    result.imag = (1.0 + fall) * np.sin(angle.real)
    return result


def _plan(count: int, terms: int) -> tuple[int, int]:
    """Return the number of fine rotations for each coarse one, and the number of coarse rotations.

    Both are about the square root of `count`, unless the table of fine rotations would be too large. Spends the work of the sums. Raises
    TooMuchWork if it is not allowed, or if the table of fine rotations or that of the results is too large.
    """
    fine = max(min(math.isqrt(max(count - 1, 0)) + 1, TABLE // (2 * max(terms, 1))), 1)
    rows = -(-count // fine)
    hold(2.0 * fine * terms)
    hold(float(rows) * fine)
    spend(float(rows) * terms + PRODUCT_COST * rows * fine * terms)
    return fine, rows


def less_one(angle: Array) -> ComplexArray:
    """Return e^{i angle} - 1 without cancellation near 0."""
    half = np.sin(0.5 * angle)
    result = np.empty(angle.shape, dtype=complex)
    result.real = -2.0 * half * half
    result.imag = np.sin(angle)
    return result


def characteristic(log_weights: ComplexArray, loss: ComplexArray, step: float, first: int, count: int) -> ComplexArray:
    """Return SUM_j e^{log_weights_j + i y loss_j} at y = first step, ..., (first+count-1) step, for losses with Im >= 0."""
    fine, rows = _plan(count, len(loss))
    small = np.exp(np.outer(step * np.arange(fine), 1j * loss))
    total = np.empty((rows, fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    for i in range(0, rows, block):
        y = step * (first + fine * np.arange(i, min(i + block, rows)))
        total[i : i + block] = product(np.exp(np.outer(y, 1j * loss) + log_weights), small.T)
    return np.asarray(total.ravel()[:count])
