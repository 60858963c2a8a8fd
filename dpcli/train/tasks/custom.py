"""The task "custom", whose model, records, loss and metric are the user's own functions.

The module also builds the learning problem (tasks/learning.py) of a program that calls `dpcli.private` (`problem_of_arguments`). The user's
functions are imported and called by user_code.py, and what they return is checked here. `path` is the path of the training file, from whose
folder relative names start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor, nn, tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from dpcli.audit.own_code import call_user_code
from dpcli.base.errors import InputError
from dpcli.random.streams import Stream
from dpcli.train.engine.batches import Batch, size
from dpcli.train.engine.method import Loss
from dpcli.train.plan.settings_custom import Custom, Loop
from dpcli.train.plan.sources import same_source_error
from dpcli.train.tasks.augmentation import with_augmentation
from dpcli.train.tasks.files import owners_of
from dpcli.train.tasks.learning import Learning, Metrics, evaluation_mode, tensors, to_device
from dpcli.train.tasks.user_code import build_model, call_on_records, code_of, own_function, private_result, public_result
from dpcli.train.torch_internals import tree_flatten, tree_leaves, tree_map

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def build(train: Custom, path: str) -> Learning:
    """Return the learning problem that the functions of [train] define.

    The model function returns an nn.Module. The data function returns records or, with train.units, a pair of records and their owners.

    Raises InputError if a function cannot be imported, raises an error, or returns an object of another kind.
    """
    model = build_model(train.model, train.data, path)
    records, units = _data(train, path, model)
    problem = Learning(
        model=model,
        loss=own_loss(train.loss, own_function(train.loss, path)),
        records=records,
        draw=_draw(train, records, path, model),
        measure=measure_of(train, path, model, records),
        units=units,
        facts=code_of(train.model, path),  # the SHA-256 of the model's code
    )
    return with_augmentation(problem, train, path)


def _data(train: Custom, path: str, model: nn.Module) -> tuple[Batch, NDArray[np.generic] | None]:
    """Return the private records, and the owner of each record. Without train.units, None replaces the owners."""
    returned = private_result(train.data, path)
    if train.units is None:
        return checked_batch(returned, train.data, path, model), None
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        length = " of another length" if isinstance(returned, tuple | list) else ""
        raise InputError(f"{path}: {train.data}: expected a pair (records, units), found {type(returned).__name__}{length}")
    records, units = returned
    return checked_batch(records, train.data, path, model), owners_of(units, path)


def own_loss(source: str, function: Callable[..., Any]) -> Loss:
    """Return the user's loss in a wrapper. The wrapper checks the result, and its errors quote no record (`call_on_records`).

    Raises InputError if the function cannot be called with a model and a batch.
    """
    _require_two_arguments(source, function)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        losses = call_on_records(source, function, model, batch)
        if not isinstance(losses, Tensor):
            raise InputError(f"{source}: expected a tensor with one loss for each record, found {type(losses).__name__}")
        return losses

    return loss


def _require_two_arguments(source: str, function: Callable[..., Any]) -> None:
    """Raise InputError unless the function can be called with two arguments. A function that does not say what it takes passes."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a decorator may take other arguments than what it wraps
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError:
        names = ", ".join(signature.parameters) or "no arguments"
        raise InputError(
            f"{source}: expected a function of two arguments, the model and a batch with the structure of the data, found one of {names}"
        ) from None


def checked_batch(records: Any, source: str, path: str, model: nn.Module) -> Batch:
    """Return the records as tensors with equal first dimensions. Raises InputError for anything else.

    A mapping of another class, such as the BatchEncoding of a tokenizer, becomes a dict.
    """
    try:
        batch = tensors(dict(records) if isinstance(records, Mapping) else records, model)
        size(batch)
    except Exception:  # conversion may raise any error, and its message may quote a value
        raise InputError(
            f"{path}: {source}: expected dense arrays or tensors whose first dimension counts records, padded to one length"
            f"{_misfit(records)}"
        ) from None
    return batch


def _misfit(records: Any) -> str:
    """Return what the records hold besides arrays of numbers, as the end of a message."""
    for leaf in tree_leaves(dict(records) if isinstance(records, Mapping) else records):
        if getattr(getattr(leaf, "dtype", None), "kind", "f") in "OSUMm":  # the kinds of numpy without numbers
            return ", found an array of texts, dates or objects"
        if not hasattr(leaf, "__array__") and not isinstance(leaf, int | float):
            return f", found {type(leaf).__name__}"
    return ""


def _draw(train: Custom, records: Batch, path: str, model: nn.Module) -> Callable[[int, Stream], Batch] | None:
    """Return the function of the key `canary`, which draws synthetic records, in a wrapper that checks its result; None without it."""
    if train.canary is None:
        return None
    source, function = train.canary, own_function(train.canary, path)

    def draw(count: int, stream: Stream) -> Batch:
        generator = stream.bulk()  # a generator of numpy
        records_drawn = checked_batch(call_user_code(source, function, count, generator), source, path, model)
        if size(records_drawn) != count or _form(records_drawn) != _form(records):
            raise InputError(f"{path}: {source}: expected {count} records with the shapes and types of the data")
        return records_drawn

    return draw


