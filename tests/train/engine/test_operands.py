"""Parameters that a forward uses without a layer (train/engine/operands.py): gradients against one example at a time, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.book_keeping import BookKeeping
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.method import Unsuitable
from dpcli.train.engine.operands import VJPS
from dpcli.train.engine.sums import clipped_sums
from tests.cases import require_each
from tests.train.engine.families import PLACES, Forward, Standing
from tests.train.engine.models import LABELS, classification, sequences
from tests.train.engine.oracle import clipped_sum, distance, gradients

CLIP = Flat(0.05)


def sums_of(method: BookKeeping, batch: Any) -> Any:
    return clipped_sums(
        method.parts(batch), CLIP, {name: p for name, p in method.model.named_parameters() if p.requires_grad}
    ).gradients


def test_against_one_example_at_a_time() -> None:
    def check(name: str) -> None:
        body, shapes = PLACES[name]
        model = Standing(body, *shapes).double()
        before = {key: (id(p), p.clone()) for key, p in model.named_parameters()}
        method = BookKeeping.after_probe(model, classification, sequences(3))
        for size in (1, 5):
            batch = sequences(size)
            expected = clipped_sum(gradients(model, classification, batch, size), CLIP)
            assert distance(sums_of(method, batch), expected) <= 1e-9 * CLIP.bound
        assert all(id(p) == before[key][0] and torch.equal(p, before[key][1]) for key, p in model.named_parameters())

    require_each(PLACES, check)


def test_a_parameter_of_two_modules_is_one() -> None:
    model = nn.Sequential(Standing(lambda m, h: h * m.a, (11,)), nn.PReLU(LABELS)).double()
    model[0].other = Standing(lambda m, h: h - m.a, (11,))
    model[0].other.a = model[0].a
    model[0].body = lambda m, h: m.other.body(m.other, h * m.a)
    model[0].other.first.requires_grad_(False)
    method, batch = BookKeeping.after_probe(model, classification, sequences(3)), sequences(4)
    expected = clipped_sum(gradients(model, classification, batch, 4), CLIP)
    assert distance(sums_of(method, batch), expected) <= 1e-9 * CLIP.bound


class Changed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, a: Tensor) -> Tensor:
        return h * a

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return gradient, gradient.sum((0, 1))


def hooked(h: Tensor) -> Tensor:
    """One that does nothing to gradients that are short."""
    h.register_hook(lambda gradient: gradient.clamp(-1e6, 1e6))
    return h


REFUSED: dict[str, tuple[Forward, tuple[int, ...], str]] = {
    "an operator without a rule": (lambda m, h: torch.lerp(h, m.a, 0.5), (11,), "a: LerpBackward0 has no rule"),
    "somebody's own": (lambda m, h: Changed.apply(h, m.a), (11,), "a: ChangedBackward has no rule"),
    "places and examples in one": (
        lambda m, h: (h.reshape(-1, 11) * m.a).view_as(h),
        (11,),
        "a: it enters MulBackward0, where the examples have no dimension of their own",
    ),
    "a hook": (lambda m, h: hooked(h * m.a), (11,), "a hook on a tensor changes its gradient"),
    "another way for one example": (
        lambda m, h: h * m.a if len(h) > 1 else h + m.a,
        (11,),
        "a: one example uses it in other operators than several examples do",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_apart_is_refused(name: str) -> None:
    body, shape, words = REFUSED[name]
    with pytest.raises(Unsuitable, match=f"^{words}$"):
        list(BookKeeping.after_probe(Standing(body, shape).double(), classification, sequences(3)).parts(sequences(3)))


def test_another_way_than_was_learnt_is_refused() -> None:
    model = Standing(lambda m, h: h * m.a, (11,)).double()
    method = BookKeeping.after_probe(model, classification, sequences(3))
    for body in (lambda m, h: h + m.a, lambda m, h: h * m.a * m.a, lambda m, h: h):
        model.body = body
        with pytest.raises(Unsuitable, match=r"^a is used by other operators than in the probe$"):
            list(method.parts(sequences(3)))


def test_a_gradient_in_the_loss_reaches_the_parameters_of_layers_past_what_they_give() -> None:
    """Where it counts only now and then, gradients of the first examples do not show it."""

    def now_and_then(model: nn.Module, batch: Any) -> Tensor:
        x = batch[0].detach().requires_grad_()
        (slope,) = torch.autograd.grad(classification(model, (x, batch[1])).sum(), x, create_graph=True)
        return classification(model, batch) + torch.relu(slope.square().sum((1, 2)) - 1e9)

    with pytest.raises(Unsuitable, match=r"^(first|head) has parameters that a gradient in the loss depends on$"):
        BookKeeping.after_probe(Standing(lambda m, h: h * m.a, (11,)).double(), now_and_then, sequences(3))


def test_what_stands_in_the_place_of_a_parameter_is_refused() -> None:
    def doubled(model: nn.Module, batch: Any) -> Tensor:
        values = {name: 2.0 * p for name, p in model.named_parameters()}
        return functional.cross_entropy(torch.func.functional_call(model, values, (batch[0],)), batch[1], reduction="none")

    with pytest.raises(Unsuitable, match=r"^first: its weight is replaced by a computed tensor$"):
        BookKeeping.after_probe(Standing(lambda m, h: h * m.a, (11,)).double(), doubled, sequences(3))


def test_a_factor_gives_the_gradient_of_each_operand() -> None:
    operators = {
        "AddBackward0": lambda x, y: torch.add(x, y, alpha=3.0),
        "SubBackward0": lambda x, y: torch.sub(x, y, alpha=3.0),
        "MulBackward0": torch.mul,
        "DivBackward0": torch.div,
        "PreluKernelBackward0": functional.prelu,
    }
    assert set(operators) == {name for name in VJPS if name not in ("ExpandBackward0", "RepeatBackward0")}
    for name, operator in operators.items():
        x, y = (torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((4, 3), (3,)))
        output = operator(x, y)
        assert output.grad_fn is not None and output.grad_fn.name() == name
        gradient = torch.randn_like(output)
        exact = torch.autograd.grad(output, (x, y), gradient, retain_graph=True)
        for operand in (0, 1):
            rows = VJPS[name](output.grad_fn, operand)(gradient)
            assert torch.allclose(rows if operand == 0 else rows.sum(0), exact[operand]), (name, operand)
