"""Rules for the per-example gradients of layers: linear layers, convolutions, embeddings and normalisations.

Book-keeping (book_keeping.py), the fast method, uses the rules. A rule (`LayerRule` in engine/method.py) is a formula. Given the inputs of
a layer and the gradient at its output, which capture.py records, it returns a *piece* for each parameter: the gradients of all examples, in
full or in factors (pieces.py). A linear layer, for example, needs no gradient of its weight for each example: the two factors of its outer
products are enough. Shapes are written with B for the number of examples, and T for the number of positions within one example. `wide`
gives the numbers in at least single precision, because rounding in half precision could carry a clipped sum past its bound.

RULES is keyed by the qualified name of `forward`: a subclass inherits its parent's rule unless it overrides `forward`, because its gradient
may then differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.method import LayerRule, Pieces, Unsuitable, positions, wide
from dpcli.train.engine.pieces import Lookup, Outer, Piece, PlainRows
from dpcli.train.torch_internals import Convolution

# Number of rows that a CPU kernel computes together, as measured with MKL. It affects the last digits of a gradient (`aligned_linear`).
ROW_BLOCK = 4


def linear(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of y = x W^T + b: the gradient of W is the sum over positions of g x^T."""
    left, shape = wide(positions(gradient)), parameter_shape(module)
    return {"weight": lambda: Outer(left, wide(positions(inputs)), shape), "bias": lambda: PlainRows(sum_over_positions(left))}


