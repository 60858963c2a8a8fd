"""Reviews of six letters, and a small language model that knows which letters are alike, but not which are praise.

A review uses mostly letters of one half of the alphabet; which half is praise is known from the private reviews alone. The model is one
attention head with fixed weights: behind a text it says what came behind texts like it. All of it is made here; nothing is downloaded.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

HALVES = ("ABCDEFGHIJKLM", "NOPQRSTUVWXYZ")
LETTERS, PURE = 6, 0.8  # of a review; the share of them that is of its half
WIDTH = 16


def reviews(seed: int, count: int) -> tuple[list[str], list[str]]:
    """Texts and labels; the second half of the alphabet is praise."""
    chance = random.Random(seed)
    labels = [chance.randrange(2) for _ in range(count)]
    halves = [[label if chance.random() < PURE else 1 - label for _ in range(LETTERS)] for label in labels]
    texts = ["".join(chance.choice(HALVES[half]) for half in one) for one in halves]
    return texts, [("hated", "loved")[label] for label in labels]


def private() -> tuple[list[str], list[str]]:
    """600 reviews that nobody may see."""
    return reviews(1, 600)


def public() -> list[str]:
    """150 reviews without labels, which anybody may see."""
    return reviews(2, 150)[0]


def test() -> tuple[list[str], list[str]]:
    """200 labelled reviews that are declared public: they measure, and decide nothing."""
    return reviews(3, 200)


class CopyingHead(nn.Module):
    """Logits for bytes: what followed earlier places whose last few tokens were like the last few here, weighted by how like they were."""

    near = LETTERS + 1  # tokens that are compared: a review and the sign behind it

    def __init__(self) -> None:
        super().__init__()
        chance = torch.Generator().manual_seed(0)
        table = 0.3 * torch.randn(256, WIDTH, generator=chance)
        for sign, half in zip((-1.0, 1.0), HALVES, strict=True):
            table[list(half.encode()), 0] += sign
        table[:, 1:3] = 0.0
        table[ord("-")], table[ord("+")] = 2.0 * torch.eye(WIDTH)[1], 2.0 * torch.eye(WIDTH)[2]
        self.embedding = nn.Embedding.from_pretrained(table)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **_: Any) -> SimpleNamespace:
        """input_ids (B, T) or inputs_embeds (B, T, width) -> logits (B, T, 256)."""
        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        before = nn.functional.pad(x, (0, 0, self.near, 0)).cumsum(1)
        about = (before[:, self.near :] - before[:, : -self.near]) / self.near  # the mean of the last few
        earlier = nn.functional.pad(about[:, :-1], (0, 0, 1, 0))  # what stood before each token
        likeness = 8.0 * about @ earlier.transpose(1, 2)
        places = torch.arange(x.shape[1], device=x.device)
        weights = likeness.masked_fill(places[None, :] > places[:, None], -torch.inf).softmax(-1)
        return SimpleNamespace(logits=8.0 * (weights @ x) @ self.embedding.weight.T)


def model() -> nn.Module:
    return CopyingHead().eval()
