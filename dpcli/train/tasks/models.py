"""Small models for arrays; none mixes examples, none keeps statistics of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.tasks.user_code import built


def model_of(train: Classification, shape: tuple[int, ...], classes: int, path: str) -> nn.Module:
    """The model that [train] names, for inputs of one example's `shape`. Raises InputError for one that is not known."""
    if ":" in train.model:
        found = built(train.model, train.data, path)
        if not isinstance(found, nn.Module):
            raise InputError(f"{path}: train.model: expected a torch module from {train.model}, found {type(found).__name__}")
        return found
    if train.model not in MODELS:
        raise InputError(f"train.model: expected one of {', '.join(MODELS)}, or module:function, found {train.model!r}")
    return MODELS[train.model](train, shape, classes)


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def _logistic(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(_size(shape), classes))


def _mlp(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(_size(shape), train.hidden), nn.Tanh(), nn.Linear(train.hidden, classes))


def _cnn(train: Classification, shape: tuple[int, ...], classes: int) -> nn.Module:
    if len(shape) != 3:
        raise InputError(f"train.model: expected inputs of shape (channels, height, width) for cnn, found {shape}")
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.Tanh(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(8, 32),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32 * ((shape[1] + 1) // 2) * ((shape[2] + 1) // 2), classes),
    )


MODELS: dict[str, Callable[[Classification, tuple[int, ...], int], nn.Module]] = {"logistic": _logistic, "mlp": _mlp, "cnn": _cnn}
