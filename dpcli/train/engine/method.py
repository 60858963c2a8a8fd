"""Methods of computing clipped sums, the rules of layers that they use, and the loss that all of them share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.pieces import Piece

# By module and name: functions that say of a tensor whether it is one without numbers, and decide nothing else.
QUESTIONS = (("transformers.utils.import_utils", "is_fake_tensor"),)

_answering: ContextVar[bool] = ContextVar("told", default=False)


@contextmanager
def as_followed() -> Iterator[None]:
    """The answer is yes, for what runs inside."""
    for module, name in QUESTIONS:
        question = getattr(sys.modules.get(module), name, None)
        if question is not None and not isinstance(question, WhetherFollowed):
            setattr(sys.modules[module], name, WhetherFollowed(question))
    before = _answering.set(True)
    try:
        yield
    finally:
        _answering.reset(before)


class WhetherFollowed:
    """Yes where it is told so, else what was answered before."""

    def __init__(self, question: Callable[[Any], bool]) -> None:
        self.question = question

    def __call__(self, tensor: Any) -> bool:
        return _answering.get() or self.question(tensor)


Loss = Callable[[nn.Module, Batch], Tensor]
Part = tuple[Mapping[str, Piece], int]  # of every parameter that has a gradient, and the number of examples


class Method(Protocol):
    """A way to the per-example gradients of a batch."""

    @property
    def name(self) -> str:
        """The name in reports."""

    @property
    def isolates(self) -> bool:
        """True where each example is differentiated on its own by construction."""

    def on(self, model: nn.Module) -> Method:
        """Return the method for a model of which this one's is a copy."""

    def parts(self, batch: Batch) -> Iterator[Part]:
        """Consecutive parts of the batch.

        Raises:
            Unsuitable: the method does not apply to the model.
        """


def per_example_losses(model: nn.Module, loss: Loss, batch: Batch, size: int) -> Tensor:
    """The losses, one per example.

    Raises:
        InputError: anything else; a mean or a sum over the batch cannot be taken apart again.
    """
    with as_followed():
        losses = loss(model, batch)
    if losses.shape != (size,):
        raise InputError(
            f"loss: expected one loss per example, shape ({size},) for {size} of them, found shape {tuple(losses.shape)}; "
            'a mean over the batch hides who contributed what: use reduction="none"'
        )
    return losses


class Unsuitable(Exception):
    """A method of computing clipped sums does not apply to this model; the message says why, and another method is taken."""


Pieces = Mapping[str, Callable[[], Piece]]


class Formula(Protocol):
    """A family of layers: for each parameter a way to its piece, computed only where the parameter is trainable."""

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        """Inputs (B, ...) and the gradient of the summed losses at the output (B, ...), whose rows are the examples."""


@dataclass(frozen=True, slots=True)
class LayerRule:
    """A formula, and what is true of its layers.

    anywhere: they do the same at every place of all dimensions but the last ones, so that examples may be along any of these.
    forward: how a layer runs while it is recorded, where that is not its own forward.
    """

    formula: Formula
    anywhere: bool = False
    forward: Callable[..., Tensor] | None = None

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        return self.formula(module, inputs, gradient)


def wide(values: Tensor) -> Tensor:
    """At least single precision: norms and sums in half precision would lose the bound."""
    return values.to(wide_type(values))


def wide_type(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def positions(values: Tensor) -> Tensor:
    """(B, ..., features) -> (B, T, features)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


class RaisedErrors(TorchFunctionMode):
    """Notes which functions raised."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if type(error).__module__ != "torch.utils.checkpoint":  # its own ends what is computed again, once all is there
                self.names.append(getattr(func, "__name__", type(func).__name__))
            raise


@contextmanager
def nothing_caught() -> Iterator[None]:
    """Raises Unsuitable where a function raised and the program went on."""
    raised = RaisedErrors()
    try:
        with raised:
            yield
    except Unsuitable:
        if not raised.names:
            raise
    if raised.names:
        raise Unsuitable(f"the model catches an error of {raised.names[0]}")


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """No autocast and no TF32: a norm that is off by a thousandth lets an example exceed C by as much."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False, cache_enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
