"""DP-SGD on one page: sample, clip each example, sum, add noise once, divide by a public number, step.

Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1. What a step releases is the noisy sum; everything after it is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from dpcli.train.adaptive import Quantile
from dpcli.train.engine.per_example import Batch, ClippedGradients, Sums
from dpcli.train.noise import Noise

Indices = Iterator["np.ndarray[tuple[int], np.dtype[np.int64]]"]


@dataclass(slots=True)
class Trainer:
    """One run over arrays.

    batches: record indices, step after step, drawn as the accountant assumes; an empty batch is a step all the same.
    expected_batch: what the noisy sum is divided by: rate times the declared size, never the number of records drawn.
    physical: examples in memory at once; the sum does not depend on it.
    """

    model: nn.Module
    gradients: ClippedGradients
    optimizer: torch.optim.Optimizer
    noise: Noise
    batches: Indices
    inputs: Tensor
    labels: Tensor
    expected_batch: float
    physical: int = 256
    step: int = 0
    quantile: Quantile | None = None  # of adaptive clipping, whose C moves after each step; the noise is then over C = 1
    shapes: dict[str, torch.Size] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = {name: p.shape for name, p in self.model.named_parameters() if p.requires_grad}

    def advance(self, until: int, after: Callable[[int], None]) -> None:
        """Take steps up to number `until`; `after` is called with each number done."""
        while self.step < until:
            self.take(torch.from_numpy(np.ascontiguousarray(next(self.batches))))
            self.step += 1
            after(self.step)

    def take(self, batch: Tensor) -> None:
        """One step on the records in `batch`, which may be empty."""
        bound = 1.0 if self.quantile is None else self.quantile.clip.bound  # of this step's sum: it moves below
        sums = self._sums(batch[: self.physical])
        for start in range(self.physical, len(batch), self.physical):
            sums = sums + self._sums(batch[start : start + self.physical])
        noise = self.noise.next(self.shapes)  # once per step, whatever the batch held
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                noised = sums.gradients[name].add_(noise[name], alpha=bound)
                parameter.grad = noised.div_(self.expected_batch).to(parameter)
        self.optimizer.step()
        if self.quantile is not None:
            self.quantile.follow(sums.norms)

    def _sums(self, part: Tensor) -> Sums:
        return self.gradients((self.inputs[part], self.labels[part]))


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Each example's loss, shape (B,)."""
    inputs, labels = batch
    assert isinstance(inputs, Tensor) and isinstance(labels, Tensor)
    return nn.functional.cross_entropy(model(inputs), labels, reduction="none")


@torch.no_grad()
def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """The share of labels that the model gets right; on data that the file declares public."""
    model.eval()
    right = float((model(inputs).argmax(1) == labels).float().mean())
    model.train()
    return right
