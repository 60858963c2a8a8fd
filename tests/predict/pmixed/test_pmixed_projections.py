"""Projections: the published vectors, the radius held by the very numbers that are returned, and draws by whole numbers."""

from __future__ import annotations

import itertools
import json
import math
import random
import warnings
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcli.base.errors import InputError
from dpcli.predict.pmixed.model_ensemble import Paper, Sound
from dpcli.predict.pmixed.projection import ONE, Projection, ball, clip, draw_token, mix, sample_models, whole_ball, whole_multiples
from dpcli.predict.pmixed.published_protocol import Published, renyi_ball
from dpcli.random.streams import SeededStream
from tests.cases import of_each
from tests.command import ROOT

VECTORS: dict[str, Any] = json.loads((ROOT / "tests/vectors/pmixed.json").read_text())
PROJECTIONS = pytest.mark.parametrize("projection", [clip, mix], ids=["clip", "mix"])
AUTHORS = 1e-6  # their bisections stop at 2^-20, of lambda and, in steps of their own, of beta
Floats = NDArray[np.float64]


def pair(source: np.random.Generator, tokens: int, spread: float) -> tuple[Floats, Floats]:
    """A public model and a model of some distance from it; some tokens without probability in one or the other."""
    public = np.exp(source.normal(0.0, 4.0, tokens)) * (source.random(tokens) > 0.1)
    private = public * np.exp(source.normal(0.0, spread, tokens)) + 1e-3 * source.random(tokens) ** 8
    private *= source.random(tokens) > 0.1
    public[0] = private[0] = 1.0
    return public / public.sum(), private / private.sum()


def seeded() -> tuple[int, np.random.Generator]:
    seed = random.randrange(2**32)
    return seed, np.random.default_rng(seed)


@of_each("row", VECTORS["clip_projection_Dinf"])
def test_sound_projections_are_those_of_the_vectors(row: dict[str, Any]) -> None:
    around, private = ball(np.array(row["p0"]), row["r"]), np.array(row["p"])
    assert clip(around, private) == pytest.approx(row["clip_proj"], rel=1e-9)
    share = (mix(around, private) - around.public) / (private - around.public)
    assert share == pytest.approx(row["lambda_Dinf_mix"], rel=1e-9)


@of_each("row", VECTORS["lambda"], told=lambda row: f"{row['alpha']}-{row['radius']}-{row['p']}")
def test_published_shares_are_those_of_the_vectors(row: dict[str, Any]) -> None:
    share = renyi_ball(np.array(row["p0"]), float(row["alpha"]), row["radius"]).share(np.array(row["p"]))
    assert share == pytest.approx(row["lambda_exact"], rel=1e-9)
    assert share == pytest.approx(row["lambda_authors"], abs=AUTHORS)


@of_each("row", VECTORS["beta"], told=lambda row: f"{row['N']}-{row['q']}-{row['T']}-{row['alpha']}-{row['S_t']}")
def test_published_radii_are_those_of_the_vectors(row: dict[str, Any]) -> None:
    published = Published(row["alpha"], row["q"], row["T"], row["eps_G"], row["delta"])
    assert published.target == pytest.approx(row["target_per_query"], rel=1e-9)
    assert published.radius(row["S_t"]) == pytest.approx(row["radius_exact"], rel=1e-9)
    assert published.radius(row["S_t"]) / row["alpha"] == pytest.approx(row["beta_authors"], abs=5.0 * AUTHORS)


@of_each("order", [2, 3, 5])
def test_a_failed_model_counts_as_the_public_one_in_the_published_protocol(order: int) -> None:
    public = np.array([0.25, 0.75, 0.0])
    total, count = Paper(Published(order, 1.0, 10, 30.0, 1e-5)).total(public, [np.full(3, np.nan)])
    assert count == 1 and (total == whole_multiples(public)).all()


