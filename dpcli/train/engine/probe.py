"""What is tried on a few made-up examples before the first sum: that the model keeps examples apart.

The parameters are shifted a little meanwhile: a layer that starts at zero (LoRA's second matrix) would hide all before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.draws import keyed, seed_all
from dpcli.train.engine.method import Loss, per_example_losses

SEED = 20221
SHIFT = 0.02
TRIED = 3  # examples of a batch that are exchanged, and taken alone

Trace = dict[str, list[Tensor]]


@contextmanager
def shifted(model: nn.Module) -> Iterator[None]:
    """Trainable parameters away from special values, and exactly as before afterwards."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in parameters]
    try:
        with torch.no_grad(), seeded(model):
            for parameter in parameters:
                parameter.add_(torch.randn_like(parameter), alpha=SHIFT)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(value)


@contextmanager
def seeded(model: nn.Module, seed: int = SEED) -> Iterator[None]:
    """The same random numbers each time, and nobody else's touched."""
    with unmoved(model):
        seed_all(seed)
        yield


def unmoved(model: nn.Module) -> AbstractContextManager[None]:
    """Nobody else's random numbers are touched by what is drawn inside."""
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    return torch.random.fork_rng(devices=devices)


def traced(model: nn.Module, loss: Loss, batch: Batch, keys: Sequence[int], seed: int = SEED) -> tuple[Tensor, Trace]:
    """The losses, and every module's outputs in the order of the calls; each record draws by its own key."""
    trace: Trace = {}

    def after(name: str, module: nn.Module, args: Any, output: Any) -> None:
        trace.setdefault(name, []).extend(leaf.detach() for leaf in tree_leaves(output) if torch.is_tensor(leaf))

    handles = [module.register_forward_hook(partial(after, name)) for name, module in model.named_modules()]
    try:
        with torch.enable_grad(), keyed(keys, seed):
            return per_example_losses(model, loss, tree_map(torch.clone, batch), size(batch)).detach(), trace
    finally:
        for handle in handles:
            handle.remove()


def check(model: nn.Module, loss: Loss, batch: Batch, seed: int, tolerance: float) -> None:
    """That no example's loss depends on another example, and that f(batch)[i] = f(x_i).

    Args:
        batch: a few made-up examples.
        seed: of what the model draws.
        tolerance: what rounding explains between a batch and an example alone.

    Raises:
        InputError: with the name of the module where examples meet.
    """
    keys = list(range(size(batch)))
    together, trace = traced(model, loss, batch, keys, seed)
    exact = 32.0 * torch.finfo(together.dtype).eps
    for row in keys[:TRIED]:
        others = [other for other in keys if other != row]
        changed, changed_trace = traced(model, loss, replaced(batch, row, others[0]), keys, seed)
        if not close(changed[others], together[others], exact):
            raise mixing(model, lambda a, b: close(a[others], b[others], exact), trace, changed_trace)  # noqa: B023
        alone, alone_trace = traced(model, loss, take(batch, [row]), [row], seed)
        if not close(together[row : row + 1], alone, tolerance):
            raise mixing(model, lambda a, b: close(a[row : row + 1], b, tolerance), trace, alone_trace)  # noqa: B023


def replaced(batch: Batch, row: int, by: int) -> Batch:
    """A neighbouring batch: one example is another one."""
    rows = [by if other == row else other for other in range(size(batch))]
    return take(batch, rows)


def mixing(model: nn.Module, agree: Callable[[Tensor, Tensor], bool], trace: Trace, other: Trace) -> InputError:
    """Names the first module, innermost first, whose rows moved; where none did, it is the loss."""
    modules = dict(model.named_modules())
    for name, outputs in trace.items():
        for a, b in zip(outputs, other.get(name, []), strict=False):
            if comparable(a, b) and not agree(a, b):
                found = f"{name or 'the model'} ({type(modules[name]).__name__})"
                return InputError(f"model: {found}: expected an output for each example that depends on it alone, found otherwise")
    return InputError("loss: expected a loss for each example that depends on it alone, found one that depends on the batch")


def comparable(a: Tensor, b: Tensor) -> bool:
    return a.is_floating_point() and a.dim() > 0 and a.shape[1:] == b.shape[1:]


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Equal up to the tolerance, relative to each number or to one, whichever is larger; NaN equals NaN."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def tolerance_of(model: nn.Module) -> float:
    """What rounding explains between two ways of computing the same: about 2e-3 in single precision, 5e-7 in double."""
    coarsest: float = max(float(torch.finfo(p.dtype).eps) for p in model.parameters() if p.is_floating_point())
    return math.pow(coarsest, 0.4)
