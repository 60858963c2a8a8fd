"""Ways to release the most common value at one epsilon and delta: how likely each is right, by the gap and by the size of the domain.

The most common value leads all others of the domain by the same gap, which is the hardest case of a gap for whoever adds noise to each.
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
from dpcli.release.query_entries import AskedQuery
from dpcli.release.stability.propose_test import StabilityTest, mode
from dpcli.release.stability.stable_statistics import CountedNumbers, sum_sensitivity
from dpcli.release.vectors import Contribution, least_threshold, sensitivity

REACH = 45.0  # scales of noise that are summed: what lies beyond weighs e^-45
ERROR = 1e-9  # of every probability, at most
FINE = 2 * 10**9  # steps of a bin
LARGEST_GAP, LARGEST_SIZE = 2**40, 2**1000


@dataclass(frozen=True, slots=True)
class Lead:
    """A domain of `size` values, the first of which leads the others, each counted `others` times, by `gap`.

    groups, rows: how many values one unit counts in at most, and with how many rows in each. Scales and distances are those of what
    `dpcli release` draws.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    gap: int
    size: int
    others: int = 0
    groups: int = 1
    rows: int = 1

    @property
    def distance(self) -> int:
        """The distance of the leader, where ties go to another value: by the test's own count of units."""
        return mode({1: self.others, 2: self.others + self.gap}, self.adjacency, self.rows).distance

    @property
    def choice(self) -> float:
        """Scale of a choice by noisy scores."""
        return choice_scale(count_range(self.rows, self.adjacency), self.epsilon)

    @property
    def noise(self) -> DiscreteLaplaceLaw:
        """On each count."""
        moved = sensitivity(self.adjacency, Contribution(self.groups, self.rows, 1, 1))
        return DiscreteLaplaceLaw(QueryCost(epsilon=self.epsilon).laplace_scale(moved.l1))

    @property
    def threshold(self) -> int:
        """Above which the stability histogram shows a key."""
        return _threshold(self.noise.scale, self.delta, self.adjacency, self.groups, self.rows)


@dataclass(frozen=True, slots=True)
class ModeRelease:
    """A way to release it. right: the probability of the right value. sized: whether it needs a domain."""

    name: str
    label: str
    sized: bool
    right: Callable[[Lead], float]


