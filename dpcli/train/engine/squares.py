"""Squares of gradients, and of the sides of products: what rounding takes from them, and numbers whose squares leave the number format."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SMALL = 2.0**-73  # the square of what no clipping norm is near


def flat(values: Tensor) -> Tensor:
    """(B, numbers), one number where the parameter is a scalar."""
    return values.flatten(1) if values.dim() > 1 else values[:, None]


def squared(values: Tensor) -> Tensor:
    """Squared norms over all but the first dimension."""
    norms: Tensor = torch.linalg.vector_norm(flat(values), dim=1)
    return norms.square()


def level(values: Tensor) -> tuple[Tensor, Tensor]:
    """(B, ...) in double precision, divided by a power of two (B,) to at most one in size; where it is not finite, as it is."""
    values = values.double()
    most = flat(values).abs().amax(1) if values[:1].numel() else values.new_ones(len(values))
    power = torch.exp2(torch.frexp(most).exponent.double()).where(most.isfinite() & (most > 0.0), 1.0).clamp(2.0**-1000, 2.0**1000)
    return values / power.view(-1, *[1] * (values.dim() - 1)), power


def balanced(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The same products, of sides (B, T, .) that are about as large at each position, and both zero where one is: what is largest on one
    side may stand beside zeros, and the rest would vanish beside it."""
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
    """Sum over positions of the products of norms, from the Gram matrices (B, T, T)."""
    return (left.diagonal(dim1=1, dim2=2) * right.diagonal(dim1=1, dim2=2)).clamp_min(0.0).sqrt().sum(1)


def padded(squares: Tensor, length: Tensor, width: int) -> Tensor:
    """Squared norms that came from a difference of large numbers, moved up by what rounding may have taken away.

    Where the terms of a sum nearly cancel, the ghost identity loses up to machine epsilon times the squared length of the terms.
    The factor sqrt(width) is the probabilistic bound of Higham & Mary 2019 on a dot product of that many terms.
    """
    return (squares + torch.finfo(squares.dtype).eps * math.sqrt(width) * length.square()).clamp_min(0.0)
