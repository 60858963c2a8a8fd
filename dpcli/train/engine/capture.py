"""Forward hooks that keep each layer's input and the place in the graph where its output's gradient will pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpcli.train.engine.layers import Layer, Unsuitable

Call = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a layer: what went in, (B, ...), and where the gradient of what came out can be had."""

    layer: Layer
    inputs: Tensor
    edge: GradientEdge
    output_shape: torch.Size


@dataclass(slots=True)
class Recorder:
    """What the hooks write to: every layer's calls in their order.

    With `spread`, a layer that runs once for all examples does so, and its call is in `once`: where its output is then repeated
    for each example there is a gradient per example. Without, its ids are repeated before it runs.
    """

    roles: Callable[[Call, Tensor], bool]
    size: int
    uses: list[Use] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    pending: dict[str, tuple[Tensor, int]] = field(default_factory=dict)
    spread: bool = False
    once: list[Use] = field(default_factory=list)

    def enter(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Before a layer runs: fresh leaves for its parameters, and one row per example in its input."""
        (inputs,) = (*args, *kwargs.values())
        call = (layer.name, self.counts.get(layer.name, 0))
        self.counts[layer.name] = call[1] + 1
        if self.roles(call, inputs):
            repeated = per_example(layer.name, inputs, self.size)
            inputs = inputs if self.spread and inputs.dim() > 1 else repeated
            self.pending[layer.name] = repeated, inputs.shape[0]
        elif inputs.dim() == 0 or inputs.shape[0] != self.size:
            raise Unsuitable(f"{layer.name}: expected a first dimension of {self.size} examples, found {tuple(inputs.shape)}")
        else:
            self.pending[layer.name] = inputs.detach(), self.size
        detach_parameters(layer)
        return (inputs,), {}

    def leave(self, layer: Layer, output: Tensor) -> None:
        """After it ran: the gradient is taken before any later operation in place on the output."""
        inputs, rows = self.pending.pop(layer.name)
        if not torch.is_tensor(output) or not output.requires_grad or output.shape[:1] != (rows,):
            raise Unsuitable(f"{layer.name}: expected an output with one row per example that gradients reach")
        shape = torch.Size((self.size, *output.shape[1:]))
        uses = self.uses if rows == self.size else self.once
        uses.append(Use(layer, inputs, get_gradient_edge(whole(output)), shape))


def per_example(name: str, inputs: Tensor, size: int) -> Tensor:
    """Position ids that all examples share, (T,) or (1, T), repeated for each: else their gradient would be a sum over examples."""
    rows = inputs if inputs.dim() > 1 else inputs[None]
    if inputs.is_floating_point() or rows.shape[0] != 1:
        raise Unsuitable(f"{name}: an input of shape {tuple(inputs.shape)} is shared by all examples")
    return rows.expand(size, *rows.shape[1:])


def whole(output: Tensor) -> Tensor:
    """The tensor of which the output is only another shape: an operation in place would replace the view's own node."""
    base = output._base
    return (
        output if base is None or base.numel() != output.numel() or not (output.is_contiguous() and base.is_contiguous()) else base
    )


def detach_parameters(layer: Layer) -> None:
    """Leaves of their own, so that a gradient at the true parameter can only come from a use outside the layer."""
    own = cast("dict[str, Tensor]", layer.module._parameters)
    for local in layer.parameters:
        own[local] = own[local].detach().requires_grad_()


def restore_parameters(layer: Layer, originals: Mapping[str, Tensor]) -> None:
    cast("dict[str, Tensor]", layer.module._parameters).update(originals)


@contextmanager
def recording(layers: list[Layer], recorder: Recorder) -> Iterator[None]:
    """Hooks on the layers for the length of one forward; the parameters are as before afterwards, whatever happened."""
    originals = [{local: cast("Tensor", layer.module._parameters[local]) for local in layer.parameters} for layer in layers]
    handles = [handle for layer, own in zip(layers, originals, strict=True) for handle in hook(layer, recorder, own)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer, own in zip(layers, originals, strict=True):
            restore_parameters(layer, own)


def hook(layer: Layer, recorder: Recorder, own: Mapping[str, Tensor]) -> Iterator[torch.utils.hooks.RemovableHandle]:
    """Last before the layer's forward and first after it, so that other hooks see what they always saw."""

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return recorder.enter(layer, args, kwargs)

    def after(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        restore_parameters(layer, own)
        recorder.leave(layer, output)

    yield layer.module.register_forward_pre_hook(before, with_kwargs=True)
    yield layer.module.register_forward_hook(after, prepend=True)