@of_each("order", [2, 3, 5])
@of_each("drawn", [1, 2, 80])
def test_a_published_radius_of_any_size_is_found_and_holds(order: int, drawn: int) -> None:
    """For large targets, the bound on one query is 4 beta order less log(drawn) / (order - 1)."""
    seed, source = seeded()
    epsilon = float(10.0 ** source.uniform(3.5, 300.0))
    published = Published(order, 1.0, 1, epsilon, 1e-5)
    expected = published.target if drawn == 1 else (published.target + math.log(drawn) / (order - 1)) / 4.0
    assert published.radius(drawn) == pytest.approx(expected, rel=1e-9), seed
    around = renyi_ball(np.array([0.5, 0.5]), float(order), published.radius(drawn))
    assert around.mixed(np.array([0.01, 0.99])) == pytest.approx([0.01, 0.99], rel=1e-15), seed


@PROJECTIONS
def test_the_radius_holds_for_the_numbers_themselves(projection: Projection) -> None:
    """The radius holds for real numbers, and as anybody would compute it."""
    seed, source = seeded()
    for _ in range(40):
        public, private = pair(source, int(source.integers(1, 60)), float(source.choice([0.01, 1.0, 8.0])))
        radius = float(10.0 ** source.uniform(-6.0, 1.5))
        around = ball(public, radius)
        result = projection(around, private)
        assert result.sum() == pytest.approx(1.0, abs=1e-12), seed
        assert (result[around.public == 0.0] == 0.0).all()
        present = around.public > 0.0
        assert np.abs(np.log(result[present] / around.public[present])).max() <= radius, seed
        with mpmath.workdps(40):
            most = mpmath.exp(mpmath.mpf(radius))
            for token, reference in zip(result[present].tolist(), around.public[present].tolist(), strict=True):
                assert 1 / most <= mpmath.mpf(token) / mpmath.mpf(reference) <= most, seed


@PROJECTIONS
def test_a_model_within_the_radius_stays_as_it_is(projection: Projection) -> None:
    _, source = seeded()
    public = source.dirichlet(np.ones(50))
    private = public * np.exp(source.uniform(-0.2, 0.2, 50))
    private /= private.sum()
    assert projection(ball(public, 0.5), private) == pytest.approx(private, rel=1e-12)


def test_clip_is_the_nearest_and_mix_goes_as_far_as_it_can() -> None:
    seed, source = seeded()
    for _ in range(20):
        public, private = source.dirichlet(np.ones(8)), source.dirichlet(np.full(8, 0.5))
        around = ball(public, 0.4)
        nearest, mixed = clip(around, private), mix(around, private)

        def divergence(other: Floats, private: Floats = private) -> float:
            return float(np.sum(private * np.log(private / other)))

        assert divergence(nearest) <= divergence(mixed) + 1e-12, seed
        for _ in range(20):
            other = clip(around, source.dirichlet(np.full(8, 0.5)))
            assert divergence(nearest) <= divergence(other) + 1e-12, seed
            between = 0.9 * nearest + 0.1 * other
            assert divergence(nearest) <= divergence(between) + 1e-12, seed
        share = ((mixed - public) / (private - public)).max()
        beyond = public + (1.0 + 1e-9) * share * (private - public)
        assert share == pytest.approx(1.0) or np.abs(np.log(beyond / public)).max() > 0.4, seed


@PROJECTIONS
def test_what_is_no_model_counts_as_the_public_one(projection: Projection) -> None:
    """Without an error, which would tell of the private data."""
    public = np.array([0.5, 0.3, 0.2, 0.0])
    around = ball(public, 0.7)
    for bad in ([math.nan, 0.5, 0.5, 0.0], [-0.5, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0], [math.inf, 0.0, 0.0, 0.0], [0.0] * 4):
        assert projection(around, np.array(bad)) == pytest.approx(public), bad


def test_a_model_that_calls_most_impossible() -> None:
    """e^r times the public probability of the rest does not add up to 1."""
    around = ball(np.array([0.1, 0.6, 0.3]), 0.5)
    result = clip(around, np.array([1.0, 0.0, 0.0]))
    level = (1.0 - 0.1 * math.exp(0.5)) / 0.9
    assert result == pytest.approx([0.1 * math.exp(0.5), 0.6 * level, 0.3 * level], rel=1e-12)


@of_each("bad", [[0.5, math.nan], [0.5, 0.6], [1.5, -0.5]])
def test_a_public_model_of_something_else_is_refused(bad: list[float]) -> None:
    with pytest.raises(InputError, match="the public model: expected probabilities that add up to 1"):
        ball(np.array(bad), 1.0)
    with pytest.raises(InputError, match="expected a radius > 0"):
        ball(np.array([1.0]), 0.0)


