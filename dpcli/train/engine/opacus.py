"""The engine of engine = "opacus": per-example gradients by Opacus' hooks, clipped here, and used only after a comparison.

Opacus (Yousefpour et al. 2021, arXiv:2109.12298) computes them layer by layer. Where a layer does not run once per example (position
ids, soft prompts), or a module is unknown to it, a gradient may be another example's, without an error. So a few made-up examples are also
taken one at a time, and a difference is refused.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dpcli.base.errors import InputError, Unavailable
from dpcli.train.engine.batches import Batch, form, laid_out, size
from dpcli.train.engine.capture import accumulate_gradients
from dpcli.train.engine.choice import EXAMPLES, modes, one_by_one, shift_parameters, verify
from dpcli.train.engine.clip import Clip
from dpcli.train.engine.layers import trainable
from dpcli.train.engine.method import Loss, Method, Part, Unsuitable, nothing_caught, per_example_losses, wide
from dpcli.train.engine.per_example import refuse
from dpcli.train.engine.pieces import PlainRows
from dpcli.train.engine.sums import Sums, clipped, zero
from dpcli.train.engine.vectorised import Looped
from dpcli.train.isolation.rehearsal import Draw, check_isolation, like, sums_with_check
from dpcli.train.isolation.traced_program import Program


@dataclass(slots=True)
class OpacusGradients:
    """Clipped sums by Opacus' hooks; the arguments are those of `ClippedGradients`.

    Raises:
        InputError: Opacus is not installed; a module mixes examples or keeps statistics; at the rehearsal, or else the first batch:
            norms or sums are not those of one example at a time, or another example moves them.

    Edge cases: as of `ClippedGradients`.
    """

    model: nn.Module
    loss: Loss
    clip: Clip
    verified: bytes | None = field(default=None, init=False)  # the modules' modes, training or evaluation, at the comparison
    program: Program | None = field(default=None, init=False)
    form: object = field(default=None, init=False)

    def __post_init__(self) -> None:
        installed()
        refuse(self.model)

    def __call__(self, batch: Batch) -> Sums:
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not size(batch):
            return zero(parameters)
        batch = laid_out(batch)
        self.ready(batch)
        try:
            return clipped(self.method.parts(batch), self.clip, parameters)
        except Unsuitable as problem:
            raise refusal(self.model, problem) from None

    @property
    def method(self) -> Method:
        """Return the method of the sums; one example at a time until the comparison was made."""
        compared = self.verified == modes(self.model)
        return Hooked(self.model, self.loss) if compared else Looped(self.model, self.loss)

    def ready(self, batch: Batch) -> None:
        """Rehearse where the model's mode or the form of the records is new."""
        if self.verified != modes(self.model) or self.form != form(batch):
            self.rehearse(like(batch))

    def rehearse(self, draw: Draw) -> None:
        """Compare Opacus' norms and sums of a few made-up examples with those of one at a time.

        Raises:
            InputError: They differ, or Opacus fails, or the model itself does not keep examples apart.
        """
        refuse(self.model)
        self.program = check_isolation(self.model, self.loss, draw)
        if self.program.doubt is not None:
            raise refusal(self.model, Unsuitable(self.program.doubt))
        spare, few = copy.deepcopy(self.model), draw(EXAMPLES)
        with shift_parameters(spare):
            expected = one_by_one(spare, self.loss, few)
            try:
                verify(spare, Hooked(spare, self.loss), few, expected)
            except InputError:
                raise
            except Exception as problem:  # whatever Opacus or torch raises: nothing of it is used
                raise refusal(self.model, problem) from problem
        self.verified, self.form = modes(self.model), form(draw(1))

    def checked(self, batch: Batch, row: int) -> Sums:
        """Return the sums as `ClippedGradients.checked` does."""
        if not size(batch):
            return self(batch)
        self.ready(batch)
        return sums_with_check(self, batch, row)

    def settle(self) -> None:
        """Nothing changes the method."""

    def describe(self) -> str:
        """Return the method, and whether it was compared, in words."""
        compared = "compared with one example at a time" if self.verified is not None else "not compared yet: one example at a time"
        return f"opacus {installed()} hooks, {compared}"


@dataclass(frozen=True, slots=True)
class Hooked:
    """The method of Opacus' GradSampleModule, which is attached for one forward and one backward."""

    model: nn.Module
    loss: Loss
    name: str = "opacus"
    isolates: ClassVar[bool] = False

    def on(self, model: nn.Module) -> Hooked:
        return Hooked(model, self.loss)

    def parts(self, batch: Batch) -> Iterator[Part]:
        count = size(batch)
        with kept_gradients(self.model), attached(self.model):
            with nothing_caught():
                losses = per_example_losses(self.model, self.loss, batch, count)
                if losses.requires_grad:
                    accumulate_gradients(losses.sum())
            named = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
            by_name = {name: examples_of(name, p, count) for name, p in named.items() if p.grad is not None}
        yield {name: PlainRows(wide(values)) for name, values in by_name.items()}, count


def examples_of(name: str, parameter: nn.Parameter, count: int) -> Tensor:
    """Return the gradients, a row for each example.

    Raises:
        Unsuitable: Opacus left something else, or nothing.
    """
    rows = getattr(parameter, "grad_sample", None)
    if not torch.is_tensor(rows) or rows.shape != (count, *parameter.shape):
        shape = f"a shape of {tuple(rows.shape)}" if torch.is_tensor(rows) else f"{type(rows).__name__}"
        raise Unsuitable(f"it leaves {shape} for the {count} gradients of {name}")
    return rows.detach()


@contextmanager
def attached(model: nn.Module) -> Iterator[None]:
    """Attach Opacus' hooks. They run in training mode alone: modules with own parameters are put into it, others, as dropout, are not."""
    modes = {module: module.training for module in model.modules() if any(True for _ in trainable(module))}
    if any(isinstance(module, _BatchNorm) for module in modes):
        raise Unsuitable("a frozen BatchNorm with weights to train would take the batch's statistics")
    wrapper: Any = importlib.import_module("opacus").GradSampleModule(model, loss_reduction="sum", strict=True)
    try:
        for module in modes:
            module.training = True
        yield
    finally:
        wrapper.cleanup()
        for module in model.modules():  # of a layer that no gradient reached: the next batch must not find them
            for left in ("activations", "max_batch_len"):
                vars(module).pop(left, None)
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def kept_gradients(model: nn.Module) -> Iterator[None]:
    """Restore the caller's .grad afterwards."""
    before: Mapping[nn.Parameter, Tensor | None] = {p: p.grad for p in model.parameters()}
    try:
        for parameter in before:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in before.items():
            parameter.grad = gradient


def installed() -> str:
    """Return Opacus' version. Raises Unavailable if it is not installed."""
    try:
        return version("opacus")
    except PackageNotFoundError:
        raise Unavailable("train.engine: engine = \"opacus\" needs Opacus: pip install 'dpcli[opacus]'") from None


def refusal(model: nn.Module, problem: Exception) -> InputError:
    """Return an error that names the model and the problem."""
    reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0].partition(". ")[0]
    return InputError(
        f"train.engine: expected Opacus' gradients of {type(model).__name__} to be those of one example at a time, "
        f'found otherwise: {reason}; use engine = "dpcli"'
    )
