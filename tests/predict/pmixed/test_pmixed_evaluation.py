"""Perplexities of the methods of using private texts, and their order on models that count."""

from __future__ import annotations

import importlib.util
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from dpcli.analysis.calibrate import calibrate
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.documents.pmixed_evaluation import evaluate_document
from dpcli.predict.models.ngram import public_ngram
from dpcli.predict.pmixed.ensemble_evaluation import evaluate
from dpcli.predict.pmixed.model_ensemble import Sound
from dpcli.predict.pmixed.pmixed_plan import plan_of
from dpcli.predict.pmixed.private_baseline import noise_multiplier, private_bigrams, unit_counts
from dpcli.predict.pmixed.projection import ball, clip
from dpcli.predict.pmixed.token_losses import SampledMode, ensemble_losses, losses, perplexity
from dpcli.random.streams import SeededStream
from tests.command import ROOT, dpcli
from tests.predict.pmixed.pmixed_files import written
from tests.predict.samples import working_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return working_folder(tmp_path, monkeypatch, "small_texts")


def stream() -> SeededStream:
    return SeededStream(random.randrange(2**32))


def test_an_ensemble_is_measured_as_its_tokens_are_drawn() -> None:
    """All models take part: the average of the projections, token by token."""
    public = public_ngram([[0, 1, 2, 3] * 5], 2, 4)
    members = [public.tuned(public.tune([[0, 2, 0, 3] * step])) for step in (3, 9)]
    record = (0, 2, 1, 3, 0)
    ((answer,),) = ensemble_losses(public, members, [SampledMode(Sound(0.4), 1.0)], [record], 1.0, stream())
    expected = []
    for place in range(1, len(record)):
        around = ball(np.exp(public.next_token([record[:place]])[0]), 0.4)
        rows = [clip(around, np.exp(member.next_token([record[:place]])[0])) for member in members]
        expected.append(-math.log(np.mean(rows, axis=0)[record[place]]))
    assert answer == pytest.approx(expected, rel=1e-12)
    (alone,) = losses(public, [record], 1.0)
    ((none,),) = ensemble_losses(public, members, [SampledMode(Sound(0.4), 1e-12)], [record], 1.0, stream())
    assert none == pytest.approx(alone, rel=1e-12)


def test_the_interval_is_of_whole_records() -> None:
    same = perplexity([np.full(5, math.log(7.0))] * 9, stream())
    assert (same.low, same.value, same.high) == (pytest.approx(7.0),) * 3
    source = np.random.default_rng(3)
    mixed = perplexity([source.exponential(2.0, 20) for _ in range(60)], stream())
    assert mixed.low < mixed.value < mixed.high < 2.0 * mixed.low


def test_private_counts_move_by_the_norm_at_most() -> None:
    source = random.Random(4)
    units = [[[source.randrange(5) for _ in range(source.randrange(30))] for _ in range(3)] for _ in range(12)]

    def counts(chosen: list[list[list[int]]]) -> dict[tuple[int, int], float]:
        answer = private_bigrams(chosen, 5, 2.0, 1e-12, stream())
        return {
            (context, int(token)): float(count)
            for context in range(5)
            for token, count in zip(*answer.after([context]), strict=True)
        }

    complete, without = counts(units), counts(units[1:])
    moved = math.sqrt(sum((complete[pair] - without.get(pair, 0.0)) ** 2 for pair in complete))
    own = unit_counts(units[0], 5)[1]
    assert moved == pytest.approx(min(2.0, float(np.linalg.norm(own))), rel=1e-6)
    assert noise_multiplier(1.0, 1e-5, Adjacency.ADD_REMOVE) == pytest.approx(3.730631, rel=1e-6)  # analytic Gaussian
    assert noise_multiplier(1.0, 1e-5, Adjacency.REPLACE_ONE) == pytest.approx(2.0 * 3.730631, rel=1e-6)


@pytest.mark.nightly
def test_the_ensemble_lies_between_the_public_model_and_no_privacy(place: Path) -> None:
    plan = plan_of(str(written(place)))
    answer = evaluate(plan, None, "epsilon", (0.5, 8.0), 200, stream())
    of = {method.kind: method.perplexity for method in reversed(answer.methods)}
    assert of["all"].value < of["sound"].value < of["public"].value
    assert of["sound"].low < of["sound"].value < of["sound"].high
    relative = {method.kind: method.relative for method in reversed(answer.methods)}
    assert (relative["public"].low, relative["public"].high) == (1.0, 1.0)
    assert relative["sound"].value == pytest.approx(of["sound"].value / of["public"].value)
    assert relative["all"].high < 1.0  # of the same records, so that what all methods find hard cancels
    first, second = (point.sound.value for point in answer.points)
    assert first > second
    assert [point.radius for point in answer.points] == sorted(point.radius for point in answer.points)


