"""Per-example gradients of parameters that belong to no layer, computed from the operators that use them.

Book-keeping (engine/book_keeping.py), the fast method for per-example gradients, knows layers, which have a formula (layers.py), and
compounds of several layers (compound.py). A parameter that a module uses in another way, such as a class token or a scale, is followed here
as an *operand*. Few kinds of operators combine such a parameter with the examples: the parameter is added to a tensor that holds examples,
multiplies such a tensor, or is repeated for each example. The autograd graph has a node for every operator that uses the parameter, so no
use is missed.

For each such operator, a vector-Jacobian product (VJP) turns the gradient of the output into the gradient of the operand, one for each
example. Operators on parameters alone are differentiated by autograd, for all examples at once.

Before training, a *probe* (a pass of one example and another of several) records the operators and the dimension of their outputs that
counts the examples (`Leaves.record`). Each later pass must use the same operators (`Leaves.uses`). Otherwise `Unsuitable` is raised, and
the engine uses a slower method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from dpcli.train.engine.capture import GraphStep, graph_steps, growing_dim
from dpcli.train.engine.method import Unsuitable, wide

# A vector-Jacobian product: it takes the gradient of an operator's output and returns the gradient of one of its operands.
Vjp = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Operand:
    """A trained parameter of a module that has no rule.

    Attributes:
        local: Name of the parameter in the module.
        name: Name of the parameter in the model.
    """

    module: nn.Module
    local: str
    name: str


@dataclass(frozen=True, slots=True)
class Consumer:
    """An operator that has a parameter, or a tensor computed from it, as an operand.

    Attributes:
        operator: Name of the operator's node in the autograd graph.
        operand: Number of the operand.
    """

    operator: str
    operand: int


class ForwardPass(NamedTuple):
    """The result of one forward pass.

    Attributes:
        losses: Losses of the examples, (B,).
        leaves: Tensors that replaced parameters in the pass, by the names of the parameters.
    """

    losses: Tensor
    leaves: dict[str, Tensor]


class ProbedUse(NamedTuple):
    """A use of a parameter that the probe recorded.

    Attributes:
        dim: Dimension of the operator's output that counts the examples; None if the output depends on no example.
    """

    consumer: Consumer
    dim: int | None


@dataclass(frozen=True, slots=True)
class OperandUse:
    """A use of a parameter: an operator that combines the examples with it, or with a tensor computed from parameters alone.

    Attributes:
        name: Name of the parameter in the model.
        leaf: Tensor that replaces the parameter.
        edge: Edge at which the gradient of the operator's output is taken.
        dim: Dimension of the output that counts the examples.
        source: Edge at which the operand is computed.
        shape: Shape of the operand.
        dtype: Type of the operand's numbers.
        vjp: Function from the gradient of the output to the gradient of the operand.
    """

    name: str
    leaf: Tensor
    edge: GradientEdge
    dim: int
    source: GradientEdge
    shape: torch.Size
    dtype: torch.dtype
    vjp: Vjp

    def rows(self, gradient: Tensor) -> Tensor:
        """Return the gradient of each example with respect to the leaf, (B, *leaf.shape), in at least single precision."""
        operand_gradients = sum_over_broadcast(self.vjp(wide(gradient)), self.dim, self.shape)
        if self.source.node is get_gradient_edge(self.leaf).node:  # the operand is the parameter itself
            return operand_gradients
        (leaf_gradients,) = torch.autograd.grad(
            [self.source], [self.leaf], [operand_gradients.to(self.dtype)], retain_graph=True, is_grads_batched=True
        )
        return wide(leaf_gradients)


def sum_over_broadcast(values: Tensor, dim: int, shape: torch.Size) -> Tensor:
    """Return gradients (B, *shape) of an operand that was broadcast: sums over the dimensions along which it was repeated.

    Args:
        values: Gradients of the broadcast operand.
        dim: Dimension of `values` that counts the examples.
        shape: Shape of the operand before it was broadcast.
    """
    rows = values.movedim(dim, 0).unsqueeze(dim + 1)  # the dimension of the examples is replaced by one of length 1
    first = rows.dim() - len(shape)  # dimension of `rows` that is the first of the operand's own
    broadcast_dims = [*range(1, first), *(first + number for number, length in enumerate(shape) if length == 1)]
    return (rows.sum(broadcast_dims) if broadcast_dims else rows).reshape(len(rows), *shape)


@dataclass(slots=True)
class Leaves:
    """Leaf tensors that replace parameters without a layer, and the operators that use them.

    Attributes:
        recorded: Uses of each parameter or of a tensor computed from it, by the parameter's name.
    """

    operands: Sequence[Operand]
    recorded: dict[str, list[ProbedUse]] = field(default_factory=dict)

    @contextmanager
    def in_place(self) -> Iterator[dict[str, Tensor]]:
        """Replace the parameters by new leaf tensors within the block, and yield these by the names of the parameters.

        A parameter that several modules share is replaced by the same leaf in all of them.
        """
        tables = [cast("dict[str, Tensor]", operand.module._parameters) for operand in self.operands]
        originals = [parameters[operand.local] for operand, parameters in zip(self.operands, tables, strict=True)]
        leaves: dict[str, Tensor] = {}
        try:
            for operand, parameters, original in zip(self.operands, tables, originals, strict=True):
                leaves.setdefault(operand.name, original.detach().requires_grad_())
                parameters[operand.local] = leaves[operand.name]
            yield leaves
        finally:
            for operand, parameters, original in zip(self.operands, tables, originals, strict=True):
                parameters[operand.local] = original

    def record(self, one: ForwardPass, several: ForwardPass, size: int) -> None:
        """Record the operators that use each parameter, from a pass of one example and a pass of `size` examples.

        A dimension of an output counts the examples if its length equals the number of examples in both passes.

        Raises:
            Unsuitable: The graphs of one example and of several differ in more than the lengths of dimensions.
        """
        graph_of_one, graph_of_several = Graph(one.losses), Graph(several.losses)
        for name in several.leaves:
            uses: list[ProbedUse] = []
            walk_of_one = graph_of_one.walk(one.leaves[name])
            walk_of_several = graph_of_several.walk(several.leaves[name])
            for of_one, of_several in zip_longest(walk_of_one, walk_of_several):
                if of_one is None or of_several is None or of_one.consumer != of_several.consumer:
                    raise Unsuitable(f"{name}: one example uses it in other operators than several examples do")
                dim = dimension(name, of_one, of_several, size)
                uses.append(ProbedUse(of_several.consumer, dim))
                of_one.independent = of_several.independent = dim is None
            self.recorded[name] = uses

    def uses(self, forward_pass: ForwardPass, size: int) -> list[OperandUse]:
        """Return every operator that combines one of the parameters with the `size` examples of a pass.

        Raises:
            Unsuitable: The graph differs from the recorded one, or an operator has no VJP.
        """
        graph, result = Graph(forward_pass.losses), []
        for name, leaf in forward_pass.leaves.items():
            for reached, recorded in zip_longest(graph.walk(leaf), self.recorded[name]):
                if reached is None or recorded is None or reached.consumer != recorded.consumer:
                    raise Unsuitable(f"{name} is used by other operators than in the probe")
                reached.independent = recorded.dim is None
                if recorded.dim is not None:
                    result.append(reached.use(name, leaf, recorded.dim, size))
        return result


@dataclass(slots=True)
class Reached:
    """An autograd node on a path from a parameter to the losses.

    Attributes:
        operand: Number of the operand that depends on the parameter.
        source: Edge that leads to this operand.
        independent: Whether the node's output depends on no example. The caller of `Graph.walk` sets it. The walk then goes on to the
            operators that use this output.
    """

    node: Node
    operand: int
    source: GradientEdge
    independent: bool = False

    @property
    def consumer(self) -> Consumer:
        """Return the operator without its place in the graph, for comparisons with other graphs."""
        return Consumer(self.node.name(), self.operand)

    @property
    def shapes(self) -> list[torch.Size]:
        """Return the shapes of the operator's outputs."""
        return [torch.Size(output.shape) for output in metadata(self.node)]

    def use(self, name: str, leaf: Tensor, dim: int, size: int) -> OperandUse:
        """Return this operator as a use of a parameter together with the examples.

        Raises Unsuitable if the operator has no VJP or several outputs, or if the length of `dim` is not the batch size.
        """
        make_vjp = VJPS.get(self.node.name())
        output_shape, *other_outputs = self.shapes
        if make_vjp is None or other_outputs or output_shape[dim] != size:
            raise Unsuitable(f"{name}: {self.node.name()} has no rule")
        operand = metadata(self.source.node)[self.source.output_nr]
        return OperandUse(
            name=name,
            leaf=leaf,
            edge=GradientEdge(self.node, 0),
            dim=dim,
            source=self.source,
            shape=torch.Size(operand.shape),
            dtype=operand.dtype,
            vjp=make_vjp(self.node, self.operand),
        )


