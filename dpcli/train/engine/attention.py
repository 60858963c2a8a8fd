"""torch's multi-head attention as four linear layers around the heads."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.compound import Forward, WrittenOut
from dpcli.train.engine.rule import Unsuitable

PLAIN = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)


def attention(module: nn.Module) -> Forward | None:
    """How nn.MultiheadAttention runs, if it has one weight for queries, keys and values, nothing beside keys, and torch's last layer."""
    layer = cast("nn.MultiheadAttention", module)
    plain = layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn and type(layer.out_proj) in PLAIN
    known = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    own = set(layer._parameters) | {f"out_proj.{name}" for name in layer.out_proj._parameters}
    named = {name for name, _ in layer.named_parameters()}
    return attend if plain and layer.in_proj_weight is not None and known <= own and named <= known else None


def attend(
    run: WrittenOut,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The forward of nn.MultiheadAttention, argument for argument.

    Raises:
        Unsuitable: sequences without a dimension of examples, or nested ones.
    """
    layer = cast("nn.MultiheadAttention", run.compound.module)
    if not all(one.dim() == 3 and not one.is_nested for one in (query, key, value)):
        raise Unsuitable(f"{run.label}: expected sequences of several examples, found something else")
    if is_causal and attn_mask is None:
        raise Unsuitable(f"{run.label}: is_causal without a mask")
    three = projected(run, query, key, value)
    q, k, v = (heads(one if layer.batch_first else one.transpose(0, 1), layer.num_heads) for one in three)
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else added(attn_mask, q)
    if mask is not None and mask.dim() == 3:
        mask = mask.view(q.shape[0], layer.num_heads, *mask.shape[1:]) if mask.shape[0] > 1 else mask[None]
    padding = added(key_padding_mask, q)
    if padding is not None:
        mask = padding[:, None, None] if mask is None else mask + padding[:, None, None]
    dropout, weights = layer.dropout if layer.training else 0.0, None
    if need_weights:
        weights = torch.softmax((q @ k.mT) * q.shape[-1] ** -0.5 + (0.0 if mask is None else mask), -1)
        weights = functional.dropout(weights, dropout) if dropout else weights
        context = weights @ v
    else:
        context = functional.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
    context = context.transpose(1, 2).flatten(2)
    output = run.linear(context if layer.batch_first else context.transpose(0, 1), "out_proj.weight", ["out_proj.bias"])
    return output, weights.mean(1) if weights is not None and average_attn_weights else weights


def projected(run: WrittenOut, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Queries, keys and values; at once, where all are of one sequence."""
    layer = cast("nn.MultiheadAttention", run.compound.module)
    if query is key and key is value:
        return list(run.linear(query, "in_proj_weight", ["in_proj_bias"]).chunk(3, -1))
    width = layer.embed_dim
    parts = [slice(place * width, (place + 1) * width) for place in range(3)]
    return [run.linear(one, "in_proj_weight", ["in_proj_bias"], rows) for one, rows in zip((query, key, value), parts, strict=True)]


def heads(sequence: Tensor, count: int) -> Tensor:
    """(B, T, d) -> (B, heads, T, d / heads)."""
    return sequence.reshape(*sequence.shape[:2], count, -1).transpose(1, 2)


def added(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """What a mask adds to the scores: itself, or minus infinity where it is true."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -torch.inf)
