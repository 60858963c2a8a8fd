"""Per-example gradients of one parameter, in the representation that computes norms and weighted sums at the lowest cost.

A `Piece` holds the gradients of B examples. sums.py asks it for their squared norms and, when the clipping factors are known, for their
weighted sum. Neither needs the B gradients in full: a linear layer with T positions stores the factors (B, T, p) and (B, T, d) of its outer
products (`Outer`). The *ghost norm* is the norm of their sum, computed from the factors. A norm must not be too small, or an example would
exceed C, the clipping norm. Norms are therefore upper bounds up to the rounding for which sums.py allows.

Shapes are written with B for the number of examples, T for the number of uses of the parameter within one example (its positions), and p x
d for the parameter as a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

# About (1e-11)^2. The smallest clipping norm is 1e-8, so a gradient whose squared norm is below this changes no clipping factor.
NEGLIGIBLE_SQUARE = 2.0**-73
# Largest exponent of the powers of two by which gradients are divided: 2^1000 and 2^-1000 are normal doubles, so that division is exact.
LARGEST_EXPONENT = 1000


def flatten_entries(values: Tensor) -> Tensor:
    """Return the gradients as (B, n), where n is the number of entries of the parameter, 1 for a scalar."""
    return values.flatten(1) if values.dim() > 1 else values[:, None]


def squared_norms(values: Tensor) -> Tensor:
    """Return the squared norms (B,), taken over all dimensions but the first."""
    norms: Tensor = torch.linalg.vector_norm(flatten_entries(values), dim=1)
    return norms.square()


def rescale(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the examples rescaled to magnitudes of at most one, in double precision, and the divisors (B,).

    Every divisor is a power of two, so the division is exact. An example with a number that is not finite is divided by one.
    """
    values = values.double()
    largest = flatten_entries(values).abs().amax(1) if values[:1].numel() else values.new_ones(len(values))
    divisible = largest.isfinite() & (largest > 0.0)
    power = torch.exp2(torch.frexp(largest).exponent.double()).where(divisible, 1.0)
    power = power.clamp(2.0**-LARGEST_EXPONENT, 2.0**LARGEST_EXPONENT)
    return values / power.view(-1, *[1] * (values.dim() - 1)), power


