"""The task "classification" on arrays, tables and images, with its built-in models, losses and accuracy.

`build` makes a learning problem (tasks/learning.py) of the [train] table. array_files.py reads the records. `path` is the path of the
training file, from whose folder the user's code is imported. trained/classifier.py builds the model again from the `facts` that a run
saves, and uses `model_of`, `require_scores` and `scores_of` too. A *window* (`rows`) restricts the private records to some blocks of a
ledger (ledger/blocks/rows.py).

The built-in models have no layer that combines records: the convolutional one (`_cnn`) has group normalisation. Its widths are choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpcli.audit.own_code import FAILURES, error_text
from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.random.streams import Stream
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.method import Loss
from dpcli.train.plan.settings import BOUNDED
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.tasks.array_files import CheckedRecords, arrays
from dpcli.train.tasks.augmentation import with_augmentation
from dpcli.train.tasks.encoding import input_names
from dpcli.train.tasks.learning import Learning, Metrics, evaluation_mode
from dpcli.train.tasks.user_code import build_model, code_of

SCORED_TOGETHER = 1024  # number of records whose scores are computed at once; this limits memory. Arbitrary.


def model_of(train: Classification, shape: tuple[int, ...], classes: int, path: str) -> nn.Module:
    """Return the model that [train] names, for examples of the given shape.

    Raises InputError if the model is unknown, or the user's function does not build one.
    """
    if ":" in train.model:
        return build_model(train.model, train.data, path)
    if train.model not in MODELS:
        raise InputError(f"train.model: expected one of {', '.join(MODELS)}, or module:function, found {train.model!r}")
    return MODELS[train.model](train, shape, classes)


def _input_count(shape: tuple[int, ...]) -> int:
    """Return the number of inputs of an example."""
    return int(torch.Size(shape).numel())


def _logistic(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a linear model."""
    return nn.Sequential(nn.Flatten(), nn.Linear(_input_count(shape), classes))


class BoundedLogistic(nn.Module):
    """A linear model in double precision on the inputs and a constant 1, scaled down to a length of at most `length`."""

    def __init__(self, inputs: int, classes: int, length: float) -> None:
        super().__init__()
        self.length = length
        self.linear = nn.Linear(inputs + 1, classes, bias=False, dtype=torch.float64)

    def forward(self, inputs: Tensor) -> Tensor:
        features = nn.functional.pad(inputs.flatten(1).double(), (0, 1), value=1.0)
        scores: Tensor = self.linear(features * (self.length / features.square().sum(1, keepdim=True).sqrt()).clamp(max=1.0))
        return scores


def _bounded_logistic(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return the model of last-iterate. dpcli.train.plan.descent proves the bounds on its gradients and curvatures."""
    return BoundedLogistic(_input_count(shape), classes, train.clipping.norm / math.sqrt(2.0))


def _mlp(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a network with one hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(_input_count(shape), train.hidden), nn.Tanh(), nn.Linear(train.hidden, classes))


def _cnn(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a network with two convolutions for images. Raises InputError if the inputs are not images."""
    if len(shape) != 3:
        raise InputError(f"train.model: expected inputs of shape (channels, height, width) for cnn, found {shape}")
    half_height, half_width = (shape[1] + 1) // 2, (shape[2] + 1) // 2  # after the convolution of stride 2
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.Tanh(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(8, 32),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32 * half_height * half_width, classes),
    )


MODELS: dict[str, Callable[[Classification, tuple[int, ...], int], nn.Module]] = {
    "logistic": _logistic,
    BOUNDED: _bounded_logistic,
    "mlp": _mlp,
    "cnn": _cnn,
}


