"""Linear layers: torch's (p, d) weight and the transposed (d, p) weight of GPT-2 in transformers."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dpcli.train.engine.pieces import Outer, PlainRows
from dpcli.train.engine.rule import Pieces, positions, wide


def linear(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """y = x W^T + b: the gradient of W is the sum over positions of g x^T."""
    left, shape = wide(positions(gradient)), parameter_shape(module)
    return {"weight": lambda: Outer(left, wide(positions(inputs)), shape), "bias": lambda: PlainRows(summed(left))}


def transposed_linear(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """y = x W + b: the gradient of W is the sum over positions of x g^T."""
    right, shape = wide(positions(gradient)), parameter_shape(module)
    return {"weight": lambda: Outer(wide(positions(inputs)), right, shape), "bias": lambda: PlainRows(summed(right))}


def summed(values: Tensor) -> Tensor:
    """(B, T, features) -> (B, features); no copy where there is one position."""
    return values[:, 0] if values.shape[1] == 1 else values.sum(1)


def parameter_shape(module: nn.Module) -> torch.Size:
    """Shape of a layer's weight."""
    return cast("Tensor", module.weight).shape
