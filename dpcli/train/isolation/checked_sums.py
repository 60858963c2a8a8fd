"""The base class of the engines that compute clipped sums, with the check of isolation that they make in real steps.

An *engine* computes the sum of a batch's clipped gradients: engine/per_example.py (dpcli's own) or engine/opacus.py. Its *program* is a
model with its loss. Before the first step the engine is *rehearsed*, that is, tried on synthetic records: it checks that the program
isolates records (rehearsal.py), and chooses a *method* for the gradients (engine/method.py).

A program may still combine records on private data only. The training loop (step/loop.py) therefore offers one random record of each step
(`checked_sums`). The engine computes the gradient of this record alone, and compares its norm with its norm in the batch. Methods that
differentiate each record separately (`Method.isolates`) need no such check, and dpcli's own engine omits it in most of the later steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, form, size
from dpcli.train.engine.choice import SLACK, modes, rounding_tolerance, tolerance_of
from dpcli.train.engine.clip import Clip
from dpcli.train.engine.draws import RECORD_PARTS, DrawnNumbers, RecordPart, recorded_draws, replayed_draws
from dpcli.train.engine.method import BatchPart, Loss, Method, per_example_losses, trained_parameters
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.sums import LARGE, Sums, unclipped_norms, zero
from dpcli.train.engine.vectorised import one_example
from dpcli.train.isolation.synthetic_records import KINDS, Draw, NumberKind, draws_like
from dpcli.train.isolation.traced_program import Program, dense_embeddings
from dpcli.train.torch_internals import tree_map

# A norm above this number may be infinite in one of two computations and finite in the other. The value is a choice; the square of a norm
# overflows single precision at about 2e19.
NEARLY_INFINITE = 1e15


@dataclass(slots=True)
class CheckedSums(ABC):
    """An engine that computes clipped sums of a program, after a rehearsal in which the program is checked.

    Attributes:
        model: Model that the caller trains in place.
        loss: Function that returns the losses of a batch, shape (B,).
        clip: Clipping style, with the bound C on one example's contribution.
        mode: Modes of the modules at the last rehearsal; None before the first.
        program: Verdict of the last rehearsal on the program.
        form: Form of the records of the last rehearsal.
    """

    model: nn.Module
    loss: Loss
    clip: Clip
    mode: bytes | None = field(default=None, init=False)
    program: Program | None = field(default=None, init=False)
    form: object = field(default=None, init=False)

    def __call__(self, batch: Batch) -> Sums:
        """Return the clipped sums of one micro-batch. The caller adds the sums of all micro-batches of a step: `first + second`."""
        if not size(batch):
            return zero(trained_parameters(self.model))
        self.rehearse_if_needed(batch)
        return self.sums(batch)

    def rehearse_if_needed(self, batch: Batch) -> None:
        """Rehearse if the modes of the modules or the form of the records differ from those of the last rehearsal."""
        if self.mode != modes(self.model) or self.form != form(batch):
            self.rehearse(draws_like(batch))

    def checked_sums(self, batch: Batch, row: int) -> Sums:
        """Return the sums, after a comparison of one example's gradient in the batch with its gradient alone.

        Raises InputError if the norms of the two gradients differ, so the program combines records.
        """
        if not size(batch):
            return self(batch)
        self.rehearse_if_needed(batch)
        return sums_with_check(self, batch, row)

    @property
    def numbers(self) -> NumberKind:
        """Return the kind of synthetic numbers on which the program runs; standard normal numbers before the rehearsal."""
        return KINDS[0] if self.program is None else self.program.numbers

    @property
    def tolerance(self) -> float:
        """Return the largest relative difference that counts as rounding, in the coarsest number format of the model or the program."""
        coarsest = 0.0 if self.program is None else self.program.coarsest
        return max(tolerance_of(self.model), rounding_tolerance(coarsest))

    @property
    @abstractmethod
    def method(self) -> Method:
        """Return the method of the sums. It processes one example at a time until the rehearsal."""

    @abstractmethod
    def sums(self, batch: Batch) -> Sums:
        """Return the clipped sums of a batch that is not empty and for which there was a rehearsal."""

    @abstractmethod
    def rehearse(self, draw: Draw) -> None:
        """Choose a method of computation on synthetic records. Raises InputError if the program combines records."""

    @abstractmethod
    def fix_description(self) -> None:
        """Fix the result of `describe`. The caller calls this before the first private record, on which later changes may depend."""

    @abstractmethod
    def describe(self) -> str:
        """Return the method of computation in words."""


def sums_with_check(engine: CheckedSums, batch: Batch, row: int) -> Sums:
    """Return the sums of a batch, after a comparison of one example's gradient norm in the batch with its norm alone.

    The comparison is skipped for a method that differentiates each example separately.

    Args:
        row: Row of the example in the batch. When it is processed alone, the example receives the random numbers that it drew in the batch.

    Raises:
        InputError: The two norms differ by more than the rounding of weights of usual size. Where the weights have diverged, rounding alone
            may do so: with weights of about 100 in an MLP, two norms differed by up to an eighth. The message does not reveal the norms.
    """
    if engine.method.isolates:
        return engine(batch)
    random = engine.program is None or engine.program.random
    recording: AbstractContextManager[list[DrawnNumbers]] = recorded_draws(row, size(batch)) if random else nullcontext([])
    with recording as draws:
        sums = engine(batch)
    if engine.method.isolates:  # an error on these records made the engine process one example at a time
        return sums
    example = tree_map(lambda leaf: leaf[row : row + 1].clone(), batch)
    norm_in_batch = float(sums.norms[row])
    # The draws do not show which of these parts of the batch's numbers the example used, so any may agree. Without draws, the part does not
    # matter.
    for part in RECORD_PARTS if draws else RECORD_PARTS[:1]:
        if agree(engine, norm_alone(engine, example, draws, part), norm_in_batch):
            return sums
    raise InputError(
        "model: expected an example's gradient in the batch to equal its gradient alone, but the model or the loss mixes examples, or the "
        "weights are so large that rounding changes gradients (then lower the learning rate); this step was not released"
    )


def norm_alone(engine: CheckedSums, example: Batch, draws: list[DrawnNumbers], part: RecordPart) -> float:
    """Return the gradient norm of one example, computed alone and with the given random numbers.

    Args:
        draws: Random numbers that the example drew in the batch; empty if the program draws none.
        part: Position of the example in draws that have several indices for each record.
    """
    parameters = trained_parameters(engine.model)
    with dense_embeddings(engine.model), replayed_draws(draws, part) if draws else nullcontext():
        gradients = one_example(per_example_losses(engine.model, engine.loss, example, 1), parameters)
    return norm(gradients, engine.clip, parameters)


def norm(gradients: Mapping[str, PlainRows], clip: Clip, parameters: Mapping[str, Tensor]) -> float:
    """Return the gradient norm over all parameters. Large norms are computed in double precision, because squares may overflow."""
    with torch.no_grad():
        norms = [torch.linalg.vector_norm(rows.values) for rows in gradients.values()]
        single_precision_norm = math.hypot(*torch.stack(norms).tolist()) if norms else 0.0
    if single_precision_norm < LARGE:  # up to LARGE, no square overflows
        return single_precision_norm
    return float(unclipped_norms(BatchPart(gradients, 1), clip, parameters)[0])


def agree(engine: CheckedSums, alone: float, norm_in_batch: float) -> bool:
    """Return whether the norms of one example alone and in a batch agree up to rounding, relative to the larger norm plus `SLACK` of C.

    Two norms that are not finite agree. A norm that is not finite also agrees with one above `NEARLY_INFINITE`.
    """
    finite = [value for value in (alone, norm_in_batch) if math.isfinite(value)]
    if len(finite) < 2:
        return not finite or finite[0] > NEARLY_INFINITE
    return abs(alone - norm_in_batch) <= engine.tolerance * (max(finite) + SLACK * engine.clip.bound)
