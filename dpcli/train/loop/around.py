"""What may stand around private steps: neither another precision, nor a mode without gradients, nor hooks on the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer

from dpcli.errors import InputError


def require_plain_modes(model: nn.Module) -> None:
    """Raises InputError under torch.inference_mode, or under torch.autocast for a device of the model's."""
    if torch.is_inference_mode_enabled():
        raise InputError(
            "torch.inference_mode: expected none around dpcli.private and its steps, which need gradients, found one; leave it first "
            "(torch.no_grad does no harm)"
        )
    for device in sorted({parameter.device.type for parameter in model.parameters()}):
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            raise InputError(
                f"torch.autocast: expected none around dpcli.private and its steps, found one for {device}: norms and sums are taken in "
                "full precision; put it inside the loss, around the call of the model"
            )


def require_made_with_gradients(model: nn.Module) -> None:
    """Raises InputError for a parameter that torch.inference_mode has made: it can have no gradient."""
    for name, parameter in model.named_parameters():
        if parameter.is_inference():
            raise InputError(f"model: expected parameters made outside of torch.inference_mode, found {name}, which was made in it")


def require_no_hooks(optimizer: torch.optim.Optimizer, own: tuple[Callable[..., Any], ...] = ()) -> None:
    """Raises InputError, naming it, for a hook on the optimizer's steps, or on those of all optimizers, that is not our own."""
    for place, hook in hooks_on(optimizer):
        if hook not in own:
            name = getattr(hook, "__qualname__", type(hook).__name__)
            raise InputError(
                f"optimizer: expected no hook on its steps but that of dpcli.private, found {name}, a {place}: it runs between the noise "
                "and what is checked; remove it, and call it from the loop"
            )


def hooks_on(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What runs before and after a step of it, and where that was registered."""
    everywhere = "of all optimizers (torch.optim.optimizer.register_optimizer_step_{}_hook)"
    for place, hooks in (
        (f"hook {everywhere.format('pre')}", torch_optimizer._global_optimizer_pre_hooks),
        ("hook before them (register_step_pre_hook)", optimizer._optimizer_step_pre_hooks),
        ("hook after them (register_step_post_hook)", optimizer._optimizer_step_post_hooks),
        (f"hook {everywhere.format('post')}", torch_optimizer._global_optimizer_post_hooks),
    ):
        yield from ((place, hook) for hook in hooks.values())
