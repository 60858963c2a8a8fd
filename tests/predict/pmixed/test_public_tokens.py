"""Tokens that the public context predicts alone: what a private token costs with the comparisons before it, in every way they may go."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpcli.base.errors import Denied, InputError, InternalError
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.prediction.private_decoding import PrivateDecodingSpec
from dpcli.numerics.arrays import Array
from dpcli.predict.decode import exact_draws, private_tokens
from dpcli.predict.decode import text_writer as write
from dpcli.predict.decode.exact_draws import bernoulli_exp, geometric
from dpcli.predict.decode.private_tokens import PARTS, LogitClipping, PrivateSupply, PublicTest
from dpcli.predict.decode.text_writer import Writer
from dpcli.random.streams import SystemStream
from tests.cases import of_each

RARE = 1e-13  # ways less likely than that are left out
LEFT_OUT = 1e-7  # what all of them may weigh
FEW = 2  # parts of a distribution, in place of 2^30: noise then has few values


class _Rare(Exception):
    """A way that hardly ever happens."""


class Ways:
    """A stream whose choices go as `path` says and then the first way; the others are kept for later."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path, self.made, self.chance = path, 0, 1.0
        self.others: list[tuple[int, ...]] = []

    def choose(self, law: Sequence[float]) -> int:
        if self.made == len(self.path):
            likely = [place for place, share in enumerate(law) if self.chance * share > RARE]
            if not likely:
                raise _Rare
            self.others += [(*self.path, place) for place in likely[1:]]
            self.path = (*self.path, likely[0])
        chosen = self.path[self.made]
        self.made += 1
        self.chance *= law[chosen]
        return chosen


def law_of(program: Callable[[Any], Hashable]) -> dict[Hashable, float]:
    """Return how likely each outcome of a program is, by every way that it may go."""
    result: Counter[Hashable] = Counter()
    left: list[tuple[int, ...]] = [()]
    while left:
        ways = Ways(left.pop())
        try:
            outcome = program(ways)
        except _Rare:
            continue
        finally:
            left += ways.others
        result[outcome] += ways.chance  # type: ignore[assignment]
    assert sum(result.values()) == pytest.approx(1.0, abs=LEFT_OUT)
    return dict(result)


def coin(chance: float, ways: Ways) -> bool:
    return ways.choose([1.0 - chance, chance]) == 1


def uniform(limit: int, ways: Ways) -> int:
    return ways.choose([1.0 / limit] * limit)


@of_each("exponent", ["0", "1/7", "1/2", "1", "3/2"])
def test_an_event_of_probability_e_to_a_fraction(exponent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_draws, "uniform_below", uniform)
    x = Fraction(exponent)
    assert law_of(lambda ways: bernoulli_exp(x, ways))[True] == pytest.approx(math.exp(-x), abs=LEFT_OUT)


