"""The choice of a method for per-example gradients (engine/method.py), and the comparisons on which it rests.

An *engine* computes the sum of a batch's clipped gradients. dpcli's own engine (per_example.py) calls `choose` before the first step, and
gets the fastest *method* that computes the gradient of each example correctly: book-keeping if it applies, otherwise vmap, otherwise a loop
over the examples. Methods are compared with the loop on a few synthetic examples, with slightly shifted parameters. Without the shift, a
layer that starts at zero, such as LoRA's second matrix, would hide all layers before it.

`check_losses` makes another comparison, for the check of isolation (isolation/rehearsal.py): the loss of an example must not depend on the
other examples of a batch.

The comparisons allow for rounding. A larger tolerance would hide weaker faults. A smaller one would refuse correct models, and correct
methods, so that a slower one is used.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.book_keeping import BookKeeping
from dpcli.train.engine.clip import Automatic
from dpcli.train.engine.draws import EXPECTED_LOSS, RECORD_PARTS, REMEDY, RecordPart, same_draws, seed_all
from dpcli.train.engine.method import Loss, Method, Unsuitable, per_example_losses, trained_parameters
from dpcli.train.engine.sums import Sums, clipped_sums
from dpcli.train.engine.vectorised import Looped, Vectorised
from dpcli.train.torch_internals import tree_leaves, tree_map

SEED = 20221  # an arbitrary number
SHIFT = 0.02  # standard deviation of the shifts of parameters: small compared with usual initial weights, far above rounding
TRIED = 3  # number of examples of a batch that `check_losses` replaces in turn and processes alone; more take longer and find rarer faults
LONGEST_REASON = 120  # characters of a reason against a method in a report; arbitrary
EXAMPLES = 3  # number of synthetic examples on which methods are compared; more take longer and find rarer faults
# A number may differ by the tolerance times (its size + SLACK), so that rounding in a tiny number does not count. This is for the norm of
# an example. For one parameter's gradient, SLACK is multiplied by the norm of the whole gradient. A choice.
SLACK = 0.02
MACHINE_EPSILONS = 32.0  # relative change of a loss that counts as rounding if another example is replaced; a choice
UNIT_CLIP = Automatic(norm=1.0, gamma=1e-6)  # scales gradients to about norm one, so that each example counts equally
MIXED = "one that depends on other examples of the batch"  # end of several messages

Trace = dict[str, list[Tensor]]
Build = Callable[[nn.Module, Loss, Batch], Method]


# The methods that are tried, the fastest first.
CANDIDATES: tuple[tuple[str, Build], ...] = (
    ("book-keeping", BookKeeping.after_probe),
    ("vmap", lambda model, loss, batch: Vectorised(model, loss)),
)


def modes(model: nn.Module) -> bytes:
    """Return the mode of each module: 1 for training, 0 for evaluation.

    In every step, engines compare them with the modes of the last check of isolation (isolation/checked_sums.py, opacus.py), because a
    layer such as BatchNorm combines records in one mode only. The loop below takes a fifth of the time of `model.modules()`, which matters
    in a step of a small model.
    """
    training: dict[int, bool] = {}
    waiting: list[nn.Module | None] = [model]
    while waiting:
        module = waiting.pop()
        if module is not None and id(module) not in training:
            training[id(module)] = module.training
            waiting.extend(module._modules.values())
    return bytes(training.values())


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method, and the reason against each faster method."""

    method: Method
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((self.method.name, *self.passed_over))


def choose(
    model: nn.Module, loss: Loss, draw: Callable[[int], Batch], candidates: Sequence[tuple[str, Build]], tolerance: float
) -> MethodChoice:
    """Return the fastest method that agrees with a loop over a few synthetic examples, or else the loop.

    The comparison uses a copy of the model.

    Args:
        tolerance: Largest relative difference that counts as rounding.

    Raises InputError if the loss is not one number for each example.
    """
    spare = copy.deepcopy(model)
    with shift_parameters(spare):
        chosen = first_that_agrees(spare, loss, draw(EXAMPLES), candidates, tolerance)
    return MethodChoice(chosen.method.for_model(model), chosen.passed_over)


def first_that_agrees(
    model: nn.Module, loss: Loss, few: Batch, candidates: Sequence[tuple[str, Build]], tolerance: float
) -> MethodChoice:
    """Return the first method that agrees with the loop, or the loop itself, which is always correct."""
    reasons: list[str] = []
    expected = one_by_one(model, loss, few)
    for name, build in candidates:
        try:
            with fixed_seed(model):
                method = build(model, loss, few)
            verify(model, method, few, expected, tolerance)
            return MethodChoice(method, tuple(reasons))
        except InputError:
            raise
        except Exception as problem:  # any error of torch or the model under hooks or vmap is a reason not to use the method
            first_line = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            reasons.append(f"not {name}: {shorten(first_line, LONGEST_REASON, placeholder=' ...')}")
    return MethodChoice(Looped(model, loss), tuple(reasons))


