"""The learning problem of a task: a model, private records, a loss for each record, and metrics on public data.

Every task (classification, language, custom, ...) builds a `Learning`, from which step/prepare.py makes a trainer. The loss must return one
number per record, which depends on that record alone: clipping bounds a record's influence only then. `measure` reads data that were
declared public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.train.engine.batches import Batch, size
from dpcli.train.engine.method import Loss
from dpcli.train.plan.sources import require_apart
from dpcli.train.torch_internals import tree_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.ledger.blocks.rows import RowWindow
    from dpcli.random.streams import Stream
    from dpcli.train.plan.settings import Train

Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Learning:
    """A learning problem.

    Attributes:
        model: Model to train. Only parameters with requires_grad are trained.
        loss: Function of the model and a batch that returns losses of shape (B,). The loss of a record depends on no other record.
        records: Tensors whose first dimension counts the private records.
        measure: Function that returns metrics on data that the file declares public, the most important one first. Without such data, it
            returns no metrics.
        units: Owner of each record, of shape (n,); None if the file does not declare units.
        draw: Function that draws synthetic records, such as canaries of an audit; None if the task has none.
        facts: Public JSON values about the model. Together with [train], they suffice to build it again.
    """

    model: nn.Module
    loss: Loss
    records: Batch
    measure: Callable[[], Metrics]
    units: NDArray[np.generic] | None = None
    draw: Callable[[int, Stream], Batch] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of private records."""
        return size(self.records)

    def with_records(self, more: Batch) -> Learning:
        """Return the problem with `more` appended to its private records."""
        return replace(self, records=tree_map(lambda a, b: torch.cat([a, b]), self.records, more))

    def on(self, device: str) -> Learning:
        """Return the problem with its model and records on a device.

        Raises InputError if a part of the model has no numbers, because its weights were not loaded.
        """
        for name, value in (*self.model.named_parameters(), *self.model.named_buffers()):
            if value.is_meta:
                raise InputError(
                    f"model: {name}: expected a tensor with numbers, found one on the device meta; load the weights first"
                )
        return replace(self, model=self.model.to(device), records=to_device(self.records, device))


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[torch.device]:
    """Switch the model to evaluation mode without gradients within the block, and yield its device.

    The mode of each module is restored afterwards.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield next((value.device for value in (*model.parameters(), *model.buffers())), torch.device("cpu"))
    finally:
        for module, mode in modes.items():
            module.training = mode


def to_device(batch: Batch, device: str | torch.device) -> Batch:
    """Return the batch on a device."""
    return tree_map(lambda leaf: leaf.to(device), batch)  # type: ignore[no-any-return]


def tensors(values: Any, model: nn.Module) -> Batch:
    """Return arrays as tensors. The arrays may be in tuples and dicts.

    float64 becomes float32 unless the model is in double precision.
    """
    narrow = all(value.dtype != torch.float64 for value in model.parameters())

    def tensor_of(array: Any) -> torch.Tensor:
        tensor = torch.as_tensor(array)
        return tensor.float() if narrow and tensor.dtype == torch.float64 else tensor

    return tree_map(tensor_of, values)  # type: ignore[no-any-return]


def learning(train: Train, path: str, stream: Stream, rows: RowWindow | None = None) -> Learning:
    """Return the learning problem that [train] describes. Raises InputError if it cannot be built.

    Args:
        stream: Source of the seed for the initial weights.
        rows: Window to which the private records are restricted; None for all records.
    """
    require_apart(train.data, train.public, path)
    # Initial weights are independent of the data, so torch's generator may draw them. The seed is the upper half of a word of 64 bits.
    torch.manual_seed(int(stream.words(1)[0]) >> 32)
    build: Callable[..., Learning] = load(train.build)
    problem = build(train, path) if rows is None else build(train, path, rows)
    if not problem.count:
        raise InputError(f"{path}: train.data: there are no records")
    return problem
