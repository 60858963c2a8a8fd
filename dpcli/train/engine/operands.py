"""Per-example gradients of parameters that are used outside of layers, from the operators of the autograd graph that take them.

Such a parameter meets the examples in few ways: it is added to a tensor with examples, multiplies it, or is repeated for each. The graph
names every such operator, so that none is missed, and keeps the other factor of a product. What is computed from parameters alone, before
that, is differentiated by autograd, for all examples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from dpcli.train.engine.capture import edges
from dpcli.train.engine.method import Unsuitable, wide

Factor = Callable[[Tensor], Tensor]  # from the gradient at an operator's output to that at one operand


def product(node: Any, operand: int) -> Factor:
    """Return the factor of x y."""
    other = constant(node._saved_other if operand == 0 else node._saved_self)
    return lambda gradient: gradient * other


def quotient(node: Any, operand: int) -> Factor:
    """Return the factor of x / y."""
    below = constant(node._saved_other)
    if operand == 0:
        return lambda gradient: gradient / below
    above = constant(node._saved_self)
    return lambda gradient: -(gradient / below) * (above / below)


def addition(node: Any, operand: int) -> Factor:
    """Return the factor of x + a y."""
    return scaled(1 if operand == 0 else node._saved_alpha)


def subtraction(node: Any, operand: int) -> Factor:
    """Return the factor of x - a y."""
    return scaled(1 if operand == 0 else -node._saved_alpha)


def repetition(node: Any, operand: int) -> Factor:
    """Return the factor of x repeated for each example."""
    return scaled(1)


def leak(node: Any, operand: int) -> Factor:
    """Return the factor of PReLU, x if it is positive and else x times the weight, at the weight."""
    below = constant(node._saved_self).clamp(max=0.0)
    return lambda gradient: gradient * below if operand == 1 else gradient


def constant(saved: Tensor) -> Tensor:
    """Return a tensor that an operator kept, detached from the graph."""
    return wide(saved.detach())


def scaled(by: float) -> Factor:
    return lambda gradient: gradient if by == 1 else gradient * by


FACTORS: dict[str, Callable[[Any, int], Factor]] = {
    "AddBackward0": addition,
    "SubBackward0": subtraction,
    "MulBackward0": product,
    "DivBackward0": quotient,
    "ExpandBackward0": repetition,
    "RepeatBackward0": repetition,
    "PreluKernelBackward0": leak,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A parameter of a module without a rule: its name there, and in the model."""

    module: nn.Module
    local: str
    name: str


@dataclass(frozen=True, slots=True)
class Taken:
    """An operator that takes a parameter, or a tensor made of it: its name, and which operand that is."""

    operator: str
    operand: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """An operator at which a parameter, or what is made of it alone, meets the examples.

    Attributes:
        edge: Edge of the gradient of what comes out, which has examples along `dim`.
        source: What goes in, of this shape and type.
    """

    name: str
    leaf: Tensor
    edge: GradientEdge
    dim: int
    source: GradientEdge
    shape: torch.Size
    kind: torch.dtype
    factor: Factor

    def rows(self, gradient: Tensor) -> Tensor:
        """Return each example's gradient of the parameter, (B, *shape), in at least single precision."""
        own = summed(self.factor(wide(gradient)), self.dim, self.shape)
        if self.source.node is get_gradient_edge(self.leaf).node:
            return own
        (gradient_at,) = torch.autograd.grad(
            [self.source], [self.leaf], [own.to(self.kind)], retain_graph=True, is_grads_batched=True
        )
        return wide(gradient_at)


def summed(values: Tensor, dim: int, shape: torch.Size) -> Tensor:
    """Return (B, *shape), summed over the places to which this shape was repeated."""
    rows = values.movedim(dim, 0).unsqueeze(dim + 1)  # a place of length one is left where the examples were
    before = rows.dim() - 1 - len(shape)
    repeated = [place + 1 for place in range(before)]
    repeated += [before + 1 + place for place, length in enumerate(shape) if length == 1]
    return (rows.sum(repeated) if repeated else rows).reshape(len(rows), *shape)


