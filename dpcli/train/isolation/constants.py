"""What a program reads beside its parameters, its buffers and its records: tensors that somebody made before, perhaps from data."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dpcli.audit.user_code import is_own_code
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.method import Loss
from dpcli.train.isolation.state import state

MADE_ON_THE_WAY = torch.ops.aten.lift_fresh.default  # of numbers that stand in the program, as torch.tensor does


def constants(model: nn.Module, loss: Loss, batch: Batch) -> tuple[str, ...]:
    """Each by its name and shape, or by where it is read; single numbers are not among them.

    Args:
        batch: records that nobody owns.
    """
    reading = Reading((*model.parameters(), *model.buffers(), *tree_leaves(batch)))
    with torch.enable_grad(), reading:  # a loss may ask for gradients itself
        loss(model, batch)
    names = {found[0]: name for name, found in state(model, loss, whole=False).found.items() if isinstance(found, tuple)}
    return tuple(
        sorted({f"{names.get(id(one), place)} of shape {tuple(one.shape)}".replace(",)", ")") for one, place in reading.found})
    )


class Reading(TorchDispatchMode):
    """Finds operands that are neither known beforehand nor made by an operator before. found: with where they are read.

    known: by where they are in memory. What an operator made may be gone when something else lies there; constants were there before.
    """

    def __init__(self, known: tuple[Tensor, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = set(map(key_of, known))
        self.found: list[tuple[Tensor, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        for one in tree_leaves((args, given)):
            if isinstance(one, Tensor) and (func is MADE_ON_THE_WAY or key_of(one) not in self.known):
                self.known.add(key_of(one))
                place = read_at()
                if one.numel() > 1 and (place or func is not MADE_ON_THE_WAY):
                    self.found.append((one, place or "a tensor of a library"))
        made = func(*args, **given)
        self.known.update(key_of(one) for one in tree_leaves(made) if isinstance(one, Tensor))
        return made


def key_of(tensor: Tensor) -> int:
    """Where its numbers are: a view, and what .data gives, is no other tensor."""
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (RuntimeError, NotImplementedError):  # of a kind that has none
        return id(tensor)


def read_at() -> str:
    """The innermost line of the user's own code; "" where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_own_code(file):
            return f"a tensor read at {os.path.basename(file)}, line {frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
