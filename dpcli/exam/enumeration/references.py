"""References for the mechanism types of this package. A reference has the keys of an entry, and the releases that these keys allow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcli.exam.enumeration import additive_noise as noise
from dpcli.exam.enumeration import choice_releases as choices
from dpcli.exam.enumeration import predictions
from dpcli.exam.enumeration import thresholds as stability
from dpcli.exam.enumeration.drawing_records import SEVERAL_STEPS_CELLS, Array, Records, Release, Situation
from dpcli.exam.enumeration.matrices import banded, blt, largest_norm, toeplitz, tree

# A release of two numbers has cells^2 joint outcomes. Each number therefore has fewer cells than a release of one number.
TWO_OUTCOMES_CELLS = 64
TWO_OUTCOMES_SEVERAL_STEPS_CELLS = 36
# The cells reach this many noise scales from 0. It is a whole number, so that edges of cells lie at the kinks of Laplace noise.
REACH = 12.0


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """An entry of a file, and the releases that the entry allows.

    Attributes:
        type, keys: Mechanism type and keys of the entry.
        releases: Function that yields the releases that the entry allows in a situation.
        members: Other entries of the file to which the entry refers, by name.
        stated: Whether the entry states a guarantee. It must then state what the guarantee covers if a unit has several records.
        loss: Largest share of delta that discretisation may lose.
    """

    type: str
    keys: dict[str, object]
    releases: Callable[[Situation], Iterator[Release]]
    members: dict[str, dict[str, object]] = field(default_factory=dict)
    stated: bool = False
    loss: float = 5e-3


def contribution(kind: Callable[[float], Callable[[Array], Array]], level: float) -> Callable[[Situation], Iterator[Release]]:
    """Return releases with noise of `level` on sums of contributions up to 1."""

    def releases(situation: Situation) -> Iterator[Release]:
        for total in noise.sums(situation.adjacency, "contribution", 1.0):
            yield noise.additive(kind(level), total, REACH * level, situation.cells)

    return releases


def bare(kind: Callable[[float], Callable[[Array], Array]], level: float, size: float) -> Callable[[Situation], Iterator[Release]]:
    """Return releases with noise of `level` on sums that move by at most `size`."""

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, size):
            yield noise.additive(kind(level), total, REACH * level, situation.cells)

    return releases


def _bare_sums(situation: Situation, size: float) -> Iterator[noise.Sum]:
    """Return sums that one change moves by at most `size`."""
    return noise.sums(situation.adjacency, "bare", size, unit=situation.contributions > 1)


def on_integers(log_weight: Callable[[Array], Array], size: int, reach: int) -> Callable[[Situation], Iterator[Release]]:
    """Return releases of an integer that moves by at most `size`, with noise on the integers up to `reach`."""

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, float(size)):
            yield noise.lattice(log_weight, total, reach)

    return releases


def on_vectors(log_weight: Callable[[Array], Array], reach: int) -> Callable[[Situation], Iterator[Release]]:
    """Return releases of two integers that one change moves by 1 each.

    If the entry's bound is attained by other data, such as one integer that moves by 2, its reference needs loss = 1.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for total in _bare_sums(situation, 1.0):
            release = noise.lattice(log_weight, total, reach)
            yield lambda records, release=release: np.multiply.outer(release(records), release(records)).ravel()  # type: ignore[misc]

    return releases


def choice(release: Callable[[choices.Scores], Release]) -> Callable[[Situation], Iterator[Release]]:
    """Return releases of a choice among candidates, for several score functions."""
    return lambda situation: (release(score) for score in choices.scores(situation.adjacency))


def _record_sum(situation: Situation) -> Callable[[Records], float]:
    """Return a sum to which a changing record adds 1. Under replace-one, it adds 1/2, and the record that replaces it adds -1/2."""
    value = {"x": 0.5, "y": -0.5, "z": 0.0, "o": 0.0} if situation.adjacency == "replace-one" else {"x": 1.0, "z": 0.0, "o": 0.0}
    return lambda records: math.fsum(value[record] for record in records)


def _bit(situation: Situation, epsilon: float, reveals: float = 0.0) -> Release:
    """Return a release of the bit that states whether a changing record is present.

    With probability `reveals`, the bit is released truthfully, as a separate outcome. Otherwise it is released by randomised response.
    """

    def release(records: Records) -> Array:
        present = "x" in records
        honest = (1.0 - reveals) / (1.0 + math.exp(-epsilon))
        law = [honest, 1.0 - reveals - honest] if present else [1.0 - reveals - honest, honest]
        return np.array([*law, reveals * present, reveals * (not present)])

    return release


