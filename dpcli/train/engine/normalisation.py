"""Layer, group and root-mean-square normalisation: they normalise within one example."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.rule import Pieces, wide


def layer_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Sums over positions of g times the normalised input (weight) and of g (bias)."""
    layer, upper = cast("nn.LayerNorm", module), wide(gradient)
    shape = list(layer.normalized_shape)

    def weight() -> PlainRows:
        return PlainRows(within(upper * functional.layer_norm(wide(inputs), shape, eps=layer.eps), len(shape)))

    return {"weight": weight, "bias": lambda: PlainRows(within(upper, len(shape)))}


def rms_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """As layer_norm, without a mean and a bias; eps follows the precision that the layer ran in."""
    layer = cast("nn.RMSNorm", module)
    shape = list(layer.normalized_shape)

    def weight() -> PlainRows:
        return PlainRows(within(wide(gradient) * wide(functional.rms_norm(inputs, shape, eps=layer.eps)), len(shape)))

    return {"weight": weight}


def group_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Sums over pixels, one number per channel; (B, channels, ...)."""
    layer, upper = cast("nn.GroupNorm", module), wide(gradient)

    def weight() -> PlainRows:
        return PlainRows(per_channel(upper * functional.group_norm(wide(inputs), layer.num_groups, eps=layer.eps)))

    return {"weight": weight, "bias": lambda: PlainRows(per_channel(upper))}


def within(values: Tensor, features: int) -> Tensor:
    """(B, ..., *features) -> (B, *features): summed over positions."""
    return values.reshape(values.shape[0], -1, *values.shape[values.dim() - features :]).sum(1)


def per_channel(values: Tensor) -> Tensor:
    """(B, channels, ...) -> (B, channels)."""
    return values.reshape(*values.shape[:2], -1).sum(2)
