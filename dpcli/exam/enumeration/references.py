"""REFERENCES: for each mechanism type of this package, entries of a file and releases that the entries allow.

The exam enumerates these releases and compares the result with the bounds that accountants claim for the entry (bracket.py). A *release*
maps the records of a sample, each a letter such as CHANGING (drawing_records.py), to its *law*, the probability of each outcome; a
*situation* is an adjacency, a sampling scheme, and numbers of records and units. A new mechanism type needs at least one reference, whose
releases should include one that *attains* the bound, which means that its delta equals the claimed delta. Continuous outcomes are divided
into cells, which can only lower the enumerated delta (`Reference.loss`). The functions below return `Releases` for use in several
references. The numbers of the entries are arbitrary, but small enough that the enumeration is fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from dpcli.exam.enumeration import additive_noise as noise
from dpcli.exam.enumeration import choice_releases as choices
from dpcli.exam.enumeration import predictions
from dpcli.exam.enumeration import thresholds as stability
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
from dpcli.exam.enumeration.matrices import banded, blt, largest_norm, toeplitz, tree

Releases = Callable[[Situation], Iterator[Release]]  # yields every release to enumerate in a situation
Function = Callable[[Array], Array]  # a function of each element
NoiseLaw = Callable[[float], Function]  # scale of the noise -> its distribution function
# A release of two numbers has cells^2 joint outcomes. Each number therefore has fewer cells than a release of one number. More cells would
# take longer, and would let a reference state a smaller loss.
TWO_OUTCOMES_CELLS = 64
TWO_OUTCOMES_SEVERAL_STEPS_CELLS = 36
# The cells reach this many noise scales from 0. It is a whole number, so that edges of cells lie at the kinks of Laplace noise.
REACH = 12.0
TRIAL_CELLS = 240  # number of cells of the outcome of one trial; few, as each trial is enumerated with every order of preference


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """An entry of a file, and the releases that the entry allows.

    Attributes:
        type, keys: Mechanism type and keys of the entry.
        releases: Function that yields the releases that the entry allows in a situation.
        members: Other entries of the file to which the entry refers, by name.
        stated: Whether the entry states a guarantee. It must then state what the guarantee covers if a unit has several records.
        loss: Largest share of the true delta that the division of outcomes into cells may hide. 1 if the releases do not attain the bound,
            so that they say nothing about lower bounds.
    """

    type: str
    keys: dict[str, object]
    releases: Releases
    members: dict[str, dict[str, object]] = field(default_factory=dict)
    stated: bool = False
    loss: float = 5e-3


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
    """Return releases of two integers, each of which one change moves by 1, plus independent integer noise, as in `on_integers`.

    If the entry's bound is attained by other data, such as one integer that moves by 2, its reference needs loss = 1.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, 1.0):
            release = noise.lattice(log_weight, total, reach)
            yield partial(_joint_law, (release, release))

    return releases


def _joint_law(parts: tuple[Release, ...], records: Records) -> Array:
    """Return the joint probabilities of the outcomes of several releases of the same records, with independent noise."""
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


