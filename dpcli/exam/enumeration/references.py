"""REFERENCES: for each mechanism type of this package, entries of a file and releases that the entries allow.

The exam enumerates these releases and compares the result with the bounds that accountants claim for the entry (bracket.py). A *release*
maps the records of a sample to the probability of each outcome, and a *situation* is an adjacency, a sampling scheme, and numbers of
records and units. A new mechanism type needs at least one reference, whose releases should include one that *attains* the bound, which
means that its delta equals the claimed delta. Continuous outcomes are divided into cells, which can only lower the enumerated delta
(`Reference.loss`). The numbers of the entries are arbitrary, but small enough that the enumeration is fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.linalg import block_diag

from dpcli.exam.enumeration import additive_noise as noise
from dpcli.exam.enumeration import choice_releases as choices
from dpcli.exam.enumeration import predictions
from dpcli.exam.enumeration import thresholds as stability
from dpcli.exam.enumeration.drawing_records import Array
from dpcli.exam.enumeration.matrices import banded, blt, toeplitz, tree
from dpcli.exam.enumeration.reference_releases import (
    Function,
    Releases,
    bare,
    best_of_trials,
    choice,
    contribution,
    descents_on_unit_interval,
    drawn_descents,
    empty_release,
    gaussian_mixture,
    laplace_and_gaussian,
    matrix_release,
    on_integers,
    on_vectors,
    responses,
    shuffled,
    stated_approx,
    stated_pure,
    stated_zcdp,
)


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


# A Gaussian mixture: a record moves the sum by one of these shifts, drawn with these probabilities.
SHIFTS, WEIGHTS = (0.5, 2.0), (0.75, 0.25)
ADDITIVE_NOISE = (
    Reference("gaussian", {"noise_multiplier": 0.7}, contribution(noise.normal, 0.7)),
    Reference("gaussian", {"sigma": 2.0, "sensitivity": 1.0}, bare(noise.normal, scale=2.0, size=1.0)),
    Reference(
        "gaussian-mixture",
        {"sensitivities": SHIFTS, "probabilities": WEIGHTS, "sigma": 1.0},
        gaussian_mixture(SHIFTS, WEIGHTS, 1.0),
    ),
    Reference(
        "gaussian-mixture", {"sensitivities": (0.7,), "probabilities": (1.0,), "sigma": 1.0}, gaussian_mixture((0.7,), (1.0,), 1.0)
    ),
    Reference("laplace", {"noise_multiplier": 1.0}, contribution(noise.laplace, 1.0)),
    Reference("laplace", {"scale": 2.0, "sensitivity": 1.0}, bare(noise.laplace, scale=2.0, size=1.0)),
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
    Reference("shuffled-reports", {"users": 3, "local_epsilon": 1.0}, shuffled(1.0, categories=2, users=3), stated=True),
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
    _sparse_vector(answers=1, share=0.5),
    _sparse_vector(answers=2, share=0.3),
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
        partial(stability.shown_keys, HISTOGRAM_WEIGHTS[noise_key], threshold, keys, rows),  # the situation is added by the exam
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
    _histogram("scale", threshold=5, keys=1, rows=1),
    _histogram("scale", threshold=6, keys=2, rows=1),
    _histogram("scale", threshold=7, keys=1, rows=2),
    _histogram("sigma", threshold=4, keys=1, rows=1),
    _histogram("sigma", threshold=3, keys=2, rows=1),
    _histogram("sigma", threshold=6, keys=1, rows=2),
)
STATED = (
    Reference("pure-dp", {"epsilon": 0.8}, stated_pure(0.8), stated=True),
    Reference("approx-dp", {"epsilon": 0.8, "delta": 0.02}, stated_approx(0.8, 0.02), stated=True),
    Reference("zcdp", {"rho": 0.2}, stated_zcdp(0.2), stated=True),
    Reference("zcdp", {"rho": 0.2, "xi": 0.1, "delta": 0.02}, stated_zcdp(0.2, xi=0.1, reveals=0.02), stated=True, loss=0.03),
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
        participations: Largest number of participations of a unit.
        separation: Smallest number of steps from one participation of a unit to its next one.
        keys: Keys of this type that the other types for streams do not have.
    """
    stream_keys = {
        "noise_multiplier": 3.0,
        "iterations": encoder.shape[1],
        "max_participations": participations,
        "min_separation": separation,
    }
    return Reference(kind, stream_keys | keys, matrix_release(encoder, separation, most=participations, sigma=3.0))


def _banded_toeplitz(participations: int, separation: int) -> Reference:
    column = (1.0, 0.5, 0.25)
    return _stream("banded-toeplitz", toeplitz(column, 7), participations, separation, {"coefficients": column})


