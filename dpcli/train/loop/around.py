"""What may stand around private steps: no other precision, no mode without gradients, nothing that does operators' work for them, and no
hooks on the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from dpcli.base.errors import InputError


def require_plain_modes(model: nn.Module) -> None:
    """Raises InputError under torch.inference_mode, under torch.autocast for a device of the model's, and under modes and hooks that
    operators go through."""
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
    functions = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    modes = [*_get_current_dispatch_mode_stack(), *(mode for mode in functions if type(mode) is not DeviceContext)]
    for mode in modes:
        raise InputError(
            f"{type(mode).__name__}: expected no mode of operators around dpcli.private and its steps but that of a default device, found "
            "one: records that were seen to stay apart may meet in it; leave it first"
        )
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise InputError(
            "torch.autograd.graph.saved_tensors_hooks: expected none around dpcli.private and its steps, found some, through which "
            "one record may change what is kept of another; physical_batch_size in the file saves memory"
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
