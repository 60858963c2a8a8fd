"""Counts, sums and histograms: whole numbers of steps, each with its own noise."""

from __future__ import annotations

import math
from fractions import Fraction

from dpcli.release.answers.interval import ConfidenceInterval
from dpcli.release.noise.laws import NoiseLaw, failure_of, half_width, half_width_beyond


def on_grid(steps: int, step: float) -> float:
    """The double nearest to steps times the step as it is written: 1234 of 0.01 are 12.34. All that is released goes through here."""
    return float(steps * Fraction(repr(step)))


def additive_interval(noisy: int, law: NoiseLaw, confidence: float, step: float = 1.0) -> ConfidenceInterval:
    """Around a noisy count or sum: the law's quantile on either side, the shortest whole one.

    Args:
        noisy: in steps.
        law: of its noise, in steps.
        step: of the data; 1 for a count.
    """
    return _around(noisy, half_width(law, confidence), confidence, step)


def simultaneous_interval(noisy: int, law: NoiseLaw, confidence: float, bins: int, step: float = 1.0) -> ConfidenceInterval:
    """Of one of `bins` answers with independent noise of one law, such that all intervals hold at once with this confidence."""
    return _around(noisy, simultaneous_half_width(law, confidence, bins), confidence, step)


def simultaneous_half_width(law: NoiseLaw, confidence: float, bins: int) -> int:
    """In steps: each fails with probability 1 - confidence^(1/bins), so that none does with `confidence`, exactly."""
    return half_width_beyond(law, -math.expm1(math.log1p(-failure_of(confidence)) / bins))


def expected_error(law: NoiseLaw, confidence: float, step: float = 1.0) -> float:
    """Half the width of the interval, in units of the answer: known before any data are seen."""
    return on_grid(half_width(law, confidence), step)


def public_mean_interval(
    noisy: int, law: NoiseLaw, confidence: float, count: int, step: float = 1.0, centre: float = 0.0
) -> ConfidenceInterval:
    """A mean over a declared count, of a sum of values minus `centre`: the sum's interval, divided and moved outwards by one ulp."""
    around = additive_interval(noisy, law, confidence, step)
    low, high = around.low / count + centre, around.high / count + centre
    return ConfidenceInterval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf), confidence)


def _around(noisy: int, half: int, confidence: float, step: float) -> ConfidenceInterval:
    return ConfidenceInterval(on_grid(noisy - half, step), on_grid(noisy + half, step), confidence)