@pytest.mark.long
def test_evaluate_prints_a_table_and_draws_the_picture(place: Path) -> None:
    path = str(written(place, mechanism_radius="0.6"))
    assert dpcli("pmixed", "fit", path, folder=place).code == 0
    words = ("pmixed", "evaluate", path, "--over", "rate", "--values", "0.5,1", "--tokens", "40", "--picture", "x.svg")
    result = dpcli(*words, "-f", "json", folder=place)
    answer = json.loads(result.out)
    assert result.code == 0 and [point["value"] for point in answer["points"]] == [0.5, 1.0]
    assert {way["kind"] for way in answer["ways"]} == {"public", "sound", "paper", "dp", "all"}
    assert next(way for way in answer["ways"] if way["kind"] == "paper")["epsilon"] is None
    assert (place / "x.svg").read_text().count("<svg") == 1
    table = dpcli("pmixed", "evaluate", path, "--tokens", "20", folder=place)
    assert "computed from the private texts without noise" in table.out
    again = json.loads(dpcli("pmixed", "predict", path, "--prompt", "w1", "-f", "json", folder=place).out)
    assert again["taken"] <= 9  # measuring takes no tokens


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("axis", ["epsilon", "steps", "rate"])
def test_the_same_setting_has_the_same_figure_in_both_tables(place: Path, axis: str) -> None:
    """The file's own value among those of the ablation, its radius the one that is solved for; so many tokens as were asked for."""
    path = written(place, mechanism_radius="0.3")
    before = plan_of(str(path))
    own = {"epsilon": 8.0, "steps": float(before.tokens), "rate": before.spec.model_rate}[axis]
    radius = calibrate(before.pipeline, 8.0, 1e-5, "radius").value
    plan = plan_of(str(written(place, mechanism_radius=f"{radius:.7g}")))
    assert plan.account is not None
    first = evaluate(plan, None, axis, (plan.account.upper if axis == "epsilon" else own,), 33, stream())
    sound = first.method("sound")
    assert first.points[0].radius == radius and first.tokens == 33
    assert first.points[0].sound.value == sound.perplexity.value
    table = evaluate_document(first).tables[1]
    assert sound.name in table.columns


def test_a_picture_that_cannot_be_made_is_refused_before_the_work(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = dpcli("pmixed", "evaluate", "absent.toml", "--over", "rate", "--picture", "x.svg", "--picture", "x.png", folder=place)
    assert answer.code == 2 and "matplotlib is not installed" in answer.err


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(
    ("keys", "flags", "message"),
    [
        ({"mode": '"paper"'}, (), 'expected mode = "sound" (the comparison includes "paper"), found paper'),
        ({}, ("--picture", "x.svg"), "--picture: needs --over"),
        ({}, ("--values", "1,2"), "--values: needs --over"),
        ({}, ("--over", "rate", "--values", "0.1,2"), "--values: expected numbers in (0, 1] for rate, found 2"),
        ({}, ("--over", "steps", "--values", "1.5"), "--values: expected whole numbers >= 1 for steps, found 1.5"),
        ({}, ("--over", "shards", "--values", "4097"), "--values: expected whole numbers from 1 to 4096 for shards, found 4097"),
        ({}, ("--over", "steps", "--values", "a"), "--values: expected numbers separated by commas, found 'a'"),
        ({"temperature": "1e-3"}, ("--over", "rate", "--values", "0.1,1", "--picture", "x.svg"), "found an infinite perplexity"),
        ({"test": '"absent.txt"'}, (), "pmixed.test: expected a file, found no file at absent.txt"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_measured_is_refused(place: Path, keys: dict[str, str], flags: tuple[str, ...], message: str) -> None:
    answer = dpcli("pmixed", "evaluate", str(written(place, **keys)), "--tokens", "40", *flags, folder=place)
    assert answer.code == 2 and message in answer.err


@pytest.mark.nightly
@pytest.mark.long
def test_the_example_orders_the_methods_as_published_and_the_sound_one_beats_the_published() -> None:
    """80 bigram models, rate 0.03, 1024 tokens, epsilon 8: by far more than what drawing the models leaves to chance."""
    plan = plan_of(str(ROOT / "examples/pmixed.toml"))
    answer = evaluate(plan, None, "epsilon", (1.0, 8.0), 1_500, stream())
    clipped, mixed = (method.perplexity.value for method in answer.methods if method.kind == "sound")
    of = {method.kind: method.perplexity.value for method in answer.methods}
    assert of["all"] < clipped < of["paper"] < of["public"] and clipped < mixed < of["public"]
    assert answer.points[1].sound.value < answer.points[0].sound.value < of["public"]
