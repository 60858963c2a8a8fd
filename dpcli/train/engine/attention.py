"""torch's multi-head attention: run again from its projections, so that each weight is a linear layer over positions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.block_calls import BlockUse
from dpcli.train.engine.block_rows import generic, require_possible
from dpcli.train.engine.pieces import Outer, Piece, PlainRows
from dpcli.train.engine.rule import wide

SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


def attention(use: BlockUse, gradients: Sequence[Tensor | None], size: int) -> dict[str, Piece]:
    """Pieces of nn.MultiheadAttention where it has one packed weight, no dropout, and its weights are of no use; else by vmap."""
    module = cast("nn.MultiheadAttention", use.block.module)
    args, kwargs = use.inputs.arranged(use.inputs.tensors)
    given = SIGNATURE.bind(module, *args, **kwargs)
    given.apply_defaults()
    three = [given.arguments[name] for name in ("query", "key", "value")]
    first = 0 if module.batch_first else 1
    dims = {dim for dim, tensor in zip(use.dims, use.inputs.tensors, strict=True) if any(tensor is one for one in three)}
    reached = {output.place: wide(g) for output, g in zip(use.outputs, gradients, strict=True) if g is not None}
    if not plain(module) or dims != {first} or three[0].dim() != 3 or set(reached) != {0}:
        return generic(use, gradients, size)
    require_possible(use, size)
    query, key, value, above = (one if module.batch_first else one.transpose(0, 1) for one in (*map(wide, three), reached[0]))
    found = pieces(module, query, key, value, above, given.arguments)
    return {name: piece for name, piece in found.items() if name in use.block.parameters}


def plain(module: nn.MultiheadAttention) -> bool:
    """Queries, keys and values of one length by one weight, nothing added to them, and nothing dropped."""
    packed: Tensor | None = module.in_proj_weight
    return packed is not None and module.bias_k is None and not module.add_zero_attn and not (module.dropout and module.training)


def pieces(
    module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, above: Tensor, given: dict[str, Any]
) -> dict[str, Piece]:
    """(B, T, d) each. The packed weight has a row of zeros for what an input has no part in."""
    weight, width = wide(module.in_proj_weight.detach()), module.embed_dim
    bias = None if module.in_proj_bias is None else wide(module.in_proj_bias.detach())
    parts = [slice(width * place, width * (place + 1)) for place in range(3)]
    ends = [
        functional.linear(one, weight[part], None if bias is None else bias[part])
        for one, part in zip((query, key, value), parts, strict=True)
    ]
    with torch.enable_grad():
        leaves = [end.detach().requires_grad_() for end in ends]
        context = attended(module, leaves, given)
        at_context = above @ wide(module.out_proj.weight.detach())
        at_ends = torch.autograd.grad(context, leaves, at_context)
    if same(query, key) and same(key, value):
        left, right = torch.cat(at_ends, 2), query
    else:
        left = torch.cat([functional.pad(one, (width * place, width * (2 - place))) for place, one in enumerate(at_ends)], 1)
        right = torch.cat([query, key, value], 1)
    return {
        "in_proj_weight": Outer(left, right, weight.shape),
        "in_proj_bias": PlainRows(torch.cat([one.sum(1) for one in at_ends], 1)),
        "out_proj.weight": Outer(above, context.detach(), module.out_proj.weight.shape),
        "out_proj.bias": PlainRows(above.sum(1)),
    }


def same(one: Tensor, other: Tensor) -> bool:
    """Whether they are one tensor."""
    return (one.data_ptr(), one.shape, one.stride()) == (other.data_ptr(), other.shape, other.stride())


def attended(module: nn.MultiheadAttention, ends: Sequence[Tensor], given: dict[str, Any]) -> Tensor:
    """What the heads make of queries, keys and values, (B, T, d), side by side."""
    query, key, value = (one.reshape(*one.shape[:2], module.num_heads, -1).transpose(1, 2) for one in ends)
    mask, padding = given["attn_mask"], given["key_padding_mask"]
    causal = bool(given["is_causal"]) and padding is None and not given["need_weights"]
    masks = []
    if mask is not None and not causal:
        heads = added(mask, query)
        masks.append(heads if heads.dim() == 2 else heads.reshape(-1, module.num_heads, *heads.shape[1:]))
    if padding is not None:
        masks.append(added(padding, query)[:, None, None])
    total = sum(masks[1:], start=masks[0]) if masks else None
    found = functional.scaled_dot_product_attention(query, key, value, attn_mask=total, is_causal=causal)
    return found.transpose(1, 2).flatten(2)


def added(mask: Tensor, like: Tensor) -> Tensor:
    """What a mask adds to the scores: nothing, or minus infinity where it is true."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -torch.inf)
