"""Exact numbers as floats that never claim more privacy than the number itself."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from dpcli.mechanisms.sampling.schemes import Batched


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below; infinite above the largest."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def rounded_down(exact: Fraction) -> float:
    """Return the largest float that is not above; -infinite below the smallest."""
    try:
        near = float(exact)
    except OverflowError:
        return -math.inf if exact < 0 else sys.float_info.max
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def rate_of(sampling: Batched, size: int | None) -> float:
    """Return the sampling rate: as stated, or batch_size over the dataset size from above."""
    rate = sampling.exact_rate(size)
    assert rate is not None
    return sampling.rate if sampling.rate is not None and sampling.batch_size is None else rounded_up(rate)
