"""Matrix mechanisms (noise/correlated.py), where noise is correlated between steps: the sensitivity of the encoded stream against every
pattern in which a record may take part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

import dpcli
from dpcli.analysis.account import account
from dpcli.base.errors import DpcliError, InputError
from dpcli.exam.enumeration.matrices import toeplitz, tree
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.correlated import BufferedToeplitzSpec, ToeplitzSpec, TreeSpec, _powers, square_root
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.sampling.schemes import BallsInBins, OncePerEpoch, Poisson, Scheme, Unsampled
from dpcli.numerics.closed import participation
from dpcli.numerics.closed.participation import toeplitz_sensitivity, tree_sensitivity
from tests.cases import of_each
from tests.strategies import entry, pipeline

COLUMNS = {
    "square root": square_root(8),
    "one band": np.array([2.0]),
    "prefix sums": np.ones(8),
    "steps": np.array([1.0, 1.0, 0.3, 0.3, 0.3, 0.01]),
}


def patterns(steps: int, separation: int, participations: int) -> Iterator[tuple[int, ...]]:
    """Yield the steps of each way to take part at most `participations` times, at least `separation` steps apart."""
    for count in range(1, participations + 1):
        for chosen in itertools.combinations(range(steps), count):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def worst(encoder: np.ndarray, separation: int, participations: int) -> float:
    steps = encoder.shape[1]
    return max(
        float(np.linalg.norm(encoder[:, list(chosen)].sum(axis=1))) for chosen in patterns(steps, separation, participations)
    )


@of_each("name", COLUMNS)
@of_each("steps", [1, 2, 5, 9])
def test_toeplitz_is_the_worst_pattern(name: str, steps: int) -> None:
    for separation, participations in itertools.product((1, 2, 3, 4, 20), (1, 2, 3, 9)):
        found = toeplitz_sensitivity(COLUMNS[name], steps, separation, participations)
        exact = worst(toeplitz(tuple(COLUMNS[name]), steps), separation, participations)
        assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-11)


@pytest.mark.long
@of_each("steps", [*range(1, 13), 15, 17])
def test_tree_is_the_worst_pattern(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond SEARCHED participations a bound replaces the search, and is no less."""
    encoder = tree(steps)
    for separation, participations in itertools.product((1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 12)):
        if steps > 12 and separation < 3 < participations:
            continue  # too many patterns to try
        found, exact = tree_sensitivity((steps,), separation, participations), worst(encoder, separation, participations)
        assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-14)
        with monkeypatch.context() as few:
            few.setattr(participation, "SEARCHED", 0)
            assert found <= tree_sensitivity((steps,), separation, participations)


@pytest.mark.parametrize(
    ("steps", "separation", "times"), [(2000, 100, 1.048), (10_000, 333, 1.035), (5, 4, 1.118), (10**7, 123_457, 1.0114)]
)
def test_levels_of_a_tree_do_not_all_have_their_worst_at_once(
    steps: int, separation: int, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tree_sensitivity((steps,), separation, 100)
    monkeypatch.setattr(participation, "SEARCHED", 0)
    assert tree_sensitivity((steps,), separation, 100) == pytest.approx(times * found, rel=1e-3)


def test_many_participations_in_a_tree_claim_nothing() -> None:
    few = TreeSpec(noise_multiplier=9.0, iterations=1000, max_participations=100, min_separation=10)
    many = replace(few, max_participations=101, min_separation=9)
    neighbours = Neighbours(Adjacency.ADD_REMOVE)
    assert few.resolve(neighbours).attained()
    assert not many.resolve(neighbours).attained()
    assert many.encoded_norm() > few.encoded_norm()


@pytest.mark.parametrize("steps", [1, 3, 4, 1000, 1024, 10**7])
def test_one_participation_in_a_tree_touches_its_levels(steps: int) -> None:
    assert tree_sensitivity((steps,), 1, 1) == pytest.approx(math.sqrt(math.ceil(math.log2(steps + 1))))


@pytest.mark.long
def test_trees_one_after_the_other_are_the_worst_pattern_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of the encoder for each tree; a record's participations are apart across trees too."""
    for trees in ((3, 4), (4, 1, 6), (1, 1, 1, 8), (7, 5)):
        encoder = block_diag(*map(tree, trees))
        for separation, participations in itertools.product((1, 2, 3, 5), (1, 2, 3, 12)):
            found, exact = tree_sensitivity(trees, separation, participations), worst(encoder, separation, participations)
            assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-14), (trees, separation, participations)
            with monkeypatch.context() as few:
                few.setattr(participation, "SEARCHED", 0)
                assert found <= tree_sensitivity(trees, separation, participations)
    many = TreeSpec(noise_multiplier=9.0, iterations=900, max_participations=2, trees=(9,) * 100)
    assert not many.resolve(Neighbours(Adjacency.ADD_REMOVE)).attained()
    assert replace(many, max_participations=1).resolve(Neighbours(Adjacency.ADD_REMOVE)).attained()
    assert [problem[2] for problem in replace(many, iterations=901).problems()] == ["900"]


