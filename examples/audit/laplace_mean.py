"""A mean with Laplace noise, as a program to audit, and one that was scaled for the wrong sensitivity."""

from __future__ import annotations

import numpy as np

SIZE, SCALE = 100, 1.0  # records in [0, 1]; noise of the sum, for epsilon = 1


def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two datasets that differ in one record, the worst one: 1 against nothing."""
    others = np.zeros(SIZE - 1)
    return np.append(others, 1.0), others


def mean(values: np.ndarray, rng: np.random.Generator) -> float:
    """The noisy sum over a declared size: higher where the record is there."""
    return float((values.sum() + rng.laplace(scale=SCALE)) / SIZE)


def careless_mean(values: np.ndarray, rng: np.random.Generator) -> float:
    """The noise was divided by the size twice."""
    return float((values.sum() + rng.laplace(scale=SCALE / 4.0)) / SIZE)
