"""Answers by noisy votes: what the noise is, when there is an answer, and that each query is charged once and answered once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import Denied
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.canonical import TOP
from dpcli.numerics.arrays import Array
from dpcli.predict.aggregators import Aggregator, ConfidentGnMax, GnMax, LnMax, laplace_noise, normal_noise
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.prediction_session import open_queries
from dpcli.predict.prompt.prompt_session import ReleasedAnswer, VoteTranscript, VotingSession
from dpcli.predict.vote_counts import VoteCounts
from dpcli.random.streams import SystemStream, insecure_seed
from tests.cases import fresh_random

VOTES = VoteCounts(np.array([[70, 20, 10]]), 100)
CLEAR = VoteCounts(np.array([[100, 0]]), 100)


def test_every_type_of_votes_has_an_aggregator_that_reads_its_keys() -> None:
    """All that are told apart by a common class of the file, and each with the noise that its entry states."""
    from dpcli.mechanisms.prediction.votes import VoteSpec

    specs = {name: load(target) for name, target in MECHANISMS.items()}
    assert set(AGGREGATORS) == {name for name, cls in specs.items() if issubclass(cls, VoteSpec)}
    assert TOP["mechanism"]
    for name, target in AGGREGATORS.items():
        spec = specs[name](**specs[name].example)
        aggregator: Aggregator = load(target).of(spec)
        for key in ("sigma", "scale", "threshold", "threshold_sigma"):
            assert getattr(aggregator, key, None) == getattr(spec, key, None)


def cdf_normal(x: Array) -> Array:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in x])


def cdf_laplace(x: Array) -> Array:
    return np.asarray(np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(x, 0.0))))


@pytest.mark.parametrize(("noise", "cdf"), [(normal_noise, cdf_normal), (laplace_noise, cdf_laplace)])
def test_the_noise_has_the_distribution_that_is_priced(noise: Callable[[Any, int], Array], cdf: Callable[[Array], Array]) -> None:
    """Kolmogorov-Smirnov at 1e-9; a scale that is off by 20 % fails it."""
    n = 60_000
    bound = math.sqrt(-math.log(0.5e-9) / (2 * n))

    def distance(scale: float) -> float:
        at = cdf(np.sort(noise(SystemStream(), n) / scale))
        return float(max(np.max(np.arange(1, n + 1) / n - at), np.max(at - np.arange(n) / n)))

    assert distance(1.0) < bound
    assert distance(1.2) > bound


@pytest.mark.parametrize("aggregator", [GnMax(30.0), LnMax(20.0)])
def test_the_winner_wins_as_often_as_it_should(aggregator: Aggregator) -> None:
    """Against an independent simulation by numpy's generator, at five standard errors."""
    n, chance = 4_000, np.random.default_rng(fresh_random().getrandbits(32))
    noise = chance.normal(0, 30.0, (200_000, 3)) if isinstance(aggregator, GnMax) else chance.laplace(0, 20.0, (200_000, 3))
    expected = np.bincount((VOTES.counts + noise).argmax(1), minlength=3) / 200_000
    result = np.bincount(aggregator.winners(np.repeat(VOTES.counts, n, axis=0), SystemStream()), minlength=3) / n
    assert np.all(np.abs(result - expected) < 5 * np.sqrt(expected * (1 - expected) * (1 / n + 1 / 200_000)))


def test_there_is_an_answer_as_often_as_there_should_be() -> None:
    aggregator, n = ConfidentGnMax(1.0, 90.0, 40.0), 4_000
    expected = 0.5 * math.erfc((90.0 - 70.0) / 40.0 / math.sqrt(2.0))
    result = sum(aggregator.reached(np.full(n, 70.0), SystemStream())) / n
    assert abs(result - expected) < 5 * math.sqrt(expected * (1 - expected) / n)


def session(folder: Path, aggregator: Aggregator, total: int, answers: int | None = None) -> VotingSession:
    def opened(name: str, count: int) -> Any:
        return open_queries(str(folder / name), "f" * 64, count, new=True)

    return VotingSession(
        aggregator,
        opened("q.db", total),
        None if answers is None else opened("a.db", answers),
        VoteTranscript(str(folder / "t.jsonl"), 3),
        insecure_seed(1).noise,
    )


def test_a_query_is_answered_once_and_charged_once(tmp_path: Path) -> None:
    voting, questions = session(tmp_path, GnMax(50.0), 3), []

    def votes() -> VoteCounts:
        questions.append(1)
        return VOTES

    first = [voting.ask(text, votes) for text in ("a", "b")]
    again = session(tmp_path, GnMax(50.0), 3)
    assert [again.ask(text, votes) for text in ("b", "a", "b")] == [first[1], first[0], first[1]]
    assert [one.number for one in first] == [1, 2]
    assert (len(questions), again.queries.taken()) == (2, 2)
    again.ask("c", votes)
    with pytest.raises(Denied):
        again.ask("d", votes)
    assert len(questions) == 3  # nobody votes on what will not be answered
    assert again.ask("a", votes) == first[0]


def test_after_the_last_answer_nothing_is_asked(tmp_path: Path) -> None:
    voting = session(tmp_path, ConfidentGnMax(1.0, 50.0, 1.0), 100, 2)
    split = VoteCounts(np.array([[30, 30, 40]]), 100)
    assert [voting.ask(text, lambda: VOTES).label for text in "ab"] == [0, 0]
    with pytest.raises(Denied, match="all 2 "):
        voting.ask("c", lambda: split)
    assert (voting.queries.taken(), voting.transcript.answer("c")) == (2, None)


def test_no_answer_is_an_answer_that_is_charged(tmp_path: Path) -> None:
    voting = session(tmp_path, ConfidentGnMax(1.0, 90.0, 1.0), 10, 5)
    assert voting.ask("a", lambda: VOTES) == ReleasedAnswer(1, None)
    assert voting.ask("b", lambda: CLEAR) == ReleasedAnswer(2, 0)
    assert (voting.queries.taken(), voting.answers and voting.answers.taken()) == (2, 1)


def test_a_charge_without_a_transcript_is_lost(tmp_path: Path) -> None:
    """A crash between the two: asked again, the query is charged again."""
    voting = session(tmp_path, GnMax(1.0), 3)
    voting.ask("a", lambda: VOTES)
    content = (tmp_path / "t.jsonl").read_bytes()
    (tmp_path / "t.jsonl").write_bytes(content[: len(content) // 2])
    again = session(tmp_path, GnMax(1.0), 3)
    assert again.ask("a", lambda: VOTES).number == 2
    assert session(tmp_path, GnMax(1.0), 3).ask("a", lambda: VOTES).number == 2
