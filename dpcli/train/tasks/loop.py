"""What a Python program hands to dpcli.private, as a learning problem; no file can name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.plan.settings_custom import Loop
from dpcli.train.tasks.custom import checked, own_loss
from dpcli.train.tasks.learning import Learning
from dpcli.train.tasks.owners import whose


def build(train: Loop, path: str) -> NoReturn:
    """Raises InputError: the file alone has no model and no data."""
    raise InputError(
        f'{path}: train.task: expected a task whose model and data the file names, found "loop": dpcli.private runs it'
    )


def given(model: nn.Module, loss: Callable[..., Any], data: Any, units: Any, path: str) -> Learning:
    """The caller's own model, loss and records. Raises InputError for what is something else."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model: expected a torch module, found {type(model).__name__}")
    if any(base.__name__ == "LightningModule" for base in type(model).__mro__):
        raise InputError(
            f"model: expected the network that {type(model).__name__} holds, found the LightningModule itself, which its Trainer changes "
            "between two steps; give the network, such as module.net"
        )
    if not callable(loss):
        raise InputError(f"loss: expected a function (model, batch) -> one loss per record, found {type(loss).__name__}")
    found = Learning(
        model,
        own_loss(getattr(loss, "__qualname__", "loss"), loss),
        records_of(data, path),
        dict,
        None if units is None else whose(units, path),
    )
    if not found.count:
        raise InputError("data: expected records, found none")
    return found


def records_of(data: Any, path: str) -> Batch:
    """Tensors or arrays as they are; a dataset read item by item.

    Raises:
        InputError: a loader, which draws batches of its own; a dataset without a length; anything else.
    """
    if isinstance(data, DataLoader):
        raise InputError(
            "data: expected the dataset itself, as loader.dataset, found a DataLoader, which draws batches of its own: here they are drawn "
            "as the file declares, which is what its epsilon is for"
        )
    if isinstance(data, IterableDataset):
        raise InputError("data: expected a dataset with a length and items by number, found one that is read in its own order")
    if isinstance(data, TensorDataset):
        return checked(data.tensors, "data", path)
    if isinstance(data, Dataset):
        return checked(_collated(data), "data", path)
    return checked(data, "data", path)


def _collated(data: Any) -> Any:
    """Every item once, without the words of what it raises, which may quote a record."""
    try:
        return default_collate([data[row] for row in range(len(data))])
    except Exception as problem:
        raise InputError(
            f"data: expected items that torch's default_collate puts together, found {type(problem).__name__} on the way; "
            "give the tensors themselves"
        ) from None
