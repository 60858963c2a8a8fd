"""A token of private decoding: what a context may move, what rounding does to it, and that the draw is exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.prediction.private_decoding import PrivateDecodingSpec
from dpcli.numerics.arrays import Array
from dpcli.predict.decode import exact_draws
from dpcli.predict.decode.exact_draws import LOWEST_SCORE, draw_token, uniform_below
from dpcli.predict.decode.private_tokens import GRID, LogitClipping
from dpcli.random.streams import SystemStream, insecure_seed
from tests.cases import fresh_random, of_each


def weights(scores: Array) -> list[Fraction]:
    """Return the weights as they are computed, exactly."""
    return [Fraction(float(one)) for one in np.exp(np.maximum(scores - scores.max(), LOWEST_SCORE))]


@of_each("seed", range(8))
def test_a_token_is_drawn_exactly_in_proportion_to_its_weight(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each whole number that `below` may return leads to one token; how many lead to each, by the ends of its range."""
    chance = np.random.default_rng(seed)
    scores = chance.normal(0, 10.0 ** chance.integers(-1, 3), chance.integers(1, 40))
    mass = weights(scores)
    unit = min(Fraction(1, one.denominator) for one in mass)
    ends = [0]
    order = sorted(range(len(mass)), key=lambda one: (-math.frexp(float(mass[one]))[1], one))
    for one in order:
        ends.append(ends[-1] + int(mass[one] / unit))
    limits = set()

    def at(share: int) -> int:
        def chosen(limit: int, stream: Any) -> int:
            limits.add(Fraction(limit) * unit / sum(mass))
            return int(Fraction(share, ends[-1]) * limit)

        monkeypatch.setattr(exact_draws, "uniform_below", chosen)
        return draw_token(scores, SystemStream())

    for one, (first, last) in zip(order, itertools.pairwise(ends), strict=True):
        assert at(first) == one
        if last > first + 1:
            assert at(last - 1) == one
    assert all(limit.numerator & (limit.numerator - 1) == 0 for limit in limits)  # in units of a power of 2


@given(st.integers(1, 2**200))
def test_a_whole_number_below_any_other(limit: int) -> None:
    assert 0 <= uniform_below(limit, SystemStream()) < limit


def test_below_is_uniform() -> None:
    result = np.bincount([uniform_below(6, SystemStream()) for _ in range(6_000)], minlength=6)
    assert np.all(np.abs(result - 1_000) < 5 * math.sqrt(1_000))


def test_many_tokens_are_no_matter() -> None:
    """Sums beyond 2^63 in one group."""
    scores = np.zeros(70_000)
    assert 0 <= draw_token(scores, insecure_seed(3).noise) < 70_000
    with pytest.raises(InternalError):
        draw_token(np.array([0.0, math.nan]), SystemStream())


def spec(clip: float, size: int, temperature: float) -> PrivateDecodingSpec:
    return PrivateDecodingSpec(clip=clip, references=size, temperature=temperature)


@of_each("clip, temperature", [(1e-310, 1e-310), (1.0, 1e-300), (1e-284, 1e-284), (1e300, 1e300)])
def test_numbers_whose_quotients_no_float_holds_are_refused(clip: float, temperature: float) -> None:
    """At a clip of 1e-310, a context without any difference to the public one would contribute -2^63 to every token."""
    with pytest.raises(InputError, match="clip: expected a temperature, clip and"):
        LogitClipping.of(spec(clip, 100, temperature))


WILD = st.one_of(st.floats(-40, 0), st.sampled_from([-math.inf, -1e9, -1e-9, 0.0]))
CLIPS = st.builds(spec, st.floats(0.05, 20.0), st.integers(1, 300), st.floats(0.2, 3.0))


