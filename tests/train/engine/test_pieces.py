"""Pieces of gradients (train/engine/pieces.py): terms that nearly cancel are clipped as their small sum is, however long the terms are.

Shortcuts give the results of the plain computation: products whose positions come first, and the norm of one example.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dpcli.train.engine.clip import Clip, Flat, PerLayer
from dpcli.train.engine.pieces import Lookup, Outer, Piece, PlainRows, Tied, merge
from dpcli.train.engine.sums import clipped_sums
from dpcli.train.engine.vectorised import Looped, one_example
from dpcli.train.isolation.checked_sums import norm as norm_of
from tests.cases import require_each

ROUNDING = 4.0 * float(torch.finfo(torch.float32).eps)  # for each example of a batch, over C: accounted for in the noise
WIDTH, OTHER = 3, 41


def same_row(values: Tensor) -> Lookup:
    return Lookup(torch.ones(values.shape[:2], dtype=torch.int64), values, OTHER)


def same_right(values: Tensor) -> Outer:
    return Outer(torch.randn(len(values), 1, OTHER).expand(-1, values.shape[1], -1), values, torch.Size((OTHER, WIDTH)))


def head_and_table(values: Tensor) -> Tied:
    """The row that is looked up takes back what the product has put there."""
    left = torch.zeros(*values.shape[:2], OTHER)
    left[..., 1] = 1.0
    half = values.shape[1] // 2
    return Tied(Outer(left[:, :half], values[:, :half], torch.Size((OTHER, WIDTH))), same_row(values[:, half:]))


FORMS: dict[str, Callable[[Tensor], Piece]] = {
    "rows": lambda values: PlainRows(values.sum(1)),
    "two rows": lambda values: PlainRows.join([PlainRows(values[:, 0]), PlainRows(values[:, 1:].sum(1))]),
    "lookup": same_row,
    "two lookups": lambda values: merge([same_row(values[:, :1]), same_row(values[:, 1:])]),
    "outer": same_right,
    "tied": head_and_table,
}


@pytest.mark.long
def test_what_cancels_is_no_longer_than_c() -> None:
    def check(case: tuple[str, int, int]) -> None:
        form, positions, size = case
        parameters = {"": nn.Parameter(torch.zeros(1))}
        for norm in (0.3, 1.0):
            for length in (1.0, 1e2, 1e4, 1e6):
                half = length * torch.randn(size, positions // 2, WIDTH)
                values = torch.cat([half, -half], 1)
                values[:, 0] += torch.randn(size, WIDTH)
                piece = FORMS[form](values)
                whole = clipped_sums([({"": piece}, size)], Flat(norm), parameters).gradients[""].double()
                for row in range(min(size, 4)):
                    rest = torch.arange(size) != row
                    kept = clipped_sums([({"": piece.select(rest)}, size - 1)], Flat(norm), parameters).gradients[""].double()
                    assert float((whole - kept).norm()) <= norm * (1.0 + 1e-6 + ROUNDING * size), (norm, length)

    require_each(itertools.product(FORMS, [2, 8], [1, 64]), check)


def test_a_weighted_product_does_not_depend_on_how_its_sides_lie() -> None:
    def check(case: tuple[tuple[bool, bool], tuple[int, int]]) -> None:
        first, (p, d) = case
        left, right, factors = torch.randn(4, 5, p).double(), torch.randn(4, 5, d).double(), torch.rand(4).double()
        one, other = (laid(side, turn) for side, turn in zip((left, right), first, strict=True))
        found = Outer(one, other, torch.Size((p, d))).weighted_sum(factors)
        torch.testing.assert_close(found, torch.einsum("b,btp,btd->pd", factors, left, right))

    require_each(itertools.product([(False, False), (True, False), (False, True), (True, True)], [(2, 7), (7, 2), (3, 3)]), check)


def laid(side: Tensor, positions_first: bool) -> Tensor:
    """The same numbers, in memory by examples or by positions."""
    return side.transpose(0, 1).contiguous().transpose(0, 1) if positions_first else side


def test_an_example_alone_has_the_length_that_clipping_finds() -> None:
    def check(case: tuple[float, Clip]) -> None:
        scale, clip = case
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        parameters = dict(model.named_parameters())

        def loss(model: nn.Module, batch: Tensor) -> Tensor:
            return model(batch).sum(1) * scale

        batch = torch.rand(1, 3) + 0.5
        expected = float(clipped_sums(Looped(model, loss).parts(batch), clip, parameters).norms[0])
        found = norm_of(one_example(loss(model, batch), parameters), clip, parameters)
        assert found == pytest.approx(expected, rel=1e-5)
        assert found == math.inf if not math.isfinite(scale) else math.isfinite(found)

    require_each(
        itertools.product([0.0, 1e-12, 1e-3, 1.0, 1e12, 1e18, 1e25, math.inf, math.nan], [Flat(0.1), PerLayer(0.1)]), check
    )
