"""The engine of clipped sums for engine = "opacus" in [train]. Hooks of Opacus compute per-example gradients; dpcli checks and clips them.

An *engine* computes the sum of a batch's clipped gradients for the steps of training; step/prepare.py makes the one that the file names.
Opacus (Yousefpour et al. 2021, arXiv:2109.12298) computes gradients layer by layer. It may silently assign a gradient to the wrong example:
if a layer does not run once for each example, as with position ids or soft prompts, or if it does not know a module. In the *rehearsal*,
the trial on synthetic records before the first step, a few examples are therefore also processed one at a time. The model is refused if the
results differ. It is also refused if a *doubt* remains, that is, if the check of isolation could not follow the program (isolation/).
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError, Unavailable
from dpcli.train.engine.batches import Batch, form, make_contiguous, size
from dpcli.train.engine.capture import accumulate_gradients
from dpcli.train.engine.choice import EXAMPLES, modes, one_by_one, shift_parameters, verify
from dpcli.train.engine.layers import trainable
from dpcli.train.engine.method import (
    BatchPart,
    Loss,
    Method,
    Unsuitable,
    per_example_losses,
    refuse_caught_errors,
    trained_parameters,
    wide,
)
from dpcli.train.engine.per_example import refuse
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.sums import Sums, clipped_sums
from dpcli.train.engine.vectorised import Looped, empty_gradients
from dpcli.train.isolation.checked_sums import CheckedSums
from dpcli.train.isolation.rehearsal import check_isolation
from dpcli.train.isolation.synthetic_records import Draw, draw_kind
from dpcli.train.torch_internals import BatchNorm


@dataclass(slots=True)
class OpacusGradients(CheckedSums):
    """Clipped sums of gradients that Opacus' hooks compute. Its arguments are a model, a loss and a clipping style (`CheckedSums`).

    Raises:
        Unavailable: Opacus is not installed.
        InputError: A module mixes examples or keeps statistics. The rehearsal, or else the first batch, also raises it if norms or sums
            differ from results computed one example at a time, or if a norm depends on another example.

    An empty batch and gradients that are not finite are treated as in dpcli's own engine (`ClippedGradients` in per_example.py).
    """

    def __post_init__(self) -> None:
        opacus_version()
        refuse(self.model)

    def sums(self, batch: Batch) -> Sums:
        try:
            return clipped_sums(self.method.parts(make_contiguous(batch)), self.clip, trained_parameters(self.model))
        except Unsuitable as problem:
            raise refusal(self.model, problem) from None

    @property
    def method(self) -> Method:
        compared = self.mode == modes(self.model)
        return Hooked(self.model, self.loss) if compared else Looped(self.model, self.loss)

    def rehearse(self, draw: Draw) -> None:
        """Compare Opacus' norms and sums of a few synthetic examples with results computed one example at a time.

        Raises InputError if the results differ, Opacus fails, or the program combines examples.
        """
        refuse(self.model)
        self.program = check_isolation(self.model, self.loss, draw)
        if self.program.doubt is not None:
            raise refusal(self.model, Unsuitable(self.program.doubt))
        draw = draw_kind(self.program.numbers, draw)  # such numbers as the program accepts
        spare, few = copy.deepcopy(self.model), draw(EXAMPLES)
        with shift_parameters(spare):  # otherwise a layer that starts at zero would hide the layers before it
            expected = one_by_one(spare, self.loss, few)
            try:
                verify(spare, Hooked(spare, self.loss), few, expected, self.tolerance)
            except InputError:
                raise
            except Exception as problem:  # Opacus or torch may raise any error
                raise refusal(self.model, problem) from problem
        self.mode, self.form = modes(self.model), form(draw(1))

    def fix_description(self) -> None:
        """Do nothing, because no batch changes the method."""

    def describe(self) -> str:
        """Return the name of the method, with the version of Opacus and whether the comparison was made."""
        compared = "compared with one example at a time" if self.mode is not None else "not compared yet: one example at a time"
        return f"opacus {opacus_version()} hooks, {compared}"


@dataclass(frozen=True, slots=True)
class Hooked:
    """The method that attaches Opacus' GradSampleModule for one forward and one backward pass."""

    model: nn.Module
    loss: Loss
    name: str = "opacus"
    isolates: ClassVar[bool] = False  # so real steps are checked, by one example alone (isolation/checked_sums.py)

    def for_model(self, model: nn.Module) -> Hooked:
        return Hooked(model, self.loss)

    def parts(self, batch: Batch) -> Iterator[BatchPart]:
        count = size(batch)
        with empty_gradients(self.model.parameters()), attached_hooks(self.model):
            with refuse_caught_errors():  # a program that catches an error of torch may take another path
                losses = per_example_losses(self.model, self.loss, batch, count)
                if losses.requires_grad:
                    accumulate_gradients(losses.sum())
            by_name = {
                name: gradients_of(name, p, count) for name, p in trained_parameters(self.model).items() if p.grad is not None
            }
        yield BatchPart({name: PlainRows(wide(values)) for name, values in by_name.items()}, count)


def gradients_of(name: str, parameter: nn.Parameter, count: int) -> Tensor:
    """Return the gradients of a parameter, with a row for each example.

    Raises:
        Unsuitable: Opacus left no gradients, or gradients of another shape.
    """
    rows = getattr(parameter, "grad_sample", None)
    if not torch.is_tensor(rows) or rows.shape != (count, *parameter.shape):
        actual = f"a tensor of shape {tuple(rows.shape)}" if torch.is_tensor(rows) else f"{type(rows).__name__}"
        raise Unsuitable(f"it leaves {actual} for the {count} gradients of {name}")
    return rows.detach()


@contextmanager
def attached_hooks(model: nn.Module) -> Iterator[None]:
    """Attach Opacus' hooks within the block.

    The hooks run in training mode only. Modules with trainable parameters of their own are set to training mode. Others, such as dropout,
    keep their mode.

    Raises:
        Unsuitable: A frozen batch normalisation has trainable weights. In training mode it would use statistics of the batch.
    """
    was_training = {module: module.training for module in model.modules() if list(trainable(module))}
    if any(isinstance(module, BatchNorm) for module in was_training):
        raise Unsuitable("a frozen BatchNorm with weights to train would take the batch's statistics")
    wrapper: Any = importlib.import_module("opacus").GradSampleModule(model, loss_reduction="sum", strict=True)
    try:
        for module in was_training:
            module.training = True
        yield
    finally:
        wrapper.cleanup()
        for module in model.modules():  # layers that no gradient reached leave these attributes, which are wrong for the next batch
            for attribute in ("activations", "max_batch_len"):
                vars(module).pop(attribute, None)
        for module, mode in was_training.items():
            module.training = mode


def opacus_version() -> str:
    """Return Opacus' version. Raises Unavailable if it is not installed."""
    try:
        return version("opacus")
    except PackageNotFoundError:
        raise Unavailable("train.engine: engine = \"opacus\" needs Opacus: pip install 'dpcli[opacus]'") from None


def refusal(model: nn.Module, problem: Exception) -> InputError:
    """Return an error that names the model and the problem."""
    first_line = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    reason = first_line.partition(". ")[0]  # its first sentence
    return InputError(
        f"train.engine: expected Opacus' gradients of {type(model).__name__} to equal gradients computed one example at a time, "
        f'found a difference: {reason}; use engine = "dpcli"'
    )
