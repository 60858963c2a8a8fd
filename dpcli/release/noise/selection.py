"""Choices among candidates with whole-number scores: the exponential mechanism, permute-and-flip, and the k best by peeling.

The measures mode, top-k, quantile and threshold (measures/) call it. A *candidate* is a value that may be released, such as a city, and its
*score* says how good it is, such as its count. A *unit* is whom the release protects, with all of its rows. OpenDP's samplers choose, with
the randomness of the operating system; scales are rounded up, so a choice costs at most its epsilon.

`score_range` is the largest change of the difference of two scores between neighbouring datasets: the maximum over i, j of
|(u_i - u'_i) - (u_j - u'_j)|. Suppose that the scores are counts and that a unit adds at most `max_rows` to each. The range is then
max_rows under add-remove, where all scores change in the same direction, and 2 max_rows under replace-one. The range is always at most
twice the sensitivity of a score. The factor of 2 in exp(epsilon u / (2 sensitivity)) comes from this bound. Candidates with equal scores
are equally likely to be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.laws import DiscreteLaplaceLaw, check_spread, rounded_up, scale_of
from dpcli.release.noise.samplers import draws, noisy, require_samplers

if TYPE_CHECKING:
    from opendp.mod import Measure, Measurement


LARGEST_SCORE = 2**62  # half the range of OpenDP's 64-bit integers. OpenDP's own error for larger scores would quote the score


def exponential(scores: Sequence[int], score_range: int, epsilon: float) -> int:
    """Return the index of a candidate, which is chosen with probability proportional to exp(epsilon score / score_range).

    Priced by: exponential with this epsilon, or report-noisy-max with noise = "gumbel" and this epsilon, which has the same law.

    Source: McSherry & Talwar 2007. It is sampled by permute-and-flip with replacement (McKenna & Sheldon 2020, arXiv:2010.12603).
    """
    return top_k(scores, 1, score_range, epsilon)[0]


def top_k(scores: Sequence[int], k: int, score_range: int, epsilon: float) -> list[int]:
    """Return the indices of k different candidates in the order of choice.

    Each candidate is chosen as by `exponential` among the remaining candidates.

    Priced by: exponential with this epsilon, k times.

    Raises:
        InputError: k is not between 1 and the number of candidates, or no sampler supports the scale.
        InternalError: A score exceeds LARGEST_SCORE.
    """
    if not 1 <= k <= len(scores):
        raise InputError(f"expected a number to choose between 1 and the {len(scores)} candidates, found {k}")
    return [int(index) for index in exponential_sampler(k, scale_of(score_range, epsilon))(_checked(scores))]


def permute_and_flip(scores: Sequence[int], score_range: int, epsilon: float) -> int:
    """Return the index of a candidate, chosen by permute-and-flip.

    The candidates are visited in random order. Each is accepted with probability exp(epsilon (score - best score) / score_range), and the
    first accepted one is chosen. Raises InputError and InternalError as `top_k` does.

    Priced by: permute-and-flip with this epsilon, or report-noisy-max with noise = "exponential" and this epsilon, which has the same law.

    Source: McKenna & Sheldon 2020, arXiv:2010.12603. Ding et al. 2021, arXiv:2105.07260, show that exponential noise has the same law.
    """
    if not scores:
        raise InputError("expected candidates to choose from")
    return int(permute_and_flip_sampler(scale_of(score_range, epsilon))(_checked(scores))[0])


def choice_scale(score_range: int, epsilon: float) -> float:
    """Return the scale of a choice: score_range / epsilon, rounded up.

    Raises InputError if no sampler supports the scale. A query calls this when it is priced, so that it does not fail when it is answered.
    """
    scale = scale_of(score_range, epsilon)
    check_spread("scale", scale)
    return scale


def count_range(max_rows: int, adjacency: Adjacency) -> int:
    """Return the score range if the scores are counts and a unit adds at most max_rows to each."""
    return 2 * max_rows if adjacency is Adjacency.REPLACE_ONE else max_rows


@lru_cache(maxsize=8)
def exponential_sampler(k: int, scale: float) -> Measurement:
    """Return OpenDP's mechanism that chooses k candidates one after another, with weights e^(score / scale), the law of Gumbel noise."""
    require_samplers()
    from opendp.measures import zero_concentrated_divergence

    return _measurement(zero_concentrated_divergence(), k, scale)


@lru_cache(maxsize=8)
def permute_and_flip_sampler(scale: float) -> Measurement:
    """Return OpenDP's mechanism that chooses one candidate by permute-and-flip."""
    require_samplers()
    from opendp.measures import max_divergence

    return _measurement(max_divergence(), 1, scale)


