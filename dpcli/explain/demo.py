"""A simulation of the best attack on one noisy count: the likelihood-ratio test of two made-up datasets that differ by one unit.

It shows what an epsilon allows to someone who knows everything but one person. The counts are COUNT and COUNT + 1, with Laplace noise of
scale 1 / epsilon. The likelihood ratio never decreases with the noisy count, so the best tests are thresholds on it (Neyman and Pearson).
Each rate is given exactly and as the trials measured it, with its interval. A *belief* is the attacker's probability of the larger count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.audit.bounds import Counts, error_rates, rate_lower, rate_upper, rates_epsilon_lower
from dpcli.base.errors import InputError
from dpcli.document.chart import Axis, Band, Chart, Line, Marker, Points, Tone
from dpcli.numerics.arrays import np
from dpcli.numerics.closed import trade_off
from dpcli.numerics.closed.trade_off import false_negatives, laplace_missed, total_variation

# The numbers of the demonstration are arbitrary. The ranges keep the curves visible and the simulation short.
COUNT = 99  # true count of the smaller dataset; the larger one has one more
EPSILON_RANGE = (0.001, 100)
TRIALS_RANGE = (10, 1_000_000)
# False positive rates of rows of the table. The thresholds of the other rows are the two counts and their mean.
TABLE_RATES = (0.01, 0.1, 0.5)
CURVE_POINTS = 81  # number of points of the exact curve
RATE_STEPS = 20  # number of steps of the measured curve, in each of the two rates
CONFIDENCE = 0.95  # of the intervals around measured rates
ALPHA = 1.0 - CONFIDENCE


@dataclass(frozen=True, slots=True)
class SimulatedRate:
    """An exact rate, its measurement, and a 95 % confidence interval for this rate alone."""

    exact: float
    measured: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ThresholdTest:
    """A test that guesses the larger dataset if the noisy count is above the threshold.

    Attributes:
        allowed: Largest true positive rate that (epsilon, 0)-DP allows at this false positive rate.
    """

    threshold: float
    counts: Counts
    false_positives: SimulatedRate
    true_positives: SimulatedRate
    allowed: float


@dataclass(frozen=True, slots=True)
class SimulatedBelief:
    """The belief that the dataset is the larger one, given the noisy count and a prior of one half.

    Attributes:
        counts: Range of the noisy count, in words.
        share: The belief, which is the share of the larger dataset among the releases in that range.
    """

    counts: str
    share: SimulatedRate


@dataclass(frozen=True, slots=True)
class Demo:
    """The best tests of a count with Laplace noise.

    Attributes:
        tests: Tests in the table, by increasing false positive rate.
        curve_tests: These tests and others, for the picture.
        beliefs: Beliefs at both ends of the noisy count, where they attain the bound.
        best_guess: Probability that the best guess is right.
        advantage, advantage_bound: True minus false positive rate of the best guess, and its bound under (epsilon, 0)-DP.
        epsilon_lower: Lower bound on epsilon that the trials alone give at 95 % confidence.
    """

    epsilon: float
    trials: int
    seed: int
    tests: tuple[ThresholdTest, ...]
    curve_tests: tuple[ThresholdTest, ...]
    beliefs: tuple[SimulatedBelief, ...]
    best_guess: SimulatedRate
    advantage: float
    advantage_bound: float
    epsilon_lower: float

    @property
    def scale(self) -> float:
        return 1.0 / self.epsilon

    @property
    def best_guess_bound(self) -> float:
        """An upper bound on the probability of a right guess under (epsilon, 0)-DP."""
        return 0.5 + 0.5 * self.advantage_bound


def demo(epsilon: float = 1.0, trials: int = 1000, seed: int = 1) -> Demo:
    """Release each of two counts `trials` times with noise of scale 1 / epsilon, and measure how well tests distinguish them.

    The noise is drawn by numpy, from a seed and in floating point: fit for a demonstration, but not for private data. Raises InputError if
    epsilon, the number of trials or the seed is out of range.
    """
    _require_in_range(epsilon, trials, seed)
    noise = np.random.default_rng(seed).laplace(0.0, 1.0 / epsilon, (2, trials))
    smaller_counts, larger_counts = np.sort(noise[0]), np.sort(noise[1] + 1.0)  # the noisy counts, relative to COUNT

    def test_at(threshold: float) -> ThresholdTest:
        hits = trials - int(np.searchsorted(larger_counts, threshold, side="right"))
        alarms = trials - int(np.searchsorted(smaller_counts, threshold, side="right"))
        # The members and others of an audit are the releases of the larger and of the smaller dataset.
        counts = Counts(members=trials, others=trials, true_positives=hits, false_positives=alarms)
        return _threshold_test(epsilon, threshold, counts)

    # Thresholds are relative to COUNT: the two counts are at 0 and 1.
    in_table = {0.0, 0.5, 1.0, *(trade_off.laplace_threshold(epsilon, rate) for rate in TABLE_RATES)}
    at_even_rates = [trade_off.laplace_threshold(epsilon, step / RATE_STEPS) for step in range(1, RATE_STEPS)]
    thresholds = {*in_table, *at_even_rates, *(1.0 + threshold for threshold in at_even_rates)}  # even steps of both rates
    tests = {threshold: test_at(threshold) for threshold in sorted(thresholds, reverse=True)}
    advantage = trade_off.laplace_advantage(epsilon)
    return Demo(
        epsilon=epsilon,
        trials=trials,
        seed=seed,
        tests=tuple(test for threshold, test in tests.items() if threshold in in_table),
        curve_tests=tuple(tests.values()),
        beliefs=_beliefs(epsilon, tests[0.0].counts, tests[1.0].counts),
        best_guess=_best_guess(0.5 + 0.5 * advantage, tests[0.5].counts),
        advantage=advantage,
        advantage_bound=total_variation(np.array([epsilon]), np.array([0.0])),
        epsilon_lower=rates_epsilon_lower(error_rates(tests[1.0].counts, ALPHA), 0.0),
    )


def _require_in_range(epsilon: float, trials: int, seed: int) -> None:
    for name, value, (low, high) in (("--epsilon", epsilon, EPSILON_RANGE), ("--trials", trials, TRIALS_RANGE)):
        if not low <= value <= high:
            raise InputError(f"{name}: expected a number from {low!r} to {high:,}, found {value!r}")
    if not 0 <= seed < 2**63:
        raise InputError(f"--seed: expected a whole number from 0 to 2^63 - 1, found {seed!r}")


def _threshold_test(epsilon: float, threshold: float, counts: Counts) -> ThresholdTest:
    """Return the test at a threshold relative to COUNT, with its exact rates and those of the trials."""
    alarms, hits = trade_off.laplace_tail(epsilon, np.array([threshold, threshold - 1.0])).tolist()
    missed = false_negatives(np.array([epsilon]), np.array([0.0]), np.array([alarms]))
    return ThresholdTest(
        threshold=COUNT + threshold,
        counts=counts,
        false_positives=_rate(alarms, counts.false_positives, counts.others),
        true_positives=_rate(hits, counts.true_positives, counts.members),
        allowed=1.0 - float(missed[0]),
    )


def _rate(exact: float, count: int, trials: int, significance: float = ALPHA) -> SimulatedRate:
    """Return the rate with the interval of Clopper and Pearson (1934)."""
    per_side = 0.5 * significance
    low, high = float(rate_lower(count, trials, per_side)), float(rate_upper(count, trials, per_side))
    return SimulatedRate(exact, count / trials, low, high)


def _joint_rates(counts: Counts) -> tuple[SimulatedRate, SimulatedRate]:
    """Return the true and the false positive rate with intervals that hold jointly at 95 %. Exact values, which nobody uses, are NaN."""
    significance = 0.5 * ALPHA  # of each interval, so that both hold with probability 1 - ALPHA or more (union bound)
    hits = _rate(math.nan, counts.true_positives, counts.members, significance)
    alarms = _rate(math.nan, counts.false_positives, counts.others, significance)
    return hits, alarms


def _beliefs(epsilon: float, at_smaller: Counts, at_larger: Counts) -> tuple[SimulatedBelief, SimulatedBelief]:
    """Return the beliefs at or above the larger count and at or below the smaller, where the likelihood ratios are e^(+-epsilon).

    Args:
        at_smaller, at_larger: Counts of the tests whose thresholds are the two counts.
    """
    below = Counts(
        members=at_smaller.members,
        others=at_smaller.others,
        true_positives=at_smaller.members - at_smaller.true_positives,
        false_positives=at_smaller.others - at_smaller.false_positives,
    )
    return (
        SimulatedBelief(f"{COUNT + 1} or more", _share(1.0 / (1.0 + math.exp(-epsilon)), at_larger)),
        SimulatedBelief(f"{COUNT} or less", _share(1.0 / (1.0 + math.exp(epsilon)), below)),
    )


def _share(exact: float, counts: Counts) -> SimulatedRate:
    """Return the share of the larger dataset among the releases that `counts` counts as positive."""
    hits, alarms = _joint_rates(counts)
    counted = counts.true_positives + counts.false_positives
    measured = counts.true_positives / counted if counted else math.nan
    return SimulatedRate(exact, measured, hits.low / (hits.low + alarms.high), hits.high / (hits.high + alarms.low))


def _best_guess(exact: float, counts: Counts) -> SimulatedRate:
    """Return the share of right guesses of a test, if both datasets are equally likely."""
    hits, alarms = _joint_rates(counts)
    right = counts.true_positives + counts.others - counts.false_positives
    low = 0.5 + 0.5 * (hits.low - alarms.high)
    high = 0.5 + 0.5 * (hits.high - alarms.low)
    return SimulatedRate(exact, right / (counts.members + counts.others), low, high)


CHART_NOTES = (
    f"each measured point is a threshold on the noisy count, above which the guess is {COUNT + 1}; the band has intervals for both "
    f"errors at {100 * CONFIDENCE:g} % each (Clopper and Pearson 1934)",
    "the likelihood ratio never decreases as the noisy count increases, so no test is better than these (Neyman and Pearson 1933)",
    "no test of any mechanism is below the bound, though a measurement may be by chance; Laplace noise attains the bound except at "
    "false positive rates between e^-epsilon / 2 and 1/2",
)


def chart(demo: Demo) -> Chart:
    """Return the chart of the measured curve with its band, the exact curve, the bound, and blind guessing."""
    subtitle = (
        f"made-up data: {COUNT + 1} people or {COUNT} (add-remove, sensitivity 1), each count released {demo.trials:,} times; "
        f"numpy's generator, seed {demo.seed}"
    )
    bound = _bound(demo.epsilon)
    below_bound = Band("impossible for any test", tuple((x, 0.0) for x, _ in bound), bound, Tone.SECOND)
    lines = (
        Line("measured", _simulated(demo), Tone.MAIN),
        Line("exact: Laplace noise", _exact(demo.epsilon), Tone.THIRD, dashed=True),
        Line(f"the bound: ({demo.epsilon:g}, 0)-DP", bound, Tone.SECOND),
        Line("no information", ((0.0, 1.0), (1.0, 0.0)), Tone.MUTED, dashed=True),
    )
    best = next(test for test in demo.tests if test.threshold == COUNT + 0.5)
    best_point = best.false_positives.measured, 1.0 - best.true_positives.measured
    return Chart(
        kind="demo",
        title=f"the best test against a count with Laplace noise at epsilon = {demo.epsilon:g}",
        subtitle=subtitle,
        x=Axis("false positive rate", 0.0, 1.0),
        y=Axis("false negative rate", 0.0, 1.0),
        lines=lines,
        bands=(below_bound, _band(demo)),
        markers=(Marker(f"threshold {best.threshold:g}", *best_point),),
        notes=CHART_NOTES,
    )


def _simulated(demo: Demo) -> Points:
    points = ((test.false_positives.measured, 1.0 - test.true_positives.measured) for test in demo.curve_tests)
    return ((0.0, 1.0), *points, (1.0, 0.0))


def _band(demo: Demo) -> Band:
    """Return the band of the confidence intervals. Its lower edge has the smallest error rates, and its upper edge the largest."""
    low = tuple((test.false_positives.low, 1.0 - test.true_positives.high) for test in demo.curve_tests)
    high = tuple((test.false_positives.high, 1.0 - test.true_positives.low) for test in demo.curve_tests)
    return Band(f"{100 * CONFIDENCE:g} % at each threshold", low, high, Tone.MAIN)


def _exact(epsilon: float) -> Points:
    """Return the exact curve of the best tests: false negative rate by false positive rate."""
    even = np.linspace(0.0, 1.0, CURVE_POINTS)
    # The curve bends at e^-epsilon / 2, which even points miss at a large epsilon. The factors are arbitrary.
    near_bend = 0.5 * np.exp(-epsilon) * np.array([0.5, 1.0, 1.5, 2.0, 4.0])
    alphas = np.unique(np.concatenate([even, near_bend]))
    alphas = alphas[alphas <= 1.0]
    return tuple(zip(alphas.tolist(), laplace_missed(epsilon, alphas).tolist(), strict=True))


def _bound(epsilon: float) -> Points:
    """Return the curve below which no test of an (epsilon, 0)-DP mechanism can be. It has one corner, on the diagonal."""
    corner = 1.0 / (1.0 + np.exp(epsilon))
    return ((0.0, 1.0), (float(corner), float(corner)), (1.0, 0.0))