def verify(model: nn.Module, method: Method, few: Batch, expected: Sums, tolerance: float) -> None:
    """Check that a method gives the norms and sums of the loop, and that no example changes the norm of another.

    Raises:
        Unsuitable: A norm or a sum differs, or an example changes the norm of another. The message names the parameter if a sum differs.
    """
    sums = unit_sums(model, method, few)
    if not norms_agree(sums.norms, expected.norms, tolerance):
        raise Unsuitable("its norms differ from norms computed one example at a time")
    whole_norm = sum(float(g.square().sum()) for g in expected.gradients.values()) ** 0.5
    for name, gradient in expected.gradients.items():
        # A small part of a gradient is rounded relative to the whole, so a share of the norm of the whole counts as well.
        allowed = tolerance * (float(gradient.norm()) + SLACK * whole_norm)
        if not float((sums.gradients[name] - gradient).norm()) <= allowed:
            raise Unsuitable(f"its gradient of {name} differs from the gradient computed one example at a time")
    check_neighbours(model, method, few, tolerance)


def check_neighbours(model: nn.Module, method: Method, few: Batch, tolerance: float) -> None:
    """Raise Unsuitable if the norm of an example changes when another example is replaced."""
    norms = unit_sums(model, method, few).norms
    for row in range(size(few)):
        others = [other for other in range(size(few)) if other != row]
        changed_norms = unit_sums(model, method, replace_example(few, row, others[0])).norms
        if not norms_agree(changed_norms[others], norms[others], tolerance):
            raise Unsuitable("the norm of one example depends on another")


def unit_sums(model: nn.Module, method: Method, batch: Batch) -> Sums:
    """Return the sums of gradients that are scaled to norm one. All examples draw the same random numbers."""
    parameters = trained_parameters(model)
    with same_draws(size(batch), SEED):
        return clipped_sums(method.parts(batch), UNIT_CLIP, parameters)


def one_by_one(model: nn.Module, loss: Loss, batch: Batch) -> Sums:
    """Return the sums that `unit_sums` returns, computed one example at a time."""
    method = Looped(model, loss)
    return reduce(add, (unit_sums(model, method, take(batch, [row])) for row in range(size(batch))))