def _measurement(measure: Measure, k: int, scale: float) -> Measurement:
    """Return OpenDP's noisy top-k mechanism. It does not assume that a change moves all scores in the same direction.

    OpenDP selects the law of the choice by the privacy measure: Gumbel noise (the exponential mechanism) for zero-concentrated divergence,
    and exponential noise (permute-and-flip) for max divergence.
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.metrics import linf_distance

    check_spread("scale", scale)
    return make_noisy_top_k(vector_domain(atom_domain(T="i64")), linf_distance(T="i64"), measure, k=k, scale=scale)


def _checked(scores: Sequence[int]) -> list[int]:
    """Return the scores as a list. Raises InternalError if one exceeds LARGEST_SCORE; the message does not show it."""
    if any(abs(score) > LARGEST_SCORE for score in scores):
        raise InternalError("a score exceeds 62 bits: nothing was released")
    return list(scores)


def rank_scores(counts: Sequence[int], share: Fraction) -> list[int]:
    """Return the score of each candidate for a quantile: minus its distance from the target rank, times the denominator of `share`.

    Let n be the number of rows, L the number of rows below candidate t, E the number of rows at t, and share = a/b. Multiplied by b, the
    target rank is a n, and t covers the ranks from b L to b (L + E). Together the candidates cover all ranks from 0 to b n, of which a n
    is one. So the best score is 0 whatever the data are.

    counts: number of rows at each candidate of the declared grid, in order. Every row is at one of the candidates.
    share: share of the rows that should lie below the quantile, in [0, 1].
    """
    a, b = share.numerator, share.denominator
    target = a * sum(counts)
    tops = [b * top for top in accumulate(counts)]
    return [-max(bottom - target, target - top, 0) for bottom, top in pairwise([0, *tops])]


def rank_range(share: Fraction, max_rows: int, adjacency: Adjacency) -> int:
    """Return the score range of `rank_scores` if a unit has at most max_rows rows.

    Let share = a/b. An added row x moves the target rank by a. The ranks of a candidate below x do not move, so its score changes by at
    most a in either direction. The ranks b L and b (L + E) of a candidate above x move by b, so its score changes by at most b - a in
    either direction. So a score changes by at most max(a, b - a), and the difference of two scores by 2 max(a, b - a). The factor of 2 is
    needed, since scores on one side of the target rise while scores on the other side fall. A replaced row moves the ranks of the
    candidates between its old and its new value by b, on both sides of the target, so the difference changes by 2 b. The changes of all
    rows of a unit add up. Both bounds are attained (tests/release/noise/test_select.py).
    """
    a, b = share.numerator, share.denominator
    range_of_one_row = 2 * (b if adjacency is Adjacency.REPLACE_ONE else max(a, b - a))
    return range_of_one_row * max_rows


@dataclass(frozen=True, slots=True)
class SparseVectorLaws:
    """The discrete Laplace noise of the threshold and of each query of the sparse vector technique.

    With eps1 = threshold_share x epsilon and eps2 = epsilon - eps1, the scale for the threshold is sensitivity / eps1, and the scale for a
    query is 2 answers sensitivity / eps2. Both scales are rounded up. The published proof shifts the noise of the threshold by the
    sensitivity, and the noise of a query by twice the sensitivity. Both shifts are whole numbers, so the proof also holds for discrete
    noise, whole-number counts and a whole-number threshold.

    Priced by: sparse-vector with this epsilon, answers and threshold_share.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 1 (standard form).

    Raises InputError if a number is out of its range.
    """

    epsilon: float
    sensitivity: int
    answers: int = 1
    threshold_share: float = 0.5

    def __post_init__(self) -> None:
        if not (self.epsilon > 0.0 and self.sensitivity >= 1 and self.answers >= 1 and 0.0 < self.threshold_share < 1.0):
            raise InputError(f"expected epsilon > 0, sensitivity and answers >= 1 and a threshold_share in (0, 1), found {self}")

    @property
    def threshold(self) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(rounded_up(self.sensitivity / self._eps1))

    @property
    def query(self) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(rounded_up(2 * self.answers * self.sensitivity / (Fraction(self.epsilon) - self._eps1)))

    @property
    def _eps1(self) -> Fraction:
        return Fraction(self.epsilon) * Fraction(self.threshold_share)


def above_threshold(counts: Sequence[int], threshold: int, laws: SparseVectorLaws) -> list[bool]:
    """Return for each count, in order, whether the noisy count reaches the noisy threshold.

    The list ends when `laws.answers` counts have reached the threshold, or with the last count. The noise of the threshold is drawn once,
    and not again after a count has reached it, as in Algorithm 1 of Lyu, Su and Li.
    """
    (noisy_threshold,) = noisy([threshold], laws.threshold)
    answers: list[bool] = []
    for count, noise in zip(counts, draws(len(counts), laws.query), strict=True):
        answers.append(count + noise >= noisy_threshold)
        if sum(answers) == laws.answers:
            break
    return answers
