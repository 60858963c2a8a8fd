"""Records of each call of a layer, from which book-keeping (engine/book_keeping.py) computes per-example gradients.

A *layer* is a module with a formula for the gradients of its parameters (layers.py). `recording` replaces the forward of each layer by one
that runs the layer and adds a `Use` to a `Recorder`. A use has the input of the layer, and the edge of the autograd graph at which the
gradient of its output is taken: in torch, a node of the graph and the number of one of its outputs. The gradients of the layer's parameters
are computed from these two. `Unsuitable` is raised for a model to which book-keeping does not apply; the engine then uses a slower method.

A *compound* is a module of torch that contains several layers, such as multi-head attention (compound.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from dpcli.train.engine.layers import Layer
from dpcli.train.engine.method import Unsuitable
from dpcli.train.torch_internals import backward_engine, without_function_modes


class GraphStep(NamedTuple):
    """A step of the autograd graph from a node to one of its operands.

    Attributes:
        node: Node of an operator.
        operand: Number of the operand.
        source: Node that computed the operand.
    """

    node: Node
    operand: int
    source: Node


def graph_steps(losses: Tensor) -> Iterator[GraphStep]:
    """Yield every step of the autograd graph, from the losses to the parameters.

    Graphs of the same form give their steps in the same order. Losses that need no gradient have no graph and give nothing.
    """
    stack, visited = [losses.grad_fn], {losses.grad_fn}
    while stack:
        node = stack.pop()
        if node is None:
            continue
        for operand, (source, _) in enumerate(node.next_functions):
            if source is not None:
                yield GraphStep(node, operand, source)
                if source not in visited:
                    visited.add(source)
                    stack.append(source)


def gradients(losses: Tensor, weights: Tensor, inputs: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """Return the gradients that `torch.autograd.grad` returns with allow_unused, by calling torch's engine directly.

    `torch.autograd.grad` switches torch's dispatch modes off while it runs. The modes would then miss what user code does in the
    backward pass.

    Args:
        losses: Losses, shape (B,).
        weights: Factor of each loss, shape (B,).
        inputs: Tensors or edges at which the gradients are taken.

    Returns:
        Gradient of the weighted sum of the losses at each input; None for an input on which the losses do not depend.
    """
    # The positional flags: the graph is not kept, the backward pass is not recorded, and inputs may be unreachable.
    result: tuple[Tensor | None, ...] = backward_engine.run_backward(
        (losses,), (weights,), False, False, tuple(inputs), True, accumulate_grad=False
    )
    return result


def accumulate_gradients(loss: Tensor) -> None:
    """Add the gradients of a loss to `.grad`, as `torch.autograd.backward` does. Torch's engine is called directly, as in `gradients`."""
    backward_engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), True, accumulate_grad=True)


def growing_dim(one: Sequence[int], several: Sequence[int], count: int) -> int | None:
    """Return the dimension that has length 1 in the first shape and length `count` in the second: 1 for (5, 1) and (5, 3), with count 3.

    Return None unless this is the only difference of the shapes.
    """
    if len(one) != len(several):
        return None
    differing = [(dim, *lengths) for dim, lengths in enumerate(zip(one, several, strict=True)) if lengths[0] != lengths[1]]
    return differing[0][0] if len(differing) == 1 and differing[0][1:] == (1, count) else None


def ancestors(top: Node | None, stop: Node | None) -> set[Node]:
    """Return a node and all nodes from which its output was computed, excluding `stop` and the nodes that are reached only through it."""
    nodes: set[Node] = set()
    stack = [top]
    while stack:
        node = stack.pop()
        if node is not None and node is not stop and node not in nodes:
            nodes.add(node)
            stack.extend(following for following, _ in node.next_functions)
    return nodes


class LayerCall(NamedTuple):
    """A call of a layer.

    Attributes:
        layer: Name of the layer.
        earlier_calls: Number of earlier calls of the layer in the same forward pass.
    """

    layer: str
    earlier_calls: int