def stated_pure(epsilon: float) -> Callable[[Situation], Iterator[Release]]:
    """Return releases that are tight for epsilon-DP: a bit by randomised response, and a sum with Laplace noise."""

    def releases(situation: Situation) -> Iterator[Release]:
        yield _bit(situation, epsilon)
        total = _record_sum(situation)
        yield noise.additive(noise.laplace(1.0 / epsilon), total, REACH / epsilon, situation.cells)

    return releases


def stated_zcdp(rho: float) -> Callable[[Situation], Iterator[Release]]:
    """Return a release that is tight for rho-zCDP: a sum with Gaussian noise."""
    sigma = 1.0 / math.sqrt(2.0 * rho)
    return lambda situation: iter([noise.additive(noise.normal(sigma), _record_sum(situation), REACH * sigma, situation.cells)])


def responses(epsilon: float, categories: int, blank: int | None = 1) -> Callable[[Situation], Iterator[Release]]:
    """Return releases of every record by randomised response.

    Args:
        blank: Category of a blanked record; None if its response is uniform.
    """

    def releases(situation: Situation) -> Iterator[Release]:
        for other in range(categories):
            yield noise.responses(epsilon, categories, blank, other)

    return releases


def gaussian_mixture(
    shifts: tuple[float, ...], weights: tuple[float, ...], sigma: float
) -> Callable[[Situation], Iterator[Release]]:
    """Return releases of a sum to which each record contributes a random shift."""

    def releases(situation: Situation) -> Iterator[Release]:
        for other in (-1.0, 0.0, 1.0):
            yield noise.mixture(shifts, weights, sigma, min(situation.cells, SEVERAL_STEPS_CELLS), other)

    return releases


def matrix_release(encoder: Array, separation: int, most: int, sigma: float) -> Callable[[Situation], Iterator[Release]]:
    """Return a release of an encoded stream, projected on the direction in which a unit moves it.

    The stream moves by the largest norm over all participation patterns.
    """
    norm = largest_norm(encoder, separation, most)

    def releases(situation: Situation) -> Iterator[Release]:
        for total in itertools.islice(noise.sums(situation.adjacency, "contribution", norm), 1):
            yield noise.additive(noise.normal(sigma), total, REACH * sigma, situation.cells)

    return releases


def laplace_and_gaussian(situation: Situation) -> Iterator[Release]:
    """Yield a Laplace and a Gaussian release of the same sample."""
    cells = TWO_OUTCOMES_CELLS if situation.draws.steps == 1 else TWO_OUTCOMES_SEVERAL_STEPS_CELLS
    for total in noise.sums(situation.adjacency, "contribution", 1.0):
        laplace = noise.additive(noise.laplace(2.0), total, 12.0, cells)
        gaussian = noise.additive(noise.normal(1.5), total, 12.0, cells)
        yield lambda records, one=laplace, two=gaussian: np.multiply.outer(one(records), two(records)).ravel()  # type: ignore[misc]


# Probability generating functions of the number of trials.
GENERATING: dict[str, Callable[[Array], Array]] = {
    "poisson": lambda x: np.exp(2.0 * (x - 1.0)),
    "geometric": lambda x: 0.5 * x / (1.0 - 0.5 * x),
    "logarithmic": lambda x: np.log1p(-0.5 * x) / math.log(0.5),
}
# Orders of preference of n outcomes.
ORDERS: tuple[Callable[[int], NDArray[np.signedinteger]], ...] = (
    np.arange,
    lambda n: np.arange(n)[::-1],
    lambda n: np.random.default_rng(5).permutation(n),
)


def best_of_trials(trials: str) -> Callable[[Situation], Iterator[Release]]:
    """Return releases of the best of a random number of Laplace releases, for several orders of preference."""

    def releases(situation: Situation) -> Iterator[Release]:
        for total, order in itertools.product(noise.sums(situation.adjacency, "contribution", 1.0), ORDERS):
            yield choices.selected(noise.additive(noise.laplace(1.0), total, REACH, 240), GENERATING[trials], order)

    return releases


def empty_release(situation: Situation) -> Iterator[Release]:
    """Yield a release that does not depend on the records."""
    yield lambda records: np.ones(1)


