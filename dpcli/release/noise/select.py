"""Choices among candidates with whole scores: the exponential mechanism, permute-and-flip, and the k best by peeling.

`score_range` is the most by which one change can move the difference of two scores, max over i, j of |(u_i - u'_i) - (u_j - u'_j)|. Of
counts to which a unit adds at most `max_rows` each it is max_rows under add-remove, where all scores move the same way, and 2 max_rows
under replace-one. It is at most twice the sensitivity of a score, which is the 2 of exp(epsilon u / (2 sensitivity)).
Equal scores are equally likely to be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.laws import check_spread
from dpcli.release.noise.sampler import contributed
from dpcli.release.noise.scales import scale_of

if TYPE_CHECKING:
    from opendp.mod import Measure, Measurement

LARGEST_SCORE = 2**62  # half of OpenDP's integers; it refuses larger ones too, but with a message that quotes the score


def exponential(scores: Sequence[int], score_range: int, epsilon: float) -> int:
    """The index of a candidate, with probability proportional to exp(epsilon score / score_range).

    Priced by: exponential, or report-noisy-max with noise = "gumbel", which is the same law; epsilon is this one.

    Source: McSherry & Talwar 2007; the sampler is that of McKenna & Sheldon 2020, arXiv:2010.12603, with replacement.
    """
    return top_k(scores, 1, score_range, epsilon)[0]


def top_k(scores: Sequence[int], k: int, score_range: int, epsilon: float) -> list[int]:
    """The indices of k candidates, each chosen by `exponential` among those that are left, in the order of choice.

    Priced by: exponential with this epsilon, k times.
    """
    if not 1 <= k <= len(scores):
        raise InputError(f"expected a number to choose between 1 and the {len(scores)} candidates, found {k}")
    return [int(index) for index in bounded_range(k, scale_of(score_range, epsilon))(_checked(scores))]


def permute_and_flip(scores: Sequence[int], score_range: int, epsilon: float) -> int:
    """The index of a candidate: visited in random order, each is taken with probability exp(epsilon (score - best) / score_range).

    Priced by: permute-and-flip, or report-noisy-max with noise = "exponential", which is the same law; epsilon is this one.

    Source: McKenna & Sheldon 2020, arXiv:2010.12603; the same law as exponential noise: Ding et al. 2021, arXiv:2105.07260.
    """
    if not scores:
        raise InputError("expected candidates to choose from, found none")
    return int(pure(scale_of(score_range, epsilon))(_checked(scores))[0])


def choice_scale(score_range: int, epsilon: float) -> float:
    """The scale of a choice. Raises InputError where no sampler draws it, so that whoever prices a query hears of it."""
    scale = scale_of(score_range, epsilon)
    check_spread("scale", scale)
    return scale


def count_range(max_rows: int, adjacency: Adjacency) -> int:
    """The score range of counts to which a unit adds at most max_rows each."""
    return 2 * max_rows if adjacency is Adjacency.REPLACE_ONE else max_rows


@lru_cache(maxsize=8)
def bounded_range(k: int, scale: float) -> Measurement:
    """OpenDP's choice by Gumbel noise: weights e^(score / scale), k times by peeling."""
    contributed()
    from opendp.measures import zero_concentrated_divergence

    return _measurement(zero_concentrated_divergence(), k, scale)


@lru_cache(maxsize=8)
def pure(scale: float) -> Measurement:
    """OpenDP's choice by permute-and-flip, of one."""
    contributed()
    from opendp.measures import max_divergence

    return _measurement(max_divergence(), 1, scale)


def _measurement(measure: Measure, k: int, scale: float) -> Measurement:
    """Scores of which nothing is assumed: not that all move the same way."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.metrics import linf_distance

    check_spread("scale", scale)
    return make_noisy_top_k(vector_domain(atom_domain(T="i64")), linf_distance(T="i64"), measure, k=k, scale=scale)


def _checked(scores: Sequence[int]) -> list[int]:
    if any(abs(score) > LARGEST_SCORE for score in scores):
        raise InternalError("a score passed 62 bits: nothing was released")
    return list(scores)