@dataclass(slots=True)
class Leaves:
    """Fresh leaves in the places of such parameters, and the operators that take each of them.

    Attributes:
        learnt: By name, each operator with the dimension of the examples in what it makes, None if there are none yet.
    """

    operands: Sequence[Operand]
    learnt: dict[str, list[tuple[Taken, int | None]]] = field(default_factory=dict)

    @contextmanager
    def standing(self) -> Iterator[dict[str, Tensor]]:
        """Put leaves in the places of the parameters meanwhile; a parameter that several modules have is one leaf."""
        own = [cast("dict[str, Tensor]", operand.module._parameters) for operand in self.operands]
        originals = [parameters[operand.local] for operand, parameters in zip(self.operands, own, strict=True)]
        leaves = {
            operand.name: original.detach().requires_grad_() for operand, original in zip(self.operands, originals, strict=True)
        }
        try:
            for operand, parameters in zip(self.operands, own, strict=True):
                parameters[operand.local] = leaves[operand.name]
            yield leaves
        finally:
            for operand, parameters, original in zip(self.operands, own, originals, strict=True):
                parameters[operand.local] = original

    def learn(self, one: tuple[Tensor, dict[str, Tensor]], several: tuple[Tensor, dict[str, Tensor]], size: int) -> None:
        """Learn the operators from the losses of one example and of several: a dimension that follows their number counts them.

        Raises:
            Unsuitable: The two graphs differ in more than lengths.
        """
        graphs = [Graph(losses) for losses, _ in (one, several)]
        for name in several[1]:
            steps: list[tuple[Taken, int | None]] = []
            ways = [graph.upwards(leaves[name]) for graph, (_, leaves) in zip(graphs, (one, several), strict=True)]
            for a, b in zip_longest(*ways):
                if a is None or b is None or a.step != b.step:
                    raise Unsuitable(f"{name}: one example alone takes another way than several")
                dim = dimension(name, a, b, size)
                steps.append((b.step, dim))
                a.alone = b.alone = dim is None
            self.learnt[name] = steps

    def meetings(self, losses: Tensor, leaves: dict[str, Tensor], size: int) -> list[Meeting]:
        """Return every operator at which one of the parameters meets the examples.

        Raises:
            Unsuitable: The graph is another one than was learnt, or an operator has no rule.
        """
        graph, result = Graph(losses), []
        for name, leaf in leaves.items():
            for above, known in zip_longest(graph.upwards(leaf), self.learnt[name]):
                if above is None or known is None or above.step != known[0]:
                    raise Unsuitable(f"{name} is used in another way than when the model was probed")
                dim = known[1]
                above.alone = dim is None
                if dim is not None:
                    result.append(above.meeting(name, leaf, dim, size))
        return result


@dataclass(slots=True)
class Above:
    """An operator above a parameter, and by which of its edges.

    Attributes:
        alone: Whether what it makes has no examples in it yet, once that is known.
    """

    node: Node
    operand: int
    source: GradientEdge
    alone: bool = False

    @property
    def step(self) -> Taken:
        return Taken(self.node.name(), self.operand)

    @property
    def shapes(self) -> list[torch.Size]:
        """Return the shapes of the operator's outputs."""
        return [torch.Size(one.shape) for one in metadata(self.node)]

    def meeting(self, name: str, leaf: Tensor, dim: int, size: int) -> Meeting:
        """Return the meeting at this operator. Raises Unsuitable if it has no rule, or examples have another dimension."""
        factor, (shape, *others) = FACTORS.get(self.node.name()), self.shapes
        if factor is None or others or shape[dim] != size:
            raise Unsuitable(f"{name}: {self.node.name()} has no rule")
        into = metadata(self.source.node)[self.source.output_nr]
        return Meeting(
            name,
            leaf,
            GradientEdge(self.node, 0),
            dim,
            self.source,
            torch.Size(into.shape),
            into.dtype,
            factor(self.node, self.operand),
        )


def metadata(node: Any) -> Sequence[Any]:
    """Return the shapes and types of a node's outputs."""
    return cast("Sequence[Any]", node._input_metadata)


class Graph:
    """The nodes that take each node's output, from the losses downwards."""

    def __init__(self, losses: Tensor) -> None:
        self.takers: dict[Node, list[tuple[Node, int]]] = {}
        for node, place, following in edges(losses):
            self.takers.setdefault(following, []).append((node, place))

    def upwards(self, leaf: Tensor) -> Iterator[Above]:
        """Yield every operator that takes a leaf or the output of an operator marked as `alone`, in an order of the graph's form."""
        start = get_gradient_edge(leaf).node
        stack, seen = [start], {start}
        while stack:
            node = stack.pop()
            for taker, operand in self.takers.get(node, []):
                above = Above(taker, operand, GradientEdge(node, taker.next_functions[operand][1]))
                yield above
                if above.alone and taker not in seen:
                    seen.add(taker)
                    stack.append(taker)


def dimension(name: str, one: Above, several: Above, size: int) -> int | None:
    """Return the dimension in which the outputs for one example and for several differ, or None.

    Raises:
        Unsuitable: In more than one dimension, or examples share one with something else.
    """
    if one.shapes == several.shapes:
        return None
    pairs = list(zip(one.shapes, several.shapes, strict=True))
    if len(pairs) == 1 and len(pairs[0][0]) == len(pairs[0][1]):
        differing = [dim for dim, lengths in enumerate(zip(*pairs[0], strict=True)) if lengths[0] != lengths[1]]
        if len(differing) == 1 and (pairs[0][0][differing[0]], pairs[0][1][differing[0]]) == (1, size):
            return differing[0]
    raise Unsuitable(f"{name}: {several.step.operator} takes it, where examples have no dimension of their own")
