"""From per-example gradients to the clipped sum: the one place where factors are applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpcli.train.engine.clip import Clip
from dpcli.train.engine.method import Part
from dpcli.train.engine.pieces import Piece
from dpcli.train.engine.precision import full_precision
from dpcli.train.engine.rule import wide_type

ROUNDING = 8.0  # machine epsilons by which norms are taken longer, so that their own rounding cannot carry a gradient past C


@dataclass(frozen=True, slots=True)
class Sums:
    """What one batch, or one micro-batch of it, adds to a step.

    Attributes:
        gradients: by parameter name, the sum over examples of clipped gradients, in at least single precision; not yet private.
        norms: (B,) norms before clipping, in the batch's order; infinite for an example that is not finite. Private data.
        finite: (B,) False for an example whose gradient had a NaN or an infinity, or a norm beyond the number format: it adds zero.
    """

    gradients: dict[str, Tensor]
    norms: Tensor
    finite: Tensor

    @property
    def count(self) -> int:
        """Examples in the batch, those that added zero included. Private where batches are sampled."""
        return int(self.norms.shape[0])

    def __add__(self, other: Sums) -> Sums:
        """Micro-batches add up."""
        gradients = {name: total + other.gradients[name] for name, total in self.gradients.items()}
        return Sums(gradients, torch.cat([self.norms, other.norms]), torch.cat([self.finite, other.finite]))


def zero(parameters: Mapping[str, Tensor]) -> Sums:
    """The sum over no examples."""
    return completed({}, [], [], parameters)


def completed(gradients: dict[str, Tensor], norms: list[Tensor], finite: list[Tensor], parameters: Mapping[str, Tensor]) -> Sums:
    """Zeros for every parameter that nothing was added to, and the examples of all parts in one row."""
    full = {name: gradients[name] if name in gradients else zeros(parameter) for name, parameter in parameters.items()}
    like = next(iter(full.values()))
    return Sums(full, torch.cat([like.new_zeros(0), *norms]), torch.cat([like.new_zeros(0, dtype=torch.bool), *finite]))


def zeros(parameter: Tensor) -> Tensor:
    """In at least single precision."""
    return torch.zeros_like(parameter, dtype=wide_type(parameter))


def clipped(parts: Iterable[Part], clip: Clip, parameters: Mapping[str, Tensor]) -> Sums:
    """The sum over all parts of a batch."""
    groups = clip.groups(list(parameters))
    like = zeros(next(iter(parameters.values())).detach().reshape(-1)[:0])
    gradients: dict[str, Tensor] = {}
    lengths, finites = [], []
    for pieces, count in parts:
        with full_precision(like.device):
            norms = group_norms(pieces, groups, like.new_zeros(count))
            finite = norms.isfinite().all(1)
            every = bool(finite.all())
            kept = pieces if every else {name: piece.kept(finite) for name, piece in pieces.items()}
            add(gradients, kept, groups, clip.factors(norms if every else norms[finite]))
        lengths.append(torch.linalg.vector_norm(norms, dim=1).masked_fill(~finite, torch.inf))
        finites.append(finite)
    return completed(gradients, lengths, finites, parameters)


def group_norms(pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], none: Tensor) -> Tensor:
    """Norms (B, groups), rounded up; `none` stands for a parameter that the losses do not depend on."""
    squares = {name: piece.squares().to(none.dtype) for name, piece in pieces.items()}
    columns = [sum((squares[name] for name in group if name in squares), start=none) for group in groups]
    return torch.stack(columns, 1).sqrt() * (1.0 + ROUNDING * torch.finfo(none.dtype).eps)


def add(totals: dict[str, Tensor], pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], factors: Tensor) -> None:
    """Adds every parameter's clipped sum, each with the factors of its group."""
    for column, group in enumerate(groups):
        for name in group:
            if name in pieces:
                more = pieces[name].weighted(factors[:, column])
                totals[name] = totals[name].add_(more) if name in totals else more