def test_contributions_need_not_agree() -> None:
    """Vectors that differ from step to step never move the stream further than equal ones."""
    rng = np.random.default_rng(3)
    encoder = toeplitz(tuple(square_root(6)), 12)
    bound = toeplitz_sensitivity(square_root(6), 12, 3, 4)
    for _ in range(500):
        vectors = np.zeros((12, 3))
        for step in (0, 3, 6, 9):
            direction = rng.standard_normal(3)
            vectors[step] = direction / np.linalg.norm(direction)
        assert np.linalg.norm(encoder @ vectors) <= bound


def test_square_root_of_prefix_sums() -> None:
    root = toeplitz(tuple(square_root(40)), 40)
    assert root @ root == pytest.approx(np.tril(np.ones((40, 40))))
    # ||column||^2 = 1 + log(n)/pi + O(1): Fichtenberger et al. 2022; exactly sum of f_k^2
    assert toeplitz_sensitivity(square_root(1000), 1000, 1, 1) ** 2 == pytest.approx(1.0 + math.log(1000) / math.pi, abs=0.3)


def resolved(spec: Any, scheme: Scheme | None = None, **privacy: Any) -> tuple[Any, int]:
    single = replace(entry("gaussian", noise_multiplier=1.0), type="banded-toeplitz", spec=spec, sampling=scheme)
    (charge,) = resolve(pipeline(single, **privacy))
    return charge.mechanism, charge.count


def test_one_gaussian_for_the_whole_run() -> None:
    spec = TreeSpec(noise_multiplier=4.0, iterations=15, max_participations=1)
    assert resolved(spec) == (Gaussian(pytest.approx(0.5)), 1)  # type: ignore[arg-type]
    assert resolved(spec, adjacency="zero-out")[0].mu == pytest.approx(0.5)
    assert resolved(spec, adjacency="replace-one")[0].mu == pytest.approx(1.0)
    assert resolved(spec, max_contributions=3)[0].mu == pytest.approx(1.5)


def test_bands_no_wider_than_the_separation_do_not_add_up() -> None:
    """Columns b apart do not overlap: k of them cost sqrt(k) times one."""
    spec = ToeplitzSpec(noise_multiplier=1.0, iterations=400, max_participations=4, min_separation=100, bands=100)
    one = replace(spec, max_participations=1)
    assert spec.encoded_norm() == pytest.approx(2.0 * one.encoded_norm())


def test_one_band_is_independent_noise() -> None:
    spec = ToeplitzSpec(noise_multiplier=5.0, iterations=100, max_participations=20, min_separation=5, coefficients=(1.0,))
    assert account(pipeline(entry("gaussian", noise_multiplier=5.0, steps=20))).upper == pytest.approx(
        account(pipeline(replace(entry("gaussian", noise_multiplier=5.0), spec=spec))).upper
    )


