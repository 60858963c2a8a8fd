"""The check that a program, a model with its loss, isolates records: a record's loss and gradient depend on that record alone.

The *rehearsal* is the trial of a run on synthetic records before the first step. In it, the engine that clips and sums the gradients calls
`check_isolation`, so that a program that combines records is refused before anything is charged. The check follows the program operator by
operator without records (traced_program.py). It then compares the losses of synthetic records in a batch with the loss of each record alone
(`try_records`), and the gradient of a record with its gradient after other records (`require_no_memory`). All of this runs on copies of
the model. In real steps, checked_sums.py makes a further check.

The first part is a proof if it leaves no *doubt*, which is a reason why an operator could not be followed. The comparisons are tests: they
refuse what differs by more than rounding, and may miss a fault that synthetic records do not show.
"""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.choice import (
    check_losses,
    fixed_seed,
    restored_generators,
    rounding_tolerance,
    shift_parameters,
    tolerance_of,
)
from dpcli.train.engine.method import Loss, no_validation_by_default, per_example_losses, trained_parameters
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.vectorised import one_example
from dpcli.train.isolation.kept_state import reachable_state
from dpcli.train.isolation.synthetic_records import KINDS, Draw, NumberKind, draw_kind, has_floats, scale_numbers, to_double
from dpcli.train.isolation.traced_program import Program, analyze, dense_embeddings, describe_error, tracked_modules
from dpcli.train.torch_internals import tree_leaves, tree_map

# More rounds and other sizes could find rarer faults, and cost time before each run. The numbers are choices.
BATCH_SIZES = (7, 11, 13)  # candidates: a size that divides no other length identifies the dimension of the records
LARGER_BATCH_SIZE = 33  # used once for a program that could not be followed, because it may treat larger batches differently
ROUNDS = 3  # rounds of the check, each with fresh random numbers
FEW = 8  # number of synthetic records whose losses must be finite; arbitrary
SEED_BITS = 40  # length of the seeds of the program's random numbers; arbitrary
ATTEMPTS = 3  # largest number of records that are drawn until one has a gradient; arbitrary
# Tolerance of losses if no machine epsilon in the program is above SINGLE_PRECISION: about 80 epsilons of single precision.
# SINGLE_PRECISION is between the epsilons of single and half precision. Both are choices.
TOLERANCE, SINGLE_PRECISION = 1e-5, 1e-6


def check_isolation(model: nn.Module, loss: Loss, draw: Draw) -> Program:
    """Check a program on copies of the model, and return the verdict on it.

    Raises InputError if the program combines records, changes state in a forward pass, or fails on synthetic records.
    """
    state_before = reachable_state(model, loss)
    program = analyze(copy_of(model), loss, draw(2))
    state_before.require_same(reachable_state(model, loss))
    program = replace(program, numbers=kind_of_numbers(copy_of(model), loss, draw))
    draw = draw_kind(program.numbers, draw)
    try:
        try_records(copy_of(model).double(), loss, lambda count: to_double(draw(count)), program)
    except InputError:
        raise
    except Exception:  # the program may run in its own precision only
        try_in_own_precision(model, loss, draw, program)
    state_before.require_same(reachable_state(model, loss))
    require_no_memory(model, loss, draw, program)
    return program


def kind_of_numbers(model: nn.Module, loss: Loss, draw: Draw) -> NumberKind:
    """Return the first kind of numbers on which the program runs without an error, at every scale, and with finite losses at the first.

    A program may need positive numbers, for example for a logarithm, or numbers in the unit interval, such as probabilities. If no kind
    gives finite losses, the result is the first kind without an error. If every kind raises an error, it is the first kind of `KINDS`.

    Args:
        model: Copy of the model. Its attributes may change.
    """
    first_without_error: NumberKind | None = None
    with restored_generators(model):
        for kind in KINDS:
            with suppress(Exception), torch.enable_grad():  # the program may raise any error
                scales = kind.scales if has_floats(draw(1)) else (1.0,)
                batches = [scale_numbers(draw_kind(kind, draw)(FEW), scale) for scale in scales]
                losses = [per_example_losses(model, loss, batch, FEW) for batch in batches]
                if bool(losses[0].isfinite().all()):
                    return kind
                first_without_error = first_without_error or kind
    return first_without_error or KINDS[0]


def try_in_own_precision(model: nn.Module, loss: Loss, draw: Draw, program: Program) -> None:
    """Run `try_records` on a copy of the model, in the program's own precision. Raises InputError also if the program fails."""
    spare, stack = copy_of(model), ["loss"]
    try:
        with tracked_modules(spare, stack):
            try_records(spare, loss, draw, program)
    except InputError:
        raise
    except Exception as problem:
        raise InputError(
            f"{stack[-1]}: expected a program that runs on made-up records, found {describe_error(problem)}"
        ) from problem


