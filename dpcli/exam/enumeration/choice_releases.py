"""Releases of a choice: exponential mechanism, permute-and-flip, noisy maximum, above threshold, and selection among random trials.

references.py uses these functions; nothing here uses dpcli's own mechanisms. A *release* maps the records of a sample, each a letter
(drawing_records.py), to its *law*, the probability of each outcome. Candidates have scores, which the changing records move (`scores`).
Where scores have noise, the probability of a choice is an integral over the noise of one candidate, computed to about the rounding of
doubles by `quadrature`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpcli.exam.enumeration.drawing_records import BLANK, CHANGING, OTHER, REPLACING, Array, Records, Release

Scores = Callable[[Records], Array]
# Scores of three candidates without the changing records: equal, close and far apart. The worst are not known beforehand, so all are tried.
BASES = ((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (2.0, 1.0, 0.0), (0.0, 1.0, 1.0), (3.0, 3.0, 0.0))
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)  # exact for polynomials of degree 47, which a panel's integrand nearly is
PANEL = 2.0  # width of a panel in units of the smallest scale of noise
LEFT_OUT = 1e-18  # probability of the noise beyond each end of an integral, far below the rounding of doubles

NOISES = {"gumbel": stats.gumbel_r, "laplace": stats.laplace, "exponential": stats.expon}


def scores(adjacency: str) -> Iterator[Scores]:
    """Yield functions that return three scores. One change under the adjacency moves each score by at most 1, up or down.

    Under replace-one, the two versions of a record move a score in opposite directions, each by 1/2.
    """
    share = 0.5 if adjacency == "replace-one" else 1.0
    # Records that do not change move the scores too, against a changing record.
    value = {CHANGING: share, REPLACING: -share, BLANK: 0.0, OTHER: -share}
    for base, move in itertools.product(BASES, itertools.product((-1.0, 1.0), repeat=3)):

        def moved(records: Records, base: tuple[float, ...] = base, move: tuple[float, ...] = move) -> Array:
            return np.array(base) + math.fsum(value[record] for record in records) * np.array(move)

        yield moved


def exponential(epsilon: float, score: Scores) -> Release:
    """Return the release of a candidate by the exponential mechanism."""

    def release(records: Records) -> Array:
        weights = np.exp(0.5 * epsilon * (score(records) - score(records).max()))
        return np.asarray(weights / weights.sum())

    return release


def permute_and_flip(epsilon: float, score: Scores) -> Release:
    """Return the release of a candidate by permute-and-flip, averaged over every order of the candidates."""

    def release(records: Records) -> Array:
        scores = score(records)
        accepts = np.exp(0.5 * epsilon * (scores - scores.max()))
        law = np.zeros(len(scores))
        for order in itertools.permutations(range(len(scores))):
            undecided = 1.0 / math.factorial(len(scores))  # probability of this order, with no candidate accepted so far
            for candidate in order:
                law[candidate] += undecided * accepts[candidate]
                undecided *= 1.0 - accepts[candidate]
        return law

    return release


def noisy_max(epsilon: float, noise: str, score: Scores) -> Release:
    """Return the release of the candidate with the largest noisy score."""
    return lambda records: winners(noise, 2.0 / epsilon, score(records))


def winners(noise: str, scale: float, scores: Array) -> Array:
    """Return the probability that each candidate has the largest noisy score.

    The probability is an integral over the noise of the candidate. The integrand is the density of this noise times the product of the
    distribution functions of the others.
    """
    wins = np.array([_winning(noise, scale, tuple(sorted(scores[i] - np.delete(scores, i)))) for i in range(len(scores))])
    return np.asarray(wins / wins.sum())  # the sum is 1, except for the error of the quadrature


@functools.lru_cache(1 << 12)  # limits memory; more entries save time
def _winning(noise: str, scale: float, ahead: tuple[float, ...]) -> float:
    """Return the probability that a candidate wins if its score exceeds the scores of the others by `ahead`."""
    law = {**NOISES, "normal": stats.norm}[noise](scale=scale)
    points, weights = quadrature(law, scale, [-lead for lead in ahead])
    return float(np.prod(law.cdf(points[None, :] + np.array(ahead)[:, None]), axis=0) @ weights)


def quadrature(law: Any, smallest_scale: float, kinks: Iterable[float]) -> tuple[Array, Array]:
    """Return points and weights for the expectation of a function of noise, by Gauss-Legendre quadrature on panels between kinks.

    Args:
        law: Frozen distribution of the noise, which may have a kink at 0.
        smallest_scale: Smallest scale at which the function or the density changes.
        kinks: Points at which the function is not smooth.
    """
    low, high = max(law.ppf(LEFT_OUT), law.support()[0]), law.isf(LEFT_OUT)
    ends = sorted({low, high, *(kink for kink in (0.0, *kinks) if low < kink < high)})
    edges = [np.linspace(a, b, 1 + math.ceil((b - a) / (PANEL * smallest_scale)))[:-1] for a, b in itertools.pairwise(ends)]
    bounds = np.append(np.concatenate(edges), high)
    middles, halves = (bounds[1:] + bounds[:-1]) / 2.0, np.diff(bounds) / 2.0
    points = (middles[:, None] + halves[:, None] * NODES).ravel()
    return points, (halves[:, None] * NODE_WEIGHTS).ravel() * law.pdf(points)


def above_threshold(epsilon: float, answers: int, share: float, score: Scores) -> Release:
    """Return the release that states which of three queries exceed 0, and that ends when `answers` of them did.

    The noise of the threshold, over which the law is an integral, takes `share` of epsilon.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 7.
    """
    threshold_scale, query_scale = 1.0 / (share * epsilon), 2.0 * answers / ((1.0 - share) * epsilon)
    threshold, query = stats.laplace(scale=threshold_scale), stats.laplace(scale=query_scale)

    def release(records: Records) -> Array:
        values = score(records)
        points, weights = quadrature(threshold, min(threshold_scale, query_scale), values)
        over = query.sf(points[None, :] - values[:, None])
        law = []
        for shown in itertools.product((False, True), repeat=len(over)):
            ends = [i for i in range(len(shown)) if sum(shown[: i + 1]) == answers]
            length = ends[0] + 1 if ends else len(shown)
            if any(shown[length:]):  # no answer is released after the last one
                continue
            law.append(np.prod([over[i] if shown[i] else 1.0 - over[i] for i in range(length)], axis=0) @ weights)
        return np.array(law)

    return release


def selected(inner: Release, generating: Callable[[Array], Array], order: Callable[[int], NDArray[np.signedinteger]]) -> Release:
    """Return the release of the best of K outputs, where K has the given probability generating function.

    The first outcome is K = 0, with an empty release.
    """

    def release(records: Records) -> Array:
        law = inner(records)
        ranked = law[order(len(law))]
        below = np.minimum(np.concatenate(([0.0], np.cumsum(ranked))) / ranked.sum(), 1.0)
        best_below = generating(below)  # probability that no output is better than each outcome
        return np.concatenate((best_below[:1], np.diff(best_below)))

    return release
