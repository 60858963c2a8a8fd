"""A finite gradient whose squares overflow or underflow is clipped to C like any other. It is not dropped, and it moves no other example's.

Tested for every layer that has a rule, for every method, and in single and double precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.train.engine.book_keeping import COMPOUNDS, BookKeeping
from dpcli.train.engine.clip import LARGEST, SMALLEST, Automatic, Clip, Flat, PerLayer
from dpcli.train.engine.layers import RULES
from dpcli.train.engine.method import Method
from dpcli.train.engine.operands import VJPS
from dpcli.train.engine.pieces import Outer
from dpcli.train.engine.sums import Sums, clipped_sums
from dpcli.train.engine.vectorised import Looped, Vectorised
from dpcli.train.plugin import STYLES
from tests.cases import require_each
from tests.train.engine.oracle import clipped_sum, distance, gradients, length

COUNT, ROW, C = 4, 1, 1e-3
SLACK = 1.0 + 1e-6


class Itself(nn.Module):
    """Of a compound, which gives several tensors: the first."""

    def __init__(self, body: nn.Module, times: int = 1) -> None:
        super().__init__()
        self.body, self.times = body, times

    def forward(self, x: Tensor) -> Tensor:
        return self.body(*[x] * self.times)[0]


class Alone(nn.Module):
    """Parameters that stand alone, under every operator that has a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.rand(5) + 0.5) for _ in range(3))
        self.slope = nn.PReLU(init=0.3)

    def forward(self, x: Tensor) -> Tensor:
        repeated = self.c.expand(x.shape[0], 5) - self.c.repeat(x.shape[0], 1) * 0.5
        return self.slope((x * self.a + self.b - self.c) / self.b) + repeated


class Twice(nn.Module):
    """A table that is looked up and multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.table(ids))


def transposed_linear() -> nn.Module:
    return pytest.importorskip("transformers.pytorch_utils", reason="the layer is transformers'").Conv1D(4, 5)  # type: ignore[no-any-return]


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None]] = {  # None: words
    "one position": (lambda: nn.Linear(5, 4), (5,)),
    "ghost norms": (lambda: nn.Linear(40, 40), (3, 40)),
    "instantiated": (lambda: nn.Linear(5, 4), (6, 5)),
    "transposed": (transposed_linear, (3, 5)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 3, stride=2, dilation=2), (2, 11)),
    "Conv2d in groups": (lambda: nn.Conv2d(2, 4, 2, groups=2), (2, 4, 4)),
    "Conv3d": (lambda: nn.Conv3d(1, 9, 2), (1, 2, 3, 3)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (2, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 2), (2, 3, 3)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(1, 2, 2), (1, 2, 2, 2)),
    "Embedding": (lambda: nn.Embedding(7, 5), None),
    "tied": (Twice, None),
    "LayerNorm": (lambda: nn.LayerNorm(5), (3, 5)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 3)),
    "RMSNorm": (lambda: nn.RMSNorm(5), (3, 5)),
    "BatchNorm": (lambda: nn.BatchNorm1d(5).eval(), (5,)),
    "MultiheadAttention": (lambda: Itself(nn.MultiheadAttention(6, 2, batch_first=True), 3), (3, 6)),
    "LSTM": (lambda: Itself(nn.LSTM(5, 4, batch_first=True)), (3, 5)),
    "GRU": (lambda: Itself(nn.GRU(5, 4, batch_first=True)), (3, 5)),
    "RNN": (lambda: Itself(nn.RNN(5, 4, batch_first=True)), (3, 5)),
    "LSTMCell": (lambda: Itself(nn.LSTMCell(5, 4)), (5,)),
    "GRUCell": (lambda: nn.GRUCell(5, 4), (5,)),
    "RNNCell": (lambda: nn.RNNCell(5, 4), (5,)),
    "alone": (Alone, (5,)),
}
WAYS: dict[str, Callable[[nn.Module, Any, Any], Method]] = {
    "book-keeping": BookKeeping.after_probe,
    "vmap": lambda model, loss, batch: Vectorised(model, loss),
    "loop": lambda model, loss, batch: Looped(model, loss),
}
SINGLE = [(s, w) for s in (1e10, 1e15, 1e18, 1e20) for w in (1.0, s, 1e-21)]
DOUBLE = [(1e100, 1e-100), (1e160, 1e-150), (1e200, 1.0), (1.0, 1e200), (1e-150, 1e160), (1e140, 1e150)]


def weighed(model: nn.Module, batch: Any) -> Tensor:
    """Each record's outputs, weighed by numbers of its own: what comes back into the layer is these."""
    inputs, weights = batch
    output = model(inputs)
    return (output * weights[:, : output[0].numel()].view_as(output)).flatten(1).sum(1)


