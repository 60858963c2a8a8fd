"""Modules that no method can make private, refused by name before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from dpcli.base.errors import InputError


@dataclass(frozen=True, slots=True)
class Refusal:
    """A class of modules, the condition under which it is refused, why, and what to use instead."""

    module: type[nn.Module]
    applies: Callable[[Any], bool]
    why: str
    instead: str


REFUSALS = [
    Refusal(
        _BatchNorm,
        lambda m: not isinstance(m, _InstanceNorm) and (m.training or m.running_mean is None),
        "whose output for one example depends on the others",
        "use GroupNorm, or freeze it: .eval()",
    ),
    Refusal(
        _InstanceNorm,
        lambda m: m.track_running_stats,
        "whose running statistics take in every example without clipping",
        "set track_running_stats=False",
    ),
    Refusal(
        torch.jit.ScriptModule,
        lambda m: True,
        "whose inside nobody can follow",
        "use the module that it was made from",
    ),
    Refusal(nn.Embedding, lambda m: m.max_norm is not None, "whose max_norm rewrites the rows that were looked up", "leave it out"),
    Refusal(
        nn.EmbeddingBag, lambda m: m.max_norm is not None, "whose max_norm rewrites the rows that were looked up", "leave it out"
    ),
    Refusal(
        nn.Embedding,
        lambda m: m.scale_grad_by_freq,
        "whose scale_grad_by_freq counts ids over the whole batch",
        "set scale_grad_by_freq=False",
    ),
    Refusal(
        nn.EmbeddingBag,
        lambda m: m.scale_grad_by_freq,
        "whose scale_grad_by_freq counts ids over the whole batch",
        "set scale_grad_by_freq=False",
    ),
]


def refuse(model: nn.Module) -> None:
    """Raises:
    InputError: the model has a module that mixes examples or updates buffers, or has nothing to train.
    """
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise InputError(
                f"model: {name}: expected a parameter with a shape, found a lazy one; run public data through the model once"
            )
        if parameter.is_complex():
            raise InputError(f"model: {name}: expected real parameters, found complex ones, which noise would reach in part only")
        if hooked(parameter):
            raise InputError(
                f"model: {name}: expected a parameter without hooks, found one that is called with the gradient of a batch; "
                "do in the forward what it does"
            )
    for name, module in model.named_modules():
        for refusal in REFUSALS:
            if isinstance(module, refusal.module) and refusal.applies(module):
                raise InputError(
                    f"model: {name or 'the model'}: expected modules that keep examples apart, "
                    f"found {type(module).__name__}, {refusal.why}; {refusal.instead}"
                )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("model: expected parameters to train, found none with requires_grad")


def hooked(parameter: nn.Parameter) -> bool:
    """Whether something is called when its gradient is there: a copy has lost it, and a gradient before noise goes through it."""
    return any(getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
