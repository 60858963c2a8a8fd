"""The interface of methods for per-example gradients, of layer rules, and the checked loss that all methods share."""

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

# Functions, by module and name, that say whether a tensor is fake (has no numbers). They must answer alike with and without numbers, or a
# model could take another path when the isolation check follows it.
FAKE_TENSOR_CHECKS = (("transformers.utils.import_utils", "is_fake_tensor"),)

_all_fake: ContextVar[bool] = ContextVar("all_fake", default=False)


@contextmanager
def tensors_as_fake() -> Iterator[None]:
    """Let every check for fake tensors answer yes meanwhile."""
    for module, name in FAKE_TENSOR_CHECKS:
        check = getattr(sys.modules.get(module), name, None)
        if check is not None and not isinstance(check, FakeTensorCheck):
            setattr(sys.modules[module], name, FakeTensorCheck(check))
    before = _all_fake.set(True)
    try:
        yield
    finally:
        _all_fake.reset(before)


class FakeTensorCheck:
    """A check for fake tensors that answers yes within `tensors_as_fake`, and as before elsewhere."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self.check = check

    def __call__(self, tensor: Any) -> bool:
        return _all_fake.get() or self.check(tensor)


Loss = Callable[[nn.Module, Batch], Tensor]
Part = tuple[Mapping[str, Piece], int]  # of every parameter that has a gradient, and the number of examples


class Method(Protocol):
    """A method of computing the per-example gradients of a batch."""

    @property
    def name(self) -> str:
        """Return the name in reports."""

    @property
    def isolates(self) -> bool:
        """Return whether each example is differentiated on its own by construction."""

    def on(self, model: nn.Module) -> Method:
        """Return the method for a model of which this method's model is a copy."""

    def parts(self, batch: Batch) -> Iterator[Part]:
        """Yield the gradients of consecutive parts of the batch.

        Raises:
            Unsuitable: The method does not apply to the model.
        """


def per_example_losses(model: nn.Module, loss: Loss, batch: Batch, size: int) -> Tensor:
    """Return the losses, one per example.

    Raises:
        InputError: Anything else; a mean or a sum over the batch cannot be taken apart again.
    """
    with tensors_as_fake():
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
    """The gradients of a family of layers: for each parameter a function that returns its piece."""

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        """Return the pieces from the inputs (B, ...) and the gradient of the summed losses at the output (B, ...)."""


@dataclass(frozen=True, slots=True)
class LayerRule:
    """A formula, and properties of its layers.

    Attributes:
        anywhere: A layer does the same at every place of all dimensions but the last ones, so that examples may be along any of these.
        forward: In place of the layer's own forward while it is recorded, if given.
    """

    formula: Formula
    anywhere: bool = False
    forward: Callable[..., Tensor] | None = None

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        return self.formula(module, inputs, gradient)


def wide(values: Tensor) -> Tensor:
    """Return numbers in at least single precision: norms and sums in half precision would exceed the bound."""
    return values.to(wide_type(values))


def wide_type(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def positions(values: Tensor) -> Tensor:
    """Return (B, T, features) of (B, ..., features)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


class RaisedErrors(TorchFunctionMode):
    """A mode that notes which functions raised."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if type(error).__module__ != "torch.utils.checkpoint":  # whose own error ends a recomputation that has all it needs
                self.names.append(getattr(func, "__name__", type(func).__name__))
            raise


@contextmanager
def nothing_caught() -> Iterator[None]:
    """Raise Unsuitable where a function raised and the program went on."""
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
    """Switch autocast and TF32 off meanwhile: a norm that is off by a thousandth lets an example exceed C by as much."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False, cache_enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