@dataclass(frozen=True, slots=True)
class RightCurve:
    """Probabilities at the gaps that were asked for. size: None for what needs no domain."""

    way: ModeRelease
    size: int | None
    right: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ways at the epsilon (nats) and delta, and with the bounds of a unit, of one lead; its gap and size are of no account.

    confidence: the probability of the right answer to which gaps are compared.
    """

    of: Lead
    gaps: tuple[int, ...]
    sizes: tuple[int, ...]
    curves: tuple[RightCurve, ...]
    confidence: float = 0.95

    def needed(self, way: ModeRelease, size: int, confidence: float) -> int:
        """The smallest gap at which it is right with this probability."""
        return _least(lambda gap: way.right(self.lead(gap, size)) >= confidence, LARGEST_GAP)

    def crossing(self, way: ModeRelease, other: ModeRelease, confidence: float) -> int:
        """The smallest domain in which `way` needs a smaller gap than `other`, up to LARGEST_SIZE."""
        return _least(lambda size: self.needed(way, size, confidence) < self.needed(other, size, confidence), LARGEST_SIZE, 2)

    def lead(self, gap: int, size: int) -> Lead:
        return replace(self.of, gap=gap, size=size)

    def clamped(self, bins: int) -> float:
        """Return what one unit moves a centred sum of numbers by, in bins, where they are clamped to so many."""
        half = bins * FINE // 2
        return sensitivity(self.of.adjacency, Contribution(1, self.of.rows, -half, half, one_key=True)).l1 / FINE

    def around(self) -> float:
        """Return what it moves the sum by where numbers are clamped around the fullest bin after a test."""
        return sum_sensitivity(CountedNumbers({}, self.of.adjacency, self.of.rows), FINE) / FINE


def compared(of: Lead, gaps: Sequence[int], sizes: Sequence[int]) -> Comparison:
    """The probability of the right answer, by every way of WAYS; each within ERROR of it.

    Args:
        of: epsilon in nats, of every way; what is pure uses no delta, which would lower its noise by about 2 sqrt(delta) of epsilon. Where
            others is 0, the counts are those of one value, and no domain need be known.
        gaps: whole numbers >= 1. sizes: of the domain, >= 2.
    """
    comparison = Comparison(of, tuple(gaps), tuple(sizes), ())
    return replace(comparison, curves=tuple(_curves(comparison)))


def _curves(comparison: Comparison) -> Iterator[RightCurve]:
    for way in WAYS:
        sized = way.sized or (comparison.of.others > 0 and way is STABILITY)
        for size in comparison.sizes if sized else comparison.sizes[:1]:
            right = tuple(way.right(comparison.lead(gap, size)) for gap in comparison.gaps)
            yield RightCurve(way, size if sized else None, right)


@lru_cache(4096)
def _tested(lead: Lead) -> float:
    """Ties go to another value."""
    return StabilityTest(lead.epsilon, lead.delta).release_probability(lead.distance)


def _gumbel(lead: Lead) -> float:
    """The exponential mechanism."""
    return max(1.0 - probability_beyond(lead.size, lead.choice, lead.gap - 1), 0.0)


def _permuted(lead: Lead) -> float:
    """The mean over its place in a random order of (1 - q)^place, q the probability that another value accepts."""
    accepts = math.exp(max(-lead.gap / lead.choice, -740.0))
    return 1.0 / lead.size if accepts == 1.0 else -math.expm1(lead.size * math.log1p(-accepts)) / (lead.size * accepts)


def _noisy_histogram(lead: Lead) -> float:
    return _largest(lead, -math.inf, lead.size)


def _stable_histogram(lead: Lead) -> float:
    return _largest(lead, lead.threshold - lead.others, lead.size if lead.others > 0 else 1)


@lru_cache(64)
def _threshold(scale: float, delta: float, adjacency: Adjacency, groups: int, rows: int) -> int:
    spec = StabilityHistogramSpec(threshold=1, scale=scale, max_groups=groups, max_rows=rows)
    return least_threshold(spec, Neighbours(adjacency), delta)


@lru_cache(4096)
def _largest(lead: Lead, least: float, size: int) -> float:
    """The probability that the leader has the largest of `size` noisy counts, above `least`; ties go to any of them alike.

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
    """log P(X <= x); that of X >= -x."""
    return np.where(x >= 0, np.log1p(-law.at_least(np.maximum(x, 0.0) + 1.0)), np.log(law.at_least(-np.minimum(x, 0.0))))


def _least(holds: Callable[[int], bool], most: int, first: int = 1) -> int:
    """Return the smallest whole number from `first` on that holds, as all larger ones do; `most` where none below does."""
    return smallest_whole(lambda number: number >= most or holds(number), first)


PTR = ModeRelease("propose-test-release", "propose-test-release", False, _tested)
STABILITY = ModeRelease("stability-histogram", "stability histogram", False, _stable_histogram)
GUMBEL = ModeRelease("gumbel", "noisy maximum (Gumbel)", True, _gumbel)
PERMUTED = ModeRelease("permute-and-flip", "permute-and-flip", True, _permuted)
HISTOGRAM = ModeRelease("noisy-histogram", "noisy histogram (Laplace)", True, _noisy_histogram)
WAYS = (PTR, STABILITY, GUMBEL, PERMUTED, HISTOGRAM)


SIZES = (100, 10_000, 10**6, 10**9)  # of the domain
POINTS = 60  # gaps of a picture


def comparison_of(queries: Sequence[AskedQuery], path: str) -> Comparison:
    """Compare the first mode by propose-test-release in a file. Raises InputError where there is none."""
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
