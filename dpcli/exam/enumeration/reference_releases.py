"""Functions that return the releases to enumerate for an entry, each for use by several references (references.py).

A *release* maps the records of a sample, each a letter such as CHANGING (drawing_records.py), to its *law*, the probability of each
outcome. It must be one that the entry allows, such as a sum with the noise of the entry. A sum has the form "contribution" if one record
contributes at most a bound to it, and "bare" if one change moves it by at most the bound. The functions return `Releases`, which yield all
releases to try in a *situation*: an adjacency, a sampling scheme, and numbers of records and units. Continuous outcomes are divided into
*cells*, each one outcome, which can only lower the enumerated delta. A bound is *attained* if some release has exactly the claimed delta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcli.exam.enumeration import additive_noise as noise
from dpcli.exam.enumeration import choice_releases as choices
from dpcli.exam.enumeration.drawing_records import (
    BLANK,
    CHANGING,
    OTHER,
    REPLACING,
    SEVERAL_STEPS_CELLS,
    Array,
    Records,
    Release,
    Situation,
    product,
)
from dpcli.exam.enumeration.matrices import largest_norm

Releases = Callable[[Situation], Iterator[Release]]  # yields every release to enumerate in a situation
Function = Callable[[Array], Array]  # a function of each element
NoiseLaw = Callable[[float], Function]  # scale of the noise -> its distribution function
# A release of two numbers has cells^2 joint outcomes. Each number therefore has fewer cells than a release of one number. More cells would
# take longer, and would let a reference state a smaller loss.
TWO_OUTCOMES_CELLS = 64
TWO_OUTCOMES_SEVERAL_STEPS_CELLS = 36
# The cells reach this many noise scales from 0. It is a whole number, so that edges of cells lie at the kinks of Laplace noise.
REACH = 12.0
TRIAL_CELLS = 240  # number of cells of the outcome of one trial; few: each trial is enumerated with every order of preference


def contribution(law: NoiseLaw, scale: float) -> Releases:
    """Return sums, to which each record contributes at most 1, with noise of this scale."""

    def releases(situation: Situation) -> Iterator[Release]:
        for total in noise.sums(situation.adjacency, "contribution", 1.0):
            yield _noisy_sum(law, scale, total, situation)

    return releases


def bare(law: NoiseLaw, scale: float, size: float) -> Releases:
    """Return sums, which one change moves by at most `size`, with noise of this scale."""

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, size):
            yield _noisy_sum(law, scale, total, situation)

    return releases


def _noisy_sum(law: NoiseLaw, scale: float, total: noise.Sum, situation: Situation) -> Release:
    """Return the release of a sum with noise, in cells from -REACH to REACH noise scales."""
    return noise.additive(law(scale), total, REACH * scale, situation.cells)


def _bare_sums(situation: Situation, size: float) -> Iterator[noise.Sum]:
    """Return sums that one change moves by at most `size`, whether it changes one record or all records of a unit."""
    return noise.sums(situation.adjacency, "bare", size, unit=situation.contributions > 1)


def on_integers(log_weight: Function, size: int, reach: int) -> Releases:
    """Return releases of an integer that one change moves by at most `size`, plus integer noise, cut to outcomes up to `reach`.

    Args:
        log_weight: Logarithm of the probability of the noise, up to a constant.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, float(size)):
            yield noise.lattice(log_weight, total, reach)

    return releases


