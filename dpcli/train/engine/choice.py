"""The choice of a method: book-keeping where it applies and is right, then vmap, then one example at a time.

What is compared runs on a few made-up examples. The parameters are shifted a little meanwhile: a layer that starts at zero (LoRA's second
matrix) would hide all before it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.book_keeping import BookKeeping
from dpcli.train.engine.clip import Automatic
from dpcli.train.engine.draws import SEPARATE, alike, seed_all
from dpcli.train.engine.method import Loss, Method, Unsuitable, per_example_losses
from dpcli.train.engine.sums import Sums, clipped
from dpcli.train.engine.vectorised import Looped, Vectorised

SEED = 20221
SHIFT = 0.02
TRIED = 3  # examples of a batch that are exchanged, and taken alone

MIXED = "one that other examples of the batch change"

Trace = dict[str, list[Tensor]]
TracedRows = tuple[Trace, list[int]]


@contextmanager
def shifted(model: nn.Module) -> Iterator[None]:
    """Trainable parameters away from special values, and exactly as before afterwards."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in parameters]
    try:
        with torch.no_grad(), seeded(model):
            for parameter in parameters:
                parameter.add_(torch.randn_like(parameter), alpha=SHIFT)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(value)


@contextmanager
def seeded(model: nn.Module, seed: int = SEED) -> Iterator[None]:
    """Draw the same random numbers each time, and touch nobody else's."""
    with unmoved(model):
        seed_all(seed)
        yield


def unmoved(model: nn.Module) -> AbstractContextManager[None]:
    """Nobody else's random numbers are touched by what is drawn inside."""
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    return torch.random.fork_rng(devices=devices)


def traced(model: nn.Module, loss: Loss, batch: Batch, seed: int) -> tuple[Tensor, Trace]:
    """Return the losses, and every module's outputs in the order of the calls; all records draw the same numbers."""
    trace: Trace = {}

    def after(name: str, module: nn.Module, args: Any, output: Any) -> None:
        trace.setdefault(name, []).extend(leaf.detach() for leaf in tree_leaves(output) if torch.is_tensor(leaf))

    handles = [module.register_forward_hook(partial(after, name)) for name, module in model.named_modules()]
    try:
        with torch.enable_grad(), alike(size(batch), seed):
            return per_example_losses(model, loss, tree_map(torch.clone, batch), size(batch)).detach(), trace
    finally:
        for handle in handles:
            handle.remove()


def check(model: nn.Module, loss: Loss, batch: Batch, seed: int, tolerance: float, doubt: str | None = None) -> None:
    """Check that no example's loss depends on another example, and that f(batch)[i] = f(x_i).

    Args:
        batch: A few made-up examples.
        seed: Seed of what the model draws.
        tolerance: What rounding explains between a batch and an example alone.
        doubt: Where the program was seen to leave what can be followed: it may calculate with some of the records at a time, and rounds
            otherwise for other ones.

    Raises:
        InputError: With the name of the module where examples meet.
    """
    rows = range(size(batch))
    together, trace = traced(model, loss, batch, seed)
    exact = 32.0 * torch.finfo(together.dtype).eps if doubt is None else tolerance
    for row in rows[:TRIED]:
        others = [other for other in rows if other != row]
        changed, changed_trace = traced(model, loss, replaced(batch, row, others[0]), seed)
        if not close(changed[others], together[others], exact):
            raise mixing(model, doubt, (trace, others), (changed_trace, others), exact)
        alone, alone_trace = traced(model, loss, take(batch, [row]), seed)
        if not close(together[row : row + 1], alone, tolerance):
            raise mixing(model, doubt, (trace, [row]), (alone_trace, [0]), tolerance)


def replaced(batch: Batch, row: int, by: int) -> Batch:
    """Return a neighbouring batch: one example is another one."""
    rows = [by if other == row else other for other in range(size(batch))]
    return take(batch, rows)


def mixing(model: nn.Module, doubt: str | None, first: TracedRows, second: TracedRows, tolerance: float) -> InputError:
    """Return the refusal, with the first module, innermost first, of which these rows differ; if none does, it is the loss."""
    (trace, own), (other, others) = first, second
    where = "" if doubt is None else f"; look at this first: {doubt}"
    for name, outputs in trace.items():
        for a, b in zip(outputs, other.get(name, []), strict=False):
            if comparable(a, b) and max(own) < len(a) and max(others) < len(b) and not close(a[own], b[others], tolerance):
                place = f"model: {name or 'the model'} ({type(model.get_submodule(name)).__name__})"
                return InputError(f"{place}: expected an output for each example that depends on it alone, found {MIXED}{where}")
    return InputError(f"loss: {SEPARATE}, found {MIXED}{where}")


