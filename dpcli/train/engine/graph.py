"""The graph that gradients go through: its edges, from the losses downwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node


def edges(losses: Tensor) -> Iterator[tuple[Node, int, Node]]:
    """Every (node, place, following): what a node's operand of that place was made by. The order depends on the graph's form alone."""
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
    """`torch.autograd.grad` of what may be unused, by torch's engine itself: that function takes modes away meanwhile, so that what user
    code does in the backward pass goes unseen."""
    engine: Any = torch.autograd.Variable._execution_engine
    found: tuple[Tensor | None, ...] = engine.run_backward(
        (losses,), (given,), False, False, tuple(wanted), True, accumulate_grad=False
    )
    return found


def accumulated(loss: Tensor) -> None:
    """`torch.autograd.backward`, of which the same is true."""
    engine: Any = torch.autograd.Variable._execution_engine
    engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), True, accumulate_grad=True)


def below(top: Node | None, stop: Node | None) -> set[Node]:
    """A node and all that it was made by, but not `stop` and what that was made by."""
    found: set[Node] = set()
    stack = [top]
    while stack:
        node = stack.pop()
        if node is not None and node is not stop and node not in found:
            found.add(node)
            stack.extend(following for following, _ in node.next_functions)
    return found
