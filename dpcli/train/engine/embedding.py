"""Embedding: a table of rows that are looked up."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from dpcli.train.engine.pieces import Lookup
from dpcli.train.engine.rule import Pieces, positions, wide


def embedding(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
    """The gradient of a row is the sum over the places where it was looked up; the padding row has none."""
    table = cast("nn.Embedding", module)
    ids = inputs.reshape(inputs.shape[0], -1).long()
    return {"weight": lambda: Lookup(ids, without_padding(table, ids, wide(positions_of(ids, gradient))), table.num_embeddings)}


def positions_of(ids: Tensor, gradient: Tensor) -> Tensor:
    """(B, T, features), also where an example is a single id."""
    return positions(gradient).reshape(*ids.shape, gradient.shape[-1])


def without_padding(table: nn.Embedding, ids: Tensor, gradient: Tensor) -> Tensor:
    """torch gives the padding row no gradient."""
    return gradient if table.padding_idx is None else gradient.masked_fill((ids == table.padding_idx)[:, :, None], 0.0)
