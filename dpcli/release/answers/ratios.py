"""Means and variances from noisy sums and counts: estimates, confidence intervals, and the best split of the cost of a mean.

measures/averages.py calls it with a noisy sum S, in *steps* (the declared unit of rounding of a column) from the centre of the range, a
noisy count C, and the *laws* of their noises (noise/laws.py). The interval of a ratio contains the values that a test accepts: a value
passes if S - value * C is no larger than its noise explains (Fieller 1954). So the interval is valid for every true count above 0, even a
small one, and errs on the wide side. Estimates and widths depend on the choices here; privacy does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.release.answers.intervals import ConfidenceInterval, accepted_range
from dpcli.release.answers.noise_tails import sum_exceeds_probability, sum_quantile, tail_of, tail_of_sum
from dpcli.release.noise.laws import NoiseLaw, failure_of

# Steps by which the test of a value is relaxed while the ends of an interval are searched, so that the interval is rather too wide. The
# tail of integer noise is a step function: values at which the tested difference is a whole number are accepted slightly more often than
# their neighbours, and the bisection could miss them. The tail at x lies between those of a smooth law at x - 1/2 and x + 1/2.
LATTICE_STEP = 1.0

# Share of the probability of failure that the interval of the unknown mean uses in the interval of a variance. It affects the width alone.
NUISANCE = 1.0 / 20.0

# The ratio of a noisy sum S and a noisy count C has the error of (S - mean C) / C. Its variance is proportional to
# var(S) + mean^2 var(C), where `mean` is the mean of the centred values. The true mean is unknown. It is at most half of the range, and
# then both terms of the variance are equal. If it is uniform over the range, its root mean square is half of the range over sqrt(3).
UNKNOWN_MEAN = 1.0 / math.sqrt(3.0)  # assumed mean, as a share of half the range


@dataclass(frozen=True, slots=True)
class NoisyMean:
    """The mean of values in [low, high], from a noisy sum and a noisy count. For a centred column, all values are in steps from the centre.

    Let r be the true mean, and let N_total and N_count be the noises. Then total - r count = N_total - r N_count, whatever the data are.
    The interval consists of the values r that a test of |total - r count| does not reject at level 1 - confidence. So the interval contains
    the true mean with at least the stated confidence, and with exactly that confidence except for the discreteness of the noise (Fieller
    1954). A mean at which the difference is a whole number is accepted slightly more often than its neighbours. To include such means, the
    search for the ends subtracts one step from the distance. If the count may be 0, the interval is the whole range.

    An empty set has no mean, so the interval means nothing if no row is counted.
    """

    total: int
    count: int
    total_law: NoiseLaw
    count_law: NoiseLaw
    low: float
    high: float

    def estimate(self) -> float:
        """Return total / count, clamped to the range; the middle of the range if the noisy count is not positive."""
        if self.count <= 0:
            return 0.5 * (self.low + self.high)
        return min(max(self.total / self.count, self.low), self.high)

    def p_value(self, mean: float, slack: float = 0.0) -> float:
        """Return an upper bound on the p-value of the hypothesis that `mean` is the true mean.

        slack: number of steps by which the observed difference is first reduced, which makes the p-value larger.
        """
        distance = abs(self.total - mean * self.count) - slack - 1e-15 * abs(self.total)  # the last term allows for rounding errors
        return sum_exceeds_probability(tail_of(self.total_law), self.count_law, mean, distance)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the confidence interval; the whole range if the noisy count is not positive."""
        low, high = self.ends(failure_of(confidence))
        return ConfidenceInterval(low, high, confidence)

    def ends(self, failure: float) -> tuple[float, float]:
        """Return the ends of the interval that misses the true mean with at most this probability.

        Unlike `interval`, this accepts probabilities that are too small to be written as 1 - confidence.
        """
        if self.count <= 0:
            return self.low, self.high
        return accepted_range(lambda mean: self.p_value(mean, LATTICE_STEP) > failure, self.estimate(), self.low, self.high)


def expected_mean_error(total_law: NoiseLaw, count_law: NoiseLaw, confidence: float, count: int, mean: float = 0.0) -> float:
    """Return the half width, in steps, of the confidence interval of (N_total - mean N_count) / count, with `count` rows."""
    return sum_quantile(tail_of(total_law), count_law, mean, failure_of(confidence)) / count


