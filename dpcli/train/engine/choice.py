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
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.book_keeping import BookKeeping
from dpcli.train.engine.clip import Automatic
from dpcli.train.engine.draws import keyed, seed_all
from dpcli.train.engine.method import Loss, Method, Unsuitable, per_example_losses
from dpcli.train.engine.sums import Sums, clipped
from dpcli.train.engine.vectorised import Looped, Vectorised

SEED = 20221
SHIFT = 0.02
TRIED = 3  # examples of a batch that are exchanged, and taken alone

Trace = dict[str, list[Tensor]]


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


def traced(model: nn.Module, loss: Loss, batch: Batch, keys: Sequence[int], seed: int = SEED) -> tuple[Tensor, Trace]:
    """The losses, and every module's outputs in the order of the calls; each record draws by its own key."""
    trace: Trace = {}

    def after(name: str, module: nn.Module, args: Any, output: Any) -> None:
        trace.setdefault(name, []).extend(leaf.detach() for leaf in tree_leaves(output) if torch.is_tensor(leaf))

    handles = [module.register_forward_hook(partial(after, name)) for name, module in model.named_modules()]
    try:
        with torch.enable_grad(), keyed(keys, seed):
            return per_example_losses(model, loss, tree_map(torch.clone, batch), size(batch)).detach(), trace
    finally:
        for handle in handles:
            handle.remove()


def check(model: nn.Module, loss: Loss, batch: Batch, seed: int, tolerance: float) -> None:
    """Check that no example's loss depends on another example, and that f(batch)[i] = f(x_i).

    Args:
        batch: a few made-up examples.
        seed: of what the model draws.
        tolerance: what rounding explains between a batch and an example alone.

    Raises:
        InputError: with the name of the module where examples meet.
    """
    keys = list(range(size(batch)))
    together, trace = traced(model, loss, batch, keys, seed)
    exact = 32.0 * torch.finfo(together.dtype).eps
    for row in keys[:TRIED]:
        others = [other for other in keys if other != row]
        changed, changed_trace = traced(model, loss, replaced(batch, row, others[0]), keys, seed)
        if not close(changed[others], together[others], exact):
            raise mixing(model, lambda a, b: close(a[others], b[others], exact), trace, changed_trace)  # noqa: B023
        alone, alone_trace = traced(model, loss, take(batch, [row]), [row], seed)
        if not close(together[row : row + 1], alone, tolerance):
            raise mixing(model, lambda a, b: close(a[row : row + 1], b, tolerance), trace, alone_trace)  # noqa: B023


def replaced(batch: Batch, row: int, by: int) -> Batch:
    """A neighbouring batch: one example is another one."""
    rows = [by if other == row else other for other in range(size(batch))]
    return take(batch, rows)


def mixing(model: nn.Module, agree: Callable[[Tensor, Tensor], bool], trace: Trace, other: Trace) -> InputError:
    """Names the first module, innermost first, whose rows moved; where none did, it is the loss."""
    modules = dict(model.named_modules())
    for name, outputs in trace.items():
        for a, b in zip(outputs, other.get(name, []), strict=False):
            if comparable(a, b) and not agree(a, b):
                place = f"{name or 'the model'} ({type(modules[name]).__name__})"
                return InputError(f"model: {place}: expected an output for each example that depends on it alone, found otherwise")
    return InputError("loss: expected a loss for each example that depends on it alone, found one that depends on the batch")


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
    """The fastest method that agrees with a loop over a few made-up examples, on a copy that is thrown away."""
    spare = copy.deepcopy(model)
    with shifted(spare):
        chosen = first_that_agrees(spare, loss, draw(EXAMPLES), candidates)
    return MethodChoice(chosen.method.on(model), chosen.passed_over)


def first_that_agrees(model: nn.Module, loss: Loss, few: Batch, candidates: Sequence[tuple[str, Build]]) -> MethodChoice:
    """The loop is always right, and always last."""
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
            reasons.append(
                f"not {name}: {str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__}"
            )
    return MethodChoice(Looped(model, loss), tuple(reasons))


def verify(model: nn.Module, method: Method, few: Batch, expected: Sums) -> None:
    """Norms and sums as the loop's, and no example's norm moved by another example.

    Raises:
        Unsuitable: otherwise; with the parameter whose gradient differs.
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
    """Each with its own dropout: an example's norm does not notice that another one was exchanged."""
    before = unit_sums(model, method, few).norms
    for row in range(size(few)):
        others = [other for other in range(size(few)) if other != row]
        after = unit_sums(model, method, replaced(few, row, others[0])).norms
        if not near(after[others], before[others], tolerance):
            raise Unsuitable("the norm of one example depends on another")


def unit_sums(model: nn.Module, method: Method, batch: Batch, keys: Sequence[int] | None = None) -> Sums:
    """Sums with every example at length one, and each drawing by its own key."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with keyed(range(size(batch)) if keys is None else keys, SEED):
        return clipped(method.parts(batch), UNIT, parameters)


def one_by_one(model: nn.Module, loss: Loss, batch: Batch) -> Sums:
    """Return those sums from a loop, in which each example draws what it draws in the batch."""
    first, *rest = (unit_sums(model, Looped(model, loss), take(batch, [row]), [row]) for row in range(size(batch)))
    for one in rest:
        first = first + one
    return first


def near(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Norms that agree relatively; infinite ones are equal."""
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=0.02 * tolerance)
