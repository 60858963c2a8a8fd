"""Releases that add noise to a sum, and releases that randomise each record.

references.py chooses the functions for each mechanism type; nothing here uses dpcli's own mechanisms. A *release* maps the records of a
sample, each a letter such as CHANGING (drawing_records.py), to its *law*, the probability of each outcome. Continuous noise is divided into
*cells*, each one outcome; as that hides some of the difference between two datasets, the enumerated delta errs downwards. The worst sum of
a mechanism is not known beforehand, so `sums` yields several: records that do not change may push it up, down, or not at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from dpcli.exam.enumeration.drawing_records import BLANK, CHANGING, OTHER, REPLACING, Array, Records, Release, product

Sum = Callable[[Records], float]
NODES = 100  # nodes of the quadrature of a descent's law; more take longer and are more accurate
MIXTURE_REACH = 12.0  # the cells of a mixture reach this many sigmas from 0, and two more cells have the rest of its law


def sums(adjacency: str, form: str, size: float, unit: bool = False) -> Iterator[Sum]:
    """Yield sums of records.

    Args:
        form: "contribution" if one record contributes at most `size`, so that a replacement may move the sum by twice as much; "bare" if
            one change under the adjacency moves the sum by at most `size`, a replacement too.
        unit: Whether all records of a unit change together. The sum then depends only on whether any of them is present.
    """
    replaces = adjacency == "replace-one"
    # A changing record contributes `size`, and its replacement `low`: as far away as the form allows.
    low = -size if replaces and form == "contribution" else 0.0
    # If the form bounds the distance of a record from its replacement, the values of all records lie within `size` of each other.
    unchanged_values = (0.0, size) if replaces and form == "bare" else (-size, 0.0, size)
    for unchanged in unchanged_values:
        value = {CHANGING: size, REPLACING: low, BLANK: 0.0, OTHER: unchanged}

        def moved(records: Records, value: dict[str, float] = value) -> float:
            contributions = [value[record] for record in records]
            return max([0.0, *contributions]) if unit else math.fsum(contributions)

        yield moved
        if unit:  # the first value of the unchanged records is at most 0, and has no effect on the maximum; no other is tried
            return


def cells(cdf: Callable[[Array], Array], centre: float, low: float, high: float, count: int) -> Array:
    """Return the probability of each of `count` equal cells, and of the two tails, for noise around `centre`."""
    edges = np.linspace(low, high, count + 1)
    below = cdf(edges - centre)
    above = cdf(centre - edges)  # by the symmetry of the noise, this equals 1 - cdf(edges - centre), but without cancellation
    inner = np.where(edges[:-1] > centre, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.concatenate((below[:1], inner, above[-1:]))


def additive(cdf: Callable[[Array], Array], total: Sum, reach: float, count: int) -> Release:
    """Return the release of a sum plus noise with the given distribution function."""
    return lambda records: cells(cdf, total(records), -reach, reach, count)


def normal(sigma: float) -> Callable[[Array], Array]:
    return lambda x: np.asarray(stats.norm.cdf(x, scale=sigma))


def laplace(scale: float) -> Callable[[Array], Array]:
    return lambda x: np.asarray(stats.laplace.cdf(x, scale=scale))


def truncated_laplace(bound: float) -> Callable[[float], Callable[[Array], Array]]:
    """Return the law of Laplace noise that is never beyond `bound`, as a function of its scale."""

    def law(scale: float) -> Callable[[Array], Array]:
        outside = stats.laplace.sf(bound, scale=scale)
        return lambda x: np.asarray((stats.laplace.cdf(np.clip(x, -bound, bound), scale=scale) - outside) / (1.0 - 2.0 * outside))

    return law


def cut_log_weights(scale: float, bound: int, x: Array) -> Array:
    """Return the log weights of discrete Laplace noise that is never beyond `bound`."""
    return np.where(np.abs(x) <= bound, -np.abs(x) / scale, -np.inf)


def lattice(log_weight: Callable[[Array], Array], total: Sum, reach: int) -> Release:
    """Return the release of a sum plus noise on the integers, whose probabilities are proportional to exp(log_weight)."""
    support = np.arange(-reach, reach + 1.0)
    # The norm covers four times the outcomes, so that the probability beyond `reach` is left out and not spread over the outcomes.
    norm = np.logaddexp.reduce(log_weight(np.arange(-4.0 * reach, 4.0 * reach + 1.0)))
    return lambda records: np.exp(log_weight(support - total(records)) - norm)


def descent(total: Sum, iterations: int, factor: float, sigma: float, width: float, count: int) -> Release:
    """Return the last model of a noisy descent from 0, x -> factor x + sum + noise, which is projected onto [0, width] after every step.

    The law before the last step is one on the nodes of a quadrature and on the ends of the interval, where models gather.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    inner, weights = 0.5 * width * (nodes + 1.0), 0.5 * width * weights  # moved from [-1, 1] to [0, width]
    states = np.concatenate(([0.0], inner, [width]))

    def release(records: Records) -> Array:
        centres = factor * states + total(records)
        density = stats.norm.pdf(inner[None, :], centres[:, None], sigma) * weights
        # The probabilities that the projection moves the model to an end of the interval.
        at_zero = stats.norm.cdf(-centres / sigma)[:, None]
        at_width = stats.norm.cdf((centres - width) / sigma)[:, None]
        step = np.hstack((at_zero, density, at_width))  # row: state before the step; column: state after it
        law = np.linalg.matrix_power(step, iterations - 1)[0]  # the row of the state 0, at which all start
        return np.asarray(sum(p * cells(normal(sigma), x, 0.0, width, count) for p, x in zip(law, centres.tolist(), strict=True)))

    return release


