"""The clipped sum of per-example gradients: the one place where clipping factors are applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dpcli.train.engine.clip import Clip
from dpcli.train.engine.method import Part, full_precision, wide_type
from dpcli.train.engine.pieces import Piece

ROUNDING = 8.0  # machine epsilons by which norms are taken longer, so that their own rounding cannot carry a gradient past C
LARGE = 2.0**30  # a longer gradient is clipped in double precision: its factor, or its squares, may leave the number format


class Weighted(Protocol):
    """Gradients of which a clipped sum is taken."""

    def weighted(self, factors: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums that one batch, or one micro-batch of it, adds to a step.

    Attributes:
        gradients: By parameter name, the sum over examples of clipped gradients, in at least single precision; not yet private.
        norms: (B,) norms before clipping, in the batch's order; infinite for an example that is not finite, and where the number format
            ends. Private data.
        finite: (B,) False for an example whose gradient had a NaN or an infinity, or a norm beyond double precision: it adds zero.
    """

    gradients: dict[str, Tensor]
    norms: Tensor
    finite: Tensor

    @property
    def count(self) -> int:
        """Examples in the batch, those that added zero included. Private where batches are sampled."""
        return int(self.norms.shape[0])

    def __add__(self, other: Sums) -> Sums:
        """Add another micro-batch."""
        gradients = {name: total + other.gradients[name] for name, total in self.gradients.items()}
        return Sums(gradients, torch.cat([self.norms, other.norms]), torch.cat([self.finite, other.finite]))


def zero(parameters: Mapping[str, Tensor]) -> Sums:
    """Return the sum over no examples."""
    return completed({}, [], [], parameters)


def completed(gradients: dict[str, Tensor], norms: list[Tensor], finite: list[Tensor], parameters: Mapping[str, Tensor]) -> Sums:
    """Return the sums of all parts, with zeros for every parameter that nothing was added to."""
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
    """Return the norms of `clipped` (B,), without its sums."""
    pieces, count = part
    like = zeros(next(iter(parameters.values())).detach().reshape(-1)[:0])
    with full_precision(like.device):
        return length(measured(pieces, clip.groups(list(parameters)), like.new_zeros(count))[0], like.dtype)


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The gradients of examples whose squares leave the number format: a piece of numbers up to one, times powers of two (B,).

    Attributes:
        kind: The type of the sums.
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
    """Return norms (B, groups); whether the number format is wide enough for each example (B,); and the gradients of the others."""
    norms = group_norms(pieces, groups, none)
    usual = (norms < LARGE).all(1)  # false of a NaN
    if bool(usual.all()):
        return norms, usual, {}
    wide = {name: Rescaled.of(piece.select(~usual), none.dtype) for name, piece in pieces.items()}
    rescaled = rescaled_norms(wide, groups, norms[~usual].double(), none.dtype)
    return norms.double().index_put((~usual,), rescaled), usual, wide


def length(norms: Tensor, kind: torch.dtype) -> Tensor:
    """Return the norm over all groups, (B,): infinite if a gradient is not finite."""
    lengths: Tensor = torch.linalg.vector_norm(norms, dim=1).to(kind)
    return lengths.masked_fill(~norms.isfinite().all(1), torch.inf)


def group_norms(pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], none: Tensor) -> Tensor:
    """Return norms (B, groups), rounded up; `none` stands for a parameter that the losses do not depend on."""
    squares = {name: piece.squares().to(none.dtype) for name, piece in pieces.items()}
    columns = [sum((squares[name] for name in group if name in squares), start=none) for group in groups]
    return torch.stack(columns, 1).sqrt() * (1.0 + ROUNDING * torch.finfo(none.dtype).eps)


def rescaled_norms(pieces: Mapping[str, Rescaled], groups: Sequence[Sequence[str]], like: Tensor, kind: torch.dtype) -> Tensor:
    """Return norms (B, groups) in double precision, by lengths that are divided by the longest before they are squared."""
    columns = []
    for group in groups:
        each = torch.stack([like.new_zeros(len(like)), *(pieces[name].norms() for name in group if name in pieces)])
        longest = each.amax(0)
        columns.append(torch.linalg.vector_norm(each / longest.where(longest > 0.0, 1.0), dim=0) * longest)
    return torch.stack(columns, 1) * (1.0 + ROUNDING * torch.finfo(kind).eps)


def add(totals: dict[str, Tensor], pieces: Mapping[str, Weighted], groups: Sequence[Sequence[str]], factors: Tensor) -> None:
    """Add every parameter's clipped sum to the totals, each with the factors of its group."""
    for column, group in zip(factors.unbind(1), groups, strict=True):
        for name in group:
            if name in pieces:
                more = pieces[name].weighted(column)
                totals[name] = totals[name].add_(more) if name in totals else more
