"""Two-dimensional convolution: a linear layer on the patches of its input."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.pieces import Outer, Piece, PlainRows
from dpcli.train.engine.rule import Pieces, wide


def convolution(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Weight by patches, bias by a sum over the output's pixels; gradient (B, channels, height, width)."""
    layer, left = cast("nn.Conv2d", module), wide(gradient).flatten(2)
    return {"weight": lambda: weight_piece(layer, left, wide(inputs)), "bias": lambda: PlainRows(left.sum(2))}


def weight_piece(layer: nn.Conv2d, left: Tensor, inputs: Tensor) -> Piece:
    """Outer products over pixels; with groups of channels, where the matrices are small, the gradients themselves."""
    patches = unfolded(layer, inputs)
    if layer.groups == 1:
        return Outer(left.mT, patches.mT, layer.weight.shape)
    size, groups = left.shape[0], layer.groups
    blocks = left.view(size, groups, -1, left.shape[2]) @ patches.view(size, groups, -1, patches.shape[2]).mT
    return PlainRows(blocks.reshape(size, *layer.weight.shape))


def unfolded(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """The patches that the kernel saw, (B, channels * kernel, pixels): one strided copy, 2 to 8 times faster than unfold on a CPU."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    around = functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)
    kernel, dilation, stride = layer.kernel_size, layer.dilation, layer.stride
    size = (around.shape[2] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    other = (around.shape[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    example, channel, row, column = around.stride()
    steps = (example, channel, dilation[0] * row, dilation[1] * column, stride[0] * row, stride[1] * column)
    view = around.as_strided((*around.shape[:2], *kernel, size, other), steps)
    return view.reshape(around.shape[0], -1, size * other)