def mixture(shifts: tuple[float, ...], weights: tuple[float, ...], sigma: float, count: int, unchanged: float) -> Release:
    """Return the release of a sum to which each record contributes a shift that it draws.

    Args:
        unchanged: Factor of the shift of each record that does not change.
    """
    sign = {CHANGING: 1.0, REPLACING: -1.0, BLANK: 0.0, OTHER: unchanged}

    def release(records: Records) -> Array:
        laws = []
        for drawn in itertools.product(range(len(shifts)), repeat=len(records)):
            weight = math.prod(weights[i] for i in drawn)
            centre = math.fsum(sign[record] * shifts[i] for record, i in zip(records, drawn, strict=True))
            laws.append(weight * cells(normal(sigma), centre, -MIXTURE_REACH * sigma, MIXTURE_REACH * sigma, count))
        return np.asarray(sum(laws))

    return release


def responses(epsilon: float, categories: int, zero: int | None, unchanged: int) -> Release:
    """Return the release of every record of the sample by k-ary randomised response.

    A blanked record has category `zero`, or a uniform response if `zero` is None. A record that does not change has category `unchanged`.
    """
    answers = {CHANGING: 0, REPLACING: 1, BLANK: zero, OTHER: unchanged}
    total = math.exp(epsilon) + categories - 1.0  # the true category has weight e^epsilon, and every other one weight 1

    def distribution(category: int | None) -> Array:
        if category is None:
            return np.full(categories, 1.0 / categories)
        return np.array([math.exp(epsilon) if c == category else 1.0 for c in range(categories)]) / total

    def release(records: Records) -> Array:
        return product([np.ones(1), *(distribution(answers[record]) for record in records)])

    return release


def shuffled_responses(epsilon: float, categories: int, users: int, unchanged: int) -> Release:
    """Return the histogram of the randomised responses of the records of the sample and of `users` - 1 other users, who do not change.

    A blanked record has category 1, like one that replaces the changing record, which has category 0.
    """

    def release(records: Records) -> Array:
        law = np.zeros((len(records) + users,) * categories)  # the probability of each histogram
        law[(0,) * categories] = 1.0
        for record in (*records, *(OTHER,) * (users - 1)):
            answer = responses(epsilon, categories, zero=1, unchanged=unchanged)((record,))
            law = sum((chance * np.roll(law, 1, axis=c) for c, chance in enumerate(answer.tolist())), np.zeros_like(law))
        return np.asarray(law.ravel())

    return release
