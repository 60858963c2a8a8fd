"""An average of the weights along the run, which is less noisy than the last ones: post-processing, and free.

Source: exponential moving average of De et al. 2022, arXiv:2204.13650, section 3.4, with the usual warm-up of the decay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(slots=True)
class Average:
    """Moves towards the weights by 1 - decay in each step; faster in the first ones."""

    model: nn.Module
    decay: float
    values: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Called after each step, the first of which is 1."""
        kept = min(self.decay, step / (step + 9.0))
        for name, parameter in self._trained():
            if name not in self.values:
                self.values[name] = parameter.detach().clone()
            self.values[name].lerp_(parameter, 1.0 - kept)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The model with its average weights meanwhile."""
        before = {name: parameter.detach().clone() for name, parameter in self._trained()}
        try:
            self._put(self.values)
            yield
        finally:
            self._put(before)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self._trained():
            if name in values:
                parameter.copy_(values[name])

    def _trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, parameter) for name, parameter in self.model.named_parameters() if parameter.requires_grad)
