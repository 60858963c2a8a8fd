"""A text task from what every Python ships: which of four modules of the standard library, each of another kind, 32 characters are from."""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy as np
import torch
from torch import Tensor, nn

MODULES = (
    "_pydecimal",
    "encodings.cp437",
    "html.entities",
    "pydoc_data.topics",
)  # a program, two kinds of tables and a manual: one label each
LENGTH, PIECES = 32, 625  # characters of a piece, and pieces of each module
PRIVATE = 2000  # pieces from which the model learns
ALPHABET = 97  # the printable ASCII characters, a line break, and one token for all others
WIDTH = 16  # of the transformer


def tokens(text: str) -> list[int]:
    """Return the number of each character: 0 for what is no printable ASCII character, 1 for a line break."""
    return [1 if letter == "\n" else ord(letter) - 30 if " " <= letter <= "~" else 0 for letter in text]


def pieces() -> tuple[Tensor, Tensor]:
    """Return pieces (2500, 32) of numbered characters that do not overlap, and their labels, in a random order."""
    rows, labels = [], []
    for label, name in enumerate(MODULES):
        text = inspect.getsource(import_module(name))
        starts = range(0, PIECES * LENGTH, LENGTH)
        assert len(text) >= PIECES * LENGTH, (name, len(text))
        rows += [tokens(text[start : start + LENGTH]) for start in starts]
        labels += [label] * len(starts)
    order = np.random.default_rng(0).permutation(len(rows))
    return torch.tensor(rows)[order], torch.tensor(labels)[order]


def private() -> tuple[Tensor, Tensor]:
    """Return 80 % of the pieces, from which the model learns."""
    inputs, labels = pieces()
    return inputs[:PRIVATE], labels[:PRIVATE]


def public() -> tuple[Tensor, Tensor]:
    """Return the other pieces, which are declared public and measure the accuracy."""
    inputs, labels = pieces()
    return inputs[PRIVATE:], labels[PRIVATE:]


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the cross-entropy (B,) of each piece."""
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels, reduction="none")


def metric(model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Return the share of the pieces that are classified correctly."""
    inputs, labels = batch
    return {"accuracy": float((model(inputs).argmax(-1) == labels).float().mean())}


class SmallTransformer(nn.Module):
    """A transformer of one layer and one head that classifies the mean of its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(ALPHABET, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.inner, self.outer = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, len(MODULES))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return logits (B, 4) of pieces (B, 32)."""
        hidden = self.letters(numbers) + self.places(torch.arange(LENGTH).expand_as(numbers))
        read = self.first(hidden)
        weights = (self.queries(read) @ self.keys(read).transpose(-2, -1) / WIDTH**0.5).softmax(-1)
        hidden = hidden + weights @ self.values(read)
        hidden = hidden + self.outer(torch.relu(self.inner(self.second(hidden))))
        return self.head(hidden.mean(-2))


def build() -> nn.Module:
    """Return the model before training."""
    return SmallTransformer()
