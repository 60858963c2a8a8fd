"""A comparison of mechanisms that release the most common value at the same epsilon and delta, for `dpcli release --compare`.

A user chooses a mechanism by this comparison before anything is spent, so no data are read. It states, for each mechanism, the probability
of the right answer as a function of the *gap* and of the size of the *domain*; documents/stability.py shows it. The gap, or *lead*, is the
count of the most common value minus the next count, and the domain is the set of possible values. All rows of the compared data have the
same value, so the count of this value is the gap. A *unit*, whom the release protects, counts with at most `rows` rows in each of at most
`groups` values.

The five mechanisms are propose-test-release (a noisy test of how many units could change without another answer), the stability histogram
(it shows a value whose noisy count exceeds a threshold), the exponential mechanism, permute-and-flip, and the maximum of a noisy histogram.
The first two need no domain, and spend a delta. The probabilities are exact up to ERROR, for this choice of data alone; no guarantee rests
on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dpcli.base.errors import InputError
from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.numerics.arrays import Array, np
from dpcli.release.answers.choice_error import probability_beyond
from dpcli.release.cost import QueryCost
from dpcli.release.measures.most_common import ModeQuery
from dpcli.release.noise.laws import DiscreteLaplaceLaw, smallest_whole
from dpcli.release.noise.selection import choice_scale, count_range
from dpcli.release.query_entries import PricedQuery
from dpcli.release.stability.propose_test import StabilityTest, mode
from dpcli.release.stability.stable_statistics import centred_sum
from dpcli.release.vectors import Contribution, least_threshold, sensitivity

# Accuracy of the comparison.
REACH = 45.0  # sums over the noise extend to this number of scales; the omitted probability is about e^-45, far below ERROR
ERROR = 1e-9  # bound on the error of every probability, for the notes of the comparison
# Whole steps of a bin; even, so that half a bin is whole, and large enough that rounding to steps does not show.
STEPS_IN_BIN = 2 * 10**9
LEAST_EXPONENT = -740.0  # e^x is a positive double from this x on

# Ends of the searches for a gap and for the size of a domain, beyond every useful number. A search that reaches its end returns it.
LARGEST_GAP, LARGEST_SIZE = 2**40, 2**1000

# Numbers that are compared and drawn. They are examples, and affect the table and the picture alone.
SIZES = (100, 10_000, 10**6, 10**9)  # sizes of the domain
POINTS = 60  # number of gaps in a picture
FURTHEST = 10  # the largest gap of a picture is at least this number


@dataclass(frozen=True, slots=True)
class ModeCase:
    """Data in which one value, the leading one, occurs `gap` times and no other value occurs, with the privacy of their release.

    The mechanisms' scales, thresholds and distances are computed by the functions that `dpcli release` uses.

    gap: count of the leading value.
    size: number of values in the domain.
    groups: largest number of values in which one unit counts.
    rows: largest number of rows of one unit for each value.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    gap: int
    size: int
    groups: int = 1
    rows: int = 1

    @property
    def distance(self) -> int:
        """The number of units that may change without changing the answer of propose-test-release, if ties go to another value."""
        # The leading value is 2. Of equal counts, `mode` takes the first value, which is 1.
        return mode({1: 0, 2: self.gap}, self.adjacency, self.rows).distance

    @property
    def score_scale(self) -> float:
        """The scale of the noise on the counts in the exponential mechanism and permute-and-flip."""
        return choice_scale(count_range(self.rows, self.adjacency), self.epsilon)

    @property
    def noise(self) -> DiscreteLaplaceLaw:
        """The distribution of the noise on each count of a histogram."""
        norms = sensitivity(self.adjacency, Contribution(self.groups, self.rows))
        return DiscreteLaplaceLaw(QueryCost(epsilon=self.epsilon).laplace_scale(norms.l1))

    @property
    def threshold(self) -> int:
        """The count above which the stability histogram shows a key."""
        return _threshold(self.noise.scale, self.delta, self.adjacency, self.groups, self.rows)


@dataclass(frozen=True, slots=True)
class ModeRelease:
    """A mechanism that releases the most common value.

    name: name in machine-readable output.
    label: name in tables and pictures.
    right_probability: function that returns the probability of the right value.
    needs_domain: whether the mechanism needs declared values.
    """

    name: str
    label: str
    right_probability: Callable[[ModeCase], float]
    needs_domain: bool


