"""Encoder matrices of matrix mechanisms, and the largest change of the encoded stream by one unit over all participation patterns.

A matrix mechanism multiplies the stream of contributions, one for each step, by an encoder, and adds Gaussian noise. A *participation
pattern* is the set of steps to which a unit contributes. `largest_norm` tries all of them.
"""

from __future__ import annotations

import itertools

import numpy as np

from dpcli.exam.enumeration.drawing_records import Array


def tree(steps: int) -> Array:
    """Return a matrix with a row for each complete node of a binary tree over the steps."""
    step = np.arange(steps)
    rows = []
    size = 1
    while size <= steps:
        starts = range(0, steps - size + 1, size)
        rows += [(step >= start) & (step < start + size) for start in starts]
        size *= 2
    return np.array(rows, dtype=float)


def toeplitz(column: tuple[float, ...], steps: int) -> Array:
    """Return the matrix C[i, j] = c_{i-j}."""
    matrix = np.zeros((steps, steps))
    for distance, coefficient in enumerate(column[:steps]):
        matrix += coefficient * np.eye(steps, k=-distance)
    return matrix


def banded(bands: int, steps: int) -> Array:
    """Return a matrix whose columns have norm 1. Each has arbitrary positive entries in `bands` rows, from the diagonal downwards."""
    rows, columns = np.indices((steps, steps))
    matrix = np.where((rows >= columns) & (rows < columns + bands), 1.0 / (1.0 + 2.0 * rows + columns), 0.0)
    return np.asarray(matrix / np.linalg.norm(matrix, axis=0))


def blt(decays: tuple[float, ...], scales: tuple[float, ...], steps: int) -> Array:
    """Return the encoder of a buffered linear Toeplitz mechanism: c_0 = 1, c_k = sum_i scale_i decay_i^{k-1}."""
    later = (sum(s * d ** (k - 1) for d, s in zip(decays, scales, strict=True)) for k in range(1, steps))
    return toeplitz((1.0, *later), steps)


def largest_norm(encoder: Array, separation: int, most: int) -> float:
    """Return the largest norm of the encoded stream over all participation patterns.

    A pattern has at most `most` contributions of size 1, which are at least `separation` steps apart.
    """
    largest = 0.0
    for pattern in itertools.product((0.0, 1.0), repeat=encoder.shape[1]):
        contributing_steps = np.flatnonzero(pattern)
        if len(contributing_steps) <= most and (np.diff(contributing_steps) >= separation).all():
            largest = max(largest, float(np.linalg.norm(encoder @ np.array(pattern))))
    return largest
