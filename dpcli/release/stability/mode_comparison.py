"""Ways to release the most common value at one epsilon and delta: the probability that each is right, by its lead and the domain's size.

Nobody holds another value than the most common one, whose count is the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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

REACH = 45.0  # scales of noise that are summed: what lies beyond weighs e^-45
ERROR = 1e-9  # of every probability, at most
FINE = 2 * 10**9  # steps in a bin
LARGEST_GAP, LARGEST_SIZE = 2**40, 2**1000  # up to which gaps and domains are searched


@dataclass(frozen=True, slots=True)
class Lead:
    """A domain of `size` values, of which one is counted `gap` times and the others never.

    Attributes:
        groups, rows: How many values one unit counts in at most, and with how many rows in each. Scales and distances are those of what
            `dpcli release` draws.
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
        """The distance of the leader in units, as the test counts them, where ties go to another value."""
        return mode({1: 0, 2: self.gap}, self.adjacency, self.rows).distance

    @property
    def choice(self) -> float:
        """The scale of a choice by noisy scores."""
        return choice_scale(count_range(self.rows, self.adjacency), self.epsilon)

    @property
    def noise(self) -> DiscreteLaplaceLaw:
        """The noise on each count."""
        moved = sensitivity(self.adjacency, Contribution(self.groups, self.rows, 1, 1))
        return DiscreteLaplaceLaw(QueryCost(epsilon=self.epsilon).laplace_scale(moved.l1))

    @property
    def threshold(self) -> int:
        """The count above which the stability histogram shows a key."""
        return _threshold(self.noise.scale, self.delta, self.adjacency, self.groups, self.rows)


@dataclass(frozen=True, slots=True)
class ModeRelease:
    """A way to release the most common value.

    Attributes:
        sized: Whether it needs a declared domain.
        right: The probability of the right value.
    """

    name: str
    label: str
    sized: bool
    right: Callable[[Lead], float]


@dataclass(frozen=True, slots=True)
class RightCurve:
    """The probabilities of a way at the gaps of a comparison.

    Attributes:
        size: Size of the domain, None for a way that needs none.
    """

    way: ModeRelease
    size: int | None
    right: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Probabilities of all ways.

    Attributes:
        of: The epsilon (nats), delta and bounds of a unit; its gap and size are ignored.
        confidence: The probability of the right answer at which gaps are compared.
    """

    of: Lead
    gaps: tuple[int, ...]
    sizes: tuple[int, ...]
    curves: tuple[RightCurve, ...]
    confidence: float = 0.95

    def needed(self, way: ModeRelease, size: int, confidence: float) -> int:
        """Return the smallest gap at which a way is right with this probability."""
        return _least(lambda gap: way.right(self.lead(gap, size)) >= confidence, LARGEST_GAP)

    def crossing(self, way: ModeRelease, other: ModeRelease, confidence: float) -> int:
        """Return the smallest domain in which `way` needs a smaller gap than `other`, up to LARGEST_SIZE."""
        return _least(lambda size: self.needed(way, size, confidence) < self.needed(other, size, confidence), LARGEST_SIZE, 2)

    def lead(self, gap: int, size: int) -> Lead:
        return replace(self.of, gap=gap, size=size)

    def clamped_sensitivity(self, bins: int) -> float:
        """Return the sensitivity of a centred sum of numbers clamped to this many bins, in bins."""
        half = bins * FINE // 2
        return sensitivity(self.of.adjacency, Contribution(1, self.of.rows, -half, half, one_key=True)).l1 / FINE

    def sensitivity_after_test(self) -> float:
        """Return the sensitivity of the sum clamped around the fullest bin after a test, in bins."""
        return sensitivity(self.of.adjacency, centred_sum(self.of.rows, FINE)).l1 / FINE


def compared(of: Lead, gaps: Sequence[int], sizes: Sequence[int]) -> Comparison:
    """Compare WAYS by their probabilities of the right answer, each within ERROR.

    Args:
        of: Epsilon in nats, of every way; what is pure uses no delta, which would lower its noise by about 2 sqrt(delta) of epsilon.
        gaps: Whole numbers >= 1.
        sizes: Sizes of the domain, >= 2.
    """
    comparison = Comparison(of, tuple(gaps), tuple(sizes), ())
    return replace(comparison, curves=tuple(_curves(comparison)))


def _curves(comparison: Comparison) -> Iterator[RightCurve]:
    for way in WAYS:
        for size in comparison.sizes if way.sized else comparison.sizes[:1]:
            right = tuple(way.right(comparison.lead(gap, size)) for gap in comparison.gaps)
            yield RightCurve(way, size if way.sized else None, right)


@lru_cache(4096)
def _right_by_test(lead: Lead) -> float:
    """Return the probability of propose-test-release, where ties go to another value."""
    return StabilityTest(lead.epsilon, lead.delta).release_probability(lead.distance)


def _right_by_gumbel(lead: Lead) -> float:
    """Return the probability of the exponential mechanism."""
    return max(1.0 - probability_beyond(lead.size, lead.choice, lead.gap - 1), 0.0)


def _right_by_permute_and_flip(lead: Lead) -> float:
    """Return the mean of (1 - q)^place over the leader's place in a random order, q the probability that another value accepts."""
    accepts = math.exp(max(-lead.gap / lead.choice, -740.0))
    return 1.0 / lead.size if accepts == 1.0 else -math.expm1(lead.size * math.log1p(-accepts)) / (lead.size * accepts)


