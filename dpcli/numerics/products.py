"""Matrix products in the calling thread, and sums of rotations that are computed as matrix products.

If a BLAS library uses several threads, they wait for each other, which costs several times the product itself on a busy machine. Every BLAS
uses one thread for products below some size. For OpenBLAS this is a hundred thousand multiplications for two matrices, and four thousand
for a matrix and a vector. Products are therefore computed in tiles well below these sizes, which works whatever the library's settings are.

A sum of rotations e^{i y l} at equally spaced frequencies y is such a product, because e^{i (A + b) h l} = e^{i A h l} e^{i b h l}. For N
frequencies, each term needs a table of sqrt(N) coarse rotations and one of sqrt(N) fine rotations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.work import TABLE, hold, spend  # limits on memory (TABLE, hold) and on work (spend)

# Speed and memory: these change results by rounding alone.
TILE = 1 << 16  # most multiplications in one tile of a product of two matrices
LINE = 2000  # most multiplications in one tile of a product with a vector
BLOCK = 1 << 20  # most entries of a table of coarse rotations that are in memory at a time
FINE_ROTATIONS = (8, 32, 128, 512, 2048)  # numbers of fine rotations among which the cheapest is used for scattered frequencies
PRODUCT_COST = 0.03  # cost of one term of a matrix product, relative to that of one rotation
# Work of `characteristic_less_one_rows` for each entry of `loss`: for each fine or coarse rotation, and for each frequency.
ROTATION_WORK, FREQUENCY_WORK = 0.12, 0.006


def product(left: Any, right: Any) -> Any:
    """Return left @ right, for arrays of one or two dimensions. The terms of each sum are added in an unspecified order."""
    if left.size * (right.shape[1] if right.ndim == 2 else 1) <= LINE:
        return left @ right
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
    if min(rows, columns) <= 1:  # a product with a vector
        most_rows = most_columns = max(1, LINE // max(depth, 1))
    else:  # tiles that are about as broad as tall, if there are enough rows
        most_rows = min(rows, max(2, math.isqrt(TILE // max(depth, 1))))
        most_columns = max(2, TILE // (max(depth, 1) * most_rows))
    if rows <= most_rows and columns <= most_columns:
        return left @ right
    result = np.empty((rows, columns), dtype=np.result_type(left, right))
    for top, bottom in _pieces(rows, most_rows):
        for first, last in _pieces(columns, most_columns):
            result[top:bottom, first:last] = left[top:bottom] @ right[:, first:last]
    return result


def _pieces(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of ranges of at most `size`, as equal as possible, that divide `count`.

    With ranges of unequal sizes, a single row could be left over. Its product would be one with a vector, which must be smaller than TILE.
    """
    number = max(1, -(-count // size))
    for k in range(number):
        yield count * k // number, count * (k + 1) // number


def characteristic_less_one(weights: Array, loss: Array, step: float, multiples: int | IndexArray) -> ComplexArray:
    """Return SUM_j weights_j (e^{i y loss_j} - 1) at frequencies y, as an array of shape (frequencies,).

    With a = e^{i A} - 1 and b = e^{i B} - 1, e^{i(A+B)} - 1 = a b + a + b. So nothing cancels near 0.

    weights, loss: shape (terms,).
    multiples: the frequencies as multiples of `step`, increasing integers from 0 on; or a number, for all multiples below it.
    """
    if isinstance(multiples, int) and multiples * len(loss) <= LINE:  # a table would take longer to set up
        spend(float(multiples * len(loss)))
        return np.asarray(less_one(np.outer(step * np.arange(multiples), loss)) @ weights)
    return np.asarray(_characteristic_less_one(less_one, weights[None, :], loss, step, multiples)[0])


def _characteristic_less_one(
    rotations: Callable[[Any], ComplexArray], weights: Any, loss: Any, step: float, multiples: int | IndexArray
) -> ComplexArray:
    """Return `characteristic_less_one` for several rows of weights, as an array of shape (rows, frequencies).

    rotations: returns e^{i angle} - 1.
    """
    plan = _plan(multiples, len(loss))
    fine = rotations(np.outer(step * np.arange(plan.fine), loss))
    total = np.empty((len(weights), len(plan.coarse), plan.fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    # With a for the coarse rotations and b for the fine ones, the three terms of the sum over j of weights (a b + a + b).
    for i in range(0, len(plan.coarse), block):
        coarse = rotations(np.outer(step * plan.fine * plan.coarse[i : i + block], loss))
        for k, weight in enumerate(weights):
            weighted = coarse * weight
            total[k, i : i + block] = product(weighted, fine.T) + weighted.sum(axis=1)[:, None]
    total += product(weights, fine.T)[:, None, :]
    return np.asarray(total.reshape(len(weights), -1)[:, plan.chosen])


class _Plan(NamedTuple):
    """A table of rotations, with a row for each coarse rotation.

    fine: the number of fine rotations. coarse: the coarse rotations, as multiples of `fine`. chosen: the entries of the table, row by row,
    that are frequencies.
    """

    fine: int
    coarse: IndexArray
    chosen: IndexArray | slice


def _plan(multiples: int | IndexArray, terms: int) -> _Plan:
    """Return the table for these frequencies. For scattered frequencies it has only the coarse rotations that some frequency needs.

    Spends the work of the sums.
    """
    most_fine = max(TABLE // (2 * max(terms, 1)), 1)
    if isinstance(multiples, int):  # as many fine rotations as coarse ones
        fine = min(math.isqrt(max(multiples - 1, 0)) + 1, most_fine)
        coarse: IndexArray = np.arange(-(-multiples // fine))
        chosen: IndexArray | slice = slice(multiples)
    else:
        needed = [multiples // min(fine, most_fine) for fine in FINE_ROTATIONS]
        firsts = [np.flatnonzero(np.diff(rows, prepend=-1)) for rows in needed]  # where each coarse rotation is needed first
        costs = [fine + len(first) * (1.0 + PRODUCT_COST * fine) for fine, first in zip(FINE_ROTATIONS, firsts, strict=True)]
        cheapest = int(np.argmin(costs))
        fine, rows, first = min(FINE_ROTATIONS[cheapest], most_fine), needed[cheapest], firsts[cheapest]
        coarse = rows[first]
        chosen = (np.searchsorted(coarse, rows) - rows) * fine + multiples  # row in the table * fine + multiples % fine
    hold(2.0 * fine * terms)
    hold(float(len(coarse)) * fine)
    spend(float(len(coarse)) * terms * (1.0 + PRODUCT_COST * fine))
    return _Plan(fine, coarse, chosen)


def characteristic_less_one_rows(weights: Array, loss: Array, step: float, count: int) -> ComplexArray:
    """Return `characteristic_less_one` of every row, as an array of shape (rows, count). weights, loss: shape (rows, terms)."""
    fine_count = math.isqrt(max(count - 1, 0)) + 1
    coarse_count = -(-count // fine_count)
    rotation_work = ROTATION_WORK * (fine_count + coarse_count)
    spend((1.0 + rotation_work + FREQUENCY_WORK * coarse_count * fine_count) * loss.size)
    fine, coarse = _multiples(step * loss, fine_count), _multiples(step * fine_count * loss, coarse_count)
    coarse *= weights[:, None, :]
    total = coarse @ fine.transpose(0, 2, 1) + coarse.sum(axis=2)[:, :, None] + (fine @ weights[:, :, None])[:, None, :, 0]
    return np.asarray(total.reshape(len(loss), coarse_count * fine_count)[:, :count])


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


def decaying_characteristic_less_one(
    weights: ComplexArray, loss: ComplexArray, step: float, multiples: int | IndexArray
) -> ComplexArray:
    """Return `characteristic_less_one` for losses with Im >= 0 and for several rows of weights, one result row for each.

    The modulus of e^{i y loss} decreases with y for such losses. weights: shape (rows, terms). loss: shape (terms,).
    """
    return _characteristic_less_one(_faded_less_one, weights, loss, step, multiples)


def _faded_less_one(angle: ComplexArray) -> ComplexArray:
    """Return e^{i angle} - 1 for complex angles with Im >= 0, without cancellation near 0."""
    # cos x - 1 is -2 sin^2(x / 2), and the modulus is 1 plus `change`.
    sine_of_half, change = np.sin(0.5 * angle.real), np.expm1(-angle.imag)
    result = np.empty(angle.shape, dtype=complex)
    result.real = change - 2.0 * (1.0 + change) * sine_of_half * sine_of_half
    result.imag = (1.0 + change) * np.sin(angle.real)
    return result


def less_one(angle: Array) -> ComplexArray:
    """Return e^{i angle} - 1 without cancellation near 0."""
    sine_of_half = np.sin(0.5 * angle)
    result = np.empty(angle.shape, dtype=complex)
    result.real = -2.0 * sine_of_half * sine_of_half
    result.imag = np.sin(angle)
    return result


def characteristic(log_weights: ComplexArray, loss: ComplexArray, step: float, first: int, count: int) -> ComplexArray:
    """Return SUM_j e^{log_weights_j + i y loss_j} at y = first step, ..., (first+count-1) step, for losses with Im >= 0."""
    plan = _plan(count, len(loss))
    fine = np.exp(np.outer(step * np.arange(plan.fine), 1j * loss))
    total = np.empty((len(plan.coarse), plan.fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    for i in range(0, len(plan.coarse), block):
        y = step * (first + plan.fine * plan.coarse[i : i + block])
        total[i : i + block] = product(np.exp(np.outer(y, 1j * loss) + log_weights), fine.T)
    return np.asarray(total.ravel()[:count])
