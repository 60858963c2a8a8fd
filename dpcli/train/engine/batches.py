"""A batch: tensors whose first dimension counts the examples, alone or in tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError

Batch = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


def size(batch: Batch) -> int:
    """Return how many examples a batch holds.

    Raises:
        InputError: Something in it is no tensor, or tensors disagree about the number of examples.
    """
    leaves = tree_leaves(batch)
    strangers = [type(leaf).__name__ for leaf in leaves if not torch.is_tensor(leaf)]
    if strangers or not leaves:
        wrong = strangers[0] if strangers else "nothing"
        raise InputError(f"batch: expected tensors, in a tuple, list or dict where there are several, found {wrong}")
    sizes = sorted({leaf.shape[0] if leaf.dim() else -1 for leaf in leaves})
    if len(sizes) > 1 or sizes[0] < 0:
        wrong = " and ".join(str(number) if number >= 0 else "a scalar" for number in sizes)
        raise InputError(f"batch: expected every tensor to have one row per example, found first dimensions {wrong}")
    return int(sizes[0])


def form(batch: Batch) -> object:
    """Return the shapes of one example, the types and the devices: equal for all batches of a program."""
    return tree_map(lambda leaf: (leaf.shape[1:], leaf.dtype, leaf.device), batch)


def laid_out(batch: Batch) -> Batch:
    """Return the batch with its numbers in the usual order: a program may depend on how they lie in memory."""
    return tree_map(torch.Tensor.contiguous, batch)  # type: ignore[no-any-return]


def take(batch: Batch, rows: Sequence[int] | slice | Tensor) -> Batch:
    """Return these examples of a batch, in this order."""
    return tree_map(lambda leaf: leaf[rows], batch)  # type: ignore[no-any-return]
