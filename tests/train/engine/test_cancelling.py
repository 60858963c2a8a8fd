"""The terms of one example's gradient may nearly cancel: their small sum is clipped as it is, however long the terms are."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dpcli.train.engine.clip import Flat
from dpcli.train.engine.pieces import Lookup, Outer, Piece, PlainRows, Tied, merge
from dpcli.train.engine.sums import clipped_sums
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