def norms_agree(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Return whether norms differ by at most tolerance * (|b| + SLACK). Two infinite norms agree; NaN agrees with nothing."""
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=SLACK * tolerance)


@contextmanager
def shift_parameters(model: nn.Module) -> Iterator[None]:
    """Shift trainable parameters away from special values within the block, and restore them exactly afterwards."""
    parameters = list(trained_parameters(model).values())
    values = [p.detach().clone() for p in parameters]
    try:
        with torch.no_grad(), fixed_seed(model):
            for parameter in parameters:
                parameter.add_(torch.randn_like(parameter), alpha=SHIFT)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)


@contextmanager
def fixed_seed(model: nn.Module, seed: int = SEED) -> Iterator[None]:
    """Seed the random numbers that are drawn within the block, and restore the generators afterwards."""
    with restored_generators(model):
        seed_all(seed)
        yield


def restored_generators(model: nn.Module) -> AbstractContextManager[None]:
    """Return a context manager that restores the generators of the CPU and of the model's devices after its block."""
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    return torch.random.fork_rng(devices=devices)


def trace_outputs(
    model: nn.Module, loss: Loss, batch: Batch, seed: int, part: RecordPart, undropped: set[int] | None
) -> tuple[Tensor, Trace]:
    """Return the losses, and the outputs of every module in the order of its calls. All records draw the same random numbers.

    Raises InputError if the program draws a random order of the records, because the loss of one then depends on the others.
    """
    trace: Trace = {}

    def record_outputs(name: str, module: nn.Module, args: Any, output: Any) -> None:
        trace.setdefault(name, []).extend(leaf.detach() for leaf in tree_leaves(output) if torch.is_tensor(leaf))

    handles = [module.register_forward_hook(partial(record_outputs, name)) for name, module in model.named_modules()]
    try:
        with torch.enable_grad(), same_draws(size(batch), seed, part, True, undropped):
            return per_example_losses(model, loss, tree_map(torch.clone, batch), size(batch)).detach(), trace
    finally:
        for handle in handles:
            handle.remove()


def check_losses(model: nn.Module, loss: Loss, batch: Batch, seed: int, tolerance: float, doubt: str | None = None) -> None:
    """Check that no example's loss depends on another example, and that f(batch)[i] = f(x_i).

    Random numbers are given to the records by each assignment of `RECORD_PARTS` in turn, until the check passes. Under every assignment
    they have the same distribution, so one assignment that passes is enough. In the last attempt, dropout that draws for the places of all
    records together keeps everything (`same_draws`). This attempt is made for a program with doubt only, whose gradients are computed from
    each record separately.

    Args:
        seed: Seed of the random numbers that the model draws.
        tolerance: Largest difference due to rounding between an example in a batch and the same example alone.
        doubt: Reason why isolation/traced_program.py could not follow every operator of the program and prove that none combines records;
            None if it could. A program without this proof may process some of the records together. The rounding of one record's loss then
            depends on the others.

    Raises:
        InputError: An example's loss depends on another example. The message names the module that combines them.
    """
    first_error: InputError | None = None
    attempts: list[tuple[RecordPart, set[int] | None]] = [(part, None) for part in RECORD_PARTS]
    if doubt is not None:
        attempts.append((RECORD_PARTS[0], set()))
    for part, undropped in attempts:
        try:
            check_losses_with(model, loss, batch, seed, tolerance, doubt, part, undropped)
            return
        except InputError as problem:
            first_error = first_error or problem
    assert first_error is not None
    raise first_error


def check_losses_with(
    model: nn.Module,
    loss: Loss,
    batch: Batch,
    seed: int,
    tolerance: float,
    doubt: str | None,
    part: RecordPart,
    undropped: set[int] | None,
) -> None:
    """Make the check of `check_losses` with one assignment of random numbers to the records.

    A program without doubt computes the loss of a record by the same operations whatever the other records are. If one of them is replaced,
    the loss may then change by a few `MACHINE_EPSILONS` only.
    """
    rows = range(size(batch))
    losses, trace = trace_outputs(model, loss, batch, seed, part, undropped)
    neighbour_tolerance = MACHINE_EPSILONS * torch.finfo(losses.dtype).eps if doubt is None else tolerance
    for row in rows[:TRIED]:
        others = [other for other in rows if other != row]
        neighbour = replace_example(batch, row, others[0])
        neighbour_losses, neighbour_trace = trace_outputs(model, loss, neighbour, seed, part, undropped)
        if not outputs_agree(neighbour_losses[others], losses[others], neighbour_tolerance):
            first, second = TracedRows(trace, others, len(rows)), TracedRows(neighbour_trace, others, len(rows))
            raise mixing_error(model, doubt, first, second, neighbour_tolerance)
        loss_alone, trace_alone = trace_outputs(model, loss, take(batch, [row]), seed, part, undropped)
        if not outputs_agree(losses[row : row + 1], loss_alone, tolerance):
            first, second = TracedRows(trace, [row], len(rows)), TracedRows(trace_alone, [0], count=1)
            raise mixing_error(model, doubt, first, second, tolerance)


def replace_example(batch: Batch, row: int, by: int) -> Batch:
    """Return a neighbouring batch, in which one example is replaced by a copy of another."""
    rows = [by if other == row else other for other in range(size(batch))]
    return take(batch, rows)


@dataclass(frozen=True, slots=True)
class TracedRows:
    """The outputs of the modules in one run of a batch, and the records that are compared.

    Attributes:
        trace: Outputs of each module, by its name.
        rows: Rows of the outputs that are compared.
        count: Number of records in the batch.
    """

    trace: Trace
    rows: list[int]
    count: int


def mixing_error(model: nn.Module, doubt: str | None, first: TracedRows, second: TracedRows, tolerance: float) -> InputError:
    """Return the error for a model that combines examples. It names the module from `differing_module`, or else the loss."""
    doubted = "" if doubt is None else f"; the program could not be followed: {doubt}"
    name = differing_module(first, second, tolerance)
    if name is None:
        return InputError(f"loss: {EXPECTED_LOSS}, found {MIXED}; {REMEDY}{doubted}")
    place = f"model: {name or 'the model'} ({type(model.get_submodule(name)).__name__})"
    return InputError(f"{place}: expected an output for each example that depends on it alone, found {MIXED}; {REMEDY}{doubted}")


def differing_module(first: TracedRows, second: TracedRows, tolerance: float) -> str | None:
    """Return the name of the first module, in the order in which calls end, whose outputs differ for the compared records.

    Outputs whose first dimension is not the number of records are passed over. Returns None if no module is left.
    """
    for name, outputs in first.trace.items():
        for output, other_output in zip(outputs, second.trace.get(name, []), strict=False):
            has_records = are_comparable(output, other_output) and len(output) == first.count and len(other_output) == second.count
            if has_records and not outputs_agree(output[first.rows], other_output[second.rows], tolerance):
                return name
    return None


def are_comparable(a: Tensor, b: Tensor) -> bool:
    """Return whether two outputs have floating-point rows of the same shape."""
    return a.is_floating_point() and a.dim() > 0 and a.shape[1:] == b.shape[1:]


def outputs_agree(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Return whether tensors agree up to tolerance * (1 + |number|). NaN equals NaN."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def tolerance_of(model: nn.Module) -> float:
    """Return the largest relative difference that counts as rounding in the precision of a model's parameters."""
    return rounding_tolerance(max(float(torch.finfo(p.dtype).eps) for p in model.parameters() if p.is_floating_point()))


def rounding_tolerance(epsilon: float) -> float:
    """Return the largest relative difference that counts as rounding: about 2e-3 in single precision, 5e-7 in double precision.

    Kernels may add in another order for another batch size, so differences may be well above machine epsilon. The exponent is a choice.
    """
    return math.pow(epsilon, 0.4)
