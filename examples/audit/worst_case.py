"""The worst case for a trainer: each record moves a weight of its own as far as clipping allows, and nothing else moves that weight."""

from __future__ import annotations

import torch
from torch import nn

RECORDS, CANARIES = 200, 1000


def model() -> nn.Module:
    weights = nn.Embedding(RECORDS + CANARIES, 1)
    nn.init.zeros_(weights.weight)
    return weights


def records() -> torch.Tensor:
    """Of each record the place of its weight."""
    return torch.arange(RECORDS)


def canaries(count: int, generator: object) -> torch.Tensor:
    """Of each canary the place of its weight."""
    return RECORDS + torch.arange(count)


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Falls without end as the record's own weight grows: the gradient is -10 there, and is clipped."""
    return -10.0 * model(batch)[:, 0]