def balance(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return factors (B, T, .) with the same outer products, rescaled so that both have about the same magnitude at each position.

    If one factor of a position is zero, both become zero. Each side is later divided by its largest entry. That entry must not belong to a
    product that is zero, because the other entries could then underflow.
    """
    left_largest, right_largest = left.abs().amax(2, keepdim=True), right.abs().amax(2, keepdim=True)
    difference = torch.frexp(right_largest).exponent - torch.frexp(left_largest).exponent
    shift = difference.div(2, rounding_mode="floor").clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)
    product_is_zero = ((left_largest == 0.0) | (right_largest == 0.0)) & left_largest.isfinite() & right_largest.isfinite()
    balanced_left, balanced_right = torch.ldexp(left, shift), torch.ldexp(right, -shift)
    return balanced_left.masked_fill(product_is_zero, 0.0), balanced_right.masked_fill(product_is_zero, 0.0)


def mark_imprecise(squares: Tensor, lefts: Tensor, rights: Tensor) -> Tensor:
    """Return the squared norms (B,), with NaN where underflow may have made them too small.

    A tiny square has lost digits, and its product with a large square of the other side is not negligible.

    Args:
        squares: Squared norms (B,) of sums of products.
        lefts: Squared norms (B, T) of the left factors.
        rights: Squared norms (B, T) of the right factors.
    """
    tiny = torch.finfo(squares.dtype).tiny
    smaller = torch.minimum(lefts, rights)
    least = tiny * 2.0**27  # a smaller square may have lost digits; the power of two is a choice
    # A shortcut for the CPU. On a GPU, reading the result would take longer than the work below. `amin` fails for an empty tensor, and with
    # a NaN the comparison is False.
    if squares.device.type == "cpu" and smaller.numel() and float(smaller.amin()) >= least:
        return squares
    lost_digits = smaller < least
    # `smaller` may itself be too small, so a margin is added to it, whose size is a choice.
    matters = (smaller + tiny * 2.0**10) * torch.maximum(lefts, rights) > NEGLIGIBLE_SQUARE
    return squares.masked_fill((lost_digits & matters).any(1), torch.nan)


def total_length(left_gram: Tensor, right_gram: Tensor) -> Tensor:
    """Return the sum over positions of |left| |right|, (B,), given the Gram matrices (B, T, T) of both factors."""
    squares = left_gram.diagonal(dim1=1, dim2=2) * right_gram.diagonal(dim1=1, dim2=2)
    return squares.clamp_min(0.0).sqrt().sum(1)


def add_rounding_error(squares: Tensor, length: Tensor, width: int) -> Tensor:
    """Return the squared norms (B,), increased by a bound on their rounding error, so that no norm is underestimated.

    If the terms of a sum nearly cancel, the ghost identity has an error of up to machine epsilon times the squared total length of the
    terms. The factor sqrt(width) is the probabilistic bound of Higham & Mary 2019 on a dot product of `width` terms.

    Args:
        length: Sum of the norms of the terms, (B,).
        width: Number of terms of a dot product.
    """
    return (squares + torch.finfo(squares.dtype).eps * math.sqrt(width) * length.square()).clamp_min(0.0)


class Piece(Protocol):
    """The gradients of B examples with respect to one parameter."""

    def squares(self) -> Tensor:
        """Return the squared norms (B,), which are upper bounds up to rounding in the last digits.

        A squared norm is infinite or NaN if the gradient is not finite, or if the number format cannot represent the norm precisely.
        """

    def rescaled(self) -> tuple[Piece, Tensor]:
        """Return the piece in double precision, with each example divided by a power of two, and the divisors (B,).

        After the division, the numbers that represent a gradient are at most one in magnitude.
        """

    def weighted_sum(self, factors: Tensor) -> Tensor:
        """Return the sum over the examples of factor times gradient, in the parameter's shape."""

    def select(self, rows: Tensor) -> Piece:
        """Return the piece with the selected examples only.

        Examples that are not finite must be removed before a weighted sum, because zero times infinity is not zero.
        """

    def rows(self) -> Tensor:
        """Return the gradient of every example, (B, *shape)."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Gradients that are stored in full, (B, *shape)."""

    values: Tensor

    def squares(self) -> Tensor:
        return squared_norms(self.values)

    def rescaled(self) -> tuple[PlainRows, Tensor]:
        values, power = rescale(self.values)
        return PlainRows(values), power

    def weighted_sum(self, factors: Tensor) -> Tensor:
        return (factors.to(self.values.dtype) @ flatten_entries(self.values)).view(self.values.shape[1:])

    def select(self, rows: Tensor) -> PlainRows:
        return PlainRows(self.values[rows])

    def rows(self) -> Tensor:
        return self.values

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> PlainRows:
        return PlainRows(torch.stack([piece.values for piece in pieces]).sum(0))


@dataclass(frozen=True, slots=True)
class Outer:
    """Gradients that are sums of outer products over the positions, such as the gradients of a linear layer.

    Source of the ghost identity, which gives their norms: Goodfellow 2015, arXiv:1510.01799 (T = 1); Li et al. 2021, arXiv:2110.05679,
    Section 4.1.

    Attributes:
        left: Left factors, (B, T, p).
        right: Right factors, (B, T, d).
        shape: The parameter's shape, with p * d entries.
    """

    left: Tensor
    right: Tensor
    shape: torch.Size

    def squares(self) -> Tensor:
        if self.left.shape[1] == 1:
            lefts, rights = squared_norms(self.left), squared_norms(self.right)
            return mark_imprecise(lefts * rights, lefts[:, None], rights[:, None])
        left_gram, right_gram = self.left @ self.left.mT, self.right @ self.right.mT
        ghost_squares = (left_gram * right_gram).sum((1, 2))
        squares = add_rounding_error(ghost_squares, total_length(left_gram, right_gram), self.width())
        return mark_imprecise(squares, left_gram.diagonal(dim1=1, dim2=2), right_gram.diagonal(dim1=1, dim2=2))

    def rescaled(self) -> tuple[Outer, Tensor]:
        (left, left_power), (right, right_power) = map(rescale, balance(self.left.double(), self.right.double()))
        return Outer(left, right, self.shape), left_power * right_power

    def length(self) -> Tensor:
        """Return the sum of the norms of the outer products, (B,), which bounds the norm of their sum."""
        lengths: Tensor = torch.linalg.vector_norm(self.left, dim=2) * torch.linalg.vector_norm(self.right, dim=2)
        return lengths.sum(1)

    def width(self) -> int:
        return self.left.shape[2] + self.right.shape[2]

    def weighted_sum(self, factors: Tensor) -> Tensor:
        left, right, column = self.left, self.right, factors.to(self.left.dtype)[:, None, None]
        if left.shape[1] == 1:  # without the positions, nothing has to be flattened below
            left, right, column = left[:, 0], right[:, 0], column[:, 0]
        elif left.stride(0) < left.stride(1):  # recurrent layers store positions first, and a sum in that order needs no copy
            left, right, column = left.transpose(0, 1), right.transpose(0, 1), column.transpose(0, 1)
        if left.shape[-1] <= right.shape[-1]:  # multiplication makes a copy, so it is applied to the smaller factor
            left = left * column
        else:
            right = right * column
        return (left.flatten(0, -2).mT @ right.flatten(0, -2)).view(self.shape)

    def select(self, rows: Tensor) -> Outer:
        return Outer(self.left[rows], self.right[rows], self.shape)

    def rows(self) -> Tensor:
        return (self.left.mT @ self.right).view(-1, *self.shape)

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Outer:
        """Return one piece for several uses of a parameter. The uses become further positions, so cross terms are included."""
        left = torch.cat([piece.left for piece in pieces], 1)
        right = torch.cat([piece.right for piece in pieces], 1)
        return Outer(left, right, pieces[0].shape)

    def instantiation_is_cheaper(self) -> bool:
        """Return whether computing the gradients in full costs at most as much as their ghost norm.

        The ghost norm costs B T^2 (d + p) operations, and the gradients cost B T d p. A single position needs neither computation.

        Source: Bu et al. 2023, arXiv:2210.00038, Section 3.2.
        """
        positions = self.left.shape[1]
        return positions > 1 and positions * self.width() >= self.left.shape[2] * self.right.shape[2]


@dataclass(frozen=True, slots=True)
class RowSums:
    """Gradients of the n rows of a table that the examples looked up, each summed over the positions of its example.

    Attributes:
        examples: Number of the example of each row, (n,).
        ids: Number of the row in the table, (n,).
        sums: Sums of the gradients, (n, p).
        lengths: Bounds on the norms of the sums, (n,).
    """

    examples: Tensor
    ids: Tensor
    sums: Tensor
    lengths: Tensor


@dataclass(frozen=True, slots=True)
class Lookup:
    """Gradients of a table whose rows are looked up, such as an embedding.

    Attributes:
        ids: Numbers of the rows that were looked up, (B, T).
        gradients: Gradients of the outputs of the lookups, (B, T, p).
        vocabulary: Number of rows of the table.
    """

    ids: Tensor
    gradients: Tensor
    vocabulary: int

    def squares(self) -> Tensor:
        rows = self.row_sums()
        of_rows = torch.stack((rows.sums.square().sum(1), rows.lengths.square()), 1)
        squares, squared_lengths = of_rows.new_zeros(len(self.ids), 2).index_add_(0, rows.examples, of_rows).unbind(1)
        return add_rounding_error(squares, squared_lengths.sqrt(), self.ids.shape[1])

    def row_sums(self) -> RowSums:
        """Return the gradients of the rows that the examples looked up, in increasing order of example and row.

        Norms and weighted sums both start from these sums. If they added in different orders, numbers that nearly cancel would be rounded
        differently, and a clipped gradient could exceed the clipping norm C.
        """
        examples = torch.arange(len(self.ids), device=self.ids.device)
        # A key is a pair of an example and a row as one integer.
        keys, slots = torch.unique(self.ids + self.vocabulary * examples[:, None], return_inverse=True)
        gradients, slots = self.gradients.flatten(0, 1), slots.flatten()
        sums = gradients.new_zeros(len(keys), gradients.shape[1]).index_add_(0, slots, gradients)
        lengths = gradients.new_zeros(len(keys)).index_add_(0, slots, torch.linalg.vector_norm(gradients, dim=1))
        return RowSums(keys.div(self.vocabulary, rounding_mode="floor"), keys % self.vocabulary, sums, lengths)

    def rescaled(self) -> tuple[Lookup, Tensor]:
        gradients, power = rescale(self.gradients)
        return Lookup(self.ids, gradients, self.vocabulary), power

    def weighted_sum(self, factors: Tensor) -> Tensor:
        rows = self.row_sums()
        factor_of_row = factors.to(rows.sums.dtype)[rows.examples]
        table = rows.sums.new_zeros(self.vocabulary, rows.sums.shape[1])
        return table.index_add_(0, rows.ids, rows.sums * factor_of_row[:, None])

    def select(self, rows: Tensor) -> Lookup:
        return Lookup(self.ids[rows], self.gradients[rows], self.vocabulary)

    def rows(self) -> Tensor:
        tables = self.gradients.new_zeros(self.ids.shape[0], self.vocabulary, self.gradients.shape[2])
        index = self.ids[:, :, None].expand_as(self.gradients)
        return tables.scatter_add_(1, index, self.gradients)

    @classmethod
    def join(cls, pieces: Sequence[Self]) -> Lookup:
        ids = torch.cat([piece.ids for piece in pieces], 1)
        gradients = torch.cat([piece.gradients for piece in pieces], 1)
        return Lookup(ids, gradients, pieces[0].vocabulary)


@dataclass(frozen=True, slots=True)
class Tied:
    """Gradients of a table that serves both for lookups and as a matrix, such as an embedding that is tied to the output layer.

    Squared norms follow from |x + y|^2 = |x|^2 + |y|^2 + 2 <x, y>.
    """

    outer: Outer
    lookup: Lookup

    def squares(self) -> Tensor:
        ids = self.lookup.ids[:, None, :].expand(-1, self.outer.left.shape[1], -1)
        left_at_ids = self.outer.left.gather(2, ids)
        # <x, y>: row i of x is the sum over the positions of left[i] right, and row i of y the sum of the gradients of the lookups of i.
        cross = (left_at_ids * (self.outer.right @ self.lookup.gradients.mT)).sum((1, 2))
        length = self.outer.length() + torch.linalg.vector_norm(self.lookup.gradients, dim=2).sum(1)
        return add_rounding_error(self.outer.squares() + self.lookup.squares() + 2.0 * cross, length, self.outer.width())

    def rescaled(self) -> tuple[Tied, Tensor]:
        outer, outer_power = self.outer.rescaled()
        lookup, lookup_power = self.lookup.rescaled()
        power = torch.maximum(outer_power, lookup_power)  # both parts must be divided by the same number, so that they can be added
        outer = Outer(outer.left * (outer_power / power)[:, None, None], outer.right, outer.shape)
        lookup = Lookup(lookup.ids, lookup.gradients * (lookup_power / power)[:, None, None], lookup.vocabulary)
        return Tied(outer, lookup), power

    def weighted_sum(self, factors: Tensor) -> Tensor:
        return self.outer.weighted_sum(factors) + self.lookup.weighted_sum(factors)

    def select(self, rows: Tensor) -> Tied:
        return Tied(self.outer.select(rows), self.lookup.select(rows))

    def rows(self) -> Tensor:
        return self.outer.rows() + self.lookup.rows()


def merge(pieces: Sequence[Piece]) -> Piece:
    """Return one piece for all uses of a parameter. Its norms include the cross terms between the uses."""
    pieces_by_type: dict[type, list[Piece]] = {}
    for piece in pieces:
        pieces_by_type.setdefault(type(piece), []).append(piece)
    by_type: dict[type, Piece] = {}
    for cls, members in pieces_by_type.items():
        by_type[cls] = cls.join(members) if len(members) > 1 else members[0]  # type: ignore[attr-defined]
    combine = COMBINATIONS.get(frozenset(by_type))
    if combine is None:
        return PlainRows(torch.stack([piece.rows() for piece in by_type.values()]).sum(0))
    return combine(by_type)


def cheaper_form(by_type: dict[type, Piece]) -> Piece:
    """Return the outer products, or the gradients in full if those are cheaper."""
    outer: Outer = by_type[Outer]  # type: ignore[assignment]
    return PlainRows(outer.rows()) if outer.instantiation_is_cheaper() else outer


# Functions that combine the pieces of one parameter, by the set of their types. Pieces of any other set are added in full.
COMBINATIONS: dict[frozenset[type], Callable[[dict[type, Piece]], Piece]] = {
    frozenset({PlainRows}): lambda by_type: by_type[PlainRows],
    frozenset({Lookup}): lambda by_type: by_type[Lookup],
    frozenset({Outer}): cheaper_form,
    frozenset({Outer, Lookup}): lambda by_type: Tied(by_type[Outer], by_type[Lookup]),  # type: ignore[arg-type]
}