@of_each("scale", ["1/3", "1", "3/2", "4"])
def test_noise_is_geometric(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given that the first draw is taken: else the same is done again."""
    once: list[int] = []

    def first(limit: int, ways: Ways) -> int:
        if once:
            raise Denied("again")
        once.append(limit)
        return uniform(limit, ways)

    def program(ways: Any) -> int:
        once.clear()
        try:
            return geometric(Fraction(scale), ways)
        except Denied:
            return -1

    for name in ("bernoulli_exp", "_bernoulli_exp_unit"):
        monkeypatch.setattr(exact_draws, name, lambda x, ways: coin(math.exp(-x), ways))
    monkeypatch.setattr(exact_draws, "uniform_below", first)
    result = law_of(program)
    taken, ratio = 1.0 - result.pop(-1, 0.0), math.exp(-1 / Fraction(scale))
    for k, chance in result.items():
        assert chance / taken == pytest.approx((1 - ratio) * ratio**k, abs=LEFT_OUT)  # type: ignore[operator]


def test_frequencies_of_the_real_noise() -> None:
    result = [geometric(Fraction(5, 2), SystemStream()) for _ in range(2_000)]
    expected = stats.geom(1 - math.exp(-0.4), loc=-1)
    assert abs(np.mean(result) - expected.mean()) < 5 * expected.std() / 2_000**0.5
    assert (
        abs(np.mean([bernoulli_exp(Fraction(1, 2), SystemStream()) for _ in range(2_000)]) - math.exp(-0.5)) < 5 * 0.5 / 2_000**0.5
    )


def spec(**keys: Any) -> PrivateDecodingSpec:
    return PrivateDecodingSpec(**{"clip": 1.0, "references": 4, "threshold": 0.3, "scale": 0.1, **keys})


def test_of(**keys: Any) -> PublicTest:
    result = PublicTest.of(spec(**keys))
    assert result is not None
    return result


test_of.__test__ = False  # type: ignore[attr-defined]
LOGITS = st.lists(
    st.one_of(st.floats(-40, 0), st.sampled_from([-math.inf, math.inf, math.nan, -1e9, 0.0, 700.0])), min_size=3, max_size=3
)


@given(st.lists(LOGITS, min_size=1, max_size=5), LOGITS, LOGITS, st.floats(0.1, 3.0), st.integers(1, 10))
def test_one_context_moves_a_distance_by_no_more_than_its_parts(
    others: list[list[float]], one: list[float], another: list[float], temperature: float, references: int
) -> None:
    """Whatever a model answers: the bound holds in whole numbers, without rounding."""
    test = test_of(temperature=temperature, references=references)
    public = np.zeros(3)

    def distance(*rows: list[float]) -> int:
        return test.distance(public, sum((test.parts(np.array(row)) for row in rows), np.zeros(3, np.int64)))

    for row in (*others, one, another):
        parts = test.parts(np.array(row))
        assert parts.min() >= 0 and parts.sum() in (0, PARTS)
    without = distance(*others)
    assert abs(distance(*others, one) - without) <= PARTS
    assert abs(distance(*others, one) - distance(*others, another)) <= 2 * PARTS


def test_the_distance_is_half_of_the_sum_of_differences() -> None:
    test = test_of(references=2, temperature=0.5)
    public, rows = np.log([0.5, 0.3, 0.2]), np.log([[0.1, 0.8, 0.1], [0.5, 0.25, 0.25]])
    apart = (rows / 0.5, public / 0.5)
    mean, known = np.exp(apart[0]) / np.exp(apart[0]).sum(1, keepdims=True), np.exp(apart[1]) / np.exp(apart[1]).sum()
    result = test.distance(public, sum(map(test.parts, rows), np.zeros(3, np.int64))) / (2 * PARTS * 2)
    assert result == pytest.approx(0.5 * np.abs(mean.mean(0) - known).sum(), abs=1e-8)


# The whole of it on a vocabulary of two: one context that stays, and one that comes, goes or is another. Deterministic contexts are as far
# from each other as can be, and say another thing at each token.
NEVER = -math.inf
SAYS = {"0": [0.0, NEVER], "1": [NEVER, 0.0], "?": [0.0, 0.0]}
TALKERS = ("100", "011", "101", "0?1", "111")


class Talkers:
    """A context is the number of a talker, who says one thing after each number of written tokens."""

    vocabulary, context = 2, 100

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def next_token(self, contexts: Sequence[Sequence[int]]) -> Array:
        return np.array([SAYS[self.words[context[0]][len(context) - 1]] for context in contexts])


@dataclass
class Counting:
    """A count that is kept in memory. used: what happened, in order."""

    total: int
    used: list[str] = field(default_factory=list)

    def taken(self) -> int:
        return self.used.count("charged")

    def take(self, count: int = 1) -> int:
        if self.taken() == self.total:
            raise Denied("none left")
        self.used.append("charged")
        return self.taken()


def transcripts(stated: PrivateDecodingSpec, steps: int, contexts: Sequence[str], public: str) -> dict[Hashable, float]:
    """Return how likely each text is, with what is private in it: by the program itself."""
    test = PublicTest.of(stated)
    assert test is not None
    clipping = LogitClipping.of(stated)
    writer = Writer(Talkers([public, *contexts]), clipping, (0,), True, len(public), None)
    places = [(place,) for place in range(1, len(contexts) + 1)]
    known = cache(lambda written: Writer.next_token(writer, places, written, test))

    class Remembered(Writer):
        def next_token(self, contexts: Any, written: Any, test: Any) -> Any:
            return known(tuple(written))

    remembering = Remembered(writer.model, clipping, (0,), True, len(public), None)

    def program(ways: Any) -> Hashable:
        budget = Counting(steps)
        supply = PrivateSupply(test, budget)  # type: ignore[arg-type]
        message: list[bool] = []
        judged = supply.is_private

        class Noted:
            def __getattr__(self, name: str) -> Any:
                return getattr(supply, name)

            def is_private(self, distance: int, stream: Any) -> bool:
                message.append(judged(distance, stream))
                return message[-1]

        result = remembering.text(places, ways, Noted())  # type: ignore[arg-type]
        assert budget.taken() <= steps
        return result.tokens, tuple(message), result.cut

    return law_of(program)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of few values, and choices that are all made."""

    def bar(scale: Fraction, ways: Ways) -> int:
        ratio, many = math.exp(-1 / scale), 60
        return ways.choose([(1 - ratio) * ratio**k for k in range(many)])

    def chosen(scores: Array, ways: Ways) -> int:
        weights = np.exp(scores - scores.max())
        return ways.choose(list(weights / weights.sum()))

    monkeypatch.setattr(private_tokens, "PARTS", FEW)
    monkeypatch.setattr(private_tokens, "geometric", bar)
    monkeypatch.setattr(private_tokens, "bernoulli_exp", lambda x, ways: coin(math.exp(-x), ways))
    monkeypatch.setattr(write, "draw_token", chosen)


def loss(one: Mapping[Hashable, float], other: Mapping[Hashable, float]) -> float:
    """The largest logarithm of a ratio; of what is too rare to be seen, none."""
    return max(
        math.log((chance - LEFT_OUT) / (other.get(key, 0.0) + LEFT_OUT)) for key, chance in one.items() if chance > 2 * LEFT_OUT
    )


def largest(stated: PrivateDecodingSpec, steps: int, adjacency: Adjacency, talkers: Sequence[str] = TALKERS) -> float:
    """Return, of neighbours and outcomes, the largest privacy loss of the program; at least that, as what is rare is left out."""
    result = 0.0
    public = "1" * len(talkers[0])
    for stays, comes in itertools.product(("0" * len(public), public), talkers):
        first = transcripts(stated, steps, [stays, comes], public)
        for other in talkers if adjacency is Adjacency.REPLACE_ONE else [""]:
            if other != comes:
                second = transcripts(stated, steps, [stays, other] if other else [stays], public)
                result = max(result, loss(first, second), loss(second, first))
    return result


WIDE = {"threshold": 0.5, "scale": 0.75}
CLOSE = {"clip": 0.5, "references": 1, "threshold": 0.0, "scale": 0.5}
CASES = [
    pytest.param(1, {}, Adjacency.ADD_REMOVE, TALKERS, marks=pytest.mark.long),
    (1, WIDE, Adjacency.ADD_REMOVE, TALKERS),
    (1, {}, Adjacency.REPLACE_ONE, ("011", "100")),
    (2, {}, Adjacency.ADD_REMOVE, ("01",)),
    pytest.param(1, WIDE, Adjacency.REPLACE_ONE, TALKERS, marks=pytest.mark.long),
    pytest.param(2, WIDE, Adjacency.REPLACE_ONE, ("01", "10", "?0"), marks=pytest.mark.long),
    pytest.param(2, {}, Adjacency.ADD_REMOVE, TALKERS, marks=pytest.mark.nightly),
]


@pytest.mark.sampled(1, 2)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("steps", "keys", "adjacency", "talkers"), CASES)
def test_no_outcome_tells_more_than_the_price(
    steps: int, keys: dict[str, float], adjacency: Adjacency, talkers: Sequence[str]
) -> None:
    """Every neighbour among talkers, and every outcome: what is written, which tokens of it were private, whether it was cut short."""
    stated = spec(**{**CLOSE, **keys})
    assert largest(stated, steps, adjacency, talkers) <= steps * stated.resolve(Neighbours(adjacency)).approx_dp(0.0)


