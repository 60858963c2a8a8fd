"""Rare but correct programs: parameters without dimensions, sparse gradients, losses that compute gradients, frozen statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from tests.train.engine.models import LABELS, WORDS, Recurrent, classification, images, sequences, vectors, words
from tests.train.engine.oracle import clipped_sum, distance, gradients

CLIP = Flat(0.05)


class Tables(nn.Module):
    """Two tables with sparse gradients, one of which adds up what is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.bag = nn.Embedding(WORDS, 6, sparse=True), nn.EmbeddingBag(WORDS, 6, sparse=True)
        self.head = nn.Linear(6, LABELS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(ids).sum(1) + self.bag(ids)))


class Tempered(nn.Module):
    """A parameter without a dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.head = nn.Parameter(torch.tensor(1.3)), nn.Linear(11, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) / self.temperature


def smooth(model: nn.Module, batch: Any) -> Tensor:
    """With the length of the gradient at the input, which is learnt from as well."""
    x = batch[0].detach().requires_grad_()
    (slope,) = torch.autograd.grad(classification(model, (x, batch[1])).sum(), x, create_graph=True)
    return classification(model, batch) + slope.square().sum(1)


def weighed(model: nn.Module, batch: Any) -> Tensor:
    """Each example weighs as much as its gradient at the input is long."""
    x = batch[0].detach().requires_grad_()
    (slope,) = torch.autograd.grad(classification(model, (x, batch[1])).sum(), x)
    return classification(model, batch) * slope.norm(dim=1)


def kept() -> nn.Module:
    """Statistics that are kept while all else is in training mode."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(168, LABELS)).double()
    with torch.no_grad():
        model(images(9)[0])
    model[1].eval()
    return model


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any], Any, str]] = {
    "sparse tables": (Tables, words, classification, "loop"),
    "no dimension": (Tempered, vectors, classification, "book-keeping"),
    "a gradient in the loss": (lambda: nn.Sequential(nn.Linear(11, 7), nn.Tanh(), nn.Linear(7, LABELS)), vectors, smooth, "loop"),
    "a gradient as a weight": (
        lambda: nn.Sequential(nn.Linear(11, 7), nn.Tanh(), nn.Linear(7, LABELS)),
        vectors,
        weighed,
        "book-keeping",
    ),
    "kept statistics": (kept, images, classification, "book-keeping"),
}


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_one_example_at_a_time(name: str) -> None:
    build, draw, loss, method = PROGRAMS[name]
    model = build().double()
    engine = ClippedGradients(model, loss, CLIP)
    for size in (4, 1):
        batch = draw(size)
        sums = engine.checked_sums(batch, 0)
        assert distance(sums.gradients, clipped_sum(gradients(model, loss, batch, size), CLIP)) <= 1e-9 * CLIP.bound
    assert engine.method.name == method, engine.describe()


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU], ids=lambda kind: kind.__name__)
def test_recurrent_layers_in_single_precision_are_followed(kind: Any) -> None:
    """There torch has operators of its own for them, with a memory that only they read."""
    model, (x, targets) = Recurrent(kind), sequences(4)
    engine = ClippedGradients(model, classification, CLIP)
    sums = engine.checked_sums((x.float(), targets), 2)
    assert engine.describe() == "book-keeping"
    expected = clipped_sum(gradients(model, classification, (x.float(), targets), 4), CLIP)
    assert distance(sums.gradients, expected) <= 1e-4 * CLIP.bound