def stated_zcdp(rho: float, xi: float = 0.0, reveals: float = 0.0) -> Releases:
    """Return a release that is tight for rho-zCDP: a sum with Gaussian noise.

    With xi or `reveals`, the bit of `_bit` is released too, by randomised response of epsilon xi.
    """
    sigma = 1.0 / math.sqrt(2.0 * rho)

    def releases(situation: Situation) -> Iterator[Release]:
        total = _record_sum(situation)
        if not xi and not reveals:
            yield _noisy_sum(noise.normal, sigma, total, situation)
        else:
            few = noise.additive(noise.normal(sigma), total, REACH * sigma, SEVERAL_STEPS_CELLS // 4)
            yield partial(_joint_law, (few, _bit(situation, xi, reveals)))

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
        cells = min(situation.cells, SEVERAL_STEPS_CELLS)  # few, as the shifts of all records are enumerated too
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


# A Gaussian mixture: a record moves the sum by one of these shifts, drawn with these probabilities.
SHIFTS, WEIGHTS = (0.5, 2.0), (0.75, 0.25)
ADDITIVE_NOISE = (
    Reference("gaussian", {"noise_multiplier": 0.7}, contribution(noise.normal, 0.7)),
    Reference("gaussian", {"sigma": 2.0, "sensitivity": 1.0}, bare(noise.normal, 2.0, 1.0)),
    Reference(
        "gaussian-mixture",
        {"sensitivities": SHIFTS, "probabilities": WEIGHTS, "sigma": 1.0},
        gaussian_mixture(SHIFTS, WEIGHTS, 1.0),
    ),
    Reference(
        "gaussian-mixture", {"sensitivities": (0.7,), "probabilities": (1.0,), "sigma": 1.0}, gaussian_mixture((0.7,), (1.0,), 1.0)
    ),
    Reference("laplace", {"noise_multiplier": 1.0}, contribution(noise.laplace, 1.0)),
    Reference("laplace", {"scale": 2.0, "sensitivity": 1.0}, bare(noise.laplace, 2.0, 1.0)),
    *(
        Reference(
            "truncated-laplace", {"scale": 2.0, "sensitivity": 1.0, "bound": most}, bare(noise.truncated_laplace(most), 2.0, 1.0)
        )
        for most in (0.8, 1.0, 6.0)
    ),
    *(
        Reference(
            "truncated-discrete-laplace",
            {"scale": scale, "sensitivity": size, "bound": most},
            on_integers(partial(noise.cut_log_weights, scale, most), size, most + 12),
        )
        for scale, size, most in ((1.5, 2, 1), (1.5, 2, 2), (1.5, 2, 7), (2.0, 1, 4))
    ),
    # The log weights of discrete Gaussian noise are -x^2 / (2 sigma^2). The divisor is 0.98 for sigma = 0.7, and 4.5 for sigma = 1.5.
    Reference("discrete-gaussian", {"sigma": 0.7, "sensitivity": 1}, on_integers(lambda x: -x * x / 0.98, 1, 20)),
    Reference("discrete-gaussian", {"sigma": 1.5, "sensitivity": 2, "dimension": 1}, on_integers(lambda x: -x * x / 4.5, 2, 40)),
    Reference("discrete-gaussian", {"sigma": 1.0, "l2_sensitivity": math.sqrt(2.0)}, on_vectors(lambda x: -x * x / 2.0, 6)),
    Reference("discrete-gaussian", {"sigma": 1.0, "sensitivity": 2}, on_vectors(lambda x: -x * x / 2.0, 6)),
    Reference("discrete-laplace", {"scale": 1.0, "sensitivity": 2}, on_vectors(lambda x: -np.abs(x), 9), loss=1.0),
    Reference("discrete-laplace", {"scale": 1.5, "sensitivity": 2}, on_integers(lambda x: -np.abs(x) / 1.5, 2, 60)),
)


def _noisy_max(name: str) -> Reference:
    """Return the reference of the largest score with the noise of this name."""
    return Reference(
        "report-noisy-max", {"epsilon": 1.0, "noise": name}, choice(partial(choices.noisy_max, 1.0, name)), stated=True
    )


def _sparse_vector(answers: int, share: float) -> Reference:
    """Return the reference of a sparse vector with this number of answers, whose threshold gets this share of epsilon."""
    return Reference(
        "sparse-vector",
        {"epsilon": 1.0, "answers": answers, "threshold_share": share},
        choice(partial(choices.above_threshold, 1.0, answers, share)),
        stated=True,
    )


CHOICES = (
    Reference("randomized-response", {"epsilon": 1.0, "categories": 3}, responses(1.0, 3), stated=True),
    Reference("randomized-response", {"epsilon": 1.0, "categories": 3, "blank": "uniform"}, responses(1.0, 3, None), stated=True),
    Reference("shuffled-reports", {"users": 3, "local_epsilon": 1.0}, shuffled(1.0, 2, 3), stated=True),
    *(
        Reference(
            "shuffled-reports",
            {"users": users, "local_epsilon": 1.5, "randomizer": "randomized-response", "categories": categories},
            shuffled(1.5, categories, users),
            stated=True,
        )
        for users, categories in ((5, 2), (3, 3))
    ),
    Reference("exponential", {"epsilon": 1.0}, choice(partial(choices.exponential, 1.0)), stated=True),
    *map(_noisy_max, choices.NOISES),
    Reference("permute-and-flip", {"epsilon": 1.0}, choice(partial(choices.permute_and_flip, 1.0)), stated=True),
    _sparse_vector(1, 0.5),
    _sparse_vector(2, 0.3),
)


# Weights of discrete noise of scale or sigma 1.5, by the key that states it.
HISTOGRAM_WEIGHTS: dict[str, Callable[[int], float]] = {
    "scale": lambda x: math.exp(-abs(x) / 1.5),
    "sigma": lambda x: math.exp(-x * x / 4.5),
}


def _histogram(noise_key: str, threshold: int, keys: int, rows: int) -> Reference:
    """Return the reference of a stability histogram. A unit has at most `rows` rows in each of at most `keys` groups."""
    return Reference(
        "stability-histogram",
        {noise_key: 1.5, "threshold": threshold, "max_groups": keys, "max_rows": rows},
        partial(stability.shown_keys, HISTOGRAM_WEIGHTS[noise_key], threshold, keys, rows),
    )


STABILITY = (
    Reference("propose-test-release", {"epsilon": 1.0, "delta": 0.05}, partial(stability.tested_modes, 1.0, 0.05), stated=True),
    Reference(
        "propose-test-release",
        {"epsilon": 0.5, "delta": 0.1, "mechanism": "m1"},
        partial(stability.tested_number, 0.5, 0.1, 2.0),
        members={"m1": {"type": "laplace", "scale": 2.0, "sensitivity": 1.0}},
        stated=True,
    ),
    _histogram("scale", 5, 1, 1),
    _histogram("scale", 6, 2, 1),
    _histogram("scale", 7, 1, 2),
    _histogram("sigma", 4, 1, 1),
    _histogram("sigma", 3, 2, 1),
    _histogram("sigma", 6, 1, 2),
)
STATED = (
    Reference("pure-dp", {"epsilon": 0.8}, stated_pure(0.8), stated=True),
    Reference("approx-dp", {"epsilon": 0.8, "delta": 0.02}, lambda situation: iter([_bit(situation, 0.8, 0.02)]), stated=True),
    Reference("zcdp", {"rho": 0.2}, stated_zcdp(0.2), stated=True),
    Reference("zcdp", {"rho": 0.2, "xi": 0.1, "delta": 0.02}, stated_zcdp(0.2, 0.1, 0.02), stated=True, loss=0.03),
    Reference("rdp", {"orders": (1.5, 3.0, 9.0), "values": (0.3, 0.6, 1.8)}, stated_zcdp(0.2), stated=True),
)
GROUPS = (
    Reference(
        "composed",
        {"mechanisms": ("m1", "m2")},
        laplace_and_gaussian,
        members={"m1": {"type": "laplace", "noise_multiplier": 2.0}, "m2": {"type": "gaussian", "noise_multiplier": 1.5}},
        loss=0.03,
    ),
    # The weighted mean of the two Gaussian outcomes is a sufficient statistic, with a noise multiplier of 1.2.
    Reference(
        "composed",
        {"mechanisms": ("m1", "m2")},
        contribution(noise.normal, 1.2),
        members={"m1": {"type": "gaussian", "noise_multiplier": 1.5}, "m2": {"type": "gaussian", "noise_multiplier": 2.0}},
    ),
)


def _stream(kind: str, encoder: Array, participations: int, separation: int, keys: dict[str, object]) -> Reference:
    """Return the reference of a stream with noise multiplier 3.

    Args:
        kind: Mechanism type.
        encoder: Matrix with a column for each step.
        participations, separation: As `most` and `separation` in `matrix_release`.
        keys: Keys of this type that the other types for streams do not have.
    """
    stream_keys = {
        "noise_multiplier": 3.0,
        "iterations": encoder.shape[1],
        "max_participations": participations,
        "min_separation": separation,
    }
    return Reference(kind, stream_keys | keys, matrix_release(encoder, separation, participations, 3.0))


def _banded_toeplitz(participations: int, separation: int) -> Reference:
    column = (1.0, 0.5, 0.25)
    return _stream("banded-toeplitz", toeplitz(column, 7), participations, separation, {"coefficients": column})


def _banded_matrix(participations: int, separation: int, bands: int) -> Reference:
    return _stream("banded-matrix", banded(bands, 7), participations, separation, {"bands": bands})


def _buffered_toeplitz(decays: tuple[float, ...], scales: tuple[float, ...]) -> Reference:
    return _stream("buffered-toeplitz", blt(decays, scales, 6), 2, 2, {"buf_decay": decays, "output_scale": scales})


STREAMS = (
    _stream("tree-aggregation", tree(6), 1, 1, {}),
    _stream("tree-aggregation", tree(6), 2, 3, {}),
    _stream("tree-aggregation", block_diag(tree(3), tree(4)), 2, 3, {"trees": (3, 4)}),
    _banded_toeplitz(1, 1),
    _banded_toeplitz(2, 3),
    _banded_toeplitz(9, 2),
    _banded_matrix(1, 3, bands=3),
    _banded_matrix(3, 3, bands=2),
    _banded_matrix(9, 2, bands=2),
    _buffered_toeplitz((0.9, 0.5), (0.4, 0.3)),
)


def _descent(iterations: int, batches: int, curvature: float, loss: float) -> Reference:
    """Return the reference of noisy descent on losses with constant gradients, in the last batch, and a quadratic regulariser."""
    factors = [(1.0 - curvature) ** later for later in range(iterations)]
    sigma = 3.0 * math.hypot(*factors) / math.fsum(factors[::batches])
    keys = {"noise_multiplier": 3.0, "iterations": iterations, "batches": batches, "strong_convexity": curvature}
    return Reference("last-iterate", keys | STEP, contribution(noise.normal, sigma), loss=loss)


def _in_set(situation: Situation) -> Iterator[Release]:
    """Yield the last models of descents on [0, 1] with constant gradients."""
    for total in noise.sums(situation.adjacency, "contribution", 1.0):
        yield noise.descent(total, 9, 1.0, 3.0, 1.0, TWO_OUTCOMES_CELLS)


def _drawn_descents(iterations: int, curvature: float, rate: float, sigma: float) -> Releases:
    """Return last models as in `_descent`, if each record is in the batch of each step with probability `rate`."""
    factors = np.array([(1.0 - curvature) ** later for later in range(iterations)])
    spread = sigma * float(np.linalg.norm(factors))

    def released(total: noise.Sum, count: int, records: Records) -> Array:
        laws = []
        for chosen in itertools.product((0, 1), repeat=iterations * len(records)):
            batches = np.reshape(chosen, (iterations, len(records)))
            moves = [total(tuple(itertools.compress(records, batch))) for batch in batches]
            weight = math.prod(rate if each else 1.0 - rate for each in chosen)
            laws.append(weight * noise.cells(noise.normal(spread), float(factors @ moves), -REACH * spread, REACH * spread, count))
        return np.asarray(sum(laws))

    def releases(situation: Situation) -> Iterator[Release]:
        for total in noise.sums(situation.adjacency, "contribution", 1.0):
            yield partial(released, total, situation.cells // 10)

    return releases


STEP: dict[str, object] = {"learning_rate": 1.0, "smoothness": 1.0}  # keys that every descent has
DESCENTS = (
    _descent(4, 1, 0.2, 5e-3),
    _descent(4, 2, 0.2, 1.0),
    Reference(
        "last-iterate",
        {"noise_multiplier": 3.0, "iterations": 9, "diameter": 1.0, "lipschitz": 1.0, "divisor": 1, **STEP},
        _in_set,
        loss=1.0,
    ),
    Reference(
        "last-iterate",
        {"noise_multiplier": 1.0, "iterations": 3, "strong_convexity": 0.99, "drawn": "poisson", "inclusion": 0.3, **STEP},
        _drawn_descents(3, 0.99, 0.3, 1.0),
        loss=1.0,
    ),
)


def _selection(trials: dict[str, object], generating: Function) -> Reference:
    """Return the reference of a selection among trials with Laplace noise, whose number has this probability generating function."""
    trial = {"type": "laplace", "noise_multiplier": 1.0}
    return Reference(
        "repeat-and-select", {"mechanism": "trial", "trials": trials}, best_of_trials(generating), members={"trial": trial}
    )


SELECTIONS = (
    _selection({"distribution": "poisson", "mean": 2.0}, lambda x: np.exp(2.0 * (x - 1.0))),
    _selection({"distribution": "binomial", "mean": 2.0, "most": 4}, lambda x: (0.5 + 0.5 * x) ** 4),
    _selection({"distribution": "geometric", "gamma": 0.5}, lambda x: 0.5 * x / (1.0 - 0.5 * x)),
    _selection({"distribution": "logarithmic", "gamma": 0.5}, lambda x: np.log1p(-0.5 * x) / math.log(0.5)),
)


def _confident_votes(keys: dict[str, object], answers: int) -> Reference:
    """Return the reference of a session of two queries, of which at most `answers` are answered; `keys` states the limit, if any."""
    session_keys: dict[str, object] = {"queries": 2, "threshold": 3.0, "threshold_sigma": 2.0, "sigma": 2.0}
    return Reference("confident-gnmax", session_keys | keys, partial(predictions.sessions, 2, answers, 3.0, 2.0, 2.0))


def _ensemble(shards: int, rate: float, radius: float, change: str) -> Reference:
    return Reference(
        "pmixed",
        {"shards": shards, "model_rate": rate, "radius": radius, "change": change},
        partial(predictions.ensembles, shards, rate, radius, change),
    )


def _decoding_with_threshold(clip: float, threshold: float) -> Reference:
    """Return the reference of tokens that are public if the distance of the predictions is below a noisy threshold."""
    return Reference(
        "private-decoding",
        {"clip": clip, "references": 3, "temperature": 0.8, "threshold": threshold, "scale": 0.2},
        lambda _: predictions.compared(clip, 3, 0.8, threshold, 0.2),
    )


PREDICTIONS = (
    Reference("gnmax", {"sigma": 1.0}, partial(predictions.voting, "normal", 1.0)),
    Reference("gnmax", {"sigma": 3.0}, partial(predictions.voting, "normal", 3.0)),
    Reference("lnmax", {"scale": 2.0}, partial(predictions.voting, "laplace", 2.0)),
    _confident_votes({}, 2),
    _confident_votes({"answers": 1}, 1),
    _ensemble(3, 0.5, 0.6, "replace-shard"),
    _ensemble(3, 0.5, 0.6, "remove-shard"),
    _ensemble(2, 1.0, 0.4, "replace-shard"),
    _ensemble(2, 1.0, 0.4, "remove-shard"),
    Reference("private-decoding", {"clip": 2.0, "references": 3, "temperature": 0.8}, lambda _: predictions.decoding(2.0, 3, 0.8)),
    _decoding_with_threshold(0.2, 0.0),
    _decoding_with_threshold(2.0, 0.4),
)
REFERENCES: tuple[Reference, ...] = (
    *ADDITIVE_NOISE,
    *CHOICES,
    *STABILITY,
    *STATED,
    *GROUPS,
    *STREAMS,
    *DESCENTS,
    *SELECTIONS,
    *PREDICTIONS,
    Reference("post-processing", {}, empty_release),
)