def batch_of(model: nn.Module, shape: tuple[int, ...] | None, size: float, weight: float, kind: torch.dtype) -> Any:
    """One record, and what comes back for it, so many times as large."""
    inputs = torch.randint(0, 7, (COUNT, 3)) if shape is None else torch.randn(COUNT, *shape, dtype=kind)
    weights = torch.randn(COUNT, 200, dtype=kind)
    weights[ROW] *= weight
    if shape is not None:
        inputs[ROW] *= size
    return inputs, weights


def rows(batch: Any, chosen: Any) -> Any:
    return tree_map(lambda leaf: leaf[chosen], batch)


def test_every_layer_with_a_rule_is_here() -> None:
    """And every module that is written out, and every operator that a parameter may stand under alone."""
    names = {type(module) for build, _ in LAYERS.values() for module in build().modules()}
    forwards = {f"{kind.forward.__module__}.{kind.forward.__qualname__}" for kind in names}
    assert set(RULES) <= forwards and set(COMPOUNDS) <= names
    seen: set[str] = set()
    losses = weighed(Alone(), batch_of(nn.Identity(), (5,), 1.0, 1.0, torch.float32))
    waiting = [losses.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        seen.add(node.name())
        waiting += [following for following, _ in node.next_functions if following is not None]
    assert set(VJPS) <= seen


def bounded(name: str, way: str, size: float, weight: float, kind: torch.dtype, clip: Clip) -> None:
    """Against each record alone by autograd, clipped in the widest numbers that there are."""
    build, shape = LAYERS[name]
    model = build().to(kind)
    batch = batch_of(model, shape, size, weight, kind)
    parameters = dict(model.named_parameters())
    method = WAYS[way](model, weighed, batch_of(model, shape, 1.0, 1.0, kind))

    def sums(chosen: Any) -> Sums:
        return clipped_sums(method.parts(rows(batch, chosen)), clip, parameters)

    others = [row for row in range(COUNT) if row != ROW]
    whole, without, alone = sums(slice(None)), sums(others), sums([ROW])
    exact = gradients(model, weighed, rows(batch, [ROW]), 1)[0]
    label = f"{name}, {way}, {size:g}, {weight:g}: "
    assert all(bool(value.isfinite().all()) for value in whole.gradients.values()), label
    assert distance(whole.gradients, without.gradients) <= C * SLACK, label
    assert length(alone.gradients) <= C * SLACK, label
    moved = distance(whole.gradients, {n: without.gradients[n] + alone.gradients[n] for n in parameters})
    assert moved <= 3e-7 * C * COUNT, label + "another record moved"
    if all(bool(value.isfinite().all()) for value in exact.values()):
        most = max(float(value.abs().max()) for value in exact.values())
        relative = {n: value.double() / (most or 1.0) for n, value in exact.items()}
        if kind == torch.float32:  # in double precision nothing wider is at hand
            expected = clipped_sum([{n: value.double() for n, value in exact.items()}], clip)
            assert distance(alone.gradients, expected) <= 2e-5 * C, label
        longest = length(alone.gradients)
        assert bool(alone.finite.all()), label
        assert (longest > 0.0) == (most > 0.0), label
        if type(clip) is not PerLayer and longest:
            along = sum(float((alone.gradients[n].double() * value).sum()) for n, value in relative.items())
            assert along >= (1.0 - 1e-5) * longest * length(relative), label


@pytest.mark.long
def test_a_gradient_too_long_for_single_precision_is_clipped_to_c() -> None:
    def clipped_to_c(case: tuple[str, str]) -> None:
        name, way = case
        for size, weight in SINGLE:
            bounded(name, way, size, weight, torch.float32, Flat(C))

    require_each([*((name, "book-keeping") for name in LAYERS), ("Conv1d", "vmap"), ("Conv1d", "loop")], clipped_to_c)


@pytest.mark.long
def test_a_gradient_too_long_for_double_precision_is_clipped_to_c() -> None:
    def clipped_to_c(name: str) -> None:
        for size, weight in DOUBLE:
            bounded(name, "book-keeping", size, weight, torch.float64, Flat(C))

    require_each(LAYERS, clipped_to_c)


def test_by_every_style() -> None:
    for name, clip in itertools.product(["ghost norms", "Conv1d", "tied"], [Automatic(C), PerLayer(C)]):
        for size in (1e15, 1e18):
            bounded(name, "book-keeping", size, size, torch.float32, clip)


SIZES = (1e-36, 1e-24, 1e-12, 1e-6, 1.0, 1e6, 1e15, 1e20)


def at(style: str, norm: float) -> Clip:
    """A style with C at this norm, and with every share of it there where it is the smallest."""
    table: dict[str, Any] = {**load(STYLES[style]).examples[0], "norm": norm, "style": style}
    if "groups" in table:
        table["groups"] = {"*": 1.0}
    found: Clip = load(STYLES[style])(**table).clip()
    return found


CORNERS = [(style, norm) for style in STYLES for norm in (SMALLEST, LARGEST)]
WEIGHTS: dict[str, Callable[[float], float]] = {
    "one": lambda size: 1.0,
    "the least": lambda size: SMALLEST,
    "the largest": lambda size: LARGEST,
    "the inverse": lambda size: 1.0 / size,
    "the same": lambda size: size,
}
PAIRS = [(size, weight) for size in SIZES for weight in WEIGHTS]


def require_no_longer(name: str, pairs: Sequence[tuple[float, str]]) -> None:
    """Each record's gradient, from such as vanish to such as overflow, at the least and the largest C of every style."""
    build, shape = LAYERS[name]
    model = build()
    parameters = dict(model.named_parameters())
    modules = len({part.rpartition(".")[0] for part in parameters})
    method = BookKeeping.after_probe(model, weighed, batch_of(model, shape, 1.0, 1.0, torch.float32))
    for size, weight in pairs:
        batch = rows(batch_of(model, shape, size, WEIGHTS[weight](size), torch.float32), [ROW])
        parts = list(method.parts(batch))
        for style, norm in CORNERS:
            clip = at(style, norm * modules**0.5 if (style, norm) == ("per-layer", SMALLEST) else norm)
            assert length(clipped_sums(parts, clip, parameters).gradients) <= clip.bound * SLACK, (size, weight, style, norm)


@pytest.mark.long
def test_nobody_is_longer_than_the_least_and_the_largest_norm() -> None:
    """Every size with every weight over the layers, and with one of them in each."""
    turns = iter(range(10**6))

    def some(name: str) -> None:
        turn = next(turns)
        require_no_longer(name, [(size, [*WEIGHTS][(turn + at) % len(WEIGHTS)]) for at, size in enumerate(SIZES)])

    require_each(LAYERS, some)


@pytest.mark.nightly
def test_nobody_is_longer_at_any_size_with_any_weight() -> None:
    require_each(LAYERS, lambda name: require_no_longer(name, PAIRS))


def test_other_norms_are_refused() -> None:
    def other(case: tuple[str, float]) -> None:
        with pytest.raises(InputError, match=r"^clipping: .*expected a number from 1e-08 to 1e\+12, found"):
            at(*case)

    norms = (1e-46, 1e-43, 1e-9, SMALLEST * (1 - 1e-15), LARGEST * (1 + 1e-15), 1e38, 1e300)
    require_each([(style, norm) for style in STYLES for norm in norms], other)


@pytest.mark.parametrize(("kind", "huge"), [(torch.float32, 1e30), (torch.float64, 1e300)])
def test_what_is_largest_may_stand_beside_zeros(kind: torch.dtype, huge: float) -> None:
    """A saturated position: nothing comes back for it, and the others' squares would vanish beside what went in there."""
    left, right = torch.randn(2, 3, 4, dtype=kind), torch.randn(2, 3, 5, dtype=kind)
    left[0, 1], right[0, 1] = 0.0, huge
    left[0, 2], right[0, 2] = left[0, 2] / huge, right[0, 2] * huge
    parameters, shape = {"": nn.Parameter(torch.zeros(4, 5, dtype=kind))}, torch.Size((4, 5))
    found = clipped_sums([({"": Outer(left, right, shape)}, 2)], Flat(C), parameters)
    exact = left.mT @ right
    assert found.finite.all() and torch.allclose(found.norms, exact.flatten(1).norm(dim=1), rtol=1e-5)
    expected = (exact * (C / exact.flatten(1).norm(dim=1))[:, None, None]).sum(0)
    torch.testing.assert_close(found.gradients[""], expected, rtol=1e-4, atol=1e-6 * C)
