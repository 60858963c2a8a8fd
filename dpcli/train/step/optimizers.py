"""What [train] may state as optimizer: how a noisy gradient is used, which costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from dpcli.train.plan.settings import Train
from dpcli.train.step.adam_bc import FLOOR, AdamBC

Parameters = Iterable[nn.Parameter]


def optimizer_of(train: Train, model: nn.Module) -> torch.optim.Optimizer:
    """Of the parameters that are trained."""
    return OPTIMIZERS[train.optimizer](train, [p for p in model.parameters() if p.requires_grad])


def _sgd(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=train.learning_rate, momentum=train.momentum, weight_decay=train.weight_decay)


def _adam(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=train.learning_rate, weight_decay=train.weight_decay)


def _adamw(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=train.learning_rate, weight_decay=train.weight_decay)


def _adam_bc(train: Train, parameters: Parameters) -> torch.optim.Optimizer:
    floor = FLOOR if train.moment_floor is None else train.moment_floor
    return AdamBC(parameters, lr=train.learning_rate, floor=floor, weight_decay=train.weight_decay)


OPTIMIZERS: dict[str, Callable[[Train, Parameters], torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
    "adam-bc": _adam_bc,
}