def test_buffers_are_their_coefficients() -> None:
    buffered = BufferedToeplitzSpec(
        noise_multiplier=1.0, iterations=50, max_participations=5, min_separation=10, buf_decay=(0.9, 0.3), output_scale=(0.2, 0.5)
    )
    column = (1.0, *(0.2 * 0.9**k + 0.5 * 0.3**k for k in range(49)))
    stated = ToeplitzSpec(noise_multiplier=1.0, iterations=50, max_participations=5, min_separation=10, coefficients=column)
    assert buffered.encoded_norm() == pytest.approx(stated.encoded_norm())


@pytest.mark.parametrize("scheme", [Poisson("poisson", 0.1), BallsInBins("balls-in-bins", 0.1), OncePerEpoch("cyclic", 0.1)])
def test_sampling_of_the_whole_run_is_refused(scheme: Scheme) -> None:
    spec = TreeSpec(noise_multiplier=4.0, iterations=15, max_participations=1)
    with pytest.raises(InputError, match="expected no sampling with banded-toeplitz"):
        resolved(spec, scheme)
    assert resolved(spec, Unsampled("none"))[1] == 1


FILE = """
format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
[[mechanism]]
name = "train"
type = "banded-toeplitz"
noise_multiplier = 5.0
iterations = 1000
max_participations = 5
min_separation = 200
bands = 200
"""


@of_each(("old", "new", "message"), [
        ("bands = 200", "", "either coefficients or bands, found neither"),
        ("bands = 200", "bands = 2\ncoefficients = [1.0]", "found both"),
        ("bands = 200", "coefficients = [1.0, 0.5, 0.6]", "coefficients that never increase .*, found 0.6 after 0.5"),
        ("bands = 200", "coefficients = [0.0]", "a first coefficient > 0"),
        ("bands = 200", "coefficients = [1.0, -0.5]", "number >= 0"),
        ("max_participations = 5", "", "max_participations"),
        ('banded-toeplitz"', 'buffered-toeplitz"\nbuf_decay = [0.9]\noutput_scale = [1.1]', "add up to at most 1"),
        ('banded-toeplitz"', 'buffered-toeplitz"\nbuf_decay = [0.9]\noutput_scale = [0.1, 0.2]', "one weight for each of 1 decays"),
    ])  # fmt: skip
def test_bad_files(old: str, new: str, message: str, tmp_path: Any) -> None:
    file = tmp_path / "pipeline.toml"
    text = FILE.replace(old, new)
    file.write_text(text.replace("bands = 200\n", "") if "buffered" in new else text)
    with pytest.raises(DpcliError, match=message):
        dpcli.load(file)


@of_each("base", [0.0, 1e-300, 0.3, 0.999, 1.0 - 1e-9, 1.0])
@of_each("count", [1, 2, 5000])
def test_powers_of_a_decay(base: float, count: int) -> None:
    found = np.zeros(count)
    powers = _powers(base, count)
    found[: len(powers)] = powers
    assert found == pytest.approx(base ** np.arange(float(count)), rel=1e-12, abs=1e-320)


def test_a_search_for_the_noise_makes_the_encoder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    whole = ToeplitzSpec.encoded_norm
    monkeypatch.setattr(ToeplitzSpec, "encoded_norm", lambda spec: made.append(spec) or whole(spec))
    one = ToeplitzSpec(noise_multiplier=3.0, iterations=987, max_participations=3, min_separation=7, bands=11)
    for noise in (1.0, 2.0, 5.0):
        replace(one, noise_multiplier=noise).resolve(Neighbours(Adjacency.ADD_REMOVE))
    assert len(made) == 1


def test_enormous_noise_is_the_largest_that_can_be_stated() -> None:
    spec = ToeplitzSpec(noise_multiplier=1.7e308, iterations=4, max_participations=1, coefficients=(0.5, 0.25))
    assert 0.0 < spec.resolve(Neighbours(Adjacency.ADD_REMOVE)).gdp() <= 1e-150
