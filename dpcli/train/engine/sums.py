"""The sum of clipped per-example gradients, before noise. No other module applies clipping factors.

A method (method.py) yields the gradients of a part of the batch as pieces, one for each parameter (pieces.py). Here they are measured
(`measure`), scaled by the factors of the clipping style (clip.py), and added (`add_clipped`). The style divides the parameters into groups,
and each group has a factor of its own. The result must hold for any gradient: norms are rounded up, so that no example adds more than C; an
example whose gradient is not finite adds zero; and gradients whose squares would overflow are first divided by a power of two (`Rescaled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpcli.train.engine.clip import Clip
from dpcli.train.engine.method import BatchPart, full_precision, wide_type
from dpcli.train.engine.pieces import Piece

# Norms are increased by this number of machine epsilons. Otherwise their rounding errors could leave a clipped gradient longer than C
# (soundness). The number is a choice: a larger one clips slightly more.
ROUNDING = 8.0
# Gradients with a larger norm are clipped in double precision, because their factors or squares may leave the range of single precision.
# The squares do so from 2^64 on; the factors C / norm do so from about 1e30 on for the smallest C, 1e-8 (clip.py). Below both, it is a
# choice.
LARGE = 2.0**30


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over one batch, or over one micro-batch of it, before noise is added. All attributes are private data.

    Attributes:
        gradients: Sum over the examples of their clipped gradients, by parameter name, in at least single precision.
        norms: Norms before clipping, (B,), in the batch's order. A norm is infinite if the gradient is not finite, or if the number format
            cannot hold the norm.
        finite: Whether each example was summed, (B,). It is False for a gradient that has a NaN, an infinity, or a norm beyond double
            precision. Such an example adds zero.
    """

    gradients: dict[str, Tensor]
    norms: Tensor
    finite: Tensor

    @property
    def count(self) -> int:
        """Return the number of examples, including examples that added zero. The number is private if batches are sampled."""
        return int(self.norms.shape[0])

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over both micro-batches."""
        gradients = {name: total + other.gradients[name] for name, total in self.gradients.items()}
        return Sums(gradients, torch.cat([self.norms, other.norms]), torch.cat([self.finite, other.finite]))


def zero(parameters: Mapping[str, Tensor]) -> Sums:
    """Return the sums over an empty batch."""
    return complete_sums({}, [], [], parameters)


def complete_sums(
    gradients: dict[str, Tensor], norms: list[Tensor], finite: list[Tensor], parameters: Mapping[str, Tensor]
) -> Sums:
    """Return the sums over all parts of a batch, with zeros for each parameter that has no gradient."""
    complete: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        has_gradient = name in gradients
        complete[name] = gradients[name] if has_gradient else torch.zeros_like(parameter, dtype=wide_type(parameter))
    if len(norms) == 1:
        return Sums(complete, norms[0], finite[0])
    like = next(iter(complete.values()))
    return Sums(complete, torch.cat([like.new_zeros(0), *norms]), torch.cat([like.new_zeros(0, dtype=torch.bool), *finite]))


def clipped_sums(parts: Iterable[BatchPart], clip: Clip, parameters: Mapping[str, Tensor]) -> Sums:
    """Return the sums of clipped gradients over all parts of a batch."""
    groups = clip.groups(list(parameters))
    empty = no_norms(parameters)
    totals: dict[str, Tensor] = {}
    norms, are_finite = [], []
    for gradients, size in parts:
        with full_precision(empty.device):  # without autocast and TF32, whose norms are not precise enough
            measured = measure(gradients, groups, empty.new_zeros(size))
            add_clipped(totals, gradients, measured, clip, groups)
            norms.append(norms_over_groups(measured, empty.dtype))
        are_finite.append(measured.finite())
    return complete_sums(totals, norms, are_finite, parameters)


def unclipped_norms(part: BatchPart, clip: Clip, parameters: Mapping[str, Tensor]) -> Tensor:
    """Return the norms before clipping, (B,), that `clipped_sums` returns, without computing sums."""
    empty = no_norms(parameters)
    with full_precision(empty.device):
        measured = measure(part.gradients, clip.groups(list(parameters)), empty.new_zeros(part.size))
        return norms_over_groups(measured, empty.dtype)


def no_norms(parameters: Mapping[str, Tensor]) -> Tensor:
    """Return an empty tensor (0,) with the device of the parameters, and the number format of their sums."""
    first = next(iter(parameters.values()))
    return first.new_zeros(0, dtype=wide_type(first))


@dataclass(frozen=True, slots=True)
class Rescaled:
    """Gradients whose squares leave the range of the number format.

    Attributes:
        piece: The gradients, each divided by a power of two.
        power: The powers of two, (B,).
        dtype: Type of the numbers in the sums.
    """

    piece: Piece
    power: Tensor
    dtype: torch.dtype

    @classmethod
    def of(cls, piece: Piece, dtype: torch.dtype) -> Rescaled:
        """Return gradients, rescaled so that their norms can be computed in double precision."""
        return cls(*piece.rescaled(), dtype)

    def norms(self) -> Tensor:
        """Return the norms of the gradients before they were rescaled, (B,), in double precision."""
        return self.piece.squares().sqrt() * self.power

    def select(self, rows: Tensor) -> Rescaled:
        """Return the selected examples only."""
        return Rescaled(self.piece.select(rows), self.power[rows], self.dtype)

    def weighted_sum(self, factors: Tensor) -> Tensor:
        """Return the sum over the examples of factor times gradient, in the parameter's shape."""
        return self.piece.weighted_sum(factors * self.power).to(self.dtype)


