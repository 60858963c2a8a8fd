"""Linear layers: torch's (p, d) weight and the transposed (d, p) weight of GPT-2 in transformers."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.pieces import Outer, PlainRows
from dpcli.train.engine.rule import Pieces, positions, wide

GRID = 4


def linear(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """y = x W^T + b: the gradient of W is the sum over positions of g x^T."""
    left, shape = wide(positions(gradient)), parameter_shape(module)
    return {"weight": lambda: Outer(left, wide(positions(inputs)), shape), "bias": lambda: PlainRows(summed(left))}


def transposed_linear(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """y = x W + b: the gradient of W is the sum over positions of x g^T."""
    right, shape = wide(positions(gradient)), parameter_shape(module)
    return {"weight": lambda: Outer(wide(positions(inputs)), right, shape), "bias": lambda: PlainRows(summed(right))}


def run_linear(module: nn.Module, input: Tensor) -> Tensor:
    """Run nn.Linear as `aligned`."""
    return aligned(input, cast("Tensor", module.weight), cast("Tensor | None", module.bias))


def aligned(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, in which a row does not depend on how many rows there are.

    On a CPU the kernels round what is left over of a multiple of four otherwise, and at a kink of the loss the last digit decides. Rows and
    both lengths of the product are filled up with zeros (measured with MKL: rows are then equal bit by bit, in both passes).
    """
    width, depth = weight.shape
    count = inputs.numel() // depth if depth else 0
    rows, more, wider = -count % GRID, -depth % GRID, -width % GRID
    if not count or inputs.device.type != "cpu" or not (rows or more or wider):
        return functional.linear(inputs, weight, bias)
    flat = functional.pad(inputs.reshape(count, depth), (0, more, 0, rows))
    output = functional.linear(
        flat, functional.pad(weight, (0, more, 0, wider)), None if bias is None else functional.pad(bias, (0, wider))
    )
    return output[:count, :width].clone().view(*inputs.shape[:-1], width)  # no view of what is larger: it may be written to


def summed(values: Tensor) -> Tensor:
    """(B, T, features) -> (B, features); no copy where there is one position."""
    return values[:, 0] if values.shape[1] == 1 else values.sum(1)


def parameter_shape(module: nn.Module) -> torch.Size:
    """Shape of a layer's weight."""
    return cast("Tensor", module.weight).shape
