"""The clipped sum of per-example gradients. Clipping factors are applied in this module only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpcli.train.engine.clip import Clip
from dpcli.train.engine.method import Part, full_precision, wide_type
from dpcli.train.engine.pieces import Piece

# Norms are increased by this number of machine epsilons. Otherwise their rounding error could leave a clipped gradient longer than C.
ROUNDING = 8.0
# Gradients with a larger norm are clipped in double precision, because their factors or squares may leave the range of single precision.
LARGE = 2.0**30


class Weighted(Protocol):
    """Per-example gradients that can be summed with a factor for each example."""

    def weighted(self, factors: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over one batch, or over one micro-batch of it, before noise.

    Attributes:
        gradients: Sum over the examples of their clipped gradients, by parameter name, in at least single precision. It has no noise yet,
            so it is private data.
        norms: Norms before clipping, (B,), in the batch's order. A norm is infinite if the gradient is not finite, or if the number format
            cannot hold it. They are private data.
        finite: Whether each example was summed, (B,). It is False for a gradient that has a NaN, an infinity, or a norm beyond double
            precision; such an example adds zero.
    """

    gradients: dict[str, Tensor]
    norms: Tensor
    finite: Tensor

    @property
    def count(self) -> int:
        """Return the number of examples, including those that added zero. It is private where batches are sampled."""
        return int(self.norms.shape[0])

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over both micro-batches."""
        gradients = {name: total + other.gradients[name] for name, total in self.gradients.items()}
        return Sums(gradients, torch.cat([self.norms, other.norms]), torch.cat([self.finite, other.finite]))


def zero(parameters: Mapping[str, Tensor]) -> Sums:
    """Return the sums over an empty batch."""
    return completed({}, [], [], parameters)


def completed(gradients: dict[str, Tensor], norms: list[Tensor], finite: list[Tensor], parameters: Mapping[str, Tensor]) -> Sums:
    """Return the sums over all parts of a batch, with zeros for each parameter that has no gradient in them."""
    full = {name: gradients[name] if name in gradients else zeros(parameter) for name, parameter in parameters.items()}
    like = next(iter(full.values()))
    return Sums(full, torch.cat([like.new_zeros(0), *norms]), torch.cat([like.new_zeros(0, dtype=torch.bool), *finite]))


def zeros(parameter: Tensor) -> Tensor:
    """Return zeros of the parameter's shape, in at least single precision."""
    return torch.zeros_like(parameter, dtype=wide_type(parameter))


def clipped(parts: Iterable[Part], clip: Clip, parameters: Mapping[str, Tensor]) -> Sums:
    """Return the clipped sum over all parts of a batch."""
    groups = clip.groups(list(parameters))
    like = zeros(next(iter(parameters.values())).detach().reshape(-1)[:0])
    gradients: dict[str, Tensor] = {}
    lengths, finites = [], []
    for pieces, count in parts:
        with full_precision(like.device):
            norms, usual, wide = measured(pieces, groups, like.new_zeros(count))
            if not wide:
                add(gradients, pieces, groups, clip.factors(norms))
            else:
                factors = clip.factors(norms[usual].to(like.dtype))
                add(gradients, {name: piece.select(usual) for name, piece in pieces.items()}, groups, factors)
                finite = norms[~usual].isfinite().all(1)
                factors = clip.factors(norms[~usual][finite])
                add(gradients, {name: piece.select(finite) for name, piece in wide.items()}, groups, factors)
        lengths.append(length(norms, like.dtype))
        finites.append(norms.isfinite().all(1))
    return completed(gradients, lengths, finites, parameters)


def lengths_of(part: Part, clip: Clip, parameters: Mapping[str, Tensor]) -> Tensor:
    """Return the norms before clipping, (B,), as `clipped` does, but without computing sums."""
    pieces, count = part
    like = zeros(next(iter(parameters.values())).detach().reshape(-1)[:0])
    with full_precision(like.device):
        return length(measured(pieces, clip.groups(list(parameters)), like.new_zeros(count))[0], like.dtype)


@dataclass(frozen=True, slots=True)
class Rescaled:
    """Gradients of examples whose squares leave the range of the number format.

    Attributes:
        piece: The gradients, divided by powers of two.
        power: These powers of two, (B,).
        kind: Number format of the sums.
    """

    piece: Piece
    power: Tensor
    kind: torch.dtype

    @classmethod
    def of(cls, piece: Piece, kind: torch.dtype) -> Rescaled:
        return cls(*piece.rescaled(), kind)

    def norms(self) -> Tensor:
        return self.piece.squares().sqrt() * self.power

    def select(self, rows: Tensor) -> Rescaled:
        return Rescaled(self.piece.select(rows), self.power[rows], self.kind)

    def weighted(self, factors: Tensor) -> Tensor:
        return self.piece.weighted(factors * self.power).to(self.kind)


def measured(
    pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], none: Tensor
) -> tuple[Tensor, Tensor, dict[str, Rescaled]]:
    """Measure the gradients, in double precision where the number format of the sums is too narrow.

    Args:
        none: Zeros (B,), the norms of a parameter that the losses do not depend on.

    Returns:
        Norms (B, groups); whether the number format suffices for each example (B,); and the rescaled gradients of the other examples.
    """
    norms = group_norms(pieces, groups, none)
    usual = (norms < LARGE).all(1)  # False for a NaN
    if bool(usual.all()):
        return norms, usual, {}
    wide = {name: Rescaled.of(piece.select(~usual), none.dtype) for name, piece in pieces.items()}
    rescaled = rescaled_norms(wide, groups, norms[~usual].double(), none.dtype)
    return norms.double().index_put((~usual,), rescaled), usual, wide


def length(norms: Tensor, kind: torch.dtype) -> Tensor:
    """Return the norm over all groups, (B,). It is infinite if the gradient is not finite."""
    lengths: Tensor = torch.linalg.vector_norm(norms, dim=1).to(kind)
    return lengths.masked_fill(~norms.isfinite().all(1), torch.inf)


def group_norms(pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], none: Tensor) -> Tensor:
    """Return norms (B, groups), rounded up. A parameter that the losses do not depend on counts as `none`, which is zeros (B,)."""
    squares = {name: piece.squares().to(none.dtype) for name, piece in pieces.items()}
    columns = [sum((squares[name] for name in group if name in squares), start=none) for group in groups]
    return torch.stack(columns, 1).sqrt() * (1.0 + ROUNDING * torch.finfo(none.dtype).eps)


def rescaled_norms(pieces: Mapping[str, Rescaled], groups: Sequence[Sequence[str]], like: Tensor, kind: torch.dtype) -> Tensor:
    """Return norms (B, groups) in double precision, rounded up.

    The norms of a group's parameters are divided by the largest of them before they are squared, so that no square overflows.
    """
    columns = []
    for group in groups:
        each = torch.stack([like.new_zeros(len(like)), *(pieces[name].norms() for name in group if name in pieces)])
        longest = each.amax(0)
        columns.append(torch.linalg.vector_norm(each / longest.where(longest > 0.0, 1.0), dim=0) * longest)
    return torch.stack(columns, 1) * (1.0 + ROUNDING * torch.finfo(kind).eps)


def add(totals: dict[str, Tensor], pieces: Mapping[str, Weighted], groups: Sequence[Sequence[str]], factors: Tensor) -> None:
    """Add the clipped sum of each parameter to its total. The clipping factors (B, groups) are those of the parameter's group."""
    for column, group in zip(factors.unbind(1), groups, strict=True):
        for name in group:
            if name in pieces:
                more = pieces[name].weighted(column)
                totals[name] = totals[name].add_(more) if name in totals else more
