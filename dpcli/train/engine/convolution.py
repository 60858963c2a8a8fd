"""Convolution in one, two or three dimensions: a linear layer on the patches of its input, or, transposed, of its output."""

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
    return {"weight": lambda: weight_piece(layer, left, patches(layer, padded(layer, wide(inputs)))), "bias": lambda: total(left)}


def transposed_convolution(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """The same with input and output in each other's place: every place of the input wrote to a patch of the output."""
    layer, upper = cast("_ConvNd", module), wide(gradient)

    def weight() -> Piece:
        around = functional.pad(upper, [length for length in reversed(cast("tuple[int, ...]", layer.padding)) for _ in range(2)])
        return weight_piece(layer, wide(inputs).flatten(2), patches(layer, around, inputs.shape[2:]))

    return {"weight": weight, "bias": lambda: total(upper.flatten(2))}


def total(values: Tensor) -> Piece:
    """(B, channels, places), summed over places."""
    return PlainRows(values.sum(2))


def weight_piece(layer: _ConvNd, left: Tensor, right: Tensor) -> Piece:
    """Outer products over places; with groups of channels, where the matrices are small, the gradients themselves."""
    if layer.groups == 1:
        return Outer(left.mT, right.mT, layer.weight.shape)
    size, groups = left.shape[0], layer.groups
    blocks = left.reshape(size, groups, -1, left.shape[2]) @ right.reshape(size, groups, -1, right.shape[2]).mT
    return PlainRows(blocks.reshape(size, *layer.weight.shape))


def padded(layer: _ConvNd, inputs: Tensor) -> Tensor:
    """What the kernel moves over."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)


def patches(layer: _ConvNd, around: Tensor, places: tuple[int, ...] | None = None) -> Tensor:
    """The patches that the kernel saw, (B, channels * kernel, places): one strided copy, 2 to 8 times faster than unfold on a CPU.

    Args:
        places: how many in each dimension; without, all that there are.
    """
    kernel, dilation, stride = layer.kernel_size, layer.dilation, layer.stride
    sides = zip(around.shape[2:], kernel, dilation, stride, strict=True)
    places = places or tuple((length - apart * (taps - 1) - 1) // step + 1 for length, taps, apart, step in sides)
    example, channel, *along = around.stride()
    within = [apart * step for apart, step in zip(dilation, along, strict=True)]
    between = [far * step for far, step in zip(stride, along, strict=True)]
    view = around.as_strided((*around.shape[:2], *kernel, *places), (example, channel, *within, *between))
    return view.flatten(1, 1 + len(kernel)).flatten(2)