def worst(stated: PrivateDecodingSpec) -> float:
    """Return the loss where a context moves a distance up before the private token, and down at it; at two thresholds."""
    return max(largest(replace(stated, threshold=at), 1, Adjacency.ADD_REMOVE, ("011",)) for at in (0.0, 1.25))


@pytest.mark.usefixtures("small")
def test_the_price_of_comparisons_is_met() -> None:
    """The price is no larger than it must be: 3 (move of the distance) / scale, and half of the token's cost in one direction."""
    stated = spec(**{**CLOSE, "clip": 1e-3})
    assert worst(stated) == pytest.approx(3.0, rel=2e-3)
    assert stated.resolve(Neighbours(Adjacency.ADD_REMOVE)).approx_dp(0.0) == pytest.approx(3.0 + 2e-3)


def no_new_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold is not drawn anew after a private token, which is then charged with the first."""
    monkeypatch.setattr(PrivateSupply, "is_private", lambda supply, far, stream: supply.test.is_private(far, supply.bar, stream))


def half_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    of = PublicTest.of
    monkeypatch.setattr(PublicTest, "of", lambda stated: replace(of(stated), scale=of(stated).scale / 2))


def no_noise_on_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicTest, "is_private", lambda _, far, bar, stream: far >= bar)


def no_noise_on_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicTest, "bar", lambda test, _: test.threshold)


def parts_that_are_more_than_all(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = PublicTest.parts
    monkeypatch.setattr(PublicTest, "parts", lambda test, row: 2 * parts(test, row))


PLANTS = (no_new_bar, half_the_noise, no_noise_on_distances, no_noise_on_the_threshold, parts_that_are_more_than_all)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("plant", PLANTS)
def test_a_bug_in_the_program_is_seen(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    stated = spec(**CLOSE)
    assert worst(stated) > stated.resolve(Neighbours(Adjacency.ADD_REMOVE)).approx_dp(0.0)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_each_private_token_is_charged_before_its_bar_is_drawn(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is drawn after a comparison that says so; after the last no comparison is made, in this text or another."""
    budget = Counting(steps)
    for name, what in (("bar", "bar"), ("is_private", "compared")):
        known = getattr(PublicTest, name)
        monkeypatch.setattr(PublicTest, name, lambda *all_, k=known, w=what: (budget.used.append(w), k(*all_))[1])
    stated = spec(references=1, threshold=0.2, scale=0.05)
    test = PublicTest.of(stated)
    assert test is not None
    writer = Writer(Talkers(["1" * 60, "10" * 30]), LogitClipping.of(stated), (0,), True, 12, None)
    supply = PrivateSupply(test, budget)  # type: ignore[arg-type]
    result = []
    while not (result and result[-1].cut):
        result.append(writer.text([(1,)], SystemStream(), supply))
    assert sum(one.private for one in result) == steps == budget.taken()
    compared_ = [event for event in budget.used if event == "compared"]
    assert len(compared_) == sum(len(one.tokens) for one in result) >= steps
    rest = "".join({"charged": "c", "bar": "b", "compared": "t"}[event] for event in budget.used)
    assert rest.count("cb") == rest.count("b") == rest.count("c") == steps and rest.startswith("cb")
    assert not supply.open_bar(SystemStream()) and writer.text([(1,)], SystemStream(), supply).tokens == ()
    with pytest.raises(InternalError, match="without a charge"):
        supply.is_private(0, SystemStream())


