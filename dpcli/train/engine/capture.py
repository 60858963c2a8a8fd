"""Forward hooks that keep each layer's input, and the edge of the graph where the gradient of its output passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from dpcli.train.engine.layers import Layer
from dpcli.train.engine.method import Unsuitable


def edges(losses: Tensor) -> Iterator[tuple[Node, int, Node]]:
    """Yield every (node, operand, following): the node that made an operand of a node. The order depends on the graph's form alone."""
    stack, seen = [losses.grad_fn], {losses.grad_fn}
    while stack:
        node = stack.pop()
        if node is None:
            continue
        for place, (following, _) in enumerate(node.next_functions):
            if following is not None:
                yield node, place, following
                if following not in seen:
                    seen.add(following)
                    stack.append(following)


def gradients(losses: Tensor, given: Tensor, wanted: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """Return gradients as `torch.autograd.grad` with allow_unused does, but by torch's engine itself.

    `torch.autograd.grad` switches torch's dispatch modes off while it runs, so that they would not see what user code does in the
    backward pass.
    """
    engine: Any = torch.autograd.Variable._execution_engine
    result: tuple[Tensor | None, ...] = engine.run_backward(
        (losses,), (given,), False, False, tuple(wanted), True, accumulate_grad=False
    )
    return result


def accumulate_gradients(loss: Tensor) -> None:
    """Accumulate gradients as `torch.autograd.backward` does, by torch's engine itself, as in `gradients`."""
    engine: Any = torch.autograd.Variable._execution_engine
    engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), True, accumulate_grad=True)


def ancestors(top: Node | None, stop: Node | None) -> set[Node]:
    """Return a node and all nodes that it was made by, without `stop` and the nodes that made it."""
    nodes: set[Node] = set()
    stack = [top]
    while stack:
        node = stack.pop()
        if node is not None and node is not stop and node not in nodes:
            nodes.add(node)
            stack.extend(following for following, _ in node.next_functions)
    return nodes


Call = tuple[str, int]
ExampleDim = int | None  # the dimension of a call's input that counts the examples; None if the input is one for all of them


@dataclass(frozen=True, slots=True)
class Use:
    """A call of a layer: its input, the edge where the gradient of its output passes, and the dimension of the examples."""

    layer: Layer
    inputs: Tensor
    edge: GradientEdge
    output_shape: torch.Size
    dim: int
    version: int

    def require_unchanged(self) -> None:
        """Raises Unsuitable if the input was written to since."""
        if self.inputs._version != self.version:
            raise Unsuitable(f"{self.layer.name}: its input is written to after it went in")