@dataclass(frozen=True, slots=True)
class GradientNorms:
    """Norms of per-example gradients, with the gradients that were rescaled to measure them.

    Attributes:
        norms: Norms (B, groups), rounded up.
        in_range: Whether the type of the sums can hold the squares of the example's gradient, (B,).
        rescaled: Gradients of the other examples, by parameter name; empty if there are none.
        dtype: Type of the numbers in the sums. The norms are in double precision if there are rescaled gradients.
    """

    norms: Tensor
    in_range: Tensor
    rescaled: dict[str, Rescaled]
    dtype: torch.dtype

    def finite(self) -> Tensor:
        """Return whether each example has a finite gradient, (B,). Every norm that is in range is finite."""
        return self.norms.isfinite().all(1) if self.rescaled else self.in_range


def measure(pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], zero_norms: Tensor) -> GradientNorms:
    """Measure the norms of the gradients. Gradients of norm at least `LARGE` are rescaled and measured in double precision.

    Args:
        groups: Names of the parameters that are clipped together.
        zero_norms: Zeros (B,), the norms of a parameter that the losses do not depend on.
    """
    norms = group_norms(pieces, groups, zero_norms)
    in_range = (norms < LARGE).all(1) if norms.shape[1] > 1 else norms[:, 0] < LARGE  # False for a NaN
    if bool(in_range.all()):
        return GradientNorms(norms, in_range, {}, norms.dtype)
    rescaled = {name: Rescaled.of(piece.select(~in_range), zero_norms.dtype) for name, piece in pieces.items()}
    large_norms = rescaled_norms(rescaled, groups, norms[~in_range].double(), zero_norms.dtype)
    return GradientNorms(norms.double().index_put((~in_range,), large_norms), in_range, rescaled, norms.dtype)


def norms_over_groups(measured: GradientNorms, dtype: torch.dtype) -> Tensor:
    """Return the norm over all groups, (B,), in a number format. It is infinite if the gradient is not finite."""
    norms = measured.norms
    lengths: Tensor = (norms[:, 0] if norms.shape[1] == 1 else torch.linalg.vector_norm(norms, dim=1)).to(dtype)
    return torch.where(measured.finite(), lengths, torch.inf) if measured.rescaled else lengths


def group_norms(pieces: Mapping[str, Piece], groups: Sequence[Sequence[str]], zero_norms: Tensor) -> Tensor:
    """Return norms (B, groups), rounded up. A parameter that the losses do not depend on has the norms `zero_norms`, zeros (B,)."""
    squares = {name: piece.squares().to(zero_norms.dtype) for name, piece in pieces.items()}
    columns = []
    for group in groups:
        group_squares = [squares[name] for name in group if name in squares]
        columns.append(torch.stack(group_squares).sum(0) if group_squares else zero_norms)
    norms = torch.stack(columns, 1) if len(columns) > 1 else columns[0][:, None]
    return norms.sqrt() * (1.0 + ROUNDING * torch.finfo(zero_norms.dtype).eps)


def rescaled_norms(pieces: Mapping[str, Rescaled], groups: Sequence[Sequence[str]], like: Tensor, dtype: torch.dtype) -> Tensor:
    """Return norms (B, groups) in double precision, rounded up.

    The norms of a group's parameters are divided by the largest of them before they are squared, so that no square overflows.

    Args:
        like: Tensor with B rows in double precision, on the device of the result.
        dtype: Type of the sums, whose machine epsilon determines how far norms are rounded up.
    """
    columns = []
    for group in groups:
        norms = torch.stack([like.new_zeros(len(like)), *(pieces[name].norms() for name in group if name in pieces)])
        largest = norms.amax(0)
        divisors = largest.where(largest > 0.0, 1.0)
        columns.append(torch.linalg.vector_norm(norms / divisors, dim=0) * largest)
    return torch.stack(columns, 1) * (1.0 + ROUNDING * torch.finfo(dtype).eps)


def add_clipped(
    totals: dict[str, Tensor], pieces: Mapping[str, Piece], measured: GradientNorms, clip: Clip, groups: Sequence[Sequence[str]]
) -> None:
    """Add the clipped gradients of all examples to the totals. An example whose gradient is not finite adds nothing.

    Examples whose norms are out of range are added from their rescaled gradients.
    """
    norms, in_range = measured.norms, measured.in_range
    if not measured.rescaled:
        add_weighted(totals, pieces, groups, clip.factors(norms))
        return
    factors = clip.factors(norms[in_range].to(measured.dtype))
    add_weighted(totals, {name: piece.select(in_range) for name, piece in pieces.items()}, groups, factors)
    finite = norms[~in_range].isfinite().all(1)
    factors = clip.factors(norms[~in_range][finite])
    add_weighted(totals, {name: piece.select(finite) for name, piece in measured.rescaled.items()}, groups, factors)


def add_weighted(
    totals: dict[str, Tensor],
    pieces: Mapping[str, Piece] | Mapping[str, Rescaled],
    groups: Sequence[Sequence[str]],
    factors: Tensor,
) -> None:
    """Add the weighted sum of each parameter's gradients to its total.

    Args:
        factors: Clipping factors (B, groups). A parameter has the factors of its group.
    """
    for column, group in zip(factors.unbind(1), groups, strict=True):
        for name in group:
            if name in pieces:
                more = pieces[name].weighted_sum(column)
                totals[name] = totals[name].add_(more) if name in totals else more