@given(CLIPS, st.integers(2, 5), st.data())
def test_one_context_moves_the_loss_of_a_token_by_no_more_than_is_charged(
    stated: PrivateDecodingSpec, words: int, data: st.DataObject
) -> None:
    """The exact distribution that tokens are drawn from, with and without one context; both methods; any logits."""
    clipping = LogitClipping.of(stated)

    def row() -> list[float]:
        result = data.draw(st.lists(WILD, min_size=words, max_size=words))
        return result if max(result) > -math.inf else [0.0] * words

    public, private = np.array(row()), np.array([row() for _ in range(data.draw(st.integers(1, 4)))])
    base, add = (public, clipping.differences) if data.draw(st.booleans()) else (np.zeros(words), None)

    def losses(rows: Array) -> list[Fraction]:
        sums = np.zeros(words, np.int64)
        if len(rows):
            sums = add(rows, public) if add is not None else clipping.logits(rows)
        result = weights(clipping.scores(base, sums))
        return [one / sum(result) for one in result]

    with_, without = losses(private), losses(private[1:])
    loss = [math.log(one / other) for one, other in zip(with_, without, strict=True)]
    allowed = stated.resolve(Neighbours(Adjacency.ADD_REMOVE)).approx_dp(0.0)
    assert max(loss) - min(loss) <= allowed * (1 + 1e-12)  # of the two logarithms here
    assert max(map(abs, loss)) <= allowed * (1 + 1e-12)


def test_the_bound_is_met_where_a_context_pulls_two_tokens_apart() -> None:
    """The bound is no larger than it must be: half of the range is reached by one context, all of it by replacing one."""
    clipping = LogitClipping.of(spec(2.0, 10, 0.5))
    public = np.log(np.full(2, 0.5))
    up, down = (clipping.differences(np.array([row]), public) for row in ([0.0, -math.inf], [-math.inf, 0.0]))
    scores = [clipping.scores(public, sums) for sums in (up, down)]
    assert up.tolist() == [round(math.log(2) / clipping.clip * GRID), -GRID]
    assert scores[0][1] - scores[0][0] == pytest.approx(-(2.0 + math.log(2)) / 10 / 0.5, rel=1e-6)
    assert scores[1][1] - scores[1][0] == pytest.approx((2.0 + math.log(2)) / 10 / 0.5, rel=1e-6)


def test_sums_are_exact_whatever_the_order_and_the_number_of_contexts() -> None:
    clipping = LogitClipping.of(spec(3.0, 7, 1.0))
    chance = np.random.default_rng(fresh_random().getrandbits(32))
    public, private = np.log(chance.dirichlet(np.ones(30))), np.log(chance.dirichlet(np.ones(30), 50))
    complete = clipping.differences(private, public)
    parts = sum(clipping.differences(private[[one]], public) for one in chance.permutation(50))
    assert np.array_equal(complete, parts)
    assert np.abs(complete).max() <= 50 * GRID
    mean = np.clip(private - public, -3.0, 3.0).sum(0) / 7
    result = clipping.scores(public, complete)
    assert result - result.max() == pytest.approx((public + mean) - (public + mean).max(), abs=1e-4)  # 50 roundings to 2^-20


def test_methods_recentre_as_their_papers_do() -> None:
    clipping = LogitClipping.of(spec(1.0, 1, 1.0))
    logits = np.array([[0.0, -0.5, -1.5, -9.0]])
    assert clipping.logits(logits) / GRID == pytest.approx([1.0, 0.5, -0.5, -1.0], abs=1e-5)
    assert clipping.differences(logits, np.array([-9.0, -0.5, -1.0, 0.0])) / GRID == pytest.approx([1.0, 0.0, -0.5, -1.0], abs=1e-5)
    assert clipping.differences(np.array([[-math.inf]]), np.array([-math.inf])).tolist() == [0]


def test_a_clip_that_rounding_would_eat_is_refused() -> None:
    with pytest.raises(InputError, match="clip: too small, as rounding moves a logit further"):
        LogitClipping.of(SimpleNamespace(clip=1e-9, references=10**6, temperature=1.0))
    used = LogitClipping.of(spec(1.0, 100, 1.0)).clip
    assert 1.0 - 1e-6 < used < 1.0


@of_each("method", ["differences", "logits"])
@of_each("odd", [np.nan, np.inf, -np.inf])
def test_no_answer_of_a_model_moves_a_sum_further_than_the_clip(method: str, odd: float) -> None:
    """A private context whose logits are no numbers, some or all of them, contributes within the bound of any other."""
    clipping = LogitClipping(2.0, 10, 1.0)
    for row in (np.full(4, odd), np.array([odd, -1.0, -2.0, -3.0])):
        private = row[None, :]
        sums = clipping.differences(private, np.log(np.full(4, 0.25))) if method == "differences" else clipping.logits(private)
        assert np.abs(sums).max() <= GRID