@dataclass(slots=True)
class Recorder:
    """A record of every layer's calls in their order, written by the hooks.

    A layer may get one input for all examples, such as position ids. If `keeps_shared` is set, the layer runs on that one input, the call
    is recorded in `shared_uses`, and gradients per example are taken where its output is repeated for each example. Otherwise the input
    is repeated before the layer runs, and the call is recorded in `uses`. `insides` holds, for each call, the nodes that use its
    parameters, if they are asked for.
    """

    example_dims: Callable[[Call, Tensor], ExampleDim]
    size: int
    uses: list[Use] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    pending: dict[str, tuple[Tensor, int, int, Node | None] | None] = field(default_factory=dict)
    keeps_shared: bool = False
    shared_uses: list[Use] = field(default_factory=list)
    insides: list[tuple[str, set[Node], set[Node]]] | None = None

    def example_dim(self, layer: Layer, inputs: Tensor) -> ExampleDim:
        """Return the example dimension of the next call of a layer.

        Raises:
            Unsuitable: Its examples are elsewhere than when the model was probed, or where its rule does not take them.
        """
        call = (layer.name, self.counts.get(layer.name, 0))
        self.counts[layer.name] = call[1] + 1
        dim = self.example_dims(call, inputs)
        if dim is not None and (inputs.dim() <= dim or inputs.shape[dim] != self.size):
            raise Unsuitable(f"{layer.name}: expected {self.size} examples along dimension {dim}, found {tuple(inputs.shape)}")
        if dim and not layer.rule.anywhere:
            raise Unsuitable(f"{layer.name}: expected examples along the first dimension, found {tuple(inputs.shape)}")
        return dim

    def enter(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Give a layer, before it runs, fresh leaves for its parameters and a row for each example in its input.

        Edge cases: numbers that are the same for all examples leave the parameters as they are; if the losses depend on what comes out,
        a gradient reaches them, which is refused.
        """
        (inputs,) = (*args, *kwargs.values())
        dim = self.example_dim(layer, inputs)
        if dim is None and inputs.is_floating_point():
            self.pending[layer.name] = None
            return (inputs,), {}
        input_node = get_gradient_edge(inputs).node if inputs.requires_grad else None
        if dim is None:
            repeated = per_example(layer.name, inputs, self.size)
            inputs = inputs if self.keeps_shared and inputs.dim() > 1 else repeated
            self.pending[layer.name] = repeated, inputs.shape[0], 0, input_node
        else:
            self.pending[layer.name] = inputs.detach(), self.size, dim, input_node
        detach_parameters(layer)
        return (inputs,), {}

    def leave(self, layer: Layer, output: Tensor) -> None:
        """Note the use of a layer after it ran: the gradient is taken before any later operation in place on the output."""
        entered = self.pending.pop(layer.name)
        if entered is None:
            return
        inputs, rows, dim, input_node = entered
        if not torch.is_tensor(output) or not output.requires_grad or output.shape[dim : dim + 1] != (rows,):
            raise Unsuitable(f"{layer.name}: expected an output with one row per example that gradients reach")
        shape = torch.Size((*output.shape[:dim], self.size, *output.shape[dim + 1 :]))
        uses = self.uses if rows == self.size else self.shared_uses
        uses.append(Use(layer, inputs, edge := get_gradient_edge(whole_tensor(output)), shape, dim, inputs._version))
        if self.insides is not None and output.grad_fn is not None:
            self.insides.append((layer.name, ancestors(output.grad_fn, input_node), {output.grad_fn, edge.node}))

    def note(self, layer: Layer, inputs: Tensor, output: Tensor) -> None:
        """Note a part of a compound, which runs as a layer does but without hooks.

        Raises:
            Unsuitable: There is nothing in its input of one example alone.
        """
        dim = self.example_dim(layer, inputs)
        if dim is None or not output.requires_grad or output.shape[: inputs.dim() - 1] != inputs.shape[:-1]:
            raise Unsuitable(f"{layer.name}: an input of shape {tuple(inputs.shape)} is shared by all examples")
        self.uses.append(Use(layer, inputs.detach(), get_gradient_edge(output), output.shape, dim, inputs._version))

    def require_inside(self, losses: Tensor) -> None:
        """Raise Unsuitable where a parameter of a call is used elsewhere than for its output, as by a gradient in the loss."""
        within = {node: (name, inside) for name, inside, tops in self.insides or () for node in inside - tops}
        for node, _, following in edges(losses):
            name, inside = within.get(following, ("", {node}))
            if node not in inside:
                raise Unsuitable(f"{name} has parameters that a gradient in the loss depends on")


def per_example(name: str, inputs: Tensor, size: int) -> Tensor:
    """Repeat position ids that all examples share, (T,) or (1, T), for each: else their gradient would be a sum over examples."""
    rows = inputs if inputs.dim() > 1 else inputs[None]
    if rows.shape[0] != 1:
        raise Unsuitable(f"{name}: an input of shape {tuple(inputs.shape)} is shared by all examples")
    return rows.expand(size, *rows.shape[1:])


def whole_tensor(output: Tensor) -> Tensor:
    """Return the tensor of which the output is only another shape: an operation in place would replace the view's own node."""
    base = output._base
    if base is None or base.numel() != output.numel():
        return output
    return base if output.is_contiguous() and base.is_contiguous() else output


def detach_parameters(layer: Layer) -> None:
    """Replace a layer's parameters by leaves, so that a gradient at the true ones can only come from a use outside the layer.

    Raises:
        Unsuitable: Something else stands in the place of a parameter, made of others perhaps.
    """
    own = cast("dict[str, Tensor]", layer.module._parameters)
    for local in layer.parameters:
        if not own[local].is_leaf:
            raise Unsuitable(f"{layer.name}: something else stands in the place of its {local}")
        own[local] = own[local].detach().requires_grad_()


def restore_parameters(layer: Layer, originals: Mapping[str, Tensor]) -> None:
    cast("dict[str, Tensor]", layer.module._parameters).update(originals)


@contextmanager
def recording(layers: Sequence[Layer], recorder: Recorder) -> Iterator[None]:
    """Record the layers' calls during one forward; afterwards the parameters are as before, whatever happened."""
    originals = [{local: cast("Tensor", layer.module._parameters[local]) for local in layer.parameters} for layer in layers]
    handles = [handle for layer, own in zip(layers, originals, strict=True) for handle in hook(layer, recorder, own)]
    for layer in layers:
        if layer.rule.forward is not None:
            vars(layer.module)["forward"] = partial(layer.rule.forward, layer.module)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer, own in zip(layers, originals, strict=True):
            vars(layer.module).pop("forward", None)
            restore_parameters(layer, own)


@contextmanager
def hooks_refused() -> Iterator[None]:
    """Refuse hooks on tensors: a gradient may be taken before or after one has changed it.

    Raises:
        Unsuitable: One is registered meanwhile.
    """

    def refused(tensor: Tensor, called: Any) -> Any:
        raise Unsuitable("a hook on a tensor changes its gradient")

    register = torch.Tensor.register_hook
    torch.Tensor.register_hook = refused  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.register_hook = register  # type: ignore[method-assign]


def hook(layer: Layer, recorder: Recorder, own: Mapping[str, Tensor]) -> Iterator[torch.utils.hooks.RemovableHandle]:
    """Register hooks that run last before the layer's forward and first after it, so that other hooks see what they always saw."""

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return recorder.enter(layer, args, kwargs)

    def after(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        restore_parameters(layer, own)
        recorder.leave(layer, output)

    yield layer.module.register_forward_pre_hook(before, with_kwargs=True)
    yield layer.module.register_forward_hook(after, prepend=True)