def transposed_linear(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of y = x W + b: the gradient of W is the sum over positions of x g^T."""
    right, shape = wide(positions(gradient)), parameter_shape(module)
    return {"weight": lambda: Outer(wide(positions(inputs)), right, shape), "bias": lambda: PlainRows(sum_over_positions(right))}


def run_linear(module: nn.Module, input: Tensor) -> Tensor:
    """Return the output of nn.Linear, computed by `aligned_linear`."""
    return aligned_linear(input, cast("Tensor", module.weight), cast("Tensor | None", module.bias))


def aligned_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, rounded so that no row depends on the number of rows.

    On a CPU, kernels round rows beyond a multiple of four differently. If an example is removed, the last digits of the others may then
    change. At a kink of the loss, the last digit decides between two gradients, so that the sum could move by more than the clipping bound.
    The number of rows and both sides of W are therefore padded with zeros to multiples of four. In measurements with MKL, rows are then
    equal bit by bit in the forward and in the backward pass.
    """
    width, depth = weight.shape
    count = inputs.numel() // depth if depth else 0
    more_rows, more_depth, more_width = -count % ROW_BLOCK, -depth % ROW_BLOCK, -width % ROW_BLOCK
    if not count or inputs.device.type != "cpu" or not (more_rows or more_depth or more_width):
        return functional.linear(inputs, weight, bias)
    padded_inputs = pad_end(inputs.reshape(count, depth), more_depth, more_rows)
    padded_bias = None if bias is None else pad_end(bias, more_width)
    output = functional.linear(padded_inputs, pad_end(weight, more_depth, more_width), padded_bias)
    # The result is copied: the program may write to it, so it must not be a view of the padded tensor.
    return output[:count, :width].clone().view(*inputs.shape[:-1], width)


def pad_end(values: Tensor, *lengths: int) -> Tensor:
    """Return a tensor with zeros added at the end of its last dimensions, the last one first. A tensor that needs none is not copied."""
    return functional.pad(values, [length for more in lengths for length in (0, more)]) if any(lengths) else values


def sum_over_positions(values: Tensor) -> Tensor:
    """Return the sums over positions, (B, features), of values (B, T, features). A single position is not copied."""
    return values[:, 0] if values.shape[1] == 1 else values.sum(1)


def parameter_shape(module: nn.Module) -> torch.Size:
    """Return the shape of a layer's weight."""
    return cast("Tensor", module.weight).shape


def convolution(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of a convolution, given the gradient (B, channels, ...).

    The gradient of the weight is a sum of outer products with patches of the input. The gradient of the bias is a sum over output
    positions.
    """
    layer, left = cast("Convolution", module), wide(gradient).flatten(2)

    def weight() -> Piece:
        return weight_piece(layer, left, patches(layer, pad_input(layer, wide(inputs))))

    return {"weight": weight, "bias": lambda: total(left)}


def transposed_convolution(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of a transposed convolution, in which each position of the input contributes to a patch of the output."""
    layer, wide_gradient = cast("Convolution", module), wide(gradient)

    def weight() -> Piece:
        padding = reversed(cast("tuple[int, ...]", layer.padding))
        padded_input = functional.pad(wide_gradient, [length for length in padding for _ in ("before", "after")])
        return weight_piece(layer, wide(inputs).flatten(2), patches(layer, padded_input, inputs.shape[2:]))

    return {"weight": weight, "bias": lambda: total(wide_gradient.flatten(2))}


def total(values: Tensor) -> Piece:
    """Return the gradient of a bias: the sum over positions of (B, channels, positions)."""
    return PlainRows(values.sum(2))


def weight_piece(layer: Convolution, left: Tensor, right: Tensor) -> Piece:
    """Return the piece of a convolution's weight, given factors (B, channels, positions).

    The piece consists of outer products over the positions. With several groups of channels the matrices are small, so the gradients are
    computed in full.
    """
    if layer.groups == 1:
        return Outer(left.mT, right.mT, layer.weight.shape)
    size, groups = left.shape[0], layer.groups
    blocks = left.reshape(size, groups, -1, left.shape[2]) @ right.reshape(size, groups, -1, right.shape[2]).mT
    return PlainRows(blocks.reshape(size, *layer.weight.shape))


def pad_input(layer: Convolution, inputs: Tensor) -> Tensor:
    """Return the input of a convolution with its padding added."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)


def patches(layer: Convolution, padded_input: Tensor, patch_counts: tuple[int, ...] | None = None) -> Tensor:
    """Return the patches to which the kernel is applied, (B, channels * kernel, positions).

    A single strided copy makes all patches. In measurements, it was 2 to 8 times as fast as unfold.

    Args:
        padded_input: Input of the convolution with padding, (B, channels, ...).
        patch_counts: Number of patches along each dimension; None for all that fit.
    """
    kernel, dilation, stride = layer.kernel_size, layer.dilation, layer.stride
    sides = zip(padded_input.shape[2:], kernel, dilation, stride, strict=True)
    patch_counts = patch_counts or tuple((length - gap * (taps - 1) - 1) // step + 1 for length, taps, gap, step in sides)
    example, channel, *spatial = padded_input.stride()  # strides in memory, and not those of the convolution
    within_patch = [gap * jump for gap, jump in zip(dilation, spatial, strict=True)]
    between_patches = [step * jump for step, jump in zip(stride, spatial, strict=True)]
    shape = (*padded_input.shape[:2], *kernel, *patch_counts)
    view = padded_input.as_strided(shape, (example, channel, *within_patch, *between_patches))
    return view.flatten(1, 1 + len(kernel)).flatten(2)


def embedding(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the piece of an embedding. The gradient of a row of the table is a sum over the positions that looked it up."""
    table = cast("nn.Embedding", module)
    ids = inputs.reshape(inputs.shape[0], -1).long()

    def weight() -> Lookup:
        gradients = wide(positions(gradient).reshape(*ids.shape, gradient.shape[-1]))  # an example that is a single id has T = 1
        if table.padding_idx is not None:  # torch does not train the padding row
            gradients = gradients.masked_fill((ids == table.padding_idx)[:, :, None], 0.0)
        return Lookup(ids, gradients, table.num_embeddings)

    return {"weight": weight}


def layer_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of layer norm: sums over positions of g times the normalised input (weight) and of g (bias)."""
    layer, wide_gradient = cast("nn.LayerNorm", module), wide(gradient)
    shape = list(layer.normalized_shape)

    def weight() -> PlainRows:
        normalised = functional.layer_norm(wide(inputs), shape, eps=layer.eps)
        return PlainRows(over_positions(wide_gradient * normalised, len(shape)))

    return {"weight": weight, "bias": lambda: PlainRows(over_positions(wide_gradient, len(shape)))}


def rms_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the piece of RMS norm, which has no bias. The default of eps depends on the precision of the layer's input."""
    layer = cast("nn.RMSNorm", module)
    shape = list(layer.normalized_shape)

    def weight() -> PlainRows:
        normalised = wide(functional.rms_norm(inputs, shape, eps=layer.eps))
        return PlainRows(over_positions(wide(gradient) * normalised, len(shape)))

    return {"weight": weight}


def group_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of group norm: sums over pixels of tensors (B, channels, ...), one number for each channel."""
    layer, wide_gradient = cast("nn.GroupNorm", module), wide(gradient)

    def weight() -> PlainRows:
        normalised = functional.group_norm(wide(inputs), layer.num_groups, eps=layer.eps)
        return PlainRows(per_channel(wide_gradient * normalised))

    return {"weight": weight, "bias": lambda: PlainRows(per_channel(wide_gradient))}


def batch_norm(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """Return the pieces of batch norm with constant statistics, which scales and shifts each channel.

    Raises Unsuitable if the layer uses statistics of the batch.
    """
    layer, wide_gradient = cast("nn.BatchNorm2d", module), wide(gradient)
    mean, variance = layer.running_mean, layer.running_var
    if layer.training or mean is None or variance is None:
        raise Unsuitable("a BatchNorm computes its statistics from the batch")
    shape = (1, -1, *[1] * (inputs.dim() - 2))
    centre, scale = wide(mean).view(shape), (wide(variance) + layer.eps).rsqrt().view(shape)

    def weight() -> PlainRows:
        normalised = (wide(inputs) - centre) * scale
        return PlainRows(per_channel(wide_gradient * normalised))

    return {"weight": weight, "bias": lambda: PlainRows(per_channel(wide_gradient))}


def over_positions(values: Tensor, features: int) -> Tensor:
    """Return the sums over positions, (B, *features), of values (B, ..., *features)."""
    return values.reshape(values.shape[0], -1, *values.shape[values.dim() - features :]).sum(1)


def per_channel(values: Tensor) -> Tensor:
    """Return the sums over all dimensions but the channels, (B, channels), of values (B, channels, ...)."""
    return values.reshape(*values.shape[:2], -1).sum(2)


# Rules by the qualified name of the forward function. anywhere: examples may be along any dimension but the last ones (`LayerRule`), as
# these layers treat every index of such a dimension alike. The other layers need the examples along the first dimension.
RULES: dict[str, LayerRule] = {
    "torch.nn.modules.linear.Linear.forward": LayerRule(linear, anywhere=True, forward=run_linear),
    "transformers.pytorch_utils.Conv1D.forward": LayerRule(transposed_linear, anywhere=True),
    "torch.nn.modules.conv.Conv1d.forward": LayerRule(convolution),
    "torch.nn.modules.conv.Conv2d.forward": LayerRule(convolution),
    "torch.nn.modules.conv.Conv3d.forward": LayerRule(convolution),
    "torch.nn.modules.conv.ConvTranspose1d.forward": LayerRule(transposed_convolution),
    "torch.nn.modules.conv.ConvTranspose2d.forward": LayerRule(transposed_convolution),
    "torch.nn.modules.conv.ConvTranspose3d.forward": LayerRule(transposed_convolution),
    "torch.nn.modules.sparse.Embedding.forward": LayerRule(embedding, anywhere=True),
    "torch.nn.modules.normalization.LayerNorm.forward": LayerRule(layer_norm, anywhere=True),
    "torch.nn.modules.normalization.GroupNorm.forward": LayerRule(group_norm),
    "torch.nn.modules.normalization.RMSNorm.forward": LayerRule(rms_norm, anywhere=True),
    "torch.nn.modules.batchnorm._BatchNorm.forward": LayerRule(batch_norm),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A module that has a rule and trainable parameters of its own.

    Attributes:
        name: Name of the module in the model.
        parameters: Names of the parameters in the model, by their names in the module.
    """

    name: str
    module: nn.Module
    rule: LayerRule
    parameters: dict[str, str]


def trainable(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Return a module's own parameters that require a gradient, with their names in the module."""
    return ((local, p) for local, p in module.named_parameters(recurse=False, remove_duplicate=False) if p.requires_grad)


def rule_of(module: nn.Module) -> LayerRule | None:
    """Return the rule of a module's forward function; None if there is none."""
    forward = type(module).forward
    return None if "forward" in vars(module) else RULES.get(f"{forward.__module__}.{forward.__qualname__}")