def on_vectors(log_weight: Function, reach: int) -> Releases:
    """Return releases of two integers, each of which one change moves by 1, plus independent integer noise, cut to outcomes up to `reach`.

    If the entry's bound is attained by other data, such as one integer that moves by 2, its reference needs loss = 1.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, 1.0):
            release = noise.lattice(log_weight, total, reach)
            yield partial(_joint_law, (release, release))

    return releases


def _joint_law(parts: tuple[Release, ...], records: Records) -> Array:
    """Return the joint law of several releases of the same records, with independent noise."""
    return product(release(records) for release in parts)


def choice(release: Callable[[choices.Scores], Release]) -> Releases:
    """Return releases of a choice among candidates, for several score functions."""
    return lambda situation: (release(score) for score in choices.scores(situation.adjacency))


def _record_sum(situation: Situation) -> Callable[[Records], float]:
    """Return a sum that a change of one record moves by 1.

    A changing record adds 1 to it. Under replace-one, it adds 1/2, and the record that replaces it adds -1/2.
    """
    share = 0.5 if situation.adjacency == "replace-one" else 1.0
    value = {CHANGING: share, REPLACING: -share, BLANK: 0.0, OTHER: 0.0}
    return lambda records: math.fsum(value[record] for record in records)


def _bit(situation: Situation, epsilon: float, reveals: float = 0.0) -> Release:
    """Return a release of the bit that states whether a changing record is present.

    With probability `reveals`, the bit is released truthfully, as a separate outcome. Otherwise it is released by randomised response.
    """

    def release(records: Records) -> Array:
        true = (1.0 - reveals) / (1.0 + math.exp(-epsilon))
        false = 1.0 - reveals - true
        # The outcomes: response "present", response "absent", revealed as present, revealed as absent.
        return np.array([true, false, reveals, 0.0] if CHANGING in records else [false, true, 0.0, reveals])

    return release


def stated_pure(epsilon: float) -> Releases:
    """Return releases that are tight for epsilon-DP: a bit by randomised response, and a sum with Laplace noise."""

    def releases(situation: Situation) -> Iterator[Release]:
        yield _bit(situation, epsilon)
        total = _record_sum(situation)
        yield noise.additive(noise.laplace(1.0 / epsilon), total, REACH / epsilon, situation.cells)

    return releases


def stated_approx(epsilon: float, delta: float) -> Releases:
    """Return a release that is tight for (epsilon, delta)-DP: a bit that is revealed with probability delta, and else randomised."""

    def releases(situation: Situation) -> Iterator[Release]:
        yield _bit(situation, epsilon, delta)

    return releases


def stated_zcdp(rho: float, xi: float = 0.0, reveals: float = 0.0) -> Releases:
    """Return a release that is tight for rho-zCDP: a sum with Gaussian noise.

    With xi or `reveals`, the bit of `_bit` is released too, by randomised response of epsilon xi. Both together are (xi, rho)-zCDP, except
    with probability `reveals`.
    """
    sigma = 1.0 / math.sqrt(2.0 * rho)

    def releases(situation: Situation) -> Iterator[Release]:
        total = _record_sum(situation)
        if not xi and not reveals:
            yield _noisy_sum(noise.normal, sigma, total, situation)
        else:
            # A quarter of the cells, because each is combined with the four outcomes of the bit.
            noisy_sum = noise.additive(noise.normal(sigma), total, REACH * sigma, SEVERAL_STEPS_CELLS // 4)
            yield partial(_joint_law, (noisy_sum, _bit(situation, xi, reveals)))

    return releases


def responses(epsilon: float, categories: int, blank: int | None = 1) -> Releases:
    """Return releases of every record by randomised response, one for each category of the records that do not change.

    Args:
        categories: Number of categories.
        blank: Category of a blanked record; None if its response is uniform.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for unchanged in range(categories):
            yield noise.responses(epsilon, categories, blank, unchanged)

    return releases


def shuffled(epsilon: float, categories: int, users: int) -> Releases:
    """Return histograms of shuffled randomised responses, one for each category of the users who do not change."""

    def releases(situation: Situation) -> Iterator[Release]:
        for unchanged in range(categories):
            yield noise.shuffled_responses(epsilon, categories, users, unchanged)

    return releases