# The dimension along which a call's input holds the examples; None if all examples share the input.
ExampleDim = int | None


@dataclass(frozen=True, slots=True)
class Use:
    """A recorded call of a layer, with everything from which the gradients of the layer's parameters are computed.

    Attributes:
        inputs: Input of the layer, with a row for each example along `dim`.
        edge: Edge at which the gradient of the output is taken.
        output_shape: Shape of the output, with a row for each example along `dim`.
        dim: Dimension of the input and of the output that counts the examples.
        version: Version of the input at the time of the call. Torch increases the version with each write to the tensor.
    """

    layer: Layer
    inputs: Tensor
    edge: GradientEdge
    output_shape: torch.Size
    dim: int
    version: int

    def require_unchanged(self) -> None:
        """Raise Unsuitable if the input was written to after the call."""
        if self.inputs._version != self.version:
            raise Unsuitable(f"{self.layer.name}: its input is overwritten after the call")


@dataclass(frozen=True, slots=True)
class RunningLayer:
    """A layer that is running and whose call is recorded when it ends.

    Attributes:
        inputs: Input of the layer, with a row for each example along `dim`. If the layer runs on a shared input, this is its repetition.
        rows: Length of `dim` in the input that the layer received.
        dim: Dimension that counts the examples.
        input_node: Node of the input in the autograd graph; None if the input needs no gradient, or if nodes are not recorded.
    """

    inputs: Tensor
    rows: int
    dim: int
    input_node: Node | None


@dataclass(frozen=True, slots=True)
class CallNodes:
    """The part of the autograd graph that belongs to one call of a layer.

    Attributes:
        outputs: Nodes of the call's output, which later operators may use.
    """

    name: str
    nodes: set[Node]
    outputs: set[Node]


