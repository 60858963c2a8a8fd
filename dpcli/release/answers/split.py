"""How a mean's budget is best split between its sum and its count.

The error of S/C is that of (S - mean C) / C: its variance is proportional to var(S) + mean^2 var(C), mean being that of the centred values.
The true mean is not known; at most it is half of the range, which makes both halves equal, and spread evenly over the range it is that over
sqrt(3), in the mean square: UNKNOWN.
"""

from __future__ import annotations

import math

UNKNOWN = 1.0 / math.sqrt(3.0)  # of half the range


def share_of_rho(sum_sensitivity: float, count_sensitivity: float, mean: float) -> float:
    """The share of rho that goes to the sum: a/rho + b/(1 - rho) with a = sum^2, b = (mean count)^2 is least at sqrt(a) : sqrt(b)."""
    return _share(sum_sensitivity, abs(mean) * count_sensitivity)


def share_of_epsilon(sum_sensitivity: float, count_sensitivity: float, mean: float) -> float:
    """The share of epsilon that goes to the sum: variances fall with its square, so that cube roots of a and b divide it."""
    return _share(sum_sensitivity ** (2 / 3), (abs(mean) * count_sensitivity) ** (2 / 3))


def _share(first: float, second: float) -> float:
    return first / (first + second)
