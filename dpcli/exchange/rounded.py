"""Rounding of exact fractions to floats in a stated direction, so that an exported number never claims more privacy."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from dpcli.mechanisms.sampling.schemes import Batched


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float >= `exact`; inf if `exact` exceeds the largest float."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def rounded_down(exact: Fraction) -> float:
    """Return the largest float <= `exact`; -inf if `exact` is below the smallest float."""
    return -rounded_up(-exact)


def rate_of(sampling: Batched, size: int | None) -> float:
    """Return the sampling rate: the stated one or, if batch_size is stated, batch_size / dataset size, rounded up."""
    if sampling.rate is not None and sampling.batch_size is None:
        return sampling.rate
    rate = sampling.exact_rate(size)
    assert rate is not None
    return rounded_up(rate)
