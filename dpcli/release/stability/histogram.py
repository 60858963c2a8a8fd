"""The stability histogram: noisy counts of the keys that are there, where they exceed a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Neighbours

Key = TypeVar("Key")


def released_keys(counts: Mapping[Key, int], threshold: int, noise: Callable[[], int]) -> dict[Key, int]:
    """The keys whose count with noise exceeds the threshold, and that number; keys that nobody holds are not in question.

    Priced by: stability-histogram with the threshold, and the scale or sigma of the noise.
    """
    noisy = {key: count + noise() for key, count in counts.items() if count > 0}
    return {key: number for key, number in noisy.items() if number > threshold}


def least_threshold(spec: StabilityHistogramSpec, neighbours: Neighbours, delta: float) -> int:
    """The smallest threshold >= 1 whose delta is at most `delta`; the threshold of `spec` does not matter."""

    def costs(threshold: int) -> bool:
        return replace(spec, threshold=threshold).resolve(neighbours).delta_floor() > delta

    low, high = 0, 1
    while costs(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if costs(middle) else (low, middle)
    return high
