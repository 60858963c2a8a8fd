"""The user's own functions: a model, records, a loss for each, and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.audit.user_code import called
from dpcli.errors import InputError
from dpcli.train.engine.batches import Batch, size
from dpcli.train.randomness import Stream
from dpcli.train.settings import Train
from dpcli.train.tasks.learning import Learning, Metrics, tensors
from dpcli.train.tasks.user_code import result, user


def build(train: Train, path: str) -> Learning:
    """What the functions of [train] return: model() -> nn.Module, data() -> records (and whose they are, with train.units).

    Raises:
        InputError: a function cannot be imported, raises, or returns something else.
    """
    model = result(train.model, path)
    if not isinstance(model, nn.Module):
        raise InputError(f"{path}: train.model: expected a torch module from {train.model}, found {type(model).__name__}")
    found = result(train.data, path)
    records, units = found if train.units is not None else (found, None)
    function = user(train.loss or "", path)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        losses: Tensor = function(model, batch)
        return losses

    return Learning(model, loss, checked(records, train.data, path), _measure(train, path, model), units, _draw(train, path))


def checked(records: Any, source: str, path: str) -> Batch:
    """The records as tensors of one length. Raises InputError for anything else."""
    try:
        batch = tensors(records)
        size(batch)
    except (InputError, TypeError, ValueError, RuntimeError) as problem:
        raise InputError(f"{path}: {source}: expected arrays or tensors whose first dimension counts records ({problem})") from None
    return batch


def _draw(train: Train, path: str) -> Callable[[int, Stream], Batch] | None:
    if train.canary is None:
        return None
    source, function = train.canary, user(train.canary, path)
    return lambda count, stream: checked(called(source, function, count, stream.bulk()), source, path)


def _measure(train: Train, path: str, model: nn.Module) -> Any:
    if train.metric is None or train.public is None:
        return dict
    function, public = user(train.metric, path), checked(result(train.public, path), train.public, path)

    @torch.no_grad()
    def measure() -> Metrics:
        return {str(name): float(value) for name, value in function(model, public).items()}

    return measure
