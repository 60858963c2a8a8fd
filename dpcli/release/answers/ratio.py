"""A mean from a noisy sum and a noisy count."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.release.answers.combination import exceeds_with, quantile_with, tail_of
from dpcli.release.answers.interval import ConfidenceInterval, accepted
from dpcli.release.noise.laws import NoiseLaw, failure_of

RIPPLE = 1.0  # step: tails of a law on whole numbers at x lie between a smooth one at x - 1/2 and at x + 1/2


@dataclass(frozen=True, slots=True)
class NoisyMean:
    """Sum and count with noise, of values in [low, high]; for a clamped, centred column all are in steps from the centre.

    If r is the true mean, total - r count = N_total - r N_count, whatever the data are. So the values r that are not refused at level
    1 - confidence by the law of that difference, at |total - r count|, hold the true mean with at least the confidence: exactly so but for
    the steps of the law (Fieller 1954). Means at which the difference is a whole number are accepted a little more often than those beside
    them, so the ends are looked for with one step less: they hold these too. Where the count may be 0 they are the whole range.

    The empty set has no mean: where no row is left the interval says nothing.
    """

    total: int
    count: int
    total_law: NoiseLaw
    count_law: NoiseLaw
    low: float
    high: float

    def estimate(self) -> float:
        """total / count, within the range; the middle of the range where the noisy count is not above 0."""
        if self.count <= 0:
            return 0.5 * (self.low + self.high)
        return min(max(self.total / self.count, self.low), self.high)

    def p_value(self, mean: float, nearer: float = 0.0) -> float:
        """The probability of a difference at least as large as this one less `nearer`, were this the true mean; an upper bound."""
        distance = abs(self.total - mean * self.count) - nearer - 1e-15 * abs(self.total)  # which doubles may have added
        return exceeds_with(tail_of(self.total_law), self.count_law, mean, distance)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """The whole range where the noisy count is not above 0."""
        low, high = self.ends(failure_of(confidence))
        return ConfidenceInterval(low, high, confidence)

    def ends(self, failure: float) -> tuple[float, float]:
        """Of the interval that fails with this probability at most: it may be less than 1 - confidence can tell from 0."""
        if self.count <= 0:
            return self.low, self.high
        return accepted(lambda mean: self.p_value(mean, RIPPLE) > failure, self.estimate(), self.low, self.high)


def expected_mean_error(total_law: NoiseLaw, count_law: NoiseLaw, confidence: float, count: int, mean: float = 0.0) -> float:
    """Half the width for a number of rows that the file may state, in steps: of (N_total - mean N_count) / count."""
    return quantile_with(tail_of(total_law), count_law, mean, failure_of(confidence)) / count
