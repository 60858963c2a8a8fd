"""A variance from a noisy count, a noisy sum and a noisy sum of squares."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.release.answers.combination import exceeds_with, quantile_with, tail_of_sum
from dpcli.release.answers.interval import ConfidenceInterval, accepted
from dpcli.release.answers.ratio import RIPPLE, NoisyMean
from dpcli.release.noise.laws import NoiseLaw, failure_of

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
        """Half of the rows at each end of the range."""
        return (0.5 * (self.mean.high - self.mean.low)) ** 2

    def estimate(self) -> float:
        """The plug-in value, within [0, largest]; half of the largest where the noisy count is not above 0."""
        if self.mean.count <= 0:
            return 0.5 * self.largest
        mean = self.mean.estimate()
        return min(max(self._about(mean) / self.mean.count, 0.0), self.largest)

    def interval(self, confidence: float) -> ConfidenceInterval:
        """The whole of [0, largest] where the noisy count is not above 0."""
        if self.mean.count <= 0:
            return ConfidenceInterval(0.0, self.largest, confidence)
        failure = failure_of(confidence)
        lowest, highest = self.mean.ends(failure * NUISANCE)
        refused = failure * (1.0 - NUISANCE)
        low, high = accepted(lambda v: self.p_value(v, lowest, highest) > refused, self.estimate(), 0.0, self.largest)
        return ConfidenceInterval(low, high, confidence)

    def p_value(self, variance: float, low: float, high: float) -> float:
        """The largest over means in [low, high], from above: the least difference with the widest noise of any of them."""
        widest = max(abs(low), abs(high))
        nearest = min(max(self.mean.total / self.mean.count, low), high)
        expected = variance * self.mean.count
        ends = [self._about(each) for each in (low, nearest, high)]
        distance = (
            max(min(ends) - expected, expected - max(ends)) - RIPPLE - 4e-15 * abs(self.squares)
        )  # which doubles may have added
        least = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
        weight = max(abs(widest**2 - variance), abs(least**2 - variance))
        tail = tail_of_sum(self.squares_law, self.mean.total_law, 2.0 * widest)
        return exceeds_with(tail, self.mean.count_law, weight, distance)

    def _about(self, mean: float) -> float:
        """Sum of squares about this mean: a parabola in it, least at total / count."""
        return self.squares - 2.0 * mean * self.mean.total + mean * mean * self.mean.count


def expected_variance_error(
    laws: tuple[NoiseLaw, NoiseLaw, NoiseLaw], confidence: float, count: int, variance: float, mean: float = 0.0
) -> float:
    """Half the width for figures that the file may state, in squared steps: of N_2 - 2 m N_1 + (m^2 - v) N_0 over the count.

    laws: of the count, the total and the squares. The interval is a little wider, as the mean is not known; much wider where the count is
    small beside its noise.
    """
    count_law, total_law, squares_law = laws
    tail = tail_of_sum(squares_law, total_law, 2.0 * abs(mean))
    return quantile_with(tail, count_law, mean * mean - variance, failure_of(confidence)) / count