def metadata(node: Any) -> Sequence[Any]:
    """Return the shapes and types of a node's outputs."""
    return cast("Sequence[Any]", node._input_metadata)


class Graph:
    """The autograd graph of the losses, with an index from each node to the nodes that use its output."""

    def __init__(self, losses: Tensor) -> None:
        self.consumers: dict[Node, list[GraphStep]] = {}
        for step in graph_steps(losses):
            self.consumers.setdefault(step.source, []).append(step)

    def walk(self, leaf: Tensor) -> Iterator[Reached]:
        """Yield every operator that uses a leaf, or the output of an operator that the caller marked as `independent` when it was yielded.

        Graphs of the same form give their operators in the same order, so that two graphs can be compared.
        """
        start = get_gradient_edge(leaf).node
        stack, visited = [start], {start}
        while stack:
            node = stack.pop()
            for consumer, operand, _ in self.consumers.get(node, []):
                # An entry of next_functions is a node and the number of one of its outputs.
                reached = Reached(consumer, operand, GradientEdge(node, consumer.next_functions[operand][1]))
                yield reached
                if reached.independent and consumer not in visited:
                    visited.add(consumer)
                    stack.append(consumer)


def dimension(name: str, one: Reached, several: Reached, size: int) -> int | None:
    """Return the dimension in which the outputs for one example and for several differ; None if the shapes are equal.

    Raises Unsuitable if the outputs differ in more than one dimension, or the length of the dimension is not the number of examples.
    """
    if one.shapes == several.shapes:
        return None
    dim = growing_dim(one.shapes[0], several.shapes[0], size) if len(one.shapes) == len(several.shapes) == 1 else None
    if dim is not None:
        return dim
    raise Unsuitable(f"{name}: it enters {several.consumer.operator}, where the examples have no dimension of their own")


