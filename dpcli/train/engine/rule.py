"""What a layer rule is: per-example gradients of a layer's own parameters from its input and its output's gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from dpcli.train.engine.pieces import Piece


class Unsuitable(Exception):
    """A method of computing clipped sums does not apply to this model; the message says why, and another method is taken."""


Pieces = Mapping[str, Callable[[], Piece]]


class Formula(Protocol):
    """One family of layers: per parameter a way to its piece, computed only where the parameter is trainable."""

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        """Inputs (B, ...) and the gradient of the summed losses at the output (B, ...), whose rows are the examples."""


@dataclass(frozen=True, slots=True)
class LayerRule:
    """A formula, and what is true of its layers.

    anywhere: they do the same at every place of all dimensions but the last ones, so that examples may be along any of these.
    forward: how a layer runs while it is recorded, where that is not its own forward.
    """

    formula: Formula
    anywhere: bool = False
    forward: Callable[..., Tensor] | None = None

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        return self.formula(module, inputs, gradient)


def wide(values: Tensor) -> Tensor:
    """At least single precision: norms and sums in half precision would lose the bound."""
    return values.to(wide_type(values))


def wide_type(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def positions(values: Tensor) -> Tensor:
    """(B, ..., features) -> (B, T, features)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])
