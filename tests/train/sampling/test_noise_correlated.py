"""Correlated noise has the factorisation that the accountant prices: by its matrix, and by the covariance of the drawn noise."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch

from dpcli.analysis.account import account
from dpcli.base.errors import InputError, InternalError
from dpcli.exam.enumeration.matrices import toeplitz
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.noise.correlated import (
    BandedSpec,
    BufferedToeplitzSpec,
    CorrelatedSpec,
    ToeplitzSpec,
    TreeSpec,
    square_root,
)
from dpcli.random.streams import SeededStream, SystemStream, grid_of
from dpcli.train.banded_encoder import best_toeplitz, optimise_banded, prefix_error
from dpcli.train.noise import (
    Banded,
    BufferedToeplitz,
    Correlated,
    Noise,
    Tree,
    noise_of,
)
from dpcli.train.step.loop import add_noise
from tests.cases import fresh_random, require_each
from tests.command import ROOT
from tests.train.sampling.draws import flat

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def run(steps: int, most: int = 1, apart: int = 1) -> dict[str, float]:
    return {"noise_multiplier": 1.0, "iterations": steps, "max_participations": most, "min_separation": apart}


def specs(steps: int, most: int = 1, apart: int = 1) -> dict[str, CorrelatedSpec]:
    keys = run(steps, most, apart)
    return {
        "tree": TreeSpec(**keys),
        "trees": TreeSpec(**keys, trees=(steps,) if steps < 3 else (steps - 2, 2)),
        "stated": ToeplitzSpec(**keys, coefficients=(2.0, 1.5, 0.25)),
        "one-band": ToeplitzSpec(**keys, bands=1),
        "square-root": ToeplitzSpec(**keys, bands=6),
        "all-bands": ToeplitzSpec(**keys, bands=steps + 3),
        "matrix": BandedSpec(**keys, bands=min(apart, 4)),
        "wide-matrix": BandedSpec(**{**keys, "min_separation": max(apart, steps + 3)}, bands=steps + 3),
        "buffered": BufferedToeplitzSpec(**keys, buf_decay=(0.95, 0.4, 0.0), output_scale=(0.3, 0.2, 0.1)),
    }


NAMES = sorted(specs(1))


def encoder(spec: CorrelatedSpec) -> Matrix:
    """What the accountant says is released with noise, row by row, by the definition."""
    n = spec.iterations
    if isinstance(spec, TreeSpec):
        return np.array([[float(first <= column < last) for column in range(n)] for first, last in spans(spec)])
    if isinstance(spec, BandedSpec):
        columns = optimise_banded(n, min(spec.bands, n))
        return np.array([[columns[j, i - j] if 0 <= i - j < columns.shape[1] else 0.0 for j in range(n)] for i in range(n)])
    column = [coefficient(spec, k) for k in range(n)]
    return np.array([[column[row - k] if k <= row else 0.0 for k in range(n)] for row in range(n)])


def coefficient(spec: CorrelatedSpec, k: int) -> float:
    if isinstance(spec, BufferedToeplitzSpec):
        return 1.0 if k == 0 else sum(w * d ** (k - 1) for w, d in zip(spec.output_scale, spec.buf_decay, strict=True))
    assert isinstance(spec, ToeplitzSpec)
    if spec.coefficients is not None:
        return spec.coefficients[k] if k < len(spec.coefficients) else 0.0
    return math.comb(2 * k, k) / 4**k if k < (spec.bands or 0) else 0.0


class Basis:
    """Fresh draws that are unit vectors, one after the other: the noise of a step then is its row of the decoder."""

    def __init__(self, size: int) -> None:
        self.rows = iter(np.eye(size))

    def __call__(self, size: int) -> np.ndarray:
        return next(self.rows)


def decoder(spec: CorrelatedSpec, draws: int) -> Matrix:
    """The noise of each step as a combination of fresh draws."""
    noise = noise_of(spec, 1.0, SystemStream())
    assert isinstance(noise, Correlated)
    basis = Basis(draws)
    with mock.patch.object(type(noise), "draw", lambda self, size: basis(size)):
        noise.start(draws)
        return np.array([noise.step(number) for number in range(1, spec.iterations + 1)])


def spans(spec: TreeSpec) -> list[tuple[int, int]]:
    """The complete nodes of the trees as (first, last + 1), in the order in which steps complete them."""
    ends = [0, *itertools.accumulate(spec.sizes)]
    return [
        (start + step - 2**level, start + step)
        for start, end in itertools.pairwise(ends)
        for step in range(1, end - start + 1)
        for level in range(20)
        if step % 2**level == 0
    ]


def best_decoder(spec: CorrelatedSpec) -> Matrix:
    """D by linear algebra: the inverse, or for a tree the least-squares estimates of a prefix's nodes from all that lie below each."""
    encoded, n = encoder(spec), spec.iterations
    if not isinstance(spec, TreeSpec):
        return np.linalg.inv(encoded)
    prefixes = np.zeros((n + 1, len(encoded)))
    for first, last in spans(spec):
        below = [row for row, (low, high) in enumerate(spans(spec)) if first <= low and high <= last]
        estimate = np.linalg.pinv(encoded[below][:, first:last]).sum(axis=0)
        prefixes[last] = prefixes[first]  # the largest node that ends here comes last, and is the lowest binary digit
        prefixes[last][below] += estimate
    return np.diff(prefixes, axis=0)