@dataclass(slots=True)
class Recorder:
    """A record of the calls of every layer, in the order of the calls. `recorded_call` writes it.

    All examples may share the input of a layer, such as position ids. By default the input is then repeated for each example before the
    layer runs, and the call is recorded in `uses`. If `keeps_shared` is set, the layer runs on the shared input, and the call is recorded
    in `shared_uses`. Per-example gradients are then taken where the program repeats the output for each example.

    Attributes:
        example_dims: Function that returns the example dimension of a call with a given input.
        uses: Calls whose output has a row for each example.
        counts: Number of calls of each layer so far.
        running: Running layers, by name. It is None for a layer whose call is not recorded.
        call_nodes: Part of the graph of each call; None if it is not requested.
        unfinished: Name of the innermost running layer. After the forward pass it is a name only if the program caught a layer's error.
    """

    example_dims: Callable[[LayerCall, Tensor], ExampleDim]
    size: int
    uses: list[Use] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    running: dict[str, RunningLayer | None] = field(default_factory=dict)
    keeps_shared: bool = False
    shared_uses: list[Use] = field(default_factory=list)
    call_nodes: list[CallNodes] | None = None
    unfinished: str | None = None

    def example_dim(self, layer: Layer, inputs: Tensor) -> ExampleDim:
        """Return the example dimension of the next call of a layer, and count the call.

        Raises Unsuitable if the length of the dimension is not the number of examples, or the rule of the layer does not support the
        dimension. `example_dims` raises it for a call that it does not know.
        """
        call = LayerCall(layer.name, self.counts.get(layer.name, 0))
        self.counts[layer.name] = call.earlier_calls + 1
        dim = self.example_dims(call, inputs)
        if dim is not None and (inputs.dim() <= dim or inputs.shape[dim] != self.size):
            raise Unsuitable(f"{layer.name}: expected {self.size} examples along dimension {dim}, found {tuple(inputs.shape)}")
        if dim and not layer.rule.anywhere:  # `anywhere`: the rule allows examples along other dimensions than the first
            raise Unsuitable(f"{layer.name}: expected examples along the first dimension, found {tuple(inputs.shape)}")
        return dim

    def enter(self, layer: Layer, inputs: Tensor) -> Tensor:
        """Prepare a layer before it runs, and return the input on which it runs.

        The parameters of the layer are replaced by new leaves. An input that all examples share is repeated for each example, unless
        `keeps_shared` is set.

        Edge cases: a call on a shared tensor of floating-point numbers is not recorded, and the parameters are not replaced. If the losses
        depend on the output of such a call, a gradient reaches the parameters themselves, and `BookKeeping.gradients` refuses the model.

        Raises:
            Unsuitable: `example_dim`, `repeat_for_examples` or `detach_parameters` refuses the call.
        """
        dim = self.example_dim(layer, inputs)
        if dim is None and inputs.is_floating_point():
            self.running[layer.name] = None
            return inputs
        input_node = get_gradient_edge(inputs).node if self.call_nodes is not None and inputs.requires_grad else None
        if dim is None:
            repeated = repeat_for_examples(layer.name, inputs, self.size)
            inputs = inputs if self.keeps_shared and inputs.dim() > 1 else repeated
            self.running[layer.name] = RunningLayer(repeated, inputs.shape[0], 0, input_node)
        else:
            self.running[layer.name] = RunningLayer(inputs.detach(), self.size, dim, input_node)
        detach_parameters(layer)
        return inputs

    def leave(self, layer: Layer, output: Tensor) -> None:
        """Record the call of a layer after it ran. The gradient is taken before any later in-place operation on the output.

        Raises Unsuitable if the output is not a tensor that needs a gradient, or has no row for each row of the input.
        """
        entered = self.running.pop(layer.name)
        if entered is None:
            return
        dim = entered.dim
        if not torch.is_tensor(output) or not output.requires_grad or output.shape[dim : dim + 1] != (entered.rows,):
            raise Unsuitable(f"{layer.name}: expected an output with one row per example that gradients reach")
        shape = torch.Size((*output.shape[:dim], self.size, *output.shape[dim + 1 :]))
        edge = get_gradient_edge(whole_tensor(output))
        uses = self.uses if entered.rows == self.size else self.shared_uses
        uses.append(Use(layer, entered.inputs, edge, shape, dim, entered.inputs._version))
        if self.call_nodes is not None and output.grad_fn is not None:
            nodes = ancestors(output.grad_fn, entered.input_node)
            self.call_nodes.append(CallNodes(layer.name, nodes, {output.grad_fn, edge.node}))

    def record(self, layer: Layer, inputs: Tensor, output: Tensor) -> None:
        """Record the call of a layer within a compound. Such a layer runs without hooks.

        Raises Unsuitable if all examples share the input, or the output has no row for each example.
        """
        dim = self.example_dim(layer, inputs)
        if dim is None or not output.requires_grad or output.shape[: inputs.dim() - 1] != inputs.shape[:-1]:
            raise Unsuitable(f"{layer.name}: an input of shape {tuple(inputs.shape)} is shared by all examples")
        self.uses.append(Use(layer, inputs.detach(), get_gradient_edge(output), output.shape, dim, inputs._version))

    def require_no_other_use(self, losses: Tensor) -> None:
        """Raise Unsuitable if a parameter of a call is used for anything but the call's output, such as a gradient within the loss.

        Nothing is checked if `call_nodes` is None.
        """
        call_of_node: dict[Node, CallNodes] = {}
        for recorded in self.call_nodes or ():
            call_of_node.update(dict.fromkeys(recorded.nodes - recorded.outputs, recorded))
        for step in graph_steps(losses):
            call = call_of_node.get(step.source)
            if call is not None and step.node not in call.nodes:
                raise Unsuitable(f"{call.name} has parameters that a gradient in the loss depends on")