def require_no_memory(model: nn.Module, loss: Loss, draw: Draw, program: Program) -> None:
    """Check that a record's gradient does not depend on records that were processed before it.

    The gradient of a record is computed on one copy of the model. On another copy it is computed after the gradients of other records, with
    the same random numbers. The comparison detects state that a backward pass leaves in a class, a closure or a hook, if the state changes
    a gradient. State that changes no gradient is harmless.

    Raises:
        InputError: The two gradients differ by more than rounding. A gradient whose norm is not finite is not compared.
    """
    rounding = max(program.coarsest, *(torch.finfo(p.dtype).eps for p in model.parameters() if p.is_floating_point()))
    # Kernels may add in another order in the second computation. The factor 1000 is a choice. The first tolerance is the smaller one for
    # single and double precision, and the second for half precision, where 1000 epsilons are about 1.
    tolerance = min(1000.0 * rounding, rounding_tolerance(rounding))
    with restored_generators(model):
        for _ in range(ATTEMPTS):
            record, seed = draw(1), secrets.randbits(SEED_BITS)
            gradient = gradient_after([], copy_of(model), loss, record, seed)
            norm = math.hypot(*(float(g.norm()) for g in gradient.values()))
            if norm > 0.0:  # a record may have no loss, such as one whose label marks padding
                break
        earlier_records = [scale_numbers(draw(1), scale) for scale in program.numbers.scales]
        later_gradient = gradient_after(earlier_records, copy_of(model), loss, record, seed)
    difference = math.hypot(*(float((later_gradient[name] - g).norm()) for name, g in gradient.items()))
    if math.isfinite(norm) and not difference <= tolerance * norm:
        raise InputError(
            "model: expected a gradient of each record that depends on it alone, found one that depends on records processed before it; "
            "the backward pass and its hooks must keep no state that enters a gradient"
        )


def gradient_after(earlier_records: Sequence[Batch], model: nn.Module, loss: Loss, record: Batch, seed: int) -> dict[str, Tensor]:
    """Return the gradient of one record by parameter name, computed after the gradients of other records. Every batch has one record."""
    parameters = trained_parameters(model)

    def gradient_of(batch: Batch, seed: int) -> Mapping[str, PlainRows]:
        with fixed_seed(model, seed):
            return one_example(per_example_losses(model, loss, tree_map(torch.clone, batch), 1), parameters)

    with shift_parameters(model), dense_embeddings(model), torch.enable_grad():
        for earlier in earlier_records:
            with suppress(Exception):  # a loss may reject such numbers; the part of the program before the error has run
                gradient_of(earlier, secrets.randbits(SEED_BITS))
        gradients = gradient_of(record, seed)
    missing = {name: torch.zeros_like(parameters[name])[None] for name in parameters if name not in gradients}
    return {**missing, **{name: rows.values for name, rows in gradients.items()}}


def try_records(model: nn.Module, loss: Loss, draw: Draw, program: Program) -> None:
    """Compare the losses of synthetic records in a batch with the losses of each record alone, at several magnitudes of their numbers.

    Raises:
        InputError: The losses differ, or a forward pass changes state. Any other error is one of the program itself.
    """
    tolerance = rounding_tolerance(program.coarsest) if program.coarsest > SINGLE_PRECISION else TOLERANCE
    tolerance = max(tolerance, tolerance_of(model))
    usual_count = batch_size_for(model, draw(1))
    # Without the shift of the parameters, a layer that starts at zero would hide the layers before it.
    with shift_parameters(model), restored_generators(model):
        state_before = reachable_state(model, loss)
        with no_validation_by_default():
            loss(model, draw(2))
        # `check_losses` below sets torch's seed, which is a part of the state.
        state_before.require_same(reachable_state(model, loss))
        for round_number in range(ROUNDS):
            count = LARGER_BATCH_SIZE if round_number == 1 and not program.complete else usual_count
            for scale in program.numbers.scales if has_floats(draw(1)) else (1.0,):
                records = scale_numbers(draw(count), scale)
                check_losses(model, loss, records, secrets.randbits(SEED_BITS), tolerance, program.doubt)
                state_before.require_same(reachable_state(model, loss))


def batch_size_for(model: nn.Module, record: Batch) -> int:
    """Return a batch size that divides no length of a record or a parameter. Return the first candidate if there is none.

    Sizes above every length of a record are preferred: sequences of the records, up to their lengths, are then shorter.
    """
    lengths = {length for tensor in (*tree_leaves(record), *model.parameters()) for length in tensor.shape}
    longest = max((length for leaf in tree_leaves(record) for length in leaf.shape[1:]), default=0)
    suitable = [count for count in BATCH_SIZES if all(length % count for length in lengths)]
    return next(iter([count for count in suitable if count > longest] + suitable), BATCH_SIZES[0])


def copy_of(model: nn.Module) -> nn.Module:
    """Return a deep copy of the model. Raises InputError if it cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception as problem:  # the attributes of a module may raise any error
        raise InputError(
            f"model: expected a module that can be copied for the isolation check, found {describe_error(problem)}"
        ) from None