def test_where_all_say_the_same_hardly_a_token_is_private_and_else_each() -> None:
    stated = spec(references=8, threshold=0.4, scale=0.02)
    test = PublicTest.of(stated)
    assert test is not None
    for says, private in (("1" * 50, 0), ("0" * 50, 50)):
        writer = Writer(Talkers(["1" * 50, says]), LogitClipping.of(stated), (0,), True, 50, None)
        supply = PrivateSupply(test, Counting(50))  # type: ignore[arg-type]
        result = writer.text([(1,)] * 8, SystemStream(), supply)
        assert (len(result.tokens), result.private, result.cut) == (50, private, False)


def test_keys_come_together_and_references_fit() -> None:
    for missing in ("threshold", "scale"):
        [(key, expected, result)] = spec(**{missing: None}).problems()
        assert key == missing and "together" in expected and result == f"no {missing}"
    assert PublicTest.of(spec(threshold=None, scale=None)) is None
    with pytest.raises(InputError, match="references: expected at most"):
        PublicTest.of(spec(references=2**31 + 1))


@pytest.mark.parametrize(("adjacency", "factor"), [(Adjacency.ADD_REMOVE, 1), (Adjacency.ZERO_OUT, 1), (Adjacency.REPLACE_ONE, 2)])
@pytest.mark.parametrize("records", [1, 3])
def test_a_step_costs_its_comparisons_and_its_token(adjacency: Adjacency, factor: int, records: int) -> None:
    """3 (1 / (2 B)) / scale for each record, twice that where one is replaced."""
    near = Neighbours(adjacency, records)
    result = spec().resolve(near)
    token = spec(threshold=None, scale=None).resolve(near)
    epsilon = 3 * factor * records * 0.125 / 0.1
    assert result.approx_dp(0.0) == pytest.approx(epsilon + token.approx_dp(0.0), rel=1e-12)
    assert result.zcdp() == pytest.approx(epsilon * math.tanh(epsilon / 2) + token.zcdp(), rel=1e-12)
    assert not result.attained()


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-20, 1.0, 1e20, 1e300])
def test_a_scale_of_any_size_has_a_price(scale: float) -> None:
    for adjacency in Adjacency:
        result = spec(scale=scale, references=10**6).resolve(Neighbours(adjacency))
        assert result.approx_dp(0.0) > 0.0 and result.zcdp() >= 0.0
        assert not np.isnan(result.rdp(np.array([1.5, 2.0, 1000.0]))).any()