def comparable(a: Tensor, b: Tensor) -> bool:
    return a.is_floating_point() and a.dim() > 0 and a.shape[1:] == b.shape[1:]


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Equal up to the tolerance, relative to each number or to one, whichever is larger; NaN equals NaN."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def tolerance_of(model: nn.Module) -> float:
    """Return what rounding explains between two computations of one number: about 2e-3 in single precision, 5e-7 in double."""
    coarsest: float = max(float(torch.finfo(p.dtype).eps) for p in model.parameters() if p.is_floating_point())
    return math.pow(coarsest, 0.4)


EXAMPLES = 3
UNIT = Automatic(1.0, 1e-6)  # every example at length one, so that none hides behind a longer one

Build = Callable[[nn.Module, Loss, Batch], Method]


def vectorised(model: nn.Module, loss: Loss, batch: Batch) -> Method:
    return Vectorised(model, loss)


CANDIDATES: tuple[tuple[str, Build], ...] = (("book-keeping", BookKeeping.learnt), ("vmap", vectorised))


def modes(model: nn.Module) -> bytes:
    """Return each module's mode, training or evaluation."""
    return bytes(module.training for module in model.modules())


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method, and why each faster one was passed over."""

    method: Method
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((self.method.name, *self.passed_over))


def choose(
    model: nn.Module, loss: Loss, draw: Callable[[int], Batch], candidates: Sequence[tuple[str, Build]] = CANDIDATES
) -> MethodChoice:
    """Return the fastest method that agrees with a loop over a few made-up examples, on a copy that is thrown away."""
    spare = copy.deepcopy(model)
    with shifted(spare):
        chosen = first_that_agrees(spare, loss, draw(EXAMPLES), candidates)
    return MethodChoice(chosen.method.on(model), chosen.passed_over)


def first_that_agrees(model: nn.Module, loss: Loss, few: Batch, candidates: Sequence[tuple[str, Build]]) -> MethodChoice:
    """Return the first method that agrees with the loop, else the loop, which is always right."""
    reasons: list[str] = []
    expected = one_by_one(model, loss, few)
    for name, build in candidates:
        try:
            with seeded(model):
                method = build(model, loss, few)
            verify(model, method, few, expected)
            return MethodChoice(method, tuple(reasons))
        except InputError:
            raise
        except Exception as problem:  # whatever torch or the model raises under hooks or vmap: not used, and said
            why = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            reasons.append(f"not {name}: {shorten(why, 120, placeholder=' ...')}")
    return MethodChoice(Looped(model, loss), tuple(reasons))


def verify(model: nn.Module, method: Method, few: Batch, expected: Sums) -> None:
    """Require norms and sums as the loop's, and no example's norm moved by another example.

    Raises:
        Unsuitable: Otherwise; with the parameter whose gradient differs.
    """
    tolerance = tolerance_of(model)
    sums = unit_sums(model, method, few)
    if not near(sums.norms, expected.norms, tolerance):
        raise Unsuitable("its norms differ from those of one example at a time")
    length = sum(float(g.square().sum()) for g in expected.gradients.values()) ** 0.5
    for name, gradient in expected.gradients.items():
        slack = tolerance * (float(gradient.norm()) + 0.02 * length)
        if not float((sums.gradients[name] - gradient).norm()) <= slack:
            raise Unsuitable(f"its gradient of {name} differs from that of one example at a time")
    check_neighbours(model, method, few, tolerance)


def check_neighbours(model: nn.Module, method: Method, few: Batch, tolerance: float) -> None:
    """Raise Unsuitable where an example's norm notices that another one was exchanged."""
    before = unit_sums(model, method, few).norms
    for row in range(size(few)):
        others = [other for other in range(size(few)) if other != row]
        after = unit_sums(model, method, replaced(few, row, others[0])).norms
        if not near(after[others], before[others], tolerance):
            raise Unsuitable("the norm of one example depends on another")


def unit_sums(model: nn.Module, method: Method, batch: Batch) -> Sums:
    """Return sums with every example at length one, and all drawing the same numbers."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with alike(size(batch), SEED):
        return clipped(method.parts(batch), UNIT, parameters)


def one_by_one(model: nn.Module, loss: Loss, batch: Batch) -> Sums:
    """Return those sums from a loop."""
    first, *rest = (unit_sums(model, Looped(model, loss), take(batch, [row])) for row in range(size(batch)))
    for one in rest:
        first = first + one
    return first


def near(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Say whether norms agree relatively; infinite ones are equal."""
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=0.02 * tolerance)