@dataclass(frozen=True, slots=True)
class NoisyVariance:
    """The variance of values, from the noisy sum of their squares and a `NoisyMean`, in steps from the centre.

    Let m be the true mean, v the true variance, and N_2, N_1, N_0 the noises of the squares, the total and the count. Then
    squares - 2 m total + (m^2 - v) count equals N_2 - 2 m N_1 + (m^2 - v) N_0. Since m is unknown, an interval of m uses a share NUISANCE
    of the probability of failure. A variance v is rejected only if the test rejects it for every m in that interval (Berger and Boos 1994).
    So the interval of v has at least the stated confidence, and is hardly wider than with a known m.
    """

    mean: NoisyMean
    squares: int
    squares_law: NoiseLaw

    @property
    def largest(self) -> float:
        """The largest possible variance, which values have if half of them are at each end of the range."""
        return (0.5 * (self.mean.high - self.mean.low)) ** 2

    def estimate(self) -> float:
        """Return the plug-in estimate, clamped to [0, largest]; half of `largest` if the noisy count is not positive."""
        if self.mean.count <= 0:
            return 0.5 * self.largest
        mean = self.mean.estimate()
        return min(max(self._about(mean) / self.mean.count, 0.0), self.largest)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return the confidence interval; [0, largest] if the noisy count is not positive."""
        if self.mean.count <= 0:
            return ConfidenceInterval(0.0, self.largest, confidence)
        failure = failure_of(confidence)
        lowest, highest = self.mean.ends(failure * NUISANCE)
        level = failure * (1.0 - NUISANCE)
        low, high = accepted_range(
            lambda variance: self.p_value(variance, lowest, highest) > level, self.estimate(), 0.0, self.largest
        )
        return ConfidenceInterval(low, high, confidence)

    def p_value(self, variance: float, low: float, high: float) -> float:
        """Return an upper bound on the p-value of a variance over all means in [low, high].

        The bound combines the smallest difference and the widest noise of any of these means.
        """
        expected = variance * self.mean.count
        vertex = min(max(self.mean.total / self.mean.count, low), high)  # the sum of squares is extreme here, or at an end
        sums = [self._about(mean) for mean in (low, vertex, high)]
        difference = max(min(sums) - expected, expected - max(sums))
        distance = difference - LATTICE_STEP - 4e-15 * abs(self.squares)  # the last term allows for rounding errors
        # The largest coefficients 2 |m| of N_1 and |m^2 - v| of N_0, over all means m in [low, high].
        largest_mean = max(abs(low), abs(high))
        least_mean = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
        weight = max(abs(largest_mean**2 - variance), abs(least_mean**2 - variance))
        tail = tail_of_sum(self.squares_law, self.mean.total_law, 2.0 * largest_mean)
        return sum_exceeds_probability(tail, self.mean.count_law, weight, distance)

    def _about(self, mean: float) -> float:
        """Return the noisy sum of squared distances from a mean. As a function of the mean, it is a parabola about total / count."""
        return self.squares - 2.0 * mean * self.mean.total + mean * mean * self.mean.count


def share_of_rho(sum_sensitivity: float, count_sensitivity: float, mean: float) -> float:
    """Return the share of rho for the sum that minimises the variance of the mean.

    With a = sum_sensitivity^2, b = (mean count_sensitivity)^2 and a share s, the variance is proportional to a / s + b / (1 - s). Its
    minimum divides rho in the ratio sqrt(a) : sqrt(b).
    """
    return _share(sum_sensitivity, abs(mean) * count_sensitivity)


def share_of_epsilon(sum_sensitivity: float, count_sensitivity: float, mean: float) -> float:
    """Return the share of epsilon for the sum that minimises the variance of the mean.

    With a = sum_sensitivity^2, b = (mean count_sensitivity)^2 and a share s, the variance is proportional to a / s^2 + b / (1 - s)^2. Its
    minimum divides epsilon in the ratio of the cube roots of a and b.
    """
    return _share(sum_sensitivity ** (2 / 3), (abs(mean) * count_sensitivity) ** (2 / 3))


def _share(first: float, second: float) -> float:
    return first / (first + second)