def _banded_matrix(participations: int, separation: int, bands: int) -> Reference:
    return _stream("banded-matrix", banded(bands, 7), participations, separation, {"bands": bands})


def _buffered_toeplitz(decays: tuple[float, ...], scales: tuple[float, ...]) -> Reference:
    return _stream("buffered-toeplitz", blt(decays, scales, 6), 2, 2, {"buf_decay": decays, "output_scale": scales})


STREAMS = (
    _stream("tree-aggregation", tree(6), participations=1, separation=1, keys={}),
    _stream("tree-aggregation", tree(6), participations=2, separation=3, keys={}),
    _stream("tree-aggregation", block_diag(tree(3), tree(4)), participations=2, separation=3, keys={"trees": (3, 4)}),
    _banded_toeplitz(participations=1, separation=1),
    _banded_toeplitz(participations=2, separation=3),
    _banded_toeplitz(participations=9, separation=2),
    _banded_matrix(participations=1, separation=3, bands=3),
    _banded_matrix(participations=3, separation=3, bands=2),
    _banded_matrix(participations=9, separation=2, bands=2),
    _buffered_toeplitz(decays=(0.9, 0.5), scales=(0.4, 0.3)),
)


def _descent(iterations: int, batches: int, curvature: float, loss: float) -> Reference:
    """Return the reference of noisy descent on losses with constant gradients and a quadratic regulariser.

    Each step contracts the model by 1 - `curvature`, so the last model is a sum of gradients with Gaussian noise. The changing record is in
    the batch of the last step, and of every `batches`-th step before it, which is the worst place: its gradients are contracted least.
    """
    factors = [(1.0 - curvature) ** later for later in range(iterations)]
    sigma = 3.0 * math.hypot(*factors) / math.fsum(factors[::batches])  # the noise of the last model over the record's share in it
    keys = {"noise_multiplier": 3.0, "iterations": iterations, "batches": batches, "strong_convexity": curvature}
    return Reference("last-iterate", keys | STEP, contribution(noise.normal, sigma), loss=loss)


STEP: dict[str, object] = {"learning_rate": 1.0, "smoothness": 1.0}  # keys that every descent has
DESCENTS = (
    _descent(iterations=4, batches=1, curvature=0.2, loss=5e-3),
    _descent(iterations=4, batches=2, curvature=0.2, loss=1.0),
    Reference(
        "last-iterate",
        {"noise_multiplier": 3.0, "iterations": 9, "diameter": 1.0, "lipschitz": 1.0, "divisor": 1, **STEP},
        descents_on_unit_interval,
        loss=1.0,
    ),
    Reference(
        "last-iterate",
        {"noise_multiplier": 1.0, "iterations": 3, "strong_convexity": 0.99, "drawn": "poisson", "inclusion": 0.3, **STEP},
        drawn_descents(iterations=3, curvature=0.99, rate=0.3, sigma=1.0),
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
    return Reference(
        "confident-gnmax",
        session_keys | keys,
        lambda situation: predictions.sessions(
            queries=2, answers=answers, threshold=3.0, query_noise=2.0, answer_noise=2.0, situation=situation
        ),
    )


def _ensemble(shards: int, rate: float, radius: float, change: str) -> Reference:
    """Return the reference of tokens from a random subset of models, each within a radius of the public one (predictions.py)."""
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
        lambda _: predictions.compared(clip, batch=3, temperature=0.8, threshold=threshold, scale=0.2),
    )


PREDICTIONS = (
    Reference("gnmax", {"sigma": 1.0}, partial(predictions.voting, "normal", 1.0)),
    Reference("gnmax", {"sigma": 3.0}, partial(predictions.voting, "normal", 3.0)),
    Reference("lnmax", {"scale": 2.0}, partial(predictions.voting, "laplace", 2.0)),
    _confident_votes({}, answers=2),
    _confident_votes({"answers": 1}, answers=1),
    _ensemble(shards=3, rate=0.5, radius=0.6, change="replace-shard"),
    _ensemble(shards=3, rate=0.5, radius=0.6, change="remove-shard"),
    _ensemble(shards=2, rate=1.0, radius=0.4, change="replace-shard"),
    _ensemble(shards=2, rate=1.0, radius=0.4, change="remove-shard"),
    Reference("private-decoding", {"clip": 2.0, "references": 3, "temperature": 0.8}, lambda _: predictions.decoding(2.0, 3, 0.8)),
    _decoding_with_threshold(clip=0.2, threshold=0.0),
    _decoding_with_threshold(clip=2.0, threshold=0.4),
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