@pytest.mark.parametrize("name", NAMES)
def test_the_noise_of_a_step_is_its_row_of_the_factorisation(name: str) -> None:
    """D C = 1, so that the sums with their noise, x + D z, are a function of what is accounted for, C x + z; and D is the best there is."""

    def the_row(steps: int) -> None:
        spec = specs(steps)[name]
        encoded = encoder(spec)
        found = decoder(spec, len(encoded))
        assert np.allclose(found @ encoded, np.eye(steps), rtol=0.0, atol=1e-12)
        assert np.allclose(found, best_decoder(spec), rtol=0.0, atol=1e-12)

    require_each([1, 2, 7, 8, 21], the_row)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_has_the_covariance_of_the_factorisation(name: str) -> None:
    """std^2 D D^T, entry by entry, within 5.5 standard errors; one parameter's noise has nothing to do with another's."""
    spec, bound, size = replace(specs(12)[name], noise_multiplier=2.5), 0.5, 40_000
    noise = noise_of(spec, bound, SeededStream(1))
    drawn = np.array([flat(noise.next({"a": torch.Size([size // 2]), "b": torch.Size([2, size // 4])})) for _ in range(12)])
    expected = 1.25**2 * best_decoder(spec) @ best_decoder(spec).T
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / size)
    assert np.abs((drawn @ drawn.T / size - expected) / spread).max() < 5.5
    shifted = np.roll(drawn, 1, axis=1)
    assert np.abs((drawn @ shifted.T / size) / spread).max() < 5.5


@pytest.mark.parametrize("name", NAMES)
def test_the_sensitivity_that_is_accounted_for_covers_every_participation(name: str) -> None:
    """The encoder as implemented, recovered from the noise; the largest norm of a sum of its columns over all patterns allowed."""

    def covers(participation: tuple[int, int, int]) -> None:
        steps, most, apart = participation
        spec = specs(steps, most, apart)[name]
        found = decoder(spec, len(encoder(spec)))
        implemented = encoder(spec) if isinstance(spec, TreeSpec) else np.linalg.inv(found)
        allowed = patterns(steps, most, spec.min_separation)
        largest = max(float(np.linalg.norm(implemented[:, list(pattern)].sum(axis=1))) for pattern in allowed)
        assert largest <= spec.encoded_norm() * (1.0 + 1e-9)
        if most == 1 or not isinstance(spec, TreeSpec):
            assert spec.encoded_norm() == pytest.approx(largest, rel=1e-9)

    require_each([(9, 1, 1), (9, 3, 3), (10, 2, 4), (8, 8, 1), (10, 3, 2)], covers)


def patterns(steps: int, most: int, apart: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, most + 1):
        for pattern in itertools.combinations(range(steps), count):
            if all(later - earlier >= apart for earlier, later in itertools.pairwise(pattern)):
                yield pattern


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("steps", "bands"), [(1, 1), (9, 1), (12, 3), (30, 8), (30, 30)])
def test_an_optimised_matrix_costs_one_for_a_column_and_is_no_worse_than_a_square_root(steps: int, bands: int) -> None:
    columns = optimise_banded(steps, bands)
    assert np.abs(np.linalg.norm(columns, axis=1) - 1.0).max() <= 1e-14
    assert all(columns[t, lag] == 0.0 for t in range(steps) for lag in range(bands) if t + lag >= steps)
    found = float(prefix_error(torch.tensor(columns)))
    root = ToeplitzSpec(**run(steps, 1, 1), bands=bands)
    prefixes = np.tril(np.ones((steps, steps)))
    other = float(np.square(prefixes @ np.linalg.inv(encoder(root))).sum()) * root.encoded_norm() ** 2
    dense = np.linalg.inv(encoder(BandedSpec(**{**run(steps), "min_separation": bands}, bands=bands)))
    assert found == pytest.approx(float(np.square(prefixes @ dense).sum()), rel=1e-9)
    assert found <= other * (1.0 - (0.02 if 1 < bands < steps else 0.0)) * (1.0 + 1e-9)


def test_a_toeplitz_encoder_is_the_best_of_all_with_two_bands_and_better_than_its_neighbours_with_more() -> None:

    def error(column: Matrix, steps: int) -> float:
        prefixes = np.linalg.inv(toeplitz(tuple(column), steps)) @ np.ones(steps)
        return float((column @ column) * (np.arange(steps, 0, -1) @ np.square(prefixes)))

    best = min(error(np.array([1.0, ratio]), 40) for ratio in np.linspace(0.01, 1.0, 500))
    found = best_toeplitz(40, 2)
    assert best * (1.0 - 1e-4) <= error(found, 40) <= best * (1.0 + 1e-9), found
    column, seed = best_toeplitz(100, 6), fresh_random().getrandbits(64)
    rng, least = np.random.default_rng(seed), error(column, 100)
    assert least < error(square_root(6), 100)
    for _ in range(50):
        moved = column + np.append(0.0, 1e-2 * rng.standard_normal(5))
        assert error(moved, 100) >= least * (1.0 - 1e-6), (seed, moved)


@pytest.mark.nightly
def test_the_errors_in_the_manual_are_those_of_calibrated_runs() -> None:
    """By Toeplitz encoders, whose search is fast: their error is at most 1 % larger."""
    page = (ROOT / "dpcli" / "explain" / "training.md").read_text()
    epsilons = re.search(r"\| bands \| (.*) \|\n", page)
    assert epsilons
    rows = re.findall(r"^ *\| (\d+) \| (\d+\.\d+ .*) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for bands, cells in rows:
        count = int(bands)
        within = np.arange(1000)[:, None] + np.arange(count) < 1000
        columns = best_toeplitz(1000, count) * within
        error = math.sqrt(float(prefix_error(torch.tensor(columns / np.linalg.norm(columns, axis=1, keepdims=True)))) / 1000)
        for words, cell in zip(epsilons[1].split(" | "), cells.split(" | "), strict=True):
            file = parse(CALIBRATED.format(bands=bands, noise=float(cell) / error).encode(), "it.toml")
            assert account(file, ("exact",)).upper == pytest.approx(float(words.split()[1]), rel=0.03), (bands, words)


CALIBRATED = """
format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 60_000
delta = 1e-6
[[mechanism]]
name = "train"
type = "banded-matrix"
noise_multiplier = {noise}
iterations = 1000
bands = {bands}
min_separation = {bands}
max_participations = 1000
sampling = {{ scheme = "poisson", batch_size = 500 }}
"""


def test_nothing_near_an_optimised_matrix_is_better() -> None:
    """Columns moved at random and made as long again: to second order none has less error, one by one or together."""
    columns, rng = torch.tensor(optimise_banded(16, 4)), np.random.default_rng(fresh_random().getrandbits(32))
    least = float(prefix_error(columns))
    for _ in range(200):
        moved = columns + 1e-2 * torch.tensor(rng.standard_normal((16, 4))) * (columns != 0.0)
        assert float(prefix_error(moved / moved.norm(dim=1, keepdim=True))) >= least * (1.0 - 1e-6)


def test_contributions_to_a_matrix_may_point_anywhere() -> None:
    """Vectors of norm 1 in steps as far apart as the bands are wide: the encoded stream is sqrt(3) long, whatever they are."""
    spec, rng = BandedSpec(**run(12, 3, 4), bands=4), np.random.default_rng(fresh_random().getrandbits(32))
    matrix = encoder(spec)
    for _ in range(100):
        first, gaps = int(rng.integers(0, 2)), rng.integers(4, 6, size=2)
        vectors = np.zeros((12, 3))
        for step in np.cumsum([first, *gaps]):
            vectors[step] = (direction := rng.standard_normal(3)) / np.linalg.norm(direction)
        assert np.linalg.norm(matrix @ vectors) == pytest.approx(3.0**0.5, rel=1e-12)
        assert np.linalg.norm(matrix @ vectors) <= spec.encoded_norm()


def test_a_whole_tree_has_the_variance_of_estimates_from_below() -> None:
    """1 / (2 - 2^-level), against 1 for the root alone (Kairouz et al. 2021)."""
    prefixes = np.cumsum(decoder(TreeSpec(**run(16)), 31), axis=0)
    for level in range(5):
        assert np.square(prefixes[2**level - 1]).sum() == pytest.approx(1.0 / (2.0 - 2.0**-level), rel=1e-12)


@pytest.mark.long
def test_buffers_are_few() -> None:
    tree, banded = Tree(1.0, SeededStream(1), (4_095,)), Banded(np.ones((4_095, 5)), 1.0, SeededStream(1))
    buffered = BufferedToeplitz(np.array([0.9, 0.5]), np.array([0.2, 0.1]), 1.0, SeededStream(1), 4_095)
    for noise in (tree, banded, buffered):
        for _ in range(4_095):
            noise.next({"w": torch.Size([3])})
    assert len(tree._nodes) == 12 and len(banded._past) == 4 and len(buffered._buffers) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_new_run_has_nothing_to_do_with_the_one_before(name: str) -> None:
    stream, shapes = SeededStream(2), {"w": torch.Size([40_000])}
    runs = [noise_of(specs(5)[name], 1.0, stream) for _ in range(2)]
    drawn = np.array([flat(noise.next(shapes)) for noise in runs for _ in range(5)])
    expected = best_decoder(specs(5)[name]) @ best_decoder(specs(5)[name]).T
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) / 40_000)
    cross = drawn[:5] @ drawn[5:].T / 40_000
    assert np.abs(cross / spread).max() < 5.5
    with pytest.raises(InputError, match="all 5 steps of correlated noise that the accountant covers were taken"):
        runs[1].next(shapes)


def test_the_state_of_correlated_noise_is_never_saved() -> None:
    def saved(case: tuple[CorrelatedSpec, Callable[[Noise], object]]) -> None:
        spec, duplicate = case
        noise = noise_of(spec, 1.0, SystemStream())
        noise.next({"w": torch.Size([3])})
        with pytest.raises(InternalError, match="correlated noise is never saved or copied"):
            duplicate(noise)

    require_each(itertools.product(specs(5).values(), (pickle.dumps, copy.copy, copy.deepcopy)), saved)


def test_the_grid_of_noisy_sums_is_that_of_the_noise_whatever_the_unit_of_the_encoder_is() -> None:
    """An encoder and its noise may have a common factor. A grid of 2^-72 standard deviations would cut off no digit, one of 2^8 all."""
    for unit in (1e-12, 1.0, 1e12):
        spec = ToeplitzSpec(**{**run(3), "noise_multiplier": unit}, coefficients=(unit, 0.5 * unit))
        noise, sums = noise_of(spec, 1.0, SystemStream()), {"w": torch.zeros(1_000, dtype=torch.float64)}
        add_noise(sums, noise)
        assert 0.8 < float(sums["w"].std()) < 1.2 and not (sums["w"] % grid_of(1.0 - 1e-12)).any(), unit


@pytest.mark.parametrize("name", NAMES)
def test_who_draws_may_change_what_was_drawn(name: str) -> None:
    """A step adds the sums to its noise in place. What later steps remember of that noise must not have them."""
    kept, changed = (noise_of(specs(12)[name], 1.0, SeededStream(7)) for _ in range(2))
    for _ in range(12):
        (drawn,) = changed.parts(50)
        assert np.array_equal(next(kept.parts(50)), drawn)
        drawn.fill(1e6)


def test_parameters_may_not_change_within_a_run() -> None:
    noise = noise_of(specs(5)["buffered"], 1.0, SystemStream())
    noise.next({"w": torch.Size([3])})
    with pytest.raises(InternalError, match="expected parameters of 3 numbers as in the previous step, found 4"):
        noise.next({"w": torch.Size([4])})


def test_correlated_noise_needs_a_scale() -> None:
    def refused(spec: CorrelatedSpec) -> None:
        with pytest.raises(InternalError, match="expected noise of a positive finite standard deviation"):
            noise_of(spec, 0.0, SystemStream())

    require_each(specs(5).values(), refused)


FORKED = """
import os, torch
from dpcli.train.noise import Tree
from dpcli.random.streams import SystemStream
from dpcli.base.errors import InternalError
noise, shapes = Tree(1.0, SystemStream(), (8,)), {"w": torch.Size([3])}
noise.next(shapes)
if os.fork() == 0:
    try:
        noise.next(shapes)
    except InternalError:
        os._exit(7)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), len(noise.next(shapes)))
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_cannot_release_the_same_noise() -> None:
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.split() == ["7", "1"]
