"""Every layer rule against autograd on one example at a time, over random shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from dpcli.train.engine.book_keeping import divide_parameters
from dpcli.train.engine.method import Unsuitable
from dpcli.train.engine.pieces import Lookup, Outer, Piece, PlainRows, merge

few = st.integers(1, 4)
seeds = st.integers(0, 2**32)


def pieces_of(module: nn.Module, inputs: Tensor, weights: Tensor) -> dict[str, Piece]:
    (layer,) = divide_parameters(module).layers
    ways = layer.rule(module, inputs, weights)
    return {local: merge([ways[local]()]) for local in layer.parameters}


def agrees(module: nn.Module, inputs: Tensor) -> None:
    """Rows, squares and weighted sums of each parameter, for a loss that weighs the outputs at random."""
    weights = torch.randn_like(module(inputs))
    factors = torch.rand(len(inputs), dtype=torch.float64)
    pieces = pieces_of(module, inputs, weights)
    for row in range(len(inputs)):
        outputs = module(inputs[row : row + 1])
        exact = torch.autograd.grad((outputs * weights[row]).sum(), list(module.parameters()))
        for (name, _), gradient in zip(module.named_parameters(), exact, strict=True):
            alone = pieces[name].select(torch.tensor([row]))
            torch.testing.assert_close(pieces[name].rows()[row], gradient, rtol=1e-9, atol=1e-10)
            torch.testing.assert_close(pieces[name].squares()[row], gradient.square().sum(), rtol=1e-9, atol=1e-10)
            torch.testing.assert_close(alone.weighted_sum(factors[row : row + 1]), factors[row] * gradient, rtol=1e-9, atol=1e-10)
    for piece in pieces.values():
        expected = torch.einsum("b,b...->...", factors, piece.rows())
        torch.testing.assert_close(piece.weighted_sum(factors), expected, rtol=1e-9, atol=1e-10)


@given(few, st.lists(few, max_size=2), st.integers(1, 9), st.integers(1, 9), st.booleans(), seeds)
def test_linear(size: int, between: list[int], d: int, p: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    agrees(nn.Linear(d, p, bias).double(), torch.randn(size, *between, d, dtype=torch.float64))


@given(few, few, st.integers(1, 9), st.integers(1, 9), seeds)
def test_transposed_linear(size: int, positions: int, d: int, p: int, seed: int) -> None:
    utilities = pytest.importorskip("transformers.pytorch_utils", reason="the layer is transformers'")
    torch.manual_seed(seed)
    agrees(utilities.Conv1D(p, d).double(), torch.randn(size, positions, d, dtype=torch.float64))


@given(
    st.sampled_from([nn.Conv1d, nn.Conv2d, nn.Conv3d]), few, few, few, st.sampled_from(["zeros", "reflect", "circular"]), st.data()
)
def test_convolution(kind: Any, size: int, groups: int, channels: int, mode: str, data: Any) -> None:
    torch.manual_seed(data.draw(seeds))
    kernel, stride, padding, dilation = geometry(kind, data)
    module = kind(
        2 * groups, channels * groups, kernel, stride, padding, dilation, groups, bias=data.draw(st.booleans()), padding_mode=mode
    )
    most = 10 if len(kernel) < 3 else 7
    sides = [data.draw(st.integers(apart * (taps - 1) + 1, most)) for apart, taps in zip(dilation, kernel, strict=True)]
    if mode == "zeros" or min(sides) > 2:
        agrees(module.double(), torch.randn(size, 2 * groups, *sides, dtype=torch.float64))


@given(st.sampled_from([nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d]), few, few, few, st.data())
def test_transposed_convolution(kind: Any, size: int, groups: int, channels: int, data: Any) -> None:
    torch.manual_seed(data.draw(seeds))
    kernel, stride, padding, dilation = geometry(kind, data)
    more = [data.draw(st.integers(0, max(step, apart) - 1)) for step, apart in zip(stride, dilation, strict=True)]
    sides = [data.draw(st.integers(1, 4)) for _ in kernel]
    lengths = zip(sides, stride, padding, dilation, kernel, more, strict=True)
    if all((side - 1) * step - 2 * around + apart * (taps - 1) + extra >= 0 for side, step, around, apart, taps, extra in lengths):
        module = kind(
            2 * groups, channels * groups, kernel, stride, padding, more, groups, data.draw(st.booleans()), dilation=dilation
        )
        agrees(module.double(), torch.randn(size, 2 * groups, *sides, dtype=torch.float64))


def geometry(kind: Any, data: Any) -> list[Any]:
    """Kernel, stride, padding and dilation, for each dimension."""
    depth = int(kind.__name__[-2])
    return [data.draw(st.tuples(*[numbers] * depth)) for numbers in (few, few, st.integers(0, 2), st.integers(1, 2))]


@given(few, few, few, seeds)
def test_statistics_that_are_kept(size: int, channels: int, side: int, seed: int) -> None:
    torch.manual_seed(seed)
    for kind, shape in ((nn.BatchNorm1d, ()), (nn.BatchNorm1d, (side,)), (nn.BatchNorm2d, (side, 2))):
        module = kind(channels).double()
        module(torch.randn(9, channels, *shape, dtype=torch.float64))
        agrees(module.eval(), torch.randn(size, channels, *shape, dtype=torch.float64))


def test_statistics_of_the_batch_have_no_rule() -> None:
    for module in (nn.BatchNorm1d(3), nn.BatchNorm1d(3, track_running_stats=False).eval()):
        with pytest.raises(Unsuitable, match="computes its statistics from the batch"):
            pieces_of(module, torch.randn(4, 3), torch.randn(4, 3))


@given(few, st.lists(few, max_size=2), st.integers(1, 6), few, st.booleans(), seeds)
def test_embedding(size: int, between: list[int], vocabulary: int, p: int, padding: bool, seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Embedding(vocabulary, p, padding_idx=0 if padding else None).double()
    agrees(module, torch.randint(0, vocabulary, (size, *between)))


@given(few, few, few, few, seeds)
def test_normalisation(size: int, groups: int, channels: int, side: int, seed: int) -> None:
    torch.manual_seed(seed)
    inputs = torch.randn(size, groups * channels, side, side + 1, dtype=torch.float64)
    agrees(nn.GroupNorm(groups, groups * channels).double(), inputs)
    agrees(nn.LayerNorm((side, side + 1)).double(), inputs)
    agrees(nn.LayerNorm(side + 1, bias=False).double(), inputs)
    agrees(nn.RMSNorm(side + 1).double(), inputs)


@given(few, few, few, few, st.integers(2, 6), seeds)
def test_several_uses_of_one_table(size: int, looked_up: int, multiplied: int, p: int, vocabulary: int, seed: int) -> None:
    """The gradients add up before the norm is taken: cross terms between uses, whatever their form."""
    torch.manual_seed(seed)
    shape = torch.Size((vocabulary, p))
    double = torch.float64
    several: list[Piece] = [
        Outer(torch.randn(size, multiplied, vocabulary, dtype=double), torch.randn(size, multiplied, p, dtype=double), shape),
        Outer(torch.randn(size, 2, vocabulary, dtype=double), torch.randn(size, 2, p, dtype=double), shape),
        Lookup(torch.randint(0, vocabulary, (size, looked_up)), torch.randn(size, looked_up, p, dtype=double), vocabulary),
        Lookup(torch.randint(0, vocabulary, (size, 3)), torch.randn(size, 3, p, dtype=double), vocabulary),
        PlainRows(torch.randn(size, vocabulary, p, dtype=double)),
        PlainRows(torch.randn(size, vocabulary, p, dtype=double)),
    ]
    factors = torch.rand(size, dtype=double)
    for chosen in (several[:1], several[:2], several[2:4], several[:4], several[1:3], several[3:], several[4:], several):
        rows = torch.stack([piece.rows() for piece in chosen]).sum(0)
        piece = merge(chosen)
        torch.testing.assert_close(piece.rows(), rows)
        torch.testing.assert_close(piece.squares(), rows.square().sum((1, 2)), rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(piece.weighted_sum(factors), torch.einsum("b,bij->ij", factors, rows))


@pytest.mark.parametrize(("positions", "form"), [(1, Outer), (2, Outer), (20, PlainRows)])
def test_the_cheaper_of_ghost_norms_and_instantiation(positions: int, form: type) -> None:
    """d = p = 8: T (d + p) < d p up to T = 3."""
    left, right = torch.randn(2, 3, positions, 8)
    assert type(merge([Outer(left, right, torch.Size((8, 8)))])) is form


def test_a_subclass_that_computes_something_else_has_no_rule() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2.0 * super().forward(x)

    class Named(nn.Linear):
        pass

    assert divide_parameters(Named(2, 3)).layers
    patched = nn.Linear(2, 3)
    patched.forward = lambda x: x  # type: ignore[method-assign]
    for module in (nn.Sequential(Doubled(2, 3)), patched):
        found = divide_parameters(module)
        assert not found.layers and len(found.operands) == 2
