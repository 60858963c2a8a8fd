"""The methods for per-example gradients (engine/method.py) that use vmap or a loop.

Both are slow but simple. Each example is differentiated by itself (`isolates`), so no proof is needed that operators keep examples apart;
vmap is used only if torch defines all of the operators. book_keeping.py has the fast method, which needs such a proof. The gradients of a
parameter are a *piece* (pieces.py), here stored in full (`PlainRows`), and `wide` gives numbers in at least single precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.capture import accumulate_gradients, gradients, graph_steps
from dpcli.train.engine.method import BatchPart, Loss, per_example_losses, refuse_caught_errors, trained_parameters, wide
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.torch_internals import tree_map

REENTRANT = "CheckpointFunctionBackward"  # the autograd node of re-entrant checkpointing

# Number of entries of per-example gradients that are in memory at once: 256 MiB in single precision; arbitrary.
LARGEST_PART = 2**26


class WholeModel(nn.Module):
    """The model and its loss as one module, so that `functional_call` can replace the parameters."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch) -> Tensor:
        return per_example_losses(self.model, self.loss, batch, 1).sum()


@dataclass(frozen=True, slots=True)
class Vectorised:
    """The method that applies torch.func.vmap to torch.func.grad. Dropout draws different numbers for each example."""

    model: nn.Module
    loss: Loss
    name: str = "vmap"
    isolates: ClassVar[bool] = True

    def for_model(self, model: nn.Module) -> Vectorised:
        return Vectorised(model, self.loss)

    def parts(self, batch: Batch) -> Iterator[BatchPart]:
        parameters = {name: p.detach() for name, p in trained_parameters(self.model).items()}
        entries = sum(p.numel() for p in parameters.values())
        part_size = max(1, LARGEST_PART // max(1, entries))
        program = WholeModel(self.model, self.loss)

        def loss_of_example(values: Mapping[str, Tensor], example: Batch) -> Tensor:
            batch_of_one = tree_map(lambda leaf: leaf.unsqueeze(0), example)
            by_full_name = {f"model.{name}": value for name, value in values.items()}
            loss: Tensor = functional_call(program, by_full_name, (batch_of_one,))
            return loss

        gradients = vmap(grad(loss_of_example), in_dims=(None, 0), randomness="different")
        for start in range(0, size(batch), part_size):
            part = take(batch, slice(start, start + part_size))
            # A program that catches an error of vmap may take another path. The method then does not apply.
            with refuse_caught_errors(), restored_flat_weights(self.model), warnings.catch_warnings():
                # torch warns of an operator without a batching rule, which it calls in a loop.
                warnings.filterwarnings("ignore", "There is a performance drop")
                by_name = gradients(parameters, part)
            yield BatchPart({name: PlainRows(wide(values.detach())) for name, values in by_name.items()}, size(part))


@contextmanager
def restored_flat_weights(model: nn.Module) -> Iterator[None]:
    """Restore `_flat_weights` of recurrent layers after the block. Within it, functional_call leaves its own weights in this list."""
    layers = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    before = [(list(layer._flat_weights), layer._flat_weight_refs) for layer in layers]
    try:
        yield
    finally:
        for layer, (weights, references) in zip(layers, before, strict=True):
            layer._flat_weights[:], layer._flat_weight_refs = weights, references


@dataclass(frozen=True, slots=True)
class Looped:
    """The method that loops over the examples. The other methods are compared with it."""

    model: nn.Module
    loss: Loss
    name: str = "loop"
    isolates: ClassVar[bool] = True

    def for_model(self, model: nn.Module) -> Looped:
        return Looped(model, self.loss)

    def parts(self, batch: Batch) -> Iterator[BatchPart]:
        parameters = trained_parameters(self.model)
        for row in range(size(batch)):
            losses = per_example_losses(self.model, self.loss, take(batch, slice(row, row + 1)), 1)
            yield BatchPart(one_example(losses, parameters), 1)


def one_example(losses: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, PlainRows]:
    """Return the gradients of one example. Parameters that the loss does not depend on are left out.

    No tensor besides the parameters receives a gradient. Re-entrant checkpointing is an exception: it works only with a backward pass that
    accumulates gradients in `.grad` of every tensor that requires one.
    """
    if not losses.requires_grad:
        return {}
    if any(step.source.name() == REENTRANT for step in graph_steps(losses)):
        with empty_gradients(parameters.values()):
            accumulate_gradients(losses)
            by_name = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    else:
        gradients_at = gradients(losses, torch.ones_like(losses), [*parameters.values()])
        by_name = {name: gradient for name, gradient in zip(parameters, gradients_at, strict=True) if gradient is not None}
    dense = {name: g.to_dense() if g.is_sparse else g for name, g in by_name.items()}
    return {name: PlainRows(wide(g)[None]) for name, g in dense.items()}


@contextmanager
def empty_gradients(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Clear the .grad of the parameters for the block, and restore it afterwards."""
    gradients = [(parameter, parameter.grad) for parameter in parameters]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
