"""The interfaces of methods for per-example gradients and of layer rules, and what all methods share.

A *method* computes the gradient of the loss of each example separately: book_keeping.py, vectorised.py (vmap or a loop), or opacus.py. An
engine (per_example.py, opacus.py) asks it for the gradients of a batch, and sums.py clips and adds them. The gradients of one parameter are
a *piece*, which may hold them in factors (pieces.py). A *layer rule* computes the pieces of a layer from its inputs and the gradient of its
outputs; book-keeping uses the rules of layers.py.

All methods compute the losses by `per_example_losses` and train the parameters that `trained_parameters` lists. sums.py and book-keeping
compute in `full_precision`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.pieces import Piece
from dpcli.train.torch_internals import distributions_validate

# Functions, by module and name, that check whether a tensor is fake, which means that it has no numbers. They must return the same result
# for fake and for real tensors. Otherwise a model could take another path while the isolation check follows it.
FAKE_TENSOR_CHECKS = (("transformers.utils.import_utils", "is_fake_tensor"),)

WIDE_TYPES = frozenset((torch.float32, torch.float64))  # number formats in which sums are accumulated as they are

_all_fake: ContextVar[bool] = ContextVar("all_fake", default=False)


@contextmanager
def tensors_as_fake() -> Iterator[None]:
    """Make every check for fake tensors return True within the block."""
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
    """A check for fake tensors that returns True within `tensors_as_fake`, and the original result elsewhere."""

    def __init__(self, check: Callable[[Any], bool]) -> None:
        self.check = check

    def __call__(self, tensor: Any) -> bool:
        return _all_fake.get() or self.check(tensor)


Loss = Callable[[nn.Module, Batch], Tensor]


class BatchPart(NamedTuple):
    """The per-example gradients of a part of a batch.

    Attributes:
        gradients: Gradients by parameter name. A parameter that the losses do not depend on is absent.
        size: Number of examples in the part.
    """

    gradients: Mapping[str, Piece]
    size: int


class Method(Protocol):
    """A method of computing the per-example gradients of a batch."""

    @property
    def name(self) -> str:
        """Return the name of the method in reports."""

    @property
    def isolates(self) -> bool:
        """Return whether the method differentiates each example separately by construction."""

    def for_model(self, model: nn.Module) -> Method:
        """Return the same method for another model, of which this method's model is a copy."""

    def parts(self, batch: Batch) -> Iterator[BatchPart]:
        """Yield the gradients of consecutive parts of the batch. Raises Unsuitable if the method does not apply to the model."""


# What a loss that is not one number per example should be instead.
NO_MEAN = (
    'a mean over the batch hides the contribution of each example: use reduction="none", '
    "on the logits where the model returns a loss of its own"
)


def per_example_losses(model: nn.Module, loss: Loss, batch: Batch, size: int) -> Tensor:
    """Return the losses, one per example.

    Raises:
        InputError: The loss returns anything else. A mean or a sum over the batch cannot be separated into losses of examples.
    """
    with tensors_as_fake(), no_validation_by_default():
        losses = loss(model, batch)
    if losses.shape != (size,):
        raise InputError(
            f"loss: expected one loss per example, shape ({size},) for {size} examples, found shape {tuple(losses.shape)}; {NO_MEAN}"
        )
    return losses


@contextmanager
def no_validation_by_default() -> Iterator[None]:
    """Switch off within the block that torch's distributions validate their arguments by default.

    A validation branches on all values at once. No method but a loop could then compute the gradients, and one record could stop the run.
    Without it, a value outside of the support gives a loss that is not finite, and such a record adds zero.
    """
    default = distributions_validate()
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(default)


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by their names in the model.

    The result is that of `named_parameters` in a tenth of the time, which matters in a step of a small model.
    """
    if type(model).named_parameters is not nn.Module.named_parameters:
        return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    trained: dict[str, nn.Parameter] = {}
    add_trained(trained, set(), model, "")
    return trained


def add_trained(trained: dict[str, nn.Parameter], visited: set[int], module: nn.Module, prefix: str) -> None:
    """Add the trained parameters of a module and of the modules within it, each once.

    Args:
        visited: Ids of the modules and parameters that were added before.
        prefix: Name of the module in the model, followed by a dot; empty for the model itself.
    """
    visited.add(id(module))
    for name, parameter in module._parameters.items():
        if parameter is not None and parameter.requires_grad and id(parameter) not in visited:
            visited.add(id(parameter))
            trained[prefix + name] = parameter
    for name, child in module._modules.items():
        if child is not None and id(child) not in visited:
            add_trained(trained, visited, child, f"{prefix}{name}.")


class Unsuitable(Exception):
    """A method of computing clipped sums does not apply to a model, so another method is used. The message states the reason."""


# Functions that return the piece of a parameter, by the name of the parameter in its module.
Pieces = Mapping[str, Callable[[], Piece]]


# A formula for the gradients of a family of layers. It returns the pieces of the parameters, given the module, its inputs (B, ...) and the
# gradient of the summed losses at its output (B, ...).
Formula = Callable[[nn.Module, Tensor, Tensor], Pieces]


@dataclass(frozen=True, slots=True)
class LayerRule:
    """A formula for per-example gradients, with properties of the layers to which it applies.

    Attributes:
        anywhere: Whether examples may be along any dimension but the last ones. This requires that the layer treats every index of these
            dimensions in the same way.
        forward: Function that replaces the layer's own forward while calls are recorded; None to keep the layer's own.
    """

    formula: Formula
    anywhere: bool = False
    forward: Callable[..., Tensor] | None = None

    def __call__(self, module: nn.Module, inputs: Tensor, gradient: Tensor) -> Pieces:
        return self.formula(module, inputs, gradient)


def wide(values: Tensor) -> Tensor:
    """Return the numbers in at least single precision. Rounding in half precision could carry a clipped sum past its bound."""
    return values if values.dtype in WIDE_TYPES else values.to(wide_type(values))


def wide_type(values: Tensor) -> torch.dtype:
    """Return the number format of a tensor, or single precision if that is wider."""
    return values.dtype if values.dtype in WIDE_TYPES else torch.promote_types(values.dtype, torch.float32)


def positions(values: Tensor) -> Tensor:
    """Return values (B, ..., features) as (B, T, features)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


class RaisedErrors(TorchFunctionMode):
    """A mode that records the names of functions of torch that raised an error. A program that catches one may take another path."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if type(error).__module__ != "torch.utils.checkpoint":  # checkpointing raises an error to end a recomputation early
                self.names.append(getattr(func, "__name__", type(func).__name__))
            raise


@contextmanager
def refuse_caught_errors() -> Iterator[None]:
    """Raise Unsuitable after the block if a function of torch raised an error within it and the program caught the error."""
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
    """Disable autocast and TF32 within the block. A norm with a relative error of 0.001 would let an example exceed C by 0.1 %."""
    before = torch.get_float32_matmul_precision()
    is_full = before == "highest"
    if not is_full:
        torch.set_float32_matmul_precision("highest")
    try:
        if torch.is_autocast_enabled(device.type):
            with torch.autocast(device.type, enabled=False, cache_enabled=False):
                yield
        else:
            yield
    finally:
        if not is_full:
            torch.set_float32_matmul_precision(before)
