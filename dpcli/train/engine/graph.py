"""The graph that gradients go through: its edges, from the losses downwards."""

from __future__ import annotations

from collections.abc import Iterator

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
