"""Per-example gradients of one parameter, held in whatever form gives norms and weighted sums most cheaply.

B examples, T uses of the parameter within one example (positions), p x d the parameter as a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

SMALL = 2.0**-73  # the square of what no clipping norm is near


def flat(values: Tensor) -> Tensor:
    """Return (B, numbers), one number if the parameter is a scalar."""
    return values.flatten(1) if values.dim() > 1 else values[:, None]


def squared(values: Tensor) -> Tensor:
    """Return the squared norms over all but the first dimension."""
    norms: Tensor = torch.linalg.vector_norm(flat(values), dim=1)
    return norms.square()


def level(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, ...) in double precision, divided by a power of two to at most one, and the powers (B,); infinities stay."""
    values = values.double()
    most = flat(values).abs().amax(1) if values[:1].numel() else values.new_ones(len(values))
    power = torch.exp2(torch.frexp(most).exponent.double()).where(most.isfinite() & (most > 0.0), 1.0).clamp(2.0**-1000, 2.0**1000)
    return values / power.view(-1, *[1] * (values.dim() - 1)), power


def balanced(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return factors (B, T, .) of the same products that are about equally large at each position, and both zero if one is.

    Else the largest number of one side may meet zeros, while the rest vanishes.
    """
    one, other = left.abs().amax(2, keepdim=True), right.abs().amax(2, keepdim=True)
    apart = (torch.frexp(other).exponent - torch.frexp(one).exponent).div(2, rounding_mode="floor").clamp(-1000, 1000)
    none = ((one == 0.0) | (other == 0.0)) & one.isfinite() & other.isfinite()
    return torch.ldexp(left, apart).masked_fill(none, 0.0), torch.ldexp(right, -apart).masked_fill(none, 0.0)


def where_precise(squares: Tensor, lefts: Tensor, rights: Tensor) -> Tensor:
    """Squared norms (B,), NaN where the square of one side (B, T) may have vanished beside a large one of the other."""
    tiny = torch.finfo(squares.dtype).tiny
    least, most = torch.minimum(lefts, rights), torch.maximum(lefts, rights)
    return squares.masked_fill(((least < tiny * 2.0**27) & ((least + tiny * 2.0**10) * most > SMALL)).any(1), torch.nan)


def diagonal_length(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over positions of the products of norms, from the Gram matrices (B, T, T)."""
    return (left.diagonal(dim1=1, dim2=2) * right.diagonal(dim1=1, dim2=2)).clamp_min(0.0).sqrt().sum(1)


def padded(squares: Tensor, length: Tensor, width: int) -> Tensor:
    """Return squared norms that came from a difference of large numbers, raised by what rounding may have taken away.

    Where the terms of a sum nearly cancel, the ghost identity loses up to machine epsilon times the squared length of the terms.
    The factor sqrt(width) is the probabilistic bound of Higham & Mary 2019 on a dot product of that many terms.
    """
    return (squares + torch.finfo(squares.dtype).eps * math.sqrt(width) * length.square()).clamp_min(0.0)


class Piece(Protocol):
    """The gradients of B examples with respect to one parameter."""

    def squares(self) -> Tensor:
        """Return squared norms (B,), at least the exact ones up to rounding of the last digits.

        Not finite if the gradient is not, or where the number format is too narrow for them.
        """

    def levelled(self) -> tuple[Piece, Tensor]:
        """Return the piece in double precision, each example divided by a power of two to at most one; and the powers (B,)."""

    def weighted(self, factors: Tensor) -> Tensor:
        """Return the sum over examples of factor times gradient, in the parameter's shape."""

    def kept(self, rows: Tensor) -> Piece:
        """Return the piece of these examples alone: non-finite ones must be removed, as zero times infinity is not zero."""

    def rows(self) -> Tensor:
        """Return every example's gradient, (B, *shape)."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Gradients as they are, (B, *shape)."""

    values: Tensor

    def squares(self) -> Tensor:
        return squared(self.values)

    def levelled(self) -> tuple[PlainRows, Tensor]:
        values, power = level(self.values)
        return PlainRows(values), power

    def weighted(self, factors: Tensor) -> Tensor:
        return (factors.to(self.values.dtype) @ flat(self.values)).view(self.values.shape[1:])

    def kept(self, rows: Tensor) -> PlainRows:
        return PlainRows(self.values[rows])

    def rows(self) -> Tensor:
        return self.values

    @classmethod
    def joined(cls, pieces: Sequence[Self]) -> PlainRows:
        return PlainRows(torch.stack([piece.values for piece in pieces]).sum(0))


@dataclass(frozen=True, slots=True)
class Outer:
    """Sums over positions of outer products: left (B, T, p), right (B, T, d); p * d numbers in the parameter's shape.

    Source of the ghost identity: Goodfellow 2015, arXiv:1510.01799 (T = 1); Li et al. 2021, arXiv:2110.05679, Section 4.1.
    """

    left: Tensor
    right: Tensor
    shape: torch.Size

    def squares(self) -> Tensor:
        if self.left.shape[1] == 1:
            lefts, rights = squared(self.left), squared(self.right)
            return where_precise(lefts * rights, lefts[:, None], rights[:, None])
        left, right = self.left @ self.left.mT, self.right @ self.right.mT
        squares = padded((left * right).sum((1, 2)), diagonal_length(left, right), self.width())
        return where_precise(squares, left.diagonal(dim1=1, dim2=2), right.diagonal(dim1=1, dim2=2))

    def levelled(self) -> tuple[Outer, Tensor]:
        (left, one), (right, other) = map(level, balanced(self.left.double(), self.right.double()))
        return Outer(left, right, self.shape), one * other

    def length(self) -> Tensor:
        """Return the sum of the norms of the terms, (B,): a bound on the norm of the sum."""
        lengths: Tensor = torch.linalg.vector_norm(self.left, dim=2) * torch.linalg.vector_norm(self.right, dim=2)
        return lengths.sum(1)

    def width(self) -> int:
        return self.left.shape[2] + self.right.shape[2]

    def weighted(self, factors: Tensor) -> Tensor:
        left, right, column = self.left, self.right, factors.to(self.left.dtype)[:, None, None]
        if left.stride(0) < left.stride(1):  # positions first, as in recurrences: summing in that order needs no copy
            left, right, column = left.transpose(0, 1), right.transpose(0, 1), column.transpose(0, 1)
        if left.shape[2] <= right.shape[2]:  # the smaller of the two is copied
            left = left * column
        else:
            right = right * column
        return (left.flatten(0, 1).mT @ right.flatten(0, 1)).view(self.shape)

    def kept(self, rows: Tensor) -> Outer:
        return Outer(self.left[rows], self.right[rows], self.shape)

    def rows(self) -> Tensor:
        return (self.left.mT @ self.right).view(-1, *self.shape)

    @classmethod
    def joined(cls, pieces: Sequence[Self]) -> Outer:
        """Return one piece for several uses of a parameter, as more positions, which includes the cross terms."""
        left, right = torch.cat([piece.left for piece in pieces], 1), torch.cat([piece.right for piece in pieces], 1)
        return Outer(left, right, pieces[0].shape)

    def instantiation_is_cheaper(self) -> bool:
        """Return whether T (d + p) >= d p: the ghost norm costs B T^2 (d + p), the gradients themselves B T d p.

        Source: Bu et al. 2023, arXiv:2210.00038, Section 3.2.
        """
        positions = self.left.shape[1]
        return positions > 1 and positions * self.width() >= self.left.shape[2] * self.right.shape[2]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a table (vocabulary, p) that were looked up: ids (B, T), gradients (B, T, p)."""

    ids: Tensor
    gradients: Tensor
    vocabulary: int

    def squares(self) -> Tensor:
        keys, sums, lengths = self.sums()
        both = torch.stack((sums.square().sum(1), lengths.square()), 1)
        total = both.new_zeros(self.ids.shape[0], 2).index_add_(0, keys.div(self.vocabulary, rounding_mode="floor"), both)
        return padded(total[:, 0], total[:, 1].sqrt(), self.ids.shape[1])

    def sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys (n,), id + vocabulary * example, increasing; the gradients of these rows (n, p); and bounds on their lengths (n,).

        The same sums are measured and weighted: in another order, numbers that nearly cancel lose other digits, and C may be exceeded.
        """
        examples = torch.arange(self.ids.shape[0], device=self.ids.device)
        keys, slots = torch.unique(self.ids + self.vocabulary * examples[:, None], return_inverse=True)
        gradients, slots = self.gradients.flatten(0, 1), slots.flatten()
        sums = gradients.new_zeros(len(keys), gradients.shape[1]).index_add_(0, slots, gradients)
        return keys, sums, gradients.new_zeros(len(keys)).index_add_(0, slots, torch.linalg.vector_norm(gradients, dim=1))

    def levelled(self) -> tuple[Lookup, Tensor]:
        gradients, power = level(self.gradients)
        return Lookup(self.ids, gradients, self.vocabulary), power

    def weighted(self, factors: Tensor) -> Tensor:
        keys, sums, _ = self.sums()
        column = factors.to(sums.dtype)[keys.div(self.vocabulary, rounding_mode="floor")]
        table = sums.new_zeros(self.vocabulary, sums.shape[1])
        return table.index_add_(0, keys % self.vocabulary, sums * column[:, None])

    def kept(self, rows: Tensor) -> Lookup:
        return Lookup(self.ids[rows], self.gradients[rows], self.vocabulary)

    def rows(self) -> Tensor:
        tables = self.gradients.new_zeros(self.ids.shape[0], self.vocabulary, self.gradients.shape[2])
        index = self.ids[:, :, None].expand_as(self.gradients)
        return tables.scatter_add_(1, index, self.gradients)

    @classmethod
    def joined(cls, pieces: Sequence[Self]) -> Lookup:
        ids, gradients = torch.cat([piece.ids for piece in pieces], 1), torch.cat([piece.gradients for piece in pieces], 1)
        return Lookup(ids, gradients, pieces[0].vocabulary)


@dataclass(frozen=True, slots=True)
class Tied:
    """A table that is looked up and also multiplies (embedding and head); |x + y|^2 = |x|^2 + |y|^2 + 2 <x, y>."""

    outer: Outer
    lookup: Lookup

    def squares(self) -> Tensor:
        ids = self.lookup.ids[:, None, :].expand(-1, self.outer.left.shape[1], -1)
        cross = (self.outer.left.gather(2, ids) * (self.outer.right @ self.lookup.gradients.mT)).sum((1, 2))
        length = self.outer.length() + torch.linalg.vector_norm(self.lookup.gradients, dim=2).sum(1)
        return padded(self.outer.squares() + self.lookup.squares() + 2.0 * cross, length, self.outer.width())

    def levelled(self) -> tuple[Tied, Tensor]:
        (outer, one), (lookup, other) = self.outer.levelled(), self.lookup.levelled()
        power = torch.maximum(one, other)
        outer = Outer(outer.left * (one / power)[:, None, None], outer.right, outer.shape)
        return Tied(outer, Lookup(lookup.ids, lookup.gradients * (other / power)[:, None, None], lookup.vocabulary)), power

    def weighted(self, factors: Tensor) -> Tensor:
        return self.outer.weighted(factors) + self.lookup.weighted(factors)

    def kept(self, rows: Tensor) -> Tied:
        return Tied(self.outer.kept(rows), self.lookup.kept(rows))

    def rows(self) -> Tensor:
        return self.outer.rows() + self.lookup.rows()


def merged(pieces: Sequence[Piece]) -> Piece:
    """Return one piece for all uses of a parameter, cross terms included."""
    classes = {type(piece): [other for other in pieces if type(other) is type(piece)] for piece in pieces}
    forms = {form: form.joined(members) if len(members) > 1 else members[0] for form, members in classes.items()}  # type: ignore[attr-defined]
    return COMBINED.get(frozenset(forms), in_full)(forms)


def in_full(forms: dict[type, Piece]) -> Piece:
    return PlainRows(torch.stack([piece.rows() for piece in forms.values()]).sum(0))


def outer_only(forms: dict[type, Piece]) -> Piece:
    outer: Outer = forms[Outer]  # type: ignore[assignment]
    return PlainRows(outer.rows()) if outer.instantiation_is_cheaper() else outer


def tied(forms: dict[type, Piece]) -> Piece:
    return Tied(forms[Outer], forms[Lookup])  # type: ignore[arg-type]


COMBINED: dict[frozenset[type], Callable[[dict[type, Piece]], Piece]] = {
    frozenset({PlainRows}): lambda forms: forms[PlainRows],
    frozenset({Lookup}): lambda forms: forms[Lookup],
    frozenset({Outer}): outer_only,
    frozenset({Outer, Lookup}): tied,
}
