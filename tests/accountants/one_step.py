"""Sampled Gaussians whose epsilon is known apart from dpcli: one step in closed form, and compositions to nine digits (`KNOWN`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


def one(rate: float, mu: float) -> Callable[[float], float]:
    """Return delta of one step as a function of epsilon. mu: sensitivity over noise; `rate` 1 is no sampling."""

    def delta(epsilon: float) -> float:
        level = math.expm1(epsilon) + rate
        if level <= 0.0:
            return -math.expm1(epsilon)
        x = math.log(level / rate) / mu + 0.5 * mu
        return 0.5 * (rate * math.erfc((x - mu) * math.sqrt(0.5)) - level * math.erfc(x * math.sqrt(0.5)))

    return delta


class Known(NamedTuple):
    """A composition and its epsilon at `delta`, to 1e-9 relative, by a contour integral in thirty-digit arithmetic.

    parts: (rate, noise multiplier, steps). factor: how far above epsilon the bound by Renyi DP may be. Renyi DP itself, and no error, makes
    it large where few samples carry a strong signal.
    """

    parts: tuple[tuple[float, float, int], ...]
    delta: float
    epsilon: float
    factor: float = 1.1
    adjacency: str = "add-remove"


MNIST = 256 / 60000
KNOWN = (
    Known(((MNIST, 1.1, 14040),), 1e-5, 2.3795545188),
    Known(((MNIST, 1.1, 14040),), 1e-5, 4.2174858115, 1.1, "replace-one"),
    Known(((4096 / 50000, 3.0, 2500),), 1e-5, 6.5788958506),
    Known(((256 / 920344, 0.6, 71900),), 1e-6, 2.0398365142, 1.48),
    Known(((1e-4, 0.8, 1000000),), 1e-7, 0.9127034976, 1.66),
    Known(((0.01, 0.5, 10000),), 1e-5, 43.3664898605),
    Known(((0.001, 1.0, 10000),), 1e-12, 1.1844838022, 1.79),
    Known(((0.001, 1.0, 10000),), 1e-30, 5.1537675837),
    Known(((0.01, 4.0, 10000),), 1e-5, 0.9468668006, 1.15),
    Known(((1.0, 20.0, 100),), 1e-5, 1.9930914044),
    Known(((0.1, 1.0, 10),), 1e-5, 2.8545189280, 1.21),
    Known(((0.01, 1.0, 1000), (0.02, 2.0, 500), (1.0, 30.0, 3)), 1e-6, 2.3938704130, 1.13),
)
