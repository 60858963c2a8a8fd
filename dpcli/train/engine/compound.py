"""Compounds: modules of torch that consist of several layers, such as multi-head attention.

Book-keeping (engine/book_keeping.py), the fast method for per-example gradients, needs a record of each call of a layer (capture.py), but
torch computes such a module by one function. The forward of a compound is therefore replaced by one that calls the layers one by one. The
new forward computes the output, so nothing is computed twice. A call that is not supported raises Unsuitable, and the engine then uses a
slower method. recurrent.py has the forwards of torch's recurrent modules. `positions` gives values (B, ..., d) as (B, T, d), and `wide` the
numbers in at least single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.capture import Recorder
from dpcli.train.engine.layers import Layer, aligned_linear, sum_over_positions
from dpcli.train.engine.method import LayerRule, Pieces, Unsuitable, positions, wide
from dpcli.train.engine.pieces import Outer, PlainRows

# A function that replaces the forward of a module. Its first argument is a CompoundRun, followed by the arguments of the forward.
Forward = Callable[..., Any]

# Types of the output layer that are supported.
PLAIN = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)


@dataclass(frozen=True, slots=True)
class Compound:
    """A module whose layers are called one by one.

    Attributes:
        parameters: Names of the trainable parameters in the model, by their names in the module.
        forward: Function that replaces the module's own forward.
    """

    name: str
    module: nn.Module
    parameters: dict[str, str]
    forward: Forward


@dataclass(frozen=True, slots=True)
class CompoundRun:
    """A recorded run of a compound, during which its parameters are constants."""

    compound: Compound
    recorder: Recorder

    @property
    def label(self) -> str:
        """Return the name and the class of the module."""
        return f"{self.compound.name} ({type(self.compound.module).__name__})"

    def value(self, local: str) -> Tensor | None:
        """Return the value of a parameter, detached from the graph; None if there is no parameter of that name.

        Raises Unsuitable if the parameter was replaced by another tensor, which may be computed from other parameters.
        """
        path, _, name = local.rpartition(".")
        parameter = self.compound.module.get_submodule(path)._parameters.get(name)
        if parameter is not None and not parameter.is_leaf:
            raise Unsuitable(f"{self.label}: its {local} is replaced by a computed tensor")
        return None if parameter is None else parameter.detach()

    def linear(self, inputs: Tensor, weight: str, biases: Sequence[str] = (), rows: slice | None = None) -> Tensor:
        """Return x W^T + b, and record the call if W or a bias is trained. Several biases are added.

        Args:
            inputs: x, (B, ..., d).
            weight: Name of W in the module.
            biases: Names of biases. A name whose bias is None in the module adds nothing.
            rows: Rows of W and b to use; None for all.

        Raises:
            Unsuitable: A parameter was replaced by a computed tensor, or the recorder refuses the call.
        """
        matrix = self.value(weight)
        assert matrix is not None
        terms = [term for term in map(self.value, biases) if term is not None]
        bias = torch.stack(terms).sum(0) if terms else None
        if rows is not None:
            matrix, bias = matrix[rows], None if bias is None else bias[rows]
        if {weight, *biases} & set(self.compound.parameters):
            matrix = matrix.detach().requires_grad_()  # so that the output has a gradient, which the formula uses
        output = aligned_linear(inputs, matrix, bias)
        self.record(inputs, output, weight, biases, rows)
        return output

    def record(self, inputs: Tensor, output: Tensor, weight: str, biases: Sequence[str] = (), rows: slice | None = None) -> None:
        """Record the call of a linear layer with the given parameters, or with some of their rows. Do nothing if none is trained."""
        trained = {local: self.compound.parameters[local] for local in (weight, *biases) if local in self.compound.parameters}
        matrix = self.value(weight)
        if trained and matrix is not None:
            first_row = 0 if rows is None else rows.start
            formula = partial(linear_pieces, weight, tuple(biases), first_row, matrix.shape)
            # `anywhere`: a linear layer treats all indices of the dimensions before the last one alike.
            layer = Layer(f"{self.compound.name}.{weight}", self.compound.module, LayerRule(formula, anywhere=True), trained)
            self.recorder.record(layer, inputs, output)


def linear_pieces(
    weight: str, biases: Sequence[str], first_row: int, shape: torch.Size, module: nn.Module, inputs: Tensor, gradient: Tensor
) -> Pieces:
    """Return the pieces of a linear layer. Rows of the parameters that were not used have a gradient of zero.

    Args:
        biases: Names of the biases, which were added and so have the same gradient.
        first_row: Number of the first row that was used.
        module, inputs, gradient: Arguments of `Formula`.
    """
    left = wide(positions(gradient))
    used_rows, all_rows = left.shape[2], shape[0]
    if used_rows != all_rows:
        left = functional.pad(left, (first_row, all_rows - first_row - used_rows))
    bias = cache(lambda: PlainRows(sum_over_positions(left)))  # all biases share the result
    return {weight: lambda: Outer(left, wide(positions(inputs)), shape), **dict.fromkeys(biases, bias)}


@contextmanager
def layer_by_layer(compounds: Sequence[Compound], recorder: Recorder) -> Iterator[None]:
    """Run the compounds layer by layer within the block. Hooks on the compounds receive the same values as elsewhere."""
    try:
        for compound in compounds:
            vars(compound.module)["forward"] = partial(compound.forward, CompoundRun(compound, recorder))
        yield
    finally:
        for compound in compounds:
            vars(compound.module).pop("forward", None)


def attention(module: nn.Module) -> Forward | None:
    """Return the layer-by-layer forward of nn.MultiheadAttention; None if its settings are not supported."""
    layer = cast("nn.MultiheadAttention", module)
    has_additions = layer.bias_k is not None or layer.bias_v is not None or layer.add_zero_attn
    if has_additions or type(layer.out_proj) not in PLAIN or layer.in_proj_weight is None:
        return None
    expected = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    own_names = set(layer._parameters) | {f"out_proj.{name}" for name in layer.out_proj._parameters}
    all_names = {name for name, _ in layer.named_parameters()}  # further names if a part was replaced by a module
    return attend if expected <= own_names and all_names <= expected else None


def attend(
    run: CompoundRun,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what nn.MultiheadAttention returns for the same arguments, computed layer by layer.

    Raises Unsuitable if the sequences are nested, or have no dimension of examples, or `is_causal` is set without a mask.
    """
    layer = cast("nn.MultiheadAttention", run.compound.module)
    if not all(sequence.dim() == 3 and not sequence.is_nested for sequence in (query, key, value)):
        raise Unsuitable(f"{run.label}: expected sequences (B, T, d) of several examples")
    if is_causal and attn_mask is None:
        raise Unsuitable(f"{run.label}: is_causal without a mask")
    projected = projections(run, query, key, value)
    if not layer.batch_first:
        projected = [sequence.transpose(0, 1) for sequence in projected]
    q, k, v = (split_heads(sequence, layer.num_heads) for sequence in projected)
    # As in torch, the mask is then replaced by the flag of scaled_dot_product_attention.
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = sum_of_masks(None if causal else attn_mask, key_padding_mask, q)
    dropout = layer.dropout if layer.training else 0.0
    weights: Tensor | None = None
    if need_weights:
        weights = attention_weights(q, k, mask, dropout)
        context = weights @ v
    else:
        context = functional.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
    context = context.transpose(1, 2).flatten(2)
    if not layer.batch_first:
        context = context.transpose(0, 1)
    output = run.linear(context, "out_proj.weight", ["out_proj.bias"])
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    return output, weights


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Return the attention weights (B, heads, T, T): the softmax of q k^T / sqrt(d) plus the mask, after dropout."""
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores + (0.0 if mask is None else mask), -1)
    return functional.dropout(weights, dropout) if dropout else weights


def projections(run: CompoundRun, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Return the queries, keys and values. A single product computes all three if they come from one tensor."""
    layer = cast("nn.MultiheadAttention", run.compound.module)
    if query is key and key is value:
        return list(run.linear(query, "in_proj_weight", ["in_proj_bias"]).chunk(3, -1))
    width = layer.embed_dim
    first_rows = (0, width, 2 * width)  # the matrices for queries, keys and values are stored one above the other
    return [
        run.linear(sequence, "in_proj_weight", ["in_proj_bias"], slice(first_row, first_row + width))
        for sequence, first_row in zip((query, key, value), first_rows, strict=True)
    ]


def split_heads(sequence: Tensor, count: int) -> Tensor:
    """Return (B, heads, T, d / heads) of a sequence (B, T, d)."""
    return sequence.reshape(*sequence.shape[:2], count, -1).transpose(1, 2)


def sum_of_masks(attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor) -> Tensor | None:
    """Return the sum of both masks in a shape that fits the scores (B, heads, T, T); None if neither is given."""
    mask = additive_mask(attn_mask, q)
    if mask is not None and mask.dim() == 3:  # one mask for each example and head, or one for all of them
        mask = mask.view(*q.shape[:2], *mask.shape[1:]) if mask.shape[0] > 1 else mask[None]
    padding = additive_mask(key_padding_mask, q)
    if padding is None:
        return mask
    padding = padding[:, None, None]
    return padding if mask is None else mask + padding


def additive_mask(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the tensor that a mask adds to the scores. A boolean mask adds minus infinity where it is True."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -torch.inf)
