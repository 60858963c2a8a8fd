"""The check of a program: followed without records, tried on made-up ones, and one record of each real step taken alone as well."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size
from dpcli.train.engine.choice import TRIED, check, seeded, shifted, tolerance_of, unmoved
from dpcli.train.engine.clip import Clip
from dpcli.train.engine.draws import DrawnNumbers, remembered, repeated
from dpcli.train.engine.method import Loss, Method, per_example_losses
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.sums import LARGE, Sums, lengths_of
from dpcli.train.engine.vectorised import one_example
from dpcli.train.isolation.kept_state import state
from dpcli.train.isolation.traced_program import Program, analyze, dense, named, raised

SCALES = (1.0, 1e-3, 30.0, 1e3, 1e6)  # a threshold on magnitudes lies below one of them
RECORDS = (7, 11, 13)  # one that divides no other dimension: draws are told apart by it
SEVERAL = 33  # where the program could not be followed: it may do something else for another number
SEEDS = 3
SPAN = 1000
BEYOND = 1e15  # a norm above it may be beyond the number format one way and not the other

Draw = Callable[[int], Batch]  # a number of made-up records, fresh each time


def isolated(model: nn.Module, loss: Loss, draw: Draw) -> Program:
    """Follow the program on no records, and try it on made-up ones, all on copies that are thrown away.

    Raises:
        InputError: Records meet somewhere, or a forward changes something, or the program fails.
    """
    before = state(model, loss)
    program = analyze(copied(model), loss, draw(2))
    before.require_same(state(model, loss))
    try:
        tried(copied(model).double(), loss, lambda count: double(draw(count)), program)
    except InputError:
        raise
    except Exception:  # it insists on its own precision
        spare, stack = copied(model), ["loss"]
        try:
            with named(spare, stack):
                tried(spare, loss, draw, program)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(f"{stack[-1]}: expected a program that runs on made-up records, found {raised(problem)}") from problem
    before.require_same(state(model, loss))
    require_forgetting(model, loss, draw, program)
    return program


def require_forgetting(model: nn.Module, loss: Loss, draw: Draw, program: Program) -> None:
    """Take a record's gradient; on another copy those of others, then its own again, with the same random numbers.

    What a backward pass keeps (in a class, a closure, a hook) shows in that alone: where it changes no gradient, it is nobody's business.

    Raises:
        InputError: the gradient is another one.
    """
    rounding = max(program.coarsest, *(torch.finfo(p.dtype).eps for p in model.parameters() if p.is_floating_point()))
    tolerance = min(1000.0 * rounding, math.pow(rounding, 0.4))  # the same computation twice: kernels may add in another order
    with unmoved(model):
        for record in (draw(1) for _ in range(TRIED)):
            seed = secrets.randbits(40)
            first = gradient_after([], copied(model), loss, record, seed)
            far = math.hypot(*(float(g.norm()) for g in first.values()))
            if far > 0.0:  # a label may be a mark, that it counts for nothing
                break
        scales = SCALES if has_numbers(record) else SCALES[:1] * len(SCALES)
        again = gradient_after([scaled(draw(1), scale) for scale in scales], copied(model), loss, record, seed)
    apart = math.hypot(*(float((again[name] - one).norm()) for name, one in first.items()))
    if math.isfinite(far) and not apart <= tolerance * far:
        raise InputError(
            "model: expected a gradient of each record that depends on it alone, found one that depends on the records that were taken "
            "before it; let the backward pass and its hooks keep nothing that a gradient is computed with"
        )


def gradient_after(others: Sequence[Batch], model: nn.Module, loss: Loss, record: Batch, seed: int) -> dict[str, Tensor]:
    """Return the gradient of one record, as a loop takes it after others, by the parameters' names."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def alone(one: Batch, seed: int) -> Mapping[str, PlainRows]:
        with seeded(model, seed):
            return one_example(per_example_losses(model, loss, tree_map(torch.clone, one), 1), parameters)

    with shifted(model), dense(model), torch.enable_grad():
        for other in others:
            with suppress(Exception):  # of a loss that does not take such numbers: it has run until there
                alone(other, secrets.randbits(40))
        gradients = alone(record, seed)
    return {name: gradients[name].values if name in gradients else torch.zeros_like(p)[None] for name, p in parameters.items()}


def tried(model: nn.Module, loss: Loss, draw: Draw, program: Program) -> None:
    """Run in batches and alone, at several magnitudes, under fresh random numbers; nothing may change meanwhile."""
    tolerance = math.pow(program.coarsest, 0.4) if program.coarsest > 1e-6 else 1e-5
    tolerance, few = max(tolerance, tolerance_of(model)), several(model, draw(1))
    with shifted(model), unmoved(model):
        before = state(model, loss)
        loss(model, draw(2))
        before.require_same(state(model, loss))  # the seed of torch's numbers, too, which a check sets itself
        for seed in range(SEEDS):
            count = SEVERAL if seed == 1 and not program.complete else few
            for scale in SCALES if has_numbers(draw(1)) else SCALES[:1]:
                check(model, loss, scaled(draw(count), scale), secrets.randbits(40), tolerance, program.doubt)
                before.require_same(state(model, loss))


def several(model: nn.Module, record: Batch) -> int:
    """Return a number of records that no length of a record's or a parameter's is a multiple of, if there is one."""
    lengths = {length for one in (*tree_leaves(record), *model.parameters()) for length in one.shape}
    return next((count for count in RECORDS if all(length % count for length in lengths)), RECORDS[0])


def copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception as problem:  # whatever its attributes raise
        raise InputError(f"model: expected a module that can be copied, so that it can be tried, found {raised(problem)}") from None


def double(batch: Batch) -> Batch:
    return tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, batch)  # type: ignore[no-any-return]


def like(records: Batch) -> Draw:
    """Draw records of these shapes and types: standard normal numbers, and whole ones from the range that there is, each about as often.

    Of the records themselves only that range counts, as it says which labels and tokens a program takes.
    """
    form = tree_map(lambda leaf: (leaf.shape[1:], leaf.dtype, leaf.device, *span(leaf)), records)
    return lambda count: tree_map(lambda one: column(count, *one), form, is_leaf=is_form)


def is_form(one: object) -> bool:
    return isinstance(one, tuple) and len(one) == 5 and isinstance(one[0], torch.Size)


def span(leaf: Tensor) -> tuple[int, int]:
    """Return the smallest and the largest whole number."""
    if leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool or not leaf.numel():
        return 0, 1
    return int(leaf.min()), int(leaf.max())


def column(count: int, shape: torch.Size, dtype: torch.dtype, device: torch.device, low: int, high: int) -> Tensor:
    """Draw one tensor; a smallest number below zero is taken for a mark, as padding is, and comes now and then."""
    if dtype == torch.bool:
        truths = torch.rand(count, *shape, device=device) < 0.5
        if truths.dim() > 1:
            truths[:, 0] = True
        return truths
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(count, *shape, dtype=torch.promote_types(dtype, torch.float32), device=device).to(dtype)
    least, most = max(0, low), max(0, low, high)
    numbers = torch.randint(least, most + 1, (count, *shape), device=device)
    if not shape and most - least < SPAN:  # labels and lengths: as different as they can be, also among few
        every = [torch.randperm(most - least + 1, device=device) for _ in range(0, count, most - least + 1)]
        numbers = least + torch.cat([*every, numbers[:0]])[:count]
    if low < 0:
        numbers = torch.where(torch.rand(numbers.shape, device=device) < 0.1, low, numbers)
    return numbers.to(dtype)


def scaled(batch: Batch, scale: float) -> Batch:
    """Scale all floating-point numbers."""
    return tree_map(lambda leaf: leaf * scale if leaf.is_floating_point() else leaf, batch)  # type: ignore[no-any-return]


def has_numbers(batch: Batch) -> bool:
    return any(leaf.is_floating_point() for leaf in tree_leaves(batch))


class Sum(Protocol):
    """Computes clipped sums, after its rehearsal."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def loss(self) -> Loss: ...

    @property
    def program(self) -> Program | None: ...

    @property
    def clip(self) -> Clip: ...

    @property
    def method(self) -> Method: ...

    def __call__(self, batch: Batch, /) -> Sums: ...


def rechecked(engine: Sum, batch: Batch, row: int) -> Sums:
    """Return the batch's sums, after one example's gradient was compared with the one that it has alone.

    Edge cases: a method that differentiates each example on its own is believed.

    Args:
        row: Row of that example, which is given the random numbers that it drew in the batch.

    Raises:
        InputError: The lengths of its gradient differ by more than rounding; the message shows nothing of it.
    """
    if engine.method.isolates:
        return engine(batch)
    random = engine.program is None or engine.program.random
    listening: AbstractContextManager[list[DrawnNumbers]] = remembered(row, size(batch)) if random else nullcontext([])
    with listening as drawn:
        sums = engine(batch)
    if engine.method.isolates:  # something in these records had them taken one at a time
        return sums
    together, alone = float(sums.norms[row]), tree_map(lambda leaf: leaf[row : row + 1].clone(), batch)
    if not agree(engine, length_alone(engine, alone, drawn), together):
        raise InputError(
            "model: expected an example's gradient in the batch to be the one that it has alone, but the model or the loss "
            "does not keep examples apart; this step was not released"
        )
    return sums


def length_alone(engine: Sum, alone: Batch, drawn: list[DrawnNumbers]) -> float:
    """Return the length of the example's gradient, if it is given these random numbers."""
    parameters = {name: p for name, p in engine.model.named_parameters() if p.requires_grad}
    with dense(engine.model), repeated(drawn) if drawn else nullcontext():
        gradients = one_example(per_example_losses(engine.model, engine.loss, alone, 1), parameters)
    return length(gradients, engine.clip, parameters)


def length(gradients: Mapping[str, PlainRows], clip: Clip, parameters: Mapping[str, Tensor]) -> float:
    """Return the length over all parameters: at once, unless its squares may leave the number format."""
    with torch.no_grad():
        each = [torch.linalg.vector_norm(rows.values) for rows in gradients.values()]
        quick = math.hypot(*torch.stack(each).tolist()) if each else 0.0
    return quick if quick < LARGE else float(lengths_of((gradients, 1), clip, parameters)[0])


def agree(engine: Sum, alone: float, together: float) -> bool:
    """Return whether two lengths agree up to rounding, relative to them or to a fiftieth of C."""
    if not (math.isfinite(alone) and math.isfinite(together)):
        return math.isfinite(alone) == math.isfinite(together) or max(x for x in (alone, together, 0.0) if x < math.inf) > BEYOND
    coarsest = 0.0 if engine.program is None else engine.program.coarsest
    tolerance = max(tolerance_of(engine.model), math.pow(coarsest, 0.4))
    return abs(alone - together) <= tolerance * (max(alone, together) + 0.02 * engine.clip.bound)
