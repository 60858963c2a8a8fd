"""Sums of rotating terms at equally spaced frequencies, by one matrix product instead of one exponential per term; complex log1p.

e^{i (A + b) h l} = e^{i A h l} e^{i b h l}: for N frequencies a table of sqrt(N) coarse and one of sqrt(N) fine rotations per term.
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.products import product
from dpcli.numerics.work import TABLE, hold, spend

BLOCK = 1 << 20  # entries of a table held at a time


def turned_less_one(weights: Array, loss: Array, step: float, count: int) -> ComplexArray:
    """SUM_j weights_j (e^{i y loss_j} - 1) at y = 0, step, ..., (count-1) step.

    With a = e^{i A} - 1 and b = e^{i B} - 1, e^{i(A+B)} - 1 = a b + a + b: nothing cancels near 0.
    """
    fine, rows = _plan(count, len(loss))
    small = _less_one(np.outer(step * np.arange(fine), loss))
    total = np.empty((rows, fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    for i in range(0, rows, block):
        large = _less_one(np.outer(step * fine * np.arange(i, min(i + block, rows)), loss)) * weights
        total[i : i + block] = product(large, small.T) + large.sum(axis=1)[:, None]
    return np.asarray((total + product(small, weights)).ravel()[:count])


def turned_less_one_rows(weights: Array, loss: Array, step: float, count: int) -> ComplexArray:
    """`turned_less_one` of every row of (rows, terms): shape (rows, count)."""
    fine = math.isqrt(max(count - 1, 0)) + 1
    rows = -(-count // fine)
    spend((1.0 + 0.12 * (fine + rows) + 0.006 * rows * fine) * loss.size)  # products are cheaper than exponentials
    small, large = _multiples(step * loss, fine), _multiples(step * fine * loss, rows)
    large *= weights[:, None, :]
    total = large @ small.transpose(0, 2, 1) + large.sum(axis=2)[:, :, None] + (small @ weights[:, :, None])[:, None, :, 0]
    return np.asarray(total.reshape(len(loss), rows * fine)[:, :count])


def _multiples(angle: Array, count: int) -> ComplexArray:
    """e^{i k angle} - 1 for k = 0, ..., count-1, along a new axis before the last: by products, as of `turned_less_one`."""
    found = np.zeros((*angle.shape[:-1], count, angle.shape[-1]), dtype=complex)
    one = _less_one(angle)
    for k in range(1, count):
        before = found[..., k - 1, :]
        found[..., k, :] = before * one + before + one
    return found


def faded_less_one(weights: ComplexArray, loss: ComplexArray, step: float, count: int) -> ComplexArray:
    """As `turned_less_one`, for losses with Im >= 0, whose turns fade, and several rows of weights at once: a row for each."""
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
    """e^{i angle} - 1."""
    half, fall = np.sin(0.5 * angle.real), np.expm1(-angle.imag)
    found = np.empty(angle.shape, dtype=complex)
    found.real = fall - 2.0 * (1.0 + fall) * half * half
    found.imag = (1.0 + fall) * np.sin(angle.real)
    return found


def _plan(count: int, terms: int) -> tuple[int, int]:
    """How many fine rotations for each coarse one, and how many of those: about as many, or as many as a table holds. Refuses tables that
    are too large: of fine rotations, and the product, whose entries are the cheapest."""
    fine = max(min(math.isqrt(max(count - 1, 0)) + 1, TABLE // (2 * max(terms, 1))), 1)
    rows = -(-count // fine)
    hold(2.0 * fine * terms)
    hold(float(rows) * fine)
    spend(float(rows) * terms + 0.03 * rows * fine * terms)
    return fine, rows


def _less_one(angle: Array) -> ComplexArray:
    """e^{i angle} - 1."""
    half = np.sin(0.5 * angle)
    found = np.empty(angle.shape, dtype=complex)
    found.real = -2.0 * half * half
    found.imag = np.sin(angle)
    return found


def turned(log_weights: ComplexArray, loss: ComplexArray, step: float, first: int, count: int) -> ComplexArray:
    """SUM_j e^{log_weights_j + i y loss_j} at y = first step, ..., (first+count-1) step, for losses with Im >= 0 (which fade)."""
    fine, rows = _plan(count, len(loss))
    small = np.exp(np.outer(step * np.arange(fine), 1j * loss))
    total = np.empty((rows, fine), dtype=complex)
    block = max(1, BLOCK // max(len(loss), 1))
    for i in range(0, rows, block):
        y = step * (first + fine * np.arange(i, min(i + block, rows)))
        total[i : i + block] = product(np.exp(np.outer(y, 1j * loss) + log_weights), small.T)
    return np.asarray(total.ravel()[:count])


def log1p_complex(z: Array | ComplexArray) -> ComplexArray:
    """log(1 + z) that keeps the digits of a small z, which numpy's does not for complex arguments, and those of a small 1 + z."""
    found = np.empty(z.shape, dtype=complex)
    across, far = z.imag * z.imag, z.real < -0.5
    near = 0.5 * np.log1p(np.where(far, 0.0, z.real * (2.0 + z.real) + across))
    found.real = np.where(far, 0.5 * np.log(np.where(far, (1.0 + z.real) ** 2 + across, 1.0)), near)
    found.imag = np.arctan2(z.imag, 1.0 + z.real)
    return found
