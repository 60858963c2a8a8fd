"""Means and variances from noisy sums and counts, their intervals, and the best split of a mean's cost between sum and count."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.release.answers.intervals import ConfidenceInterval, accepted
from dpcli.release.answers.noise_tails import sum_exceeds_probability, sum_quantile, tail_of, tail_of_sum
from dpcli.release.noise.laws import NoiseLaw, failure_of

LATTICE_STEP = 1.0  # step: tails of a law on whole numbers at x lie between a smooth one at x - 1/2 and at x + 1/2


@dataclass(frozen=True, slots=True)
class NoisyMean:
    """A mean as noisy sum and noisy count of values in [low, high]; for a centred column all are in steps from the centre.

    If r is the true mean, total - r count = N_total - r N_count, whatever the data are. So the values r that are not refused at level
    1 - confidence by the law of that difference, at |total - r count|, hold the true mean with at least the confidence: exactly so but for
    the steps of the law (Fieller 1954). Means at which the difference is a whole number are accepted a little more often than those beside
    them, so the ends are looked for with one step less: they hold these too. Where the count may be 0 they are the whole range.

    The empty set has no mean: if no row is left the interval says nothing.
    """

    total: int
    count: int
    total_law: NoiseLaw
    count_law: NoiseLaw
    low: float
    high: float

    def estimate(self) -> float:
        """Return total / count, within the range; the middle of the range where the noisy count is not above 0."""
        if self.count <= 0:
            return 0.5 * (self.low + self.high)
        return min(max(self.total / self.count, self.low), self.high)

    def p_value(self, mean: float, nearer: float = 0.0) -> float:
        """Return an upper bound of the probability of a difference at least as large as this one less `nearer`, were this the true mean."""
        distance = abs(self.total - mean * self.count) - nearer - 1e-15 * abs(self.total)  # which doubles may have added
        return sum_exceeds_probability(tail_of(self.total_law), self.count_law, mean, distance)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the confidence interval; the whole range where the noisy count is not above 0."""
        low, high = self.ends(failure_of(confidence))
        return ConfidenceInterval(low, high, confidence)

    def ends(self, failure: float) -> tuple[float, float]:
        """Return the ends of the interval that fails with at most this probability, which 1 - confidence may be too coarse for."""
        if self.count <= 0:
            return self.low, self.high
        return accepted(lambda mean: self.p_value(mean, LATTICE_STEP) > failure, self.estimate(), self.low, self.high)


def expected_mean_error(total_law: NoiseLaw, count_law: NoiseLaw, confidence: float, count: int, mean: float = 0.0) -> float:
    """Return half the width of the interval of (N_total - mean N_count) / count, in steps, for a number of rows."""
    return sum_quantile(tail_of(total_law), count_law, mean, failure_of(confidence)) / count


NUISANCE = 1.0 / 20.0  # of the probability of failure, for the mean


@dataclass(frozen=True, slots=True)
class NoisyVariance:
    """The mean of squares less the square of the mean, of values between low and high; in steps from the centre.

    With the true mean m and variance v, squares - 2 m total + (m^2 - v) count has the noise N_2 - 2 m N_1 + (m^2 - v) N_0 and nothing else.
    m is not known: its interval at a twentieth of the probability of failure is taken, and v is refused only where each m of it would
    refuse it (Berger and Boos 1994). So the interval holds with at least the confidence, and is hardly wider than if m were known.
    """

    mean: NoisyMean
    squares: int
    squares_law: NoiseLaw

    @property
    def largest(self) -> float:
        """The largest variance: half of the rows at each end of the range."""
        return (0.5 * (self.mean.high - self.mean.low)) ** 2

    def estimate(self) -> float:
        """Return the plug-in estimate, within [0, largest]; half of the largest where the noisy count is not above 0."""
        if self.mean.count <= 0:
            return 0.5 * self.largest
        mean = self.mean.estimate()
        return min(max(self._about(mean) / self.mean.count, 0.0), self.largest)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the confidence interval; [0, largest] where the noisy count is not above 0."""
        if self.mean.count <= 0:
            return ConfidenceInterval(0.0, self.largest, confidence)
        failure = failure_of(confidence)
        lowest, highest = self.mean.ends(failure * NUISANCE)
        refused = failure * (1.0 - NUISANCE)
        low, high = accepted(lambda v: self.p_value(v, lowest, highest) > refused, self.estimate(), 0.0, self.largest)
        return ConfidenceInterval(low, high, confidence)

    def p_value(self, variance: float, low: float, high: float) -> float:
        """Return an upper bound of the p-value over means in [low, high]: the least difference with the widest noise of any of them."""
        widest = max(abs(low), abs(high))
        nearest = min(max(self.mean.total / self.mean.count, low), high)
        expected = variance * self.mean.count
        ends = [self._about(each) for each in (low, nearest, high)]
        distance = (
            max(min(ends) - expected, expected - max(ends)) - LATTICE_STEP - 4e-15 * abs(self.squares)
        )  # which doubles may have added
        least = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
        weight = max(abs(widest**2 - variance), abs(least**2 - variance))
        tail = tail_of_sum(self.squares_law, self.mean.total_law, 2.0 * widest)
        return sum_exceeds_probability(tail, self.mean.count_law, weight, distance)

    def _about(self, mean: float) -> float:
        """Return the sum of squares about this mean: a parabola in it, least at total / count."""
        return self.squares - 2.0 * mean * self.mean.total + mean * mean * self.mean.count


# The error of S/C is that of (S - mean C) / C: its variance is proportional to var(S) + mean^2 var(C), mean being that of centred values.
# The true mean is not known; at most it is half of the range, which makes both halves of the variance equal. Spread evenly over the range
# it is that over sqrt(3), in the mean square.
UNKNOWN_MEAN = 1.0 / math.sqrt(3.0)  # of half the range


def share_of_rho(sum_sensitivity: float, count_sensitivity: float, mean: float) -> float:
    """Return the share of rho for the sum: a/rho + b/(1 - rho) with a = sum^2, b = (mean count)^2 is least at sqrt(a) : sqrt(b)."""
    return _share(sum_sensitivity, abs(mean) * count_sensitivity)


def share_of_epsilon(sum_sensitivity: float, count_sensitivity: float, mean: float) -> float:
    """Return the share of epsilon for the sum: variances fall with its square, so that cube roots of a and b divide it."""
    return _share(sum_sensitivity ** (2 / 3), (abs(mean) * count_sensitivity) ** (2 / 3))


def _share(first: float, second: float) -> float:
    return first / (first + second)
