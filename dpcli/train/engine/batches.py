"""A batch: tensors whose first dimension counts the examples, alone or in tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError

Batch = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


def size(batch: Batch) -> int:
    """Return the number of examples in a batch.

    Raises:
        InputError: The batch holds an object that is no tensor, or its tensors have different numbers of examples.
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
    """Return the form of a batch: the shapes of one example, the types and the devices. All batches of a program have the same form."""
    return tree_map(lambda leaf: (leaf.shape[1:], leaf.dtype, leaf.device), batch)


def laid_out(batch: Batch) -> Batch:
    """Return the batch with contiguous tensors, because a program may depend on their layout in memory."""
    return tree_map(torch.Tensor.contiguous, batch)  # type: ignore[no-any-return]


def take(batch: Batch, rows: Sequence[int] | slice | Tensor) -> Batch:
    """Return the selected examples of a batch, in the given order."""
    return tree_map(lambda leaf: leaf[rows], batch)  # type: ignore[no-any-return]
