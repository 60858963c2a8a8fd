"""The simplest correct computation of clipped sums, with one backward pass for each example. It shares no code with the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpcli.train.engine.clip import Clip

if TYPE_CHECKING:
    from dpcli.train.engine.per_example import ClippedGradients

Gradients = dict[str, Tensor]


def gradients(model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], batch: Any, size: int) -> list[Gradients]:
    """Return the gradient of each example."""
    found = []
    for row in range(size):
        model.zero_grad()
        value = loss(model, tree_map(lambda leaf: leaf[row : row + 1], batch)).sum()  # noqa: B023
        value.backward()
        found.append(
            {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}
        )
    model.zero_grad()
    return found


def clipped_sum(per_example: list[Gradients], clip: Clip) -> Gradients:
    """Return the sum of the clipped gradients, without examples whose gradients are not finite."""
    total = {name: torch.zeros_like(value) for name, value in per_example[0].items()}
    for one in per_example:
        norms = [torch.stack([one[name].norm() for name in group]).norm() for group in clip.groups(list(total))]
        if all(bool(norm.isfinite()) for norm in norms):
            factors = clip.factors(torch.stack(norms)[None])[0]
            for group, factor in zip(clip.groups(list(total)), factors, strict=True):
                for name in group:
                    total[name] += factor * one[name]
    return total


def distance(a: Gradients, b: Gradients) -> float:
    """Return the Euclidean distance over all parameters."""
    return float(sum(float((a[name].double() - b[name].double()).square().sum()) for name in a) ** 0.5)


def length(a: Gradients) -> float:
    return distance(a, {name: torch.zeros_like(value) for name, value in a.items()})


def without(batch: Any, row: int, size: int) -> Any:
    rows = [other for other in range(size) if other != row]
    return tree_map(lambda leaf: leaf[rows], batch)


def influence(engine: ClippedGradients, batch: Any, size: int) -> float:
    """Return the maximum over examples x of |sum(B) - sum(B without x)| / C, after the engine has chosen its method."""
    whole = engine(batch)
    assert all(bool(value.isfinite().all()) for value in whole.gradients.values())
    return max(distance(whole.gradients, engine(without(batch, row, size)).gradients) / engine.clip.bound for row in range(size))
