"""Choices among candidates with whole scores: the exponential mechanism, permute-and-flip, and the k best by peeling.

`score_range` is the most by which one change can move the difference of two scores, max over i, j of |(u_i - u'_i) - (u_j - u'_j)|. Of
counts to which a unit adds at most `max_rows` each it is max_rows under add-remove, if all scores move the same way, and 2 max_rows
under replace-one. It is at most twice the sensitivity of a score, which is the 2 of exp(epsilon u / (2 sensitivity)).
Equal scores are equally likely to be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.laws import DiscreteLaplaceLaw, check_spread, rounded_up, scale_of
from dpcli.release.noise.samplers import draws, noisy, require_samplers

if TYPE_CHECKING:
    from opendp.mod import Measure, Measurement


LARGEST_SCORE = 2**62  # half of OpenDP's integers; its own refusal of larger ones quotes the score


def exponential(scores: Sequence[int], score_range: int, epsilon: float) -> int:
    """Return the index of a candidate, with probability proportional to exp(epsilon score / score_range).

    Priced by: exponential, or report-noisy-max with noise = "gumbel", which is the same law; epsilon is this one.

    Source: McSherry & Talwar 2007; the sampler is that of McKenna & Sheldon 2020, arXiv:2010.12603, with replacement.
    """
    return top_k(scores, 1, score_range, epsilon)[0]


def top_k(scores: Sequence[int], k: int, score_range: int, epsilon: float) -> list[int]:
    """Return the indices of k candidates, each chosen by `exponential` among those that are left, in the order of choice.

    Priced by: exponential with this epsilon, k times.
    """
    if not 1 <= k <= len(scores):
        raise InputError(f"expected a number to choose between 1 and the {len(scores)} candidates, found {k}")
    return [int(index) for index in exponential_sampler(k, scale_of(score_range, epsilon))(_checked(scores))]


def permute_and_flip(scores: Sequence[int], score_range: int, epsilon: float) -> int:
    """Return the index of a candidate: visited in random order, each is taken with probability exp(epsilon (score - best) / score_range).

    Priced by: permute-and-flip, or report-noisy-max with noise = "exponential", which is the same law; epsilon is this one.

    Source: McKenna & Sheldon 2020, arXiv:2010.12603; the same law as exponential noise: Ding et al. 2021, arXiv:2105.07260.
    """
    if not scores:
        raise InputError("expected candidates to choose from")
    return int(permute_and_flip_sampler(scale_of(score_range, epsilon))(_checked(scores))[0])


def choice_scale(score_range: int, epsilon: float) -> float:
    """Return the scale of a choice. Raises InputError if no sampler has it: when a query is priced, not when it is answered."""
    scale = scale_of(score_range, epsilon)
    check_spread("scale", scale)
    return scale


def count_range(max_rows: int, adjacency: Adjacency) -> int:
    """Return the score range of counts to which a unit adds at most max_rows each."""
    return 2 * max_rows if adjacency is Adjacency.REPLACE_ONE else max_rows


@lru_cache(maxsize=8)
def exponential_sampler(k: int, scale: float) -> Measurement:
    """Return OpenDP's choice by Gumbel noise: weights e^(score / scale), k times by peeling."""
    require_samplers()
    from opendp.measures import zero_concentrated_divergence

    return _measurement(zero_concentrated_divergence(), k, scale)


@lru_cache(maxsize=8)
def permute_and_flip_sampler(scale: float) -> Measurement:
    """Return OpenDP's choice of one by permute-and-flip."""
    require_samplers()
    from opendp.measures import max_divergence

    return _measurement(max_divergence(), 1, scale)


def _measurement(measure: Measure, k: int, scale: float) -> Measurement:
    """Return OpenDP's choice among scores, without assuming that one change moves all of them the same way."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.metrics import linf_distance

    check_spread("scale", scale)
    return make_noisy_top_k(vector_domain(atom_domain(T="i64")), linf_distance(T="i64"), measure, k=k, scale=scale)


def _checked(scores: Sequence[int]) -> list[int]:
    if any(abs(score) > LARGEST_SCORE for score in scores):
        raise InternalError("a score passed 62 bits: nothing was released")
    return list(scores)


def rank_scores(counts: Sequence[int], share: Fraction) -> list[int]:
    """Return minus the distance between the target rank and the ranks that each candidate holds, times the denominator of `share`.

    Of n rows, L below candidate t and E at it: with share = a/b, t holds the ranks from bL to b(L + E), the lowest candidate all below too
    and the highest all above. The target is a n. As each rank is held, the best score is 0, whatever the data are.

    Args:
        counts: Rows at each candidate of the declared grid, in its order; every row is at one of them.
        share: Share of the rows that shall be below, in [0, 1].
    """
    part, parts = share.numerator, share.denominator
    target, last = part * sum(counts), len(counts) - 1
    tops = [parts * top for top in accumulate(counts)]
    return [
        -max(
            bottom - target if index > 0 else 0,
            target - top if index < last else 0,
            0,
        )
        for index, (bottom, top) in enumerate(zip([0, *tops], tops, strict=False))
    ]


def rank_range(share: Fraction, max_rows: int, adjacency: Adjacency) -> int:
    """Return the score range of `rank_scores`, for units of at most max_rows rows.

    With share = a/b. A row x that is added moves the target by a. Below x nothing else moves: the distance of a candidate there changes by
    at most a, either way. Above x, bL and b(L + E) move by b: by at most b - a, either way. So one score moves by at most max(a, b - a),
    and two by 2 max(a, b - a) apart: one side of the target gains what the other loses, hence the full factor of 2. A row that is replaced
    moves bL and b(L + E) by b between its old and its new place, on both sides of the target: 2b. Rows of a unit add up.
    Both are attained: tests/release/noise/test_select.py.
    """
    part, parts = share.numerator, share.denominator
    one = parts if adjacency is Adjacency.REPLACE_ONE else max(part, parts - part)
    return 2 * one * max_rows


@dataclass(frozen=True, slots=True)
class SparseVectorLaws:
    """Noise of the threshold and of each query: Lap(sensitivity / eps1) and Lap(2 answers sensitivity / eps2), on the integers.

    The proof shifts the noise of the threshold by the sensitivity and that of an answer by twice that: whole numbers, so that it holds
    for the discrete law as it does for the continuous one, with whole counts and a whole threshold.

    Priced by: sparse-vector with this epsilon, answers and threshold_share. Both scales are rounded up.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 1 (standard form).
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
        return DiscreteLaplaceLaw(rounded_up(self.sensitivity / self._part))

    @property
    def query(self) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(rounded_up(2 * self.answers * self.sensitivity / (Fraction(self.epsilon) - self._part)))

    @property
    def _part(self) -> Fraction:
        return Fraction(self.epsilon) * Fraction(self.threshold_share)


def above_threshold(counts: Sequence[int], threshold: int, laws: SparseVectorLaws) -> list[bool]:
    """Return for each count in order whether it reaches the threshold, both with noise, until `answers` of them do.

    The list ends with the last of them, or with the counts. The noise on the threshold is drawn once.
    """
    [bar] = noisy([threshold], laws.threshold)
    answers: list[bool] = []
    for count, noise in zip(counts, draws(len(counts), laws.query), strict=True):
        answers.append(count + noise >= bar)
        if sum(answers) == laws.answers:
            break
    return answers