def product(node: Any, operand: int) -> Vjp:
    """Return the VJP of an operand of x * y."""
    other_operand = constant(node._saved_other if operand == 0 else node._saved_self)
    return lambda gradient: gradient * other_operand


def quotient(node: Any, operand: int) -> Vjp:
    """Return the VJP of an operand of x / y."""
    denominator = constant(node._saved_other)
    if operand == 0:
        return lambda gradient: gradient / denominator
    numerator = constant(node._saved_self)
    return lambda gradient: -(gradient / denominator) * (numerator / denominator)


def addition(node: Any, operand: int) -> Vjp:
    """Return the VJP of an operand of x + a * y."""
    return multiply_by(1 if operand == 0 else node._saved_alpha)


def subtraction(node: Any, operand: int) -> Vjp:
    """Return the VJP of an operand of x - a * y."""
    return multiply_by(1 if operand == 0 else -node._saved_alpha)


def repetition(node: Any, operand: int) -> Vjp:
    """Return the VJP of an operand that is repeated for each example."""
    return multiply_by(1)


def prelu(node: Any, operand: int) -> Vjp:
    """Return the VJP of an operand of PReLU, which returns x if x is positive and weight * x otherwise."""
    x = constant(node._saved_self)
    slope = torch.where(x > 0.0, 1.0, constant(node._saved_weight)) if operand == 0 else x.clamp(max=0.0)
    return lambda gradient: gradient * slope


def constant(saved: Tensor) -> Tensor:
    """Return a tensor that the autograd graph saved, detached and in at least single precision."""
    return wide(saved.detach())


def multiply_by(by: float) -> Vjp:
    """Return a VJP that multiplies the gradient by a number."""
    return lambda gradient: gradient if by == 1 else gradient * by


# Functions that take a node and the number of an operand and return a VJP, by the name of the node.
VJPS: dict[str, Callable[[Any, int], Vjp]] = {
    "AddBackward0": addition,
    "SubBackward0": subtraction,
    "MulBackward0": product,
    "DivBackward0": quotient,
    "ExpandBackward0": repetition,
    "RepeatBackward0": repetition,
    "PreluKernelBackward0": prelu,
}