def repeat_for_examples(name: str, inputs: Tensor, size: int) -> Tensor:
    """Return a shared input, such as position ids (T,) or (1, T), repeated for each example: (B, T).

    Without the repetition, the gradient of the layer would be a sum over the examples.

    Raises Unsuitable if the input has several dimensions and the length of the first is not one.
    """
    rows = inputs if inputs.dim() > 1 else inputs[None]
    if rows.shape[0] != 1:
        raise Unsuitable(f"{name}: an input of shape {tuple(inputs.shape)} is shared by all examples")
    return rows.expand(size, *rows.shape[1:])


def whole_tensor(output: Tensor) -> Tensor:
    """Return the tensor that the output views in another shape, or the output itself if it is not such a view.

    A later in-place operation on a view would replace the view's node in the autograd graph.
    """
    base = output._base
    if base is None or base.numel() != output.numel():
        return output
    return base if output.is_contiguous() and base.is_contiguous() else output


def detach_parameters(layer: Layer) -> None:
    """Replace the parameters of a layer by new leaves. A gradient at the original ones then shows a use outside of the layer.

    Raises Unsuitable if a parameter has been replaced by another tensor, which may be computed from other parameters.
    """
    tensors = cast("dict[str, Tensor]", layer.module._parameters)
    for local in layer.parameters:
        if not tensors[local].is_leaf:
            raise Unsuitable(f"{layer.name}: its {local} is replaced by a computed tensor")
        tensors[local] = tensors[local].detach().requires_grad_()


def restore_parameters(layer: Layer, originals: Mapping[str, Tensor]) -> None:
    """Put the original parameters of a layer back."""
    cast("dict[str, Tensor]", layer.module._parameters).update(originals)


@contextmanager
def recording(layers: Sequence[Layer], recorder: Recorder) -> Iterator[None]:
    """Record the calls of the layers during one forward pass, which the block runs.

    The forward and the parameters of each layer are restored afterwards, also after an error.
    """
    originals: list[dict[str, Tensor]] = []
    try:
        for layer in layers:
            parameters = {local: cast("Tensor", layer.module._parameters[local]) for local in layer.parameters}
            originals.append(parameters)
            vars(layer.module)["forward"] = partial(recorded_call, layer, recorder, parameters)
        yield
    finally:
        for layer, parameters in zip(layers, originals, strict=False):
            vars(layer.module).pop("forward", None)
            restore_parameters(layer, parameters)


@contextmanager
def refuse_hooks() -> Iterator[None]:
    """Refuse hooks on tensors within the block. It is undefined whether a gradient is taken before or after a hook changes it.

    Raises Unsuitable if a hook is registered.
    """

    def refuse(tensor: Tensor, called: Any) -> Any:
        raise Unsuitable("a hook on a tensor changes its gradient")

    register = torch.Tensor.register_hook
    torch.Tensor.register_hook = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.register_hook = register  # type: ignore[method-assign]


def recorded_call(layer: Layer, recorder: Recorder, originals: Mapping[str, Tensor], /, *args: Any, **kwargs: Any) -> Tensor:
    """Run a layer in place of its own forward, and record the call. Hooks of the layer receive the same values as without the record.

    The mode that looks for errors of torch is switched off around the work of the recorder, which calls many small functions of torch.

    Raises:
        Unsuitable: The recorder refuses the call. `recorder.unfinished` keeps the name of the layer, in case the program catches the error.
        ValueError: The layer was called with more than one argument, or with none.
    """
    outer_layer, recorder.unfinished = recorder.unfinished, layer.name
    (inputs,) = (*args, *kwargs.values())
    with without_function_modes():
        inputs = recorder.enter(layer, inputs)
    if layer.rule.forward is not None and type(inputs) is Tensor:
        with without_function_modes():  # an error of this forward is not lost either: the layer stays `unfinished`
            output = layer.rule.forward(layer.module, inputs)
    else:
        output = (layer.rule.forward or type(layer.module).forward)(layer.module, inputs)
    with without_function_modes():
        restore_parameters(layer, originals)
        recorder.leave(layer, output)
    recorder.unfinished = outer_layer
    return output
