"""Shortcuts give the results of the plain computation: products whose positions come first, and the norm of one example."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from dpcli.train.engine.clip import Clip, Flat, PerLayer
from dpcli.train.engine.pieces import Outer
from dpcli.train.engine.sums import clipped_sums
from dpcli.train.engine.vectorised import Looped, one_example
from dpcli.train.isolation.checked_sums import norm as length
from tests.cases import require_each


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
        found = length(one_example(loss(model, batch), parameters), clip, parameters)
        assert found == pytest.approx(expected, rel=1e-5)
        assert found == math.inf if not math.isfinite(scale) else math.isfinite(found)

    require_each(
        itertools.product([0.0, 1e-12, 1e-3, 1.0, 1e12, 1e18, 1e25, math.inf, math.nan], [Flat(0.1), PerLayer(0.1)]), check
    )
