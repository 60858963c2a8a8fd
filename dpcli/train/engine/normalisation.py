"""Layer, group and root-mean-square normalisation, which normalise within one example, and by statistics that are kept."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.rule import Pieces, Unsuitable, wide


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


def batch_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """With statistics that are kept and no longer change, it is a scale and a shift of each channel.

    Raises:
        Unsuitable: it takes statistics of the batch.
    """
    layer, upper = cast("nn.BatchNorm2d", module), wide(gradient)
    mean, variance = layer.running_mean, layer.running_var
    if layer.training or mean is None or variance is None:
        raise Unsuitable("a BatchNorm takes its statistics of the batch")
    shape = (1, -1, *[1] * (inputs.dim() - 2))
    centre, scale = wide(mean).view(shape), (wide(variance) + layer.eps).rsqrt().view(shape)
    return {
        "weight": lambda: PlainRows(per_channel(upper * ((wide(inputs) - centre) * scale))),
        "bias": lambda: PlainRows(per_channel(upper)),
    }


def within(values: Tensor, features: int) -> Tensor:
    """(B, ..., *features) -> (B, *features): summed over positions."""
    return values.reshape(values.shape[0], -1, *values.shape[values.dim() - features :]).sum(1)


def per_channel(values: Tensor) -> Tensor:
    """(B, channels, ...) -> (B, channels)."""
    return values.reshape(*values.shape[:2], -1).sum(2)
