"""Records that nobody owns, of the form of those that somebody does: what a rehearsal runs on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpcli.train.engine.batches import Batch

Draw = Callable[[int], Batch]  # so many records, fresh each time


def like(records: Batch) -> Draw:
    """Records of these shapes and types: standard normal numbers, and whole ones from the range that there is.

    Of the records themselves only that range counts, as it says which labels and tokens a program takes.
    """
    form = tree_map(lambda leaf: (leaf.shape[1:], leaf.dtype, leaf.device, *span(leaf)), records)

    def drawn(count: int) -> Batch:
        found: Batch = tree_map(lambda one: column(count, *one), form, is_leaf=lambda one: isinstance(one, tuple) and is_form(one))
        return found

    return drawn


def is_form(one: tuple[object, ...]) -> bool:
    return len(one) == 5 and isinstance(one[0], torch.Size)


def span(leaf: Tensor) -> tuple[int, int]:
    """Smallest and largest whole number."""
    if leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool or not leaf.numel():
        return 0, 1
    return int(leaf.min()), int(leaf.max())


def column(count: int, shape: torch.Size, dtype: torch.dtype, device: torch.device, low: int, high: int) -> Tensor:
    """One tensor of made-up records; a smallest number below zero is taken for a mark, as padding is, and comes now and then."""
    if dtype == torch.bool:
        found = torch.rand(count, *shape, device=device) < 0.5
        if found.dim() > 1:
            found[:, 0] = True
        return found
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(count, *shape, dtype=torch.promote_types(dtype, torch.float32), device=device).to(dtype)
    found = torch.randint(max(0, low), max(0, low, high) + 1, (count, *shape), device=device)
    if low < 0:
        found = torch.where(torch.rand(found.shape, device=device) < 0.1, low, found)
    return found.to(dtype)


def scaled(batch: Batch, scale: float) -> Batch:
    """With all numbers that are not whole so many times as large."""
    found: Batch = tree_map(lambda leaf: leaf * scale if leaf.is_floating_point() else leaf, batch)
    return found


def has_numbers(batch: Batch) -> bool:
    """Whether there is something to scale."""
    return any(leaf.is_floating_point() for leaf in torch.utils._pytree.tree_leaves(batch))