@dataclass(frozen=True, slots=True)
class RightCurve:
    """The probabilities of one mechanism at all gaps of a comparison.

    size: size of the domain; None if the mechanism needs no domain.
    """

    mechanism: ModeRelease
    size: int | None
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The probabilities of all mechanisms.

    setting: epsilon, delta and bounds on a unit. Its gap and size are not used.
    curves: one curve for each mechanism, and for each size if the mechanism needs a domain.
    confidence: probability of the right value for which the mechanisms' smallest gaps are compared.
    """

    setting: ModeCase
    gaps: tuple[int, ...]
    sizes: tuple[int, ...]
    curves: tuple[RightCurve, ...]
    confidence: float

    def needed_gap(self, mechanism: ModeRelease, size: int) -> int:
        """Return the smallest gap at which a mechanism returns the right value with at least the probability `confidence`."""
        return _least(
            lambda gap: mechanism.right_probability(replace(self.setting, gap=gap, size=size)) >= self.confidence, LARGEST_GAP
        )

    def crossing_size(self, mechanism: ModeRelease, other: ModeRelease) -> int:
        """Return the smallest size of the domain, from 2 on, for which `mechanism` needs a smaller gap than `other`.

        The result is LARGEST_SIZE if there is no such size below it.
        """
        return _least(lambda size: self.needed_gap(mechanism, size) < self.needed_gap(other, size), LARGEST_SIZE, first=2)

    def clamped_sensitivity(self, bins: int) -> float:
        """Return the sensitivity, in bins, of a centred sum of numbers that are clamped to this many bins."""
        half = bins * STEPS_IN_BIN // 2
        clamped = Contribution(1, self.setting.rows, -half, half, one_key=True)
        return sensitivity(self.setting.adjacency, clamped).l1 / STEPS_IN_BIN

    def sensitivity_after_test(self) -> float:
        """Return the sensitivity, in bins, of a centred sum of numbers that are clamped to the three bins around the fullest one."""
        return sensitivity(self.setting.adjacency, centred_sum(self.setting.rows, STEPS_IN_BIN)).l1 / STEPS_IN_BIN


def compare_modes(setting: ModeCase, gaps: Sequence[int], sizes: Sequence[int], confidence: float = 0.95) -> Comparison:
    """Compare all MECHANISMS by their probabilities of the right value. Each probability has an error of at most ERROR.

    setting: epsilon, delta and bounds on a unit, for every mechanism. The mechanisms that need a domain do not use delta.
    """
    curves = []
    for mechanism in MECHANISMS:
        for size in sizes if mechanism.needs_domain else sizes[:1]:  # without a domain, every size gives the same curve
            right = tuple(mechanism.right_probability(replace(setting, gap=gap, size=size)) for gap in gaps)
            curves.append(RightCurve(mechanism, size if mechanism.needs_domain else None, right))
    return Comparison(setting, tuple(gaps), tuple(sizes), tuple(curves), confidence)


@lru_cache(4096)  # the searches for gaps and sizes ask for the same cases again
def _right_by_test(case: ModeCase) -> float:
    """Return the probability that propose-test-release returns the leading value: that its test passes for the case's distance."""
    return StabilityTest(case.epsilon, case.delta).release_probability(case.distance)


def _right_by_gumbel(case: ModeCase) -> float:
    """Return the probability that the exponential mechanism (Gumbel noise) returns the leading value.

    All other scores are exactly `gap` below the best one, so the bound `probability_beyond` is the probability itself, up to rounding.
    """
    return max(1.0 - probability_beyond(case.size, case.score_scale, case.gap - 1), 0.0)


def _right_by_permute_and_flip(case: ModeCase) -> float:
    """Return the probability that permute-and-flip returns the leading value.

    Another value is accepted with probability q, and the leading value surely. So the probability is the mean of (1 - q)^place over the
    place of the leading value in a random order, from 0: (1 - (1 - q)^n) / (n q) for n values.
    """
    acceptance = math.exp(max(-case.gap / case.score_scale, LEAST_EXPONENT))
    if acceptance == 1.0:
        return 1.0 / case.size
    return -math.expm1(case.size * math.log1p(-acceptance)) / (case.size * acceptance)


def _right_by_noisy_histogram(case: ModeCase) -> float:
    """Return the probability that the leading value has the largest noisy count of the domain."""
    return _largest_probability(case, -math.inf, case.size)  # -inf: there is no threshold


def _right_by_stability_histogram(case: ModeCase) -> float:
    """Return the probability that the stability histogram shows the leading value, the only one that occurs."""
    return _largest_probability(case, case.threshold, 1)


