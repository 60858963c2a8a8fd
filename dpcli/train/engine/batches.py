"""Batches. A batch is a tensor whose first dimension counts the examples, or a tuple, list or dict of such tensors.

The private records of a run are one batch in this sense, and so is each sample of them (`take`). An *example* here is what the rest of
train calls a record, or the records of one owner that are sampled together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dpcli.base.errors import InputError
from dpcli.train.torch_internals import tree_leaves, tree_map

Batch = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


def map_leaves(function: Callable[[Tensor], Any], batch: Batch) -> Any:
    """Return the batch with the result of the function in place of each tensor.

    The usual containers are handled here, because torch's function for all containers takes longer than the step of a small model.
    """
    if type(batch) is Tensor:
        return function(batch)
    if type(batch) is dict:
        return {name: map_leaves(function, value) for name, value in batch.items()}
    if type(batch) in (list, tuple):
        return type(batch)([map_leaves(function, value) for value in batch])  # type: ignore[call-arg, arg-type]
    return tree_map(function, batch)


def leaves_of(batch: Batch) -> list[Any]:
    """Return the tensors of a batch in a list. Objects that are no tensors are in it as well, so that `size` can refuse them."""
    if type(batch) is Tensor:
        return [batch]
    values = list(batch.values()) if type(batch) is dict else batch
    if type(values) in (list, tuple) and all(type(value) is Tensor for value in values):
        return list(values)
    return tree_leaves(batch)


def size(batch: Batch) -> int:
    """Return the number of examples in a batch.

    Raises InputError if the batch holds an object that is not a dense tensor, or its tensors have different numbers of examples.
    """
    leaves = leaves_of(batch)
    others = [getattr(leaf, "layout", type(leaf).__name__) for leaf in leaves if getattr(leaf, "layout", None) is not torch.strided]
    if others or not leaves:
        actual = others[0] if others else "nothing"
        raise InputError(f"batch: expected a dense tensor, or a tuple, list or dict of dense tensors, found {actual}")
    sizes = sorted({leaf.shape[0] for leaf in leaves if leaf.dim()})
    has_scalars = any(not leaf.dim() for leaf in leaves)
    if has_scalars or len(sizes) > 1:
        actual = " and ".join([*["a scalar"] * has_scalars, *map(str, sizes)])
        raise InputError(f"batch: expected every tensor to have one row per example, found first dimensions {actual}")
    return int(sizes[0])


def form(batch: Batch) -> object:
    """Return the form of a batch: the shapes of one example, the types and the devices. Batches of two sizes may have one form."""
    return map_leaves(lambda leaf: (leaf.shape[1:], leaf.dtype, leaf.device), batch)


def make_contiguous(batch: Batch) -> Batch:
    """Return the batch with contiguous tensors, because a model or a loss may depend on the layout of a tensor in memory."""
    return map_leaves(torch.Tensor.contiguous, batch)  # type: ignore[no-any-return]


def take(batch: Batch, rows: Sequence[int] | slice | Tensor) -> Batch:
    """Return the selected examples of a batch, in the given order."""
    return map_leaves(lambda leaf: leaf[rows], batch)  # type: ignore[no-any-return]