def gaussian_mixture(shifts: tuple[float, ...], weights: tuple[float, ...], sigma: float) -> Releases:
    """Return releases of a sum, with noise `sigma`, to which each record contributes one of the shifts, drawn with these weights.

    The shifts of the records that do not change are subtracted, ignored or added.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        cells = min(situation.cells, SEVERAL_STEPS_CELLS)  # few, because the shifts of all records are enumerated too
        for unchanged in (-1.0, 0.0, 1.0):
            yield noise.mixture(shifts, weights, sigma, cells, unchanged)

    return releases


def matrix_release(encoder: Array, separation: int, most: int, sigma: float) -> Releases:
    """Return one release of an encoded stream with Gaussian noise, projected on the direction in which a unit moves the stream.

    Args:
        encoder: Matrix by which the stream of contributions is multiplied, with a column for each step.
        separation: Smallest number of steps from one participation of a unit to its next one.
        most: Largest number of participations of a unit.
    """
    norm = largest_norm(encoder, separation, most)  # over all participation patterns

    def releases(situation: Situation) -> Iterator[Release]:
        total = next(noise.sums(situation.adjacency, "contribution", norm))
        yield _noisy_sum(noise.normal, sigma, total, situation)

    return releases


def laplace_and_gaussian(situation: Situation) -> Iterator[Release]:
    """Yield joint releases of a sum with Laplace noise of scale 2 and of the same sum with Gaussian noise of sigma 1.5."""
    cells = TWO_OUTCOMES_CELLS if situation.draws.steps == 1 else TWO_OUTCOMES_SEVERAL_STEPS_CELLS
    for total in noise.sums(situation.adjacency, "contribution", 1.0):
        # The cells reach 6 Laplace scales and 8 sigmas. All outcomes beyond them, on each side, are one cell.
        laplace = noise.additive(noise.laplace(2.0), total, 12.0, cells)
        gaussian = noise.additive(noise.normal(1.5), total, 12.0, cells)
        yield partial(_joint_law, (laplace, gaussian))


# Orders of preference of n outcomes, the best last: the largest is best; the smallest is best; an arbitrary order, the same in every exam.
ORDERS: tuple[Callable[[int], NDArray[np.signedinteger]], ...] = (
    np.arange,
    lambda n: np.arange(n)[::-1],
    lambda n: np.random.default_rng(5).permutation(n),
)


def best_of_trials(generating: Function) -> Releases:
    """Return releases of the best of a random number of Laplace releases, for several orders of preference.

    Args:
        generating: Probability generating function of the number of trials.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for total, order in itertools.product(noise.sums(situation.adjacency, "contribution", 1.0), ORDERS):
            trial = noise.additive(noise.laplace(1.0), total, REACH, TRIAL_CELLS)
            yield choices.selected(trial, generating, order)

    return releases


def empty_release(situation: Situation) -> Iterator[Release]:
    """Yield a release that does not depend on the records."""
    yield lambda records: np.ones(1)


def descents_on_unit_interval(situation: Situation) -> Iterator[Release]:
    """Yield the last models of descents on [0, 1] of 9 steps with constant gradients and noise of sigma 3."""
    for total in noise.sums(situation.adjacency, "contribution", 1.0):
        yield noise.descent(total, iterations=9, factor=1.0, sigma=3.0, width=1.0, count=TWO_OUTCOMES_CELLS)


def drawn_descents(iterations: int, curvature: float, rate: float, sigma: float) -> Releases:
    """Return last models of descents, if each record is in the batch of each step with probability `rate`.

    Gradients are constant, and each step contracts the model by 1 - `curvature`. The last model is then a sum of the gradients of all
    batches, each with its factor, plus Gaussian noise. Every combination of batches is enumerated.
    """
    factors = np.array([(1.0 - curvature) ** later for later in range(iterations)])
    spread = sigma * float(np.linalg.norm(factors))

    def released(total: noise.Sum, count: int, records: Records) -> Array:
        laws = []
        for chosen in itertools.product((0, 1), repeat=iterations * len(records)):
            batches = np.reshape(chosen, (iterations, len(records)))
            moves = [total(tuple(itertools.compress(records, batch))) for batch in batches]
            weight = math.prod(rate if is_drawn else 1.0 - rate for is_drawn in chosen)
            laws.append(weight * noise.cells(noise.normal(spread), float(factors @ moves), -REACH * spread, REACH * spread, count))
        return np.asarray(sum(laws))

    def releases(situation: Situation) -> Iterator[Release]:
        for total in noise.sums(situation.adjacency, "contribution", 1.0):
            yield partial(released, total, situation.cells // 10)  # few, because the law of every combination is computed

    return releases
