"""Correlated noise (banded matrices, trees) on Poisson samples of groups of records that take turns: the claimed delta against the mixture
over all draws of a record, by quadrature of two dimensions and by simulation.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.exam.enumeration.matrices import banded, toeplitz
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.noise.correlated import BandedSpec, ToeplitzSpec, TreeSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, OncePerEpoch, Poisson, Scheme
from tests.cases import fresh_random, of_each
from tests.strategies import dp_sgd, entry, pipeline

Matrix = np.ndarray[Any, np.dtype[np.float64]]
NOISE, RATE = 1.2, 0.4  # of a group's turn; with two groups the file states half this rate
EPSILONS = (0.05, 0.5, 1.5)
RUN = {"noise_multiplier": NOISE, "iterations": 4, "max_participations": 2, "min_separation": 2}
BANDED = BandedSpec(**RUN, bands=2)  # type: ignore[arg-type]
TREE = TreeSpec(**RUN)  # type: ignore[arg-type]
TOEPLITZ = ToeplitzSpec(**RUN, coefficients=(1.0, 0.6))  # type: ignore[arg-type]


def run(spec: Any, scheme: Scheme | None = None, **keys: Any) -> Entry:
    scheme = Poisson("poisson", RATE / 2) if scheme is None else scheme
    return replace(entry("gaussian", noise_multiplier=1.0), type="banded-matrix", spec=spec, sampling=scheme, **keys)


def claims(spec: Any, epsilon: float, adjacency: str = "add-remove", group: int = 1, **privacy: Any) -> tuple[float, float]:
    """Return the bounds on delta."""
    result = account(pipeline(run(spec), adjacency=adjacency, **privacy), ("exact", "rdp"), epsilon=epsilon, group_size=group)
    return result.lower or 0.0, result.upper


def mixture(encoder: Matrix, turns: list[int], size: float = 1.0) -> tuple[Matrix, Matrix]:
    """Return the means of the encoded stream, in units of the noise, with probabilities. Each turn draws a record independently."""
    draws = np.array(list(itertools.product((0.0, 1.0), repeat=len(turns))))
    return draws @ encoder[:, turns].T * size / NOISE, np.prod(np.where(draws > 0.0, RATE, 1.0 - RATE), axis=1)


def delta(p: tuple[Matrix, Matrix], q: tuple[Matrix, Matrix], epsilon: float) -> float:
    """Return the hockey-stick divergence of two mixtures of unit Gaussians, by the rectangle rule on the plane of their means."""
    means = np.concatenate((p[0], q[0]))
    directions = np.linalg.svd(means)[2][: np.linalg.matrix_rank(means)]
    assert len(directions) == 2
    step = 0.04
    axis = np.arange(-9.0, 9.0, step)

    def density(law: tuple[Matrix, Matrix]) -> Matrix:
        x, y = (np.exp(-0.5 * np.square(axis - mean[:, None])) for mean in directions @ law[0].T)
        return np.asarray((x * law[1][:, None]).T @ y) * step**2 / (2.0 * math.pi)

    return float(np.maximum(density(p) - math.exp(epsilon) * density(q), 0.0).sum())


NOTHING = (np.zeros((1, 4)), np.ones(1))


@pytest.mark.long
def test_the_first_group_attains_the_bound_and_the_second_does_not_exceed_it() -> None:
    """2 groups, 4 steps, 2 bands. In the second group, the last column of a Toeplitz encoder is cut off at the end of the run."""
    for spec, encoder in ((BANDED, banded(2, 4)), (TOEPLITZ, toeplitz((1.0, 0.6), 4))):
        for epsilon in EPSILONS[1:]:
            first = mixture(encoder, [0, 2])
            exact = max(delta(first, NOTHING, epsilon), delta(NOTHING, first, epsilon))
            lower, upper = claims(spec, epsilon)
            assert exact * (1.0 - 1e-3) <= upper and lower <= exact * (1.0 + 1e-3), (spec, epsilon)
            assert upper <= exact * (1.0 + 1e-3), (spec, epsilon)
            second = mixture(encoder, [1, 3])
            other = max(delta(second, NOTHING, epsilon), delta(NOTHING, second, epsilon))
            assert other <= upper * (1.0 + 1e-3), (spec, epsilon)
            assert (other < upper * (1.0 - 1e-3)) == (spec is TOEPLITZ), (spec, epsilon)


@pytest.mark.long
def test_other_adjacencies() -> None:
    encoder = banded(2, 4)
    for epsilon in EPSILONS:
        one, opposite = mixture(encoder, [0, 2]), mixture(encoder, [0, 2], -1.0)
        assert claims(BANDED, epsilon, "zero-out") == claims(BANDED, epsilon)
        assert delta(one, opposite, epsilon) == pytest.approx(claims(BANDED, epsilon, "replace-one")[1], rel=1e-3)


@pytest.mark.nightly
def test_two_records_of_a_unit_share_a_group_and_two_units_need_not() -> None:
    """Two units in one group, or in two groups whose columns overlap, cost at most what the group theorem says."""
    encoder = banded(2, 4)
    draws = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    weights = np.prod(np.where(draws > 0.0, RATE, 1.0 - RATE), axis=1)
    same = (draws[:, :2] + draws[:, 2:]) @ encoder[:, [0, 2]].T / NOISE, weights
    for epsilon in EPSILONS:
        exact = max(delta(same, NOTHING, epsilon), delta(NOTHING, same, epsilon))
        assert claims(BANDED, epsilon, unit="user", max_contributions=2)[1] == pytest.approx(exact, rel=1e-3)
        assert claims(BANDED, epsilon, group=2)[1] >= exact
    short = replace(BANDED, iterations=2, max_participations=1)
    for epsilon in EPSILONS:
        overlap = draws[:4, 2:] @ banded(2, 2).T / NOISE, np.prod(np.where(draws[:4, 2:] > 0.0, RATE, 1.0 - RATE), axis=1)
        none = np.zeros((1, 2)), np.ones(1)
        assert claims(short, epsilon, group=2)[1] >= max(delta(overlap, none, epsilon), delta(none, overlap, epsilon))


@pytest.mark.nightly
def test_contributions_that_depend_on_earlier_outputs_cost_no_more() -> None:
    """The second contribution has the sign of what was seen before, which makes the first one more visible or less."""
    seed, count = fresh_random().getrandbits(64), 400_000
    rng, encoder = np.random.default_rng(seed), banded(2, 4)
    radius = math.sqrt(math.log(1e9) / (2 * count))  # Hoeffding: the mean of numbers in [0, 1] is off by more once in 10^9
    for way in (1.0, -1.0):

        def means(outputs: Matrix, drawn: tuple[float, float], way: float = way) -> Matrix:
            sign = np.where(way * (outputs[:, 0] + outputs[:, 1]) > 0.3, 1.0, -1.0)
            return (drawn[0] * encoder[:, 0] + drawn[1] * sign[:, None] * encoder[:, 2]) / NOISE

        def log_ratio(outputs: Matrix) -> Matrix:
            terms = []
            for drawn in itertools.product((0.0, 1.0), repeat=2):
                weight = math.prod(RATE if one else 1.0 - RATE for one in drawn)
                mean = means(outputs, drawn)
                terms.append(math.log(weight) + (outputs * mean).sum(axis=1) - 0.5 * np.square(mean).sum(axis=1))
            return np.asarray(np.logaddexp.reduce(terms, axis=0))

        outputs = rng.standard_normal((count, 4))
        first, second = (rng.random((2, count)) < RATE).astype(float)
        outputs += first[:, None] * encoder[:, 0] / NOISE  # rows 0 and 1 decide on the sign
        sign = means(outputs, (0.0, 1.0)) * NOISE
        outputs += second[:, None] * sign / NOISE
        ratio, none = log_ratio(outputs), log_ratio(rng.standard_normal((count, 4)))
        for epsilon in EPSILONS:
            seen = (
                float(np.maximum(-np.expm1(epsilon - ratio), 0.0).mean()),
                float(np.maximum(-np.expm1(epsilon + none), 0.0).mean()),
            )
            assert max(seen) - radius <= claims(BANDED, epsilon)[1], (seed, way, epsilon)


def test_one_band_is_dp_sgd_to_the_last_digit() -> None:
    keys = {"noise_multiplier": 0.9, "iterations": 300, "max_participations": 300}
    for spec in (BandedSpec(**keys, bands=1), ToeplitzSpec(**keys, bands=1), ToeplitzSpec(**keys, coefficients=(1.0,))):  # type: ignore[arg-type]
        for adjacency in ("add-remove", "replace-one", "zero-out"):
            found = resolve(pipeline(run(spec, Poisson("poisson", 0.01)), adjacency=adjacency))
            expected = resolve(dp_sgd(0.9, 0.01, 300, adjacency=adjacency))
            assert [(line.mechanism, line.count) for line in found] == [(line.mechanism, line.count) for line in expected], spec


def test_runs_and_turns() -> None:
    spec = BandedSpec(noise_multiplier=2.0, iterations=10, max_participations=9, min_separation=4, bands=3)
    (line,) = resolve(pipeline(run(spec, Poisson("poisson", 0.05), steps=5)))
    (turn,) = resolve(dp_sgd(2.0 / (1.0 + 1e-12), 0.2, 3))
    assert (line.mechanism, line.count) == (turn.mechanism, 15)
    sized = Poisson("poisson", None, 50)
    (stated,) = resolve(pipeline(run(spec, sized, steps=5), dataset_size=1000))
    assert stated.mechanism == line.mechanism
    (cut,) = resolve(pipeline(run(ToeplitzSpec(**RUN | {"iterations": 5, "max_participations": 3}, bands=2))))  # type: ignore[arg-type]
    assert not cut.mechanism.attained()


def test_more_bands_than_groups_exceed_the_bound() -> None:
    """One group in place of two: columns overlap, and the turns are no longer independent."""
    overlapping = mixture(toeplitz((1.0, 0.6), 4), [0, 1])
    turns = mixture(toeplitz((1.0, 0.6), 4), [0, 2])
    for epsilon in EPSILONS:
        assert delta(overlapping, NOTHING, epsilon) > delta(turns, NOTHING, epsilon) * 1.02, epsilon
    with pytest.raises(InputError, match="at most min_separation = 1 bands, found 2"):
        resolve(pipeline(run(replace(TOEPLITZ, min_separation=1, max_participations=4))))


@of_each(("spec", "scheme", "message"), [
        (BANDED, Poisson("poisson", 0.51), "at most 1/2 of all records, found rate = 0.51"),
        (replace(BANDED, max_participations=1), None, r"at least iterations / min_separation = 2, the turns of a group, found 1"),
        (BANDED, Poisson("poisson", 0.1, max_batch_size=5), "without max_batch_size"),
        (BANDED, BallsInBins("balls-in-bins", 0.1), "expected no sampling with banded-matrix, whose batches take turns"),
        (BANDED, OncePerEpoch("shuffle", 0.1), "batches take turns"),
        (TREE, None, "amplification of correlated noise needs banded-matrix or banded-toeplitz"),
    ])  # fmt: skip
def test_refused(spec: Any, scheme: Scheme | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(pipeline(run(spec, scheme), dataset_size=1000))


def test_refused_in_other_entries() -> None:
    """A sample that another entry reads too is refused, and so are epochs, which would count as runs."""
    shared = [
        run(BANDED, sample="batch"),
        replace(entry("gaussian", noise_multiplier=1.0), sampling=Poisson("poisson", 0.2), sample="batch"),
    ]
    epochs = [run(BANDED, epochs=3.0)]
    for entries in (shared, epochs):
        with pytest.raises(InputError, match="batches take turns"):
            resolve(pipeline(*entries, dataset_size=1000))
