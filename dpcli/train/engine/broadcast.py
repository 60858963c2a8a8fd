"""Where the output of a layer that ran once for all examples is repeated for each: there its gradient has a row per example.

Soft prompts run like that: one lookup at batch 1, then a repeat. Behind the repeat the rows are already added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor
from torch.autograd.graph import GradientEdge

from dpcli.train.engine.capture import Use
from dpcli.train.engine.graph import edges
from dpcli.train.engine.rule import Unsuitable

REPEATING = ("RepeatBackward0", "ExpandBackward0")


def repeats(losses: Tensor, once: Sequence[Use]) -> list[Use]:
    """One use per repetition of each output.

    Raises:
        Unsuitable: an output goes anywhere else, where the gradients of several examples meet.
    """
    found = []
    sources = {use.edge.node: use for use in once}
    for node, _, source in edges(losses):
        if source not in sources:
            continue
        if node.name() not in REPEATING:
            raise Unsuitable(
                f"{sources[source].layer.name} runs once for all examples, and {node.name()} is no repetition of its output"
            )
        found.append(replace(sources[source], edge=GradientEdge(node, 0)))
    return found