def _right_by_noisy_histogram(lead: Lead) -> float:
    return _largest_probability(lead, -math.inf, lead.size)


def _right_by_stability_histogram(lead: Lead) -> float:
    return _largest_probability(lead, lead.threshold, 1)


@lru_cache(64)
def _threshold(scale: float, delta: float, adjacency: Adjacency, groups: int, rows: int) -> int:
    spec = StabilityHistogramSpec(threshold=1, scale=scale, max_groups=groups, max_rows=rows)
    return least_threshold(spec, Neighbours(adjacency), delta)


@lru_cache(4096)
def _largest_probability(lead: Lead, least: float, size: int) -> float:
    """Return the probability that the leader has the largest of `size` noisy counts, above `least`; ties are broken at random.

    With F and f the distribution function and probabilities of one other count: (F^n - (F - f)^n) / (n f) for n values, the leader's count
    given; as F^n (1 - (1 + f / (F - f))^-n) / (n f), which loses no digits, and F^(n-1) where f is no number.
    """
    law = lead.noise
    reach = math.ceil(REACH * law.scale)
    noise = np.arange(-reach, reach + 1.0)
    place = noise + lead.gap
    log_below, log_strictly = _log_below(place, law), _log_below(place - 1.0, law)
    one = np.exp(law.log_probability(place))
    with np.errstate(all="ignore"):
        level = -np.expm1(-size * np.log1p(one * np.exp(-log_strictly))) / (size * one)
        wins = np.exp(size * log_below) * np.where(size * one > 0.0, level, 1.0)
    return float(min(np.sum(np.exp(law.log_probability(noise)) * np.where(place > least, wins, 0.0)), 1.0))


def _log_below(x: Array, law: DiscreteLaplaceLaw) -> Array:
    """Return log P(X <= x), which is that of X >= -x."""
    return np.where(x >= 0, np.log1p(-law.at_least(np.maximum(x, 0.0) + 1.0)), np.log(law.at_least(-np.minimum(x, 0.0))))


def _least(holds: Callable[[int], bool], most: int, first: int = 1) -> int:
    """Return the smallest whole number from `first` on that holds, as all larger ones do; `most` if none below does."""
    return smallest_whole(lambda number: number >= most or holds(number), first)


PTR = ModeRelease("propose-test-release", "propose-test-release", False, _right_by_test)
STABILITY = ModeRelease("stability-histogram", "stability histogram", False, _right_by_stability_histogram)
GUMBEL = ModeRelease("gumbel", "noisy maximum (Gumbel)", True, _right_by_gumbel)
PERMUTED = ModeRelease("permute-and-flip", "permute-and-flip", True, _right_by_permute_and_flip)
HISTOGRAM = ModeRelease("noisy-histogram", "noisy histogram (Laplace)", True, _right_by_noisy_histogram)
WAYS = (PTR, STABILITY, GUMBEL, PERMUTED, HISTOGRAM)


SIZES = (100, 10_000, 10**6, 10**9)  # values in the domain
POINTS = 60  # gaps in the picture


def comparison_of(queries: Sequence[PricedQuery], path: str) -> Comparison:
    """Return the comparison for the first mode by propose-test-release in a file. Raises InputError if there is none."""
    for one in queries:
        query = one.query
        if isinstance(query, ModeQuery) and query.tests and query.delta is not None:
            (release,) = one.releases
            epsilon, adjacency = release.keys["epsilon"], one.setting.adjacency
            lead = Lead(epsilon, query.delta, adjacency, 1, SIZES[0], groups=query.groups, rows=query.rows)
            alone = compared(lead, (1,), SIZES)
            reach = max(2 * alone.needed(PTR, 2, query.confidence), 10)
            gaps = sorted({1 + round(place * (reach - 1) / POINTS) for place in range(POINTS + 1)})
            return replace(compared(lead, gaps, SIZES), confidence=query.confidence)
    raise InputError(f'{path}: nothing to compare: no query has measure = "mode" and method = "propose-test-release"')
