"""Convolution in one, two or three dimensions: a linear layer on the patches of its input."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.conv import _ConvNd

from dpcli.train.engine.pieces import Outer, Piece, PlainRows
from dpcli.train.engine.rule import Pieces, wide


def convolution(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Weight by patches, bias by a sum over the output's places; gradient (B, channels, ...)."""
    layer, left = cast("_ConvNd", module), wide(gradient).flatten(2)
    return {"weight": lambda: weight_piece(layer, left, wide(inputs)), "bias": lambda: PlainRows(left.sum(2))}


def weight_piece(layer: _ConvNd, left: Tensor, inputs: Tensor) -> Piece:
    """Outer products over places; with groups of channels, where the matrices are small, the gradients themselves."""
    patches = unfolded(layer, inputs)
    if layer.groups == 1:
        return Outer(left.mT, patches.mT, layer.weight.shape)
    size, groups = left.shape[0], layer.groups
    blocks = left.view(size, groups, -1, left.shape[2]) @ patches.view(size, groups, -1, patches.shape[2]).mT
    return PlainRows(blocks.reshape(size, *layer.weight.shape))


def unfolded(layer: _ConvNd, inputs: Tensor) -> Tensor:
    """The patches that the kernel saw, (B, channels * kernel, places): one strided copy, 2 to 8 times faster than unfold on a CPU."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    around = functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)
    kernel, dilation, stride = layer.kernel_size, layer.dilation, layer.stride
    sides = zip(around.shape[2:], kernel, dilation, stride, strict=True)
    places = [(length - apart * (taps - 1) - 1) // step + 1 for length, taps, apart, step in sides]
    example, channel, *along = around.stride()
    within = [apart * step for apart, step in zip(dilation, along, strict=True)]
    between = [far * step for far, step in zip(stride, along, strict=True)]
    view = around.as_strided((*around.shape[:2], *kernel, *places), (example, channel, *within, *between))
    return view.reshape(*around.shape[:1], -1, view[0, 0].numel() // layer.weight[0, 0].numel())
