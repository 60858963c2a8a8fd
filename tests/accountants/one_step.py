"""One step of Gaussian noise on a Poisson sample, in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable


def one(rate: float, mu: float) -> Callable[[float], float]:
    """delta of one step as a function of epsilon."""

    def delta(epsilon: float) -> float:
        level = math.expm1(epsilon) + rate
        if level <= 0.0:
            return -math.expm1(epsilon)
        x = math.log(level / rate) / mu + 0.5 * mu
        return 0.5 * (rate * math.erfc((x - mu) * math.sqrt(0.5)) - level * math.erfc(x * math.sqrt(0.5)))

    return delta