@PROJECTIONS
def test_whole_numbers_add_up_and_stay_within_the_radius(projection: Projection) -> None:
    seed, source = seeded()
    for _ in range(30):
        public, private = pair(source, int(source.integers(1, 80)), 3.0)
        if source.random() < 0.3:
            public[1:] *= 1e-14  # so that bounds are a few multiples wide
            public /= public.sum()
        radius = float(10.0 ** source.uniform(-3.0, 1.0))
        around = ball(public, radius)
        complete = whole_ball(around)
        result = complete.rounded(projection(around, private))
        assert int(result.sum()) == int(complete.public.sum()) == ONE, seed
        with mpmath.workdps(40):
            most = mpmath.exp(mpmath.mpf(radius))
            for token, reference in zip(result.tolist(), complete.public.tolist(), strict=True):
                assert reference / most <= token <= reference * most, seed


@PROJECTIONS
def test_no_model_and_no_radius_is_seen_by_an_error_or_a_warning(projection: Projection) -> None:
    """Whatever a private model says, at every radius that a file may state: a sum within the bounds, and not a word."""
    _, source = seeded()
    publics = ([1.0, 0.0, 0.0], [0.5, 0.5], [1.0 - 1e-20, 1e-20, 1e-300, 0.0], [1.0, 5e-324, 0.0], [1e-3] * 1000)
    radii = (5e-324, 1e-300, 1e-16, 1e-15, 1e-12, 1e-3, 1.0, 30.0, 600.0, 709.0, 710.0, 1e4, 1e300)
    for public, radius in itertools.product(map(np.array, publics), radii):
        size = len(public)
        same = [np.full(size, value) for value in (math.nan, math.inf, 0.0, -1.0, 5e-324, 1e308)]
        for private in (*same, np.eye(size)[0], np.eye(size)[-1], source.dirichlet(np.full(size, 0.01))):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result, count = Sound(radius, projection).total(public, [private])
            reference = whole_ball(ball(public, radius)).public
            assert count == 1 and int(result.sum()) == int(reference.sum()) == ONE
            present = reference > 0.0
            assert (result[~present] == 0).all()
            with np.errstate(divide="ignore"):
                assert np.abs(np.log(result[present] / reference[present])).max() <= radius


class Given:
    """A stream of these words."""

    private = False

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, np.uint64)

    def bulk(self) -> np.random.Generator:
        raise AssertionError


def test_a_token_is_drawn_by_its_exact_share() -> None:
    total = whole_multiples(np.array([0.0, 0.25, 0.75])) + whole_multiples(np.array([0.5, 0.5, 0.0]))
    assert total.tolist() == [ONE // 2, 3 * ONE // 4, 3 * ONE // 4]
    edges = {0: 0, ONE // 2 - 1: 0, ONE // 2: 1, 5 * ONE // 4 - 1: 1, 5 * ONE // 4: 2, 2 * ONE - 1: 2}
    assert {word: draw_token(total, 2, Given(word)) for word in edges} == edges
    stream = SeededStream(random.randrange(2**32))
    counts = np.bincount([draw_token(total, 2, stream) for _ in range(4000)], minlength=3)
    assert counts == pytest.approx([1000, 1500, 1500], abs=6.0 * math.sqrt(1500))  # six standard deviations


@of_each("rate", [0.03, 0.5, 2.0**-70, 1.0, 0.75 + 2.0**-52])
def test_models_take_part_at_the_very_rate(rate: float) -> None:
    """A word, and those after it where it ties, against the rate as a fraction."""
    for first in (0, int(Fraction(rate) * 2**64) - 1, int(Fraction(rate) * 2**64), int(Fraction(rate) * 2**64) + 1, 2**64 - 1):
        for second in (0, int(Fraction(rate) * 2**128) % 2**64, 2**64 - 1):
            if 0 <= first < 2**64:
                value = Fraction(first * 2**64 + second, 2**128)
                assert sample_models(Given(first, second, 0), 1, rate) == ([0] if value < Fraction(rate) else []), (first, second)
