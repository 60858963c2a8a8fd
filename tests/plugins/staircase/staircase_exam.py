"""The references of staircase noise for the exam: its distribution function, and sums with this noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from dpcli.exam.enumeration import additive_noise
from dpcli.exam.enumeration.drawing_records import Array, Release, Situation
from dpcli.exam.enumeration.reference_releases import REACH
from dpcli.exam.enumeration.references import Reference


def distribution(epsilon: float, gamma: float) -> Callable[[Array], Array]:
    """Return the distribution function of staircase noise for sensitivity 1, by the areas of its steps."""
    fall = math.exp(-epsilon)
    height = (1.0 - fall) / (2.0 * (gamma + fall * (1.0 - gamma)))

    def cdf(x: Array) -> Array:
        step, rest = np.divmod(np.abs(x), 1.0)
        before = height * (gamma + fall * (1.0 - gamma)) * (1.0 - fall**step) / (1.0 - fall)
        area = before + height * fall**step * (np.minimum(rest, gamma) + fall * np.maximum(rest - gamma, 0.0))
        return np.where(x >= 0.0, 0.5 + area, 0.5 - area)

    return cdf


def releases(epsilon: float, gamma: float) -> Callable[[Situation], Iterator[Release]]:
    def of(situation: Situation) -> Iterator[Release]:
        for total in additive_noise.sums(situation.adjacency, "bare", 1.0):
            yield additive_noise.additive(distribution(epsilon, gamma), total, REACH, situation.cells)

    return of


REFERENCES = tuple(
    Reference("staircase", {"epsilon": 0.8, "gamma": gamma}, releases(0.8, gamma), stated=True) for gamma in (0.5, 0.25)
)
