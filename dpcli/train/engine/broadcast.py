"""Where the output of a layer that ran once for all examples is repeated for each: there its gradient has a row per example.

Soft prompts run like that: one lookup at batch 1, then a repeat. Behind the repeat the rows are already added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from dpcli.train.engine.capture import Use
from dpcli.train.engine.layers import Unsuitable

REPEATING = ("RepeatBackward0", "ExpandBackward0")


def repeats(losses: Tensor, once: Sequence[Use]) -> list[Use]:
    """One use per repetition of each output.

    Raises:
        Unsuitable: an output goes anywhere else, where the gradients of several examples meet.
    """
    found = []
    sources = {use.edge.node: use for use in once}
    for node, source in consumers(losses, set(sources)):
        if node.name() not in REPEATING:
            raise Unsuitable(
                f"{sources[source].layer.name} runs once for all examples, and {node.name()} is no repetition of its output"
            )
        found.append(replace(sources[source], edge=GradientEdge(node, 0)))
    return found


def consumers(losses: Tensor, sources: set[Node]) -> Iterator[tuple[Node, Node]]:
    """Every (node, source) where the node of the losses' graph takes the source's output."""
    stack, seen = [losses.grad_fn], {losses.grad_fn}
    while stack:
        node = stack.pop()
        for following, _ in node.next_functions if node is not None else ():
            if node is not None and following in sources:
                yield node, following
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)