TRIALS: dict[str, dict[str, object]] = {
    "poisson": {"distribution": "poisson", "mean": 2.0},
    "geometric": {"distribution": "geometric", "gamma": 0.5},
    "logarithmic": {"distribution": "logarithmic", "gamma": 0.5},
}
LAPLACE = {"type": "laplace", "noise_multiplier": 1.0}
MEMBERS = {"m1": {"type": "laplace", "noise_multiplier": 2.0}, "m2": {"type": "gaussian", "noise_multiplier": 1.5}}
NORMAL = {"m1": {"type": "gaussian", "noise_multiplier": 1.5}, "m2": {"type": "gaussian", "noise_multiplier": 2.0}}
SHIFTS, WEIGHTS = (0.5, 2.0), (0.75, 0.25)

REFERENCES: tuple[Reference, ...] = (
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
    # The log weights of discrete Gaussian noise are -x^2 / (2 sigma^2). The divisor is 0.98 for sigma = 0.7, and 4.5 for sigma = 1.5.
    Reference("discrete-gaussian", {"sigma": 0.7, "sensitivity": 1}, on_integers(lambda x: -x * x / 0.98, 1, 20)),
    Reference("discrete-gaussian", {"sigma": 1.5, "sensitivity": 2, "dimension": 1}, on_integers(lambda x: -x * x / 4.5, 2, 40)),
    *(
        Reference("discrete-gaussian", {"sigma": 1.0, **keys}, on_vectors(lambda x: -x * x / 2.0, 6))
        for keys in ({"l2_sensitivity": 1.4142135623730951}, {"sensitivity": 2})
    ),
    Reference("discrete-laplace", {"scale": 1.0, "sensitivity": 2}, on_vectors(lambda x: -np.abs(x), 9), loss=1.0),
    Reference("discrete-laplace", {"scale": 1.5, "sensitivity": 2}, on_integers(lambda x: -np.abs(x) / 1.5, 2, 60)),
    Reference("randomized-response", {"epsilon": 1.0, "categories": 3}, responses(1.0, 3), stated=True),
    Reference("randomized-response", {"epsilon": 1.0, "categories": 3, "blank": "uniform"}, responses(1.0, 3, None), stated=True),
    Reference("exponential", {"epsilon": 1.0}, choice(lambda score: choices.exponential(1.0, score)), stated=True),
    *(
        Reference(
            "report-noisy-max",
            {"epsilon": 1.0, "noise": name},
            choice(lambda score, name=name: choices.noisy_max(1.0, name, score)),  # type: ignore[misc]
            stated=True,
        )
        for name in choices.NOISES
    ),
    Reference("permute-and-flip", {"epsilon": 1.0}, choice(lambda score: choices.permute_and_flip(1.0, score)), stated=True),
    *(
        Reference(
            "sparse-vector",
            {"epsilon": 1.0, "answers": answers, "threshold_share": share},
            choice(lambda score, a=answers, s=share: choices.above_threshold(1.0, a, s, score)),  # type: ignore[misc]
            stated=True,
        )
        for answers, share in ((1, 0.5), (2, 0.3))
    ),
    Reference(
        "propose-test-release",
        {"epsilon": 1.0, "delta": 0.05},
        lambda s: stability.tested_modes(s.adjacency, 1.0, 0.05),
        stated=True,
    ),
    Reference(
        "propose-test-release",
        {"epsilon": 0.5, "delta": 0.1, "mechanism": "m1"},
        lambda s: stability.tested_number(0.5, 0.1, 2.0, s),
        members={"m1": {"type": "laplace", "scale": 2.0, "sensitivity": 1.0}},
        stated=True,
    ),
    *(
        Reference(
            "stability-histogram",
            {"scale": 1.5, "threshold": least, "max_groups": keys, "max_rows": rows},
            lambda s, t=least, k=keys, r=rows: stability.shown_keys(lambda x: math.exp(-abs(x) / 1.5), t, k, r, s),  # type: ignore[misc]
        )
        for least, keys, rows in ((5, 1, 1), (6, 2, 1), (7, 1, 2))
    ),
    *(
        Reference(
            "stability-histogram",
            {"sigma": 1.5, "threshold": least, "max_groups": keys, "max_rows": rows},
            lambda s, t=least, k=keys, r=rows: stability.shown_keys(lambda x: math.exp(-x * x / 4.5), t, k, r, s),  # type: ignore[misc]
        )
        for least, keys, rows in ((4, 1, 1), (3, 2, 1), (6, 1, 2))
    ),
    Reference("pure-dp", {"epsilon": 0.8}, stated_pure(0.8), stated=True),
    Reference("approx-dp", {"epsilon": 0.8, "delta": 0.02}, lambda s: iter([_bit(s, 0.8, 0.02)]), stated=True),
    Reference("zcdp", {"rho": 0.2}, stated_zcdp(0.2), stated=True),
    Reference("rdp", {"orders": (1.5, 3.0, 9.0), "values": (0.3, 0.6, 1.8)}, stated_zcdp(0.2), stated=True),
    Reference("composed", {"mechanisms": ("m1", "m2")}, laplace_and_gaussian, members=MEMBERS, loss=0.03),
    # The weighted mean of the two Gaussian outcomes is a sufficient statistic, with a noise multiplier of 1.2.
    Reference("composed", {"mechanisms": ("m1", "m2")}, contribution(noise.normal, 1.2), members=NORMAL),
    *(
        Reference(
            "tree-aggregation",
            {"noise_multiplier": 3.0, "iterations": 6, "max_participations": k, "min_separation": b},
            matrix_release(tree(6), b, k, 3.0),
        )
        for k, b in ((1, 1), (2, 3))
    ),
    *(
        Reference(
            "banded-toeplitz",
            {
                "noise_multiplier": 3.0,
                "iterations": 7,
                "max_participations": k,
                "min_separation": b,
                "coefficients": (1.0, 0.5, 0.25),
            },
            matrix_release(toeplitz((1.0, 0.5, 0.25), 7), b, k, 3.0),
        )
        for k, b in ((1, 1), (2, 3), (9, 2))
    ),
    *(
        Reference(
            "banded-matrix",
            {"noise_multiplier": 3.0, "iterations": 7, "max_participations": k, "min_separation": b, "bands": bands},
            matrix_release(banded(bands, 7), b, k, 3.0),
        )
        for k, b, bands in ((1, 3, 3), (3, 3, 2), (9, 2, 2))
    ),
    Reference(
        "buffered-toeplitz",
        {
            "noise_multiplier": 3.0,
            "iterations": 6,
            "max_participations": 2,
            "min_separation": 2,
            "buf_decay": (0.9, 0.5),
            "output_scale": (0.4, 0.3),
        },
        matrix_release(blt((0.9, 0.5), (0.4, 0.3), 6), 2, 2, 3.0),
    ),
    *(
        Reference(
            "repeat-and-select", {"mechanism": "trial", "trials": TRIALS[name]}, best_of_trials(name), members={"trial": LAPLACE}
        )
        for name in TRIALS
    ),
    *(
        Reference("gnmax", {"sigma": level}, lambda s, level=level: predictions.voting("normal", level, s))  # type: ignore[misc]
        for level in (1.0, 3.0)
    ),
    Reference("lnmax", {"scale": 2.0}, lambda s: predictions.voting("laplace", 2.0, s)),
    *(
        Reference(
            "confident-gnmax",
            {"queries": 2, "threshold": 3.0, "threshold_sigma": 2.0, "sigma": 2.0, **({"answers": answers} if answers else {})},
            lambda s, answers=answers: predictions.sessions(2, answers or 2, 3.0, 2.0, 2.0, s),  # type: ignore[misc]
        )
        for answers in (None, 1)
    ),
    *(
        Reference(
            "pmixed",
            {"shards": shards, "model_rate": rate, "radius": radius, "change": change},
            lambda s, n=shards, q=rate, r=radius, c=change: predictions.ensembles(  # type: ignore[misc]
                n, q, r, c == "remove-shard" and s.adjacency == "add-remove", s
            ),
        )
        for (shards, rate, radius), change in itertools.product(((3, 0.5, 0.6), (2, 1.0, 0.4)), ("replace-shard", "remove-shard"))
    ),
    Reference("private-decoding", {"clip": 2.0, "references": 3, "temperature": 0.8}, lambda s: predictions.decoding(2.0, 3, 0.8)),
    *(
        Reference(
            "private-decoding",
            {"clip": clip, "references": 3, "temperature": 0.8, "threshold": threshold, "scale": 0.2},
            lambda s, clip=clip, threshold=threshold: predictions.compared(clip, 3, 0.8, threshold, 0.2),  # type: ignore[misc]
        )
        for clip, threshold in ((0.2, 0.0), (2.0, 0.4))
    ),
    Reference("post-processing", {}, empty_release),
)