@lru_cache(64)
def _threshold(scale: float, delta: float, adjacency: Adjacency, groups: int, rows: int) -> int:
    """Return the threshold of a stability histogram, which takes long to compute and depends on no gap and no size."""
    spec = StabilityHistogramSpec(threshold=1, scale=scale, max_groups=groups, max_rows=rows)
    return least_threshold(spec, Neighbours(adjacency), delta)


@lru_cache(4096)
def _largest_probability(case: ModeCase, threshold: float, size: int) -> float:
    """Return the probability that the leading value has the largest of `size` noisy counts, and that this count is above a threshold.

    Ties are broken at random. Let F be the distribution function of another noisy count, and f its probability at the noisy count of the
    leading value. With n values, the leading value then wins with probability (F^n - (F - f)^n) / (n f). This is computed as
    F^n (1 - (1 + f / (F - f))^-n) / (n f), which avoids cancellation. If n f underflows to 0, it is replaced by F^n.
    """
    law = case.noise
    reach = math.ceil(REACH * law.scale)
    noise = np.arange(-reach, reach + 1.0)
    noisy_count = noise + case.gap  # noisy count of the leading value; for another value, it is the noise
    log_at_most, log_below = _log_at_most(noisy_count, law), _log_at_most(noisy_count - 1.0, law)  # log F, log (F - f)
    equal = np.exp(law.log_probability(noisy_count))  # f
    with np.errstate(all="ignore"):  # where n f underflows, the quotient is not used
        tie_share = -np.expm1(-size * np.log1p(equal * np.exp(-log_below))) / (size * equal)
        wins = np.exp(size * log_at_most) * np.where(size * equal > 0.0, tie_share, 1.0)
    return float(min(np.sum(np.exp(law.log_probability(noise)) * np.where(noisy_count > threshold, wins, 0.0)), 1.0))


def _log_at_most(x: Array, law: DiscreteLaplaceLaw) -> Array:
    """Return log P(X <= x), which equals log P(X >= -x) by symmetry."""
    of_positive = np.log1p(-law.at_least(np.maximum(x, 0.0) + 1.0))
    of_negative = np.log(law.at_least(-np.minimum(x, 0.0)))
    return np.where(x >= 0, of_positive, of_negative)


def _least(holds: Callable[[int], bool], most: int, first: int = 1) -> int:
    """Return the smallest integer >= `first` for which `holds` is true, or `most` if there is none below it.

    `holds` must stay true for larger integers.
    """
    return smallest_whole(lambda number: number >= most or holds(number), first)


PTR = ModeRelease("propose-test-release", "propose-test-release", _right_by_test, needs_domain=False)
STABILITY = ModeRelease("stability-histogram", "stability histogram", _right_by_stability_histogram, needs_domain=False)
GUMBEL = ModeRelease("gumbel", "noisy maximum (Gumbel)", _right_by_gumbel, needs_domain=True)
PERMUTED = ModeRelease("permute-and-flip", "permute-and-flip", _right_by_permute_and_flip, needs_domain=True)
HISTOGRAM = ModeRelease("noisy-histogram", "noisy histogram (Laplace)", _right_by_noisy_histogram, needs_domain=True)
MECHANISMS = (PTR, STABILITY, GUMBEL, PERMUTED, HISTOGRAM)


def comparison_of(queries: Sequence[PricedQuery], path: str) -> Comparison:
    """Return the comparison for the first mode by propose-test-release in a file. Raises InputError if the file has none."""
    for priced in queries:
        query = priced.query
        if isinstance(query, ModeQuery) and query.uses_test and query.delta is not None:
            (mechanism,) = priced.mechanisms
            epsilon, adjacency = mechanism.keys["epsilon"], priced.setting.adjacency
            setting = ModeCase(epsilon, query.delta, adjacency, gap=1, size=SIZES[0], groups=query.groups, rows=query.rows)
            # The picture shows gaps up to twice the one that propose-test-release needs, which is the same for every size of the domain.
            without_curves = Comparison(setting, gaps=(), sizes=(), curves=(), confidence=query.confidence)
            largest = max(2 * without_curves.needed_gap(PTR, size=2), FURTHEST)
            gaps = sorted({1 + round(i * (largest - 1) / POINTS) for i in range(POINTS + 1)})  # evenly from 1 to `largest`
            return compare_modes(setting, gaps, SIZES, query.confidence)
    raise InputError(f'{path}: nothing to compare: no query has measure = "mode" and method = "propose-test-release"')
