"""Language models in the engine: no record's influence exceeds C, each gradient depends on its record alone, and padding has no effect."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.tasks.causal_lm import build
from dpcli.train.tasks.learning import Learning
from dpcli.train.tasks.soft_prompt import build as build_classifier
from tests.cases import require_each
from tests.train.engine.oracle import (
    clipped_sum,
    distance,
    gradients,
    influence,
    length,
)
from tests.train.tasks.language import WAYS, awake, table

SLACK = 1.0 + 1e-6
CLASSIFIER = {"task": "soft-prompt", "soft_prompt": 3, "data": "own_language:labelled", "labels": ("negative", "positive")}
PROBLEMS: dict[str, dict[str, Any]] = {
    **WAYS,
    "sum": {"token_loss": "sum"},
    "llama": {"model": "own_language:llama"},
    "llama lora": {"model": "own_language:llama", **WAYS["lora"], "lora": WAYS["lora"]["lora"].__class__(2)},
    "own module": {"model": "own_language:bag"},
    "classifier": CLASSIFIER,
}


# The others are of a kind that one of these has, or that the configurations of engine/models.py have.
BY_NAME = [
    pytest.param(name, marks=pytest.mark.nightly if name in ("full", "sum", "prompt", "llama") else pytest.mark.long)
    for name in PROBLEMS
]


def problem(name: str, path: str) -> Learning:
    train = table(**PROBLEMS[name])
    found = (build_classifier if train.task == "soft-prompt" else build)(train, path)
    awake(found.model)
    return found


def some(found: Learning, count: int) -> Any:
    """The first records, of different lengths."""
    from dpcli.train.engine.batches import take

    batch = take(found.records, slice(0, count))
    ids = batch[0] if isinstance(batch, tuple) else batch
    ids = ids.clone()
    for row in range(count):
        ids[row, 6 + 2 * row :] = -100
    return (ids, batch[1]) if isinstance(batch, tuple) else ids


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("name", BY_NAME)
def test_influence_is_at_most_c(name: str, place: str) -> None:
    found = problem(name, place)
    engine = ClippedGradients(found.model, found.loss, Flat(1e-3))
    assert 0.5 < influence(engine, some(found, 4), 4) <= SLACK
    assert engine.method.name == "book-keeping"


@pytest.mark.parametrize("name", BY_NAME)
def test_gradients_are_those_of_one_record_at_a_time(name: str, place: str) -> None:
    found = problem(name, place)
    batch = some(found, 4)
    each = gradients(found.model, found.loss, batch, 4)
    engine = ClippedGradients(found.model, found.loss, Flat(1e-3))
    sums = engine(batch)
    expected = clipped_sum(each, engine.clip)
    assert distance(sums.gradients, expected) <= 1e-6 * length(expected)
    for norm, one in zip(sums.norms, each, strict=True):
        assert float(norm) == pytest.approx(length(one), rel=1e-6)


def test_padding_is_nothing(place: str) -> None:
    """A record's gradient is the same whatever the width of the batch, and whatever longer records are beside it."""

    def check(name: str) -> None:
        found = problem(name, place)
        batch = some(found, 4)
        labels = batch[1] if isinstance(batch, tuple) else None
        ids = batch[0] if isinstance(batch, tuple) else batch
        for row in range(3):
            alone = ids[row : row + 1, : 6 + 2 * row]
            narrow, wide = (
                (alone, ids[row : row + 1])
                if labels is None
                else ((alone, labels[row : row + 1]), (ids[row : row + 1], labels[row : row + 1]))
            )
            (a,), (b,) = gradients(found.model, found.loss, narrow, 1), gradients(found.model, found.loss, wide, 1)
            assert length(a) > 0.0
            assert distance(a, b) <= 1e-9 * length(a)

    require_each(PROBLEMS, check)


def test_dropout_is_off(place: str) -> None:
    def check(name: str) -> None:
        assert not [module for module in problem(name, place).model.modules() if module.training]

    require_each(PROBLEMS, check)


def test_only_adapters_are_trained(place: str) -> None:
    for name, part in (("lora", "lora_"), ("prompt", "prompt"), ("classifier", "prompt")):
        trained = [key for key, p in problem(name, place).model.named_parameters() if p.requires_grad]
        assert trained
        assert all(part in key for key in trained)


def test_a_soft_prompt_stands_before_the_text(place: str) -> None:
    """Against the model's own forward on the embeddings of the prompt's tokens, put before the text as tokens."""
    from dpcli.train.tasks.lm_models import Prompted, logits

    found = problem("prompt", place).model
    assert isinstance(found, Prompted)
    prefix = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        found.prompt.weight.copy_(found.model.get_input_embeddings()(prefix)[0])
        ids = torch.randint(0, 256, (2, 9))
        whole = found.model(input_ids=torch.cat([prefix.expand(2, -1), ids], 1)).logits
        torch.testing.assert_close(logits(found, ids), whole)