def build(train: Classification, path: str, rows: RowWindow | None = None) -> Learning:
    """Return the learning problem that [train] describes. Raises InputError if its model or its records cannot be read."""
    data = arrays(train, path, rows)
    shape = data.private.inputs.shape[1:]
    model = model_of(train, shape, data.classes, path)
    require_scores(model, shape, data.classes, path)
    problem = Learning(
        model=model,
        loss=loss_of(train),
        records=tensors_of(data.private),
        measure=measure_of(model, data.public),
        units=data.private.units,
        draw=partial(synthetic_examples, shape, data.classes),
        facts=facts(train, shape, data.classes, path),
    )
    return with_augmentation(problem, train, path)


def facts(train: Classification, shape: tuple[int, ...], classes: int, path: str) -> dict[str, Any]:
    """Return the facts about the model's inputs and outputs that are needed to build it again. A run saves them in its description."""
    result: dict[str, Any] = {"inputs": list(shape), "classes": classes, "shift": train.shift}
    if train.columns is not None:
        result["input_names"] = input_names(train)
    if train.labels is not None:
        result["labels"] = list(train.labels)
    return {**result, **code_of(train.model, path)}


def require_scores(model: nn.Module, shape: tuple[int, ...], classes: int, path: str) -> None:
    """Raise InputError unless the model returns a score for each label.

    The model is called on zeros and not on records, so that its error messages may be shown.
    """
    expected = f"{path}: train.model: expected scores (B, {classes}) from float32 inputs (B, {', '.join(map(str, shape))})"
    try:
        with evaluation_mode(model) as device:
            scores = model(torch.zeros(2, *shape, device=device))
    except FAILURES as problem:
        raise InputError(f"{expected}: {error_text(problem)}") from None
    if not torch.is_tensor(scores):
        raise InputError(f"{expected}, found {type(scores).__name__}")
    if scores.shape != (2, classes):
        raise InputError(f"{expected}, found {tuple(scores.shape)}")
    if scores.dtype != torch.float32 and not isinstance(model, BoundedLogistic):
        raise InputError(f"{expected} in float32, found {scores.dtype}")


def tensors_of(records: CheckedRecords) -> tuple[Tensor, Tensor]:
    """Return inputs and labels as tensors."""
    return torch.from_numpy(np.ascontiguousarray(records.inputs)), torch.from_numpy(np.ascontiguousarray(records.labels))


def synthetic_examples(shape: tuple[int, ...], classes: int, count: int, stream: Stream) -> Batch:
    """Return `count` synthetic records. Their inputs are uniform on [0, 1], and their labels are uniform."""
    inputs = stream.words(count * int(np.prod(shape))).astype(np.float64) / 2.0**64
    labels = stream.words(count) % np.uint64(classes)
    return torch.from_numpy(inputs.astype(np.float32).reshape(count, *shape)), torch.from_numpy(labels.astype(np.int64))


def loss_of(train: Classification) -> Loss:
    """Return the loss: cross-entropy, times the weight of the record's label if [train] declares weights."""
    return cross_entropy if train.class_weights is None else partial(cross_entropy, weights=torch.tensor(train.class_weights))


def cross_entropy(model: nn.Module, batch: Batch, weights: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of each record, times the weight of its label, of shape (B,).

    Args:
        weights: Weight of each label, of shape (classes,); None for weights of one.
    """
    inputs, labels = batch
    assert isinstance(inputs, Tensor) and isinstance(labels, Tensor)
    weights = None if weights is None else weights.to(inputs.device)
    return nn.functional.cross_entropy(model(inputs), labels, weight=weights, reduction="none")


def measure_of(model: nn.Module, public: CheckedRecords | None) -> Callable[[], Metrics]:
    """Return a function that measures the accuracy on public records. Without such records, the function returns no metrics."""
    if public is None:
        return dict
    inputs, labels = tensors_of(public)

    def measure() -> Metrics:
        correct = scores_of(model, inputs).argmax(1) == labels
        return {"accuracy": float(correct.double().mean())}

    return measure


def scores_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the scores of records, of shape (n, classes). They are computed in parts to save memory."""
    with evaluation_mode(model) as device:
        return torch.cat([model(part.to(device)).cpu() for part in torch.split(inputs, SCORED_TOGETHER)])