def _form(records: Batch) -> object:
    """Return the structure of a batch, and for each tensor the shape of one record and the type."""
    leaves, structure = tree_flatten(records)
    return structure, [(leaf.shape[1:], leaf.dtype) for leaf in leaves]


def measure_of(train: Custom, path: str, model: nn.Module, records: Batch | None = None) -> Callable[[], Metrics]:
    """Return a function that computes `metric` on the public records. If the file has no metric, the function returns no metrics.

    Args:
        records: Private records, from which the public records must differ; None to skip this check.
    """
    if train.metric is None or train.public is None:
        return dict
    source, function = train.metric, own_function(train.metric, path)
    public = checked_batch(public_result(train.public, path), train.public, path, model)
    if records is not None and same_numbers(public, records):
        raise same_source_error(path, train.public, train.data)

    def measure() -> Metrics:
        with evaluation_mode(model) as device:
            return metrics(call_user_code(source, function, model, to_device(public, device)), source)

    return measure


def same_numbers(public: Batch, private: Batch) -> bool:
    """Return whether two batches have the same numbers in the same order."""
    public_leaves, private_leaves = tree_leaves(public), tree_leaves(private)
    if len(public_leaves) != len(private_leaves):
        return False
    pairs = zip(public_leaves, private_leaves, strict=True)
    return all(a.shape == b.shape and bool((a == b).all()) for a, b in pairs)


def metrics(result: Any, source: str) -> Metrics:
    """Return the user's metrics as floats by name. Raises InputError unless the result is a mapping to numbers."""
    try:
        return {str(name): float(value) for name, value in result.items()}
    except (AttributeError, TypeError, ValueError, RuntimeError):
        raise InputError(f"{source}: expected metrics as a mapping of names to numbers, found {type(result).__name__}") from None


def refuse(train: Loop, path: str) -> NoReturn:
    """Raise InputError in place of `build`, because a file with the task "loop" names no model and no data."""
    raise InputError(
        f'{path}: train.task: expected a task whose model and data the file names, found "loop": dpcli.private runs it, and '
        '[audit] with canary = "gradient" audits such a run'
    )


def problem_of_arguments(model: nn.Module, loss: Callable[..., Any], data: Any, units: Any, path: str) -> Learning:
    """Return the learning problem of the arguments of `dpcli.private`. Raises InputError if one has the wrong type.

    Args:
        data: Private records, as tensors, arrays or a dataset.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model: expected a torch module, found {type(model).__name__}")
    if any(base.__name__ == "LightningModule" for base in type(model).__mro__):
        raise InputError(
            f"model: expected the network that {type(model).__name__} holds, found the LightningModule itself: its Trainer changes the "
            "LightningModule between two steps; pass the network, such as module.net"
        )
    if not callable(loss):
        raise InputError(f"loss: expected a function (model, batch) -> one loss per record, found {type(loss).__name__}")
    problem = Learning(
        model=model,
        loss=own_loss(getattr(loss, "__qualname__", "loss"), loss),
        records=records_of(data, path, model),
        measure=dict,
        units=None if units is None else owners_of(units, path),
    )
    if not problem.count:
        raise InputError("data: there are no records")
    return problem


def records_of(data: Any, path: str, model: nn.Module) -> Batch:
    """Return the records that a program passes as `data`: tensors or arrays, or a dataset, which is read item by item.

    Raises InputError if the object is a DataLoader, a dataset without a length, or neither a dataset nor arrays.
    """
    if isinstance(data, DataLoader):
        raise InputError(
            "data: expected the dataset itself, as loader.dataset, found a DataLoader, which draws batches of its own: the epsilon of the "
            "file holds only for batches that dpcli draws as the file declares"
        )
    if isinstance(data, IterableDataset):
        raise InputError("data: expected a dataset with a length and numbered items, found one that can only be iterated")
    if isinstance(data, TensorDataset):
        return checked_batch(data.tensors, "data", path, model)
    if isinstance(data, Dataset) or type(data).__module__.partition(".")[0] == "datasets":  # the library of Hugging Face
        return checked_batch(_collate(data), "data", path, model)
    return checked_batch(data, "data", path, model)


def _with_tensors(item: Any) -> Any:
    """Return an item of a dataset in which each inner list of numbers is a tensor. As a list, default_collate would transpose it."""

    def is_inner_list(value: Any) -> bool:
        return value is not item and _holds_numbers(value)

    return tree_map(lambda value: tensor(value) if is_inner_list(value) else value, item, is_leaf=is_inner_list)


def _holds_numbers(value: Any) -> bool:
    """Return whether a value is a list of numbers, or a list of such lists."""
    return type(value) is list and all(isinstance(part, int | float) or _holds_numbers(part) for part in value)


def _collate(data: Any) -> Any:
    """Return the items of a dataset as one batch. The message of an InputError omits the original message, which may quote a record."""
    try:
        return default_collate([_with_tensors(data[row]) for row in range(len(data))])
    except Exception as problem:
        raise InputError(
            f"data: expected items that torch's default_collate combines into a batch, found {type(problem).__name__}; "
            "pad them to one length, or pass what your own collate_fn makes of all items, as data"
        ) from None
