"""One example of a real step, computed alone as well: what its gradient is there, it must be in the batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size
from dpcli.train.engine.clip import Clip
from dpcli.train.engine.draws import remembered, repeated
from dpcli.train.engine.method import Loss, Method, per_example_losses
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.probe import tolerance_of
from dpcli.train.engine.sums import LARGE, Sums, lengths_of
from dpcli.train.engine.vectorised import one_example
from dpcli.train.isolation.program import Program, dense

BEYOND = 1e15  # a norm above it may be beyond the number format one way and not the other


class Sum(Protocol):
    """What computes clipped sums, after its rehearsal."""

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
    """The batch's sums.

    Args:
        row: of the example that is computed alone too, with the random numbers that it drew in the batch.

    Edge cases: a method that differentiates each example on its own is believed.

    Raises:
        InputError: the lengths of its gradient differ by more than rounding; the words show nothing of it.
    """
    if engine.method.isolates:
        return engine(batch)
    random = engine.program is None or engine.program.random
    nothing: list[list[Tensor]] = [[]]
    listening: AbstractContextManager[list[list[Tensor]]] = remembered(row, size(batch)) if random else nullcontext(nothing)
    with listening as kept:
        sums = engine(batch)
    if engine.method.isolates:  # what it met on these records had them taken one at a time
        return sums
    together, alone = float(sums.norms[row]), tree_map(lambda leaf: leaf[row : row + 1].clone(), batch)
    if not any(agree(engine, given(engine, alone, drawn), together) for drawn in kept):
        raise InputError(
            "model: expected an example's gradient in the batch to be the one that it has alone, found another: the model or the loss "
            "does not keep examples apart; this step was not released"
        )
    return sums


def given(engine: Sum, alone: Batch, drawn: list[Tensor]) -> float:
    """Length of the example's gradient, where it is given these random numbers."""
    parameters = {name: p for name, p in engine.model.named_parameters() if p.requires_grad}
    with dense(engine.model), repeated(drawn) if drawn else nullcontext():
        return length_alone(
            one_example(per_example_losses(engine.model, engine.loss, alone, 1), parameters), engine.clip, parameters
        )


def length_alone(gradients: Mapping[str, PlainRows], clip: Clip, parameters: Mapping[str, Tensor]) -> float:
    """Over all parameters: at once, unless it is so long that its squares may leave the number format."""
    with torch.no_grad():
        each = [torch.linalg.vector_norm(rows.values) for rows in gradients.values()]
        found = math.hypot(*torch.stack(each).tolist()) if each else 0.0
    return found if found < LARGE else float(lengths_of((gradients, 1), clip, parameters)[0])


def tolerance_for(engine: Sum) -> float:
    """What rounding explains, from the coarsest numbers that the program has."""
    coarsest = 0.0 if engine.program is None else engine.program.coarsest
    return max(tolerance_of(engine.model), math.pow(coarsest, 0.4))


def agree(engine: Sum, alone: float, together: float) -> bool:
    """Up to rounding, relative to the length or to a fiftieth of C."""
    if not (math.isfinite(alone) and math.isfinite(together)):
        return math.isfinite(alone) == math.isfinite(together) or max(x for x in (alone, together, 0.0) if x < math.inf) > BEYOND
    return abs(alone - together) <= tolerance_for(engine) * (max(alone, together) + 0.02 * engine.clip.bound)
