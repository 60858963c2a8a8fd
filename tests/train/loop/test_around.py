"""The surroundings of private steps: hooks on the optimizer, other precisions, modes without gradients, schedules and wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler
from torch.optim import optimizer as torch_optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dpcli
from dpcli.base.errors import InputError
from tests.train.loop.conftest import (
    STEPS,
    Begin,
    loss_of,
    model_of,
    records,
    stepped,
)

PLACES: dict[str, Callable[[torch.optim.Optimizer], Callable[..., Any]]] = {
    "before its steps": lambda optimizer: optimizer.register_step_pre_hook,
    "after its steps": lambda optimizer: optimizer.register_step_post_hook,
    "before all": lambda optimizer: torch_optimizer.register_optimizer_step_pre_hook,
    "after all": lambda optimizer: torch_optimizer.register_optimizer_step_post_hook,
}


@pytest.fixture
def hooked() -> Iterator[list[Any]]:
    """Handles that are removed afterwards: some are of all optimizers."""
    handles: list[Any] = []
    yield handles
    for handle in handles:
        handle.remove()


def strange_hook(*unused: Any) -> None:
    """It could write to gradients, weights and state."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", PLACES)
def test_a_hook_on_the_optimizer_is_refused_by_name(begin: Begin, hooked: list[Any], place: str) -> None:
    """Before anything is charged, between steps, and between the noise and the step."""
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters())
    register = PLACES[place](optimizer)
    hooked.append(register(strange_hook))
    with pytest.raises(InputError, match=r"expected no hook on its steps but that of dpcli\.private, found strange_hook"):
        begin(model, optimizer=optimizer)
    assert not Path("runs/own/state.pt").exists()
    hooked[0].remove()
    for late in (False, True):
        private = stepped(begin(model, optimizer=optimizer, out=f"runs/{late}"))
        batch = next(private)
        if late:
            private.backward(batch)
        hooked.append(register(strange_hook))
        with pytest.raises(InputError, match="strange_hook"):
            optimizer.step() if late else private.step(batch)
        hooked[-1].remove()
        with pytest.raises(InputError, match="broke off"):
            private.finish()
        private.close()


def test_a_hook_that_comes_within_a_step_is_refused(begin: Begin, hooked: list[Any]) -> None:
    class Registering(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            hooked.append(self.register_step_post_hook(strange_hook))

    model = model_of()
    private = begin(model, optimizer=Registering(model.parameters(), {}))
    with pytest.raises(InputError, match="strange_hook"):
        private.step(next(private))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wrap", ["at the start", "later"])
def test_schedules_wrap_the_optimizer(begin: Begin, wrap: str) -> None:
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedules: list[Any] = []

    def scheduled() -> None:
        schedules.extend([lr_scheduler.CosineAnnealingLR(optimizer, STEPS), lr_scheduler.CyclicLR(optimizer, 0.01, 0.1)])

    if wrap == "at the start":
        scheduled()
    private = begin(model, optimizer=optimizer)
    if wrap == "later":
        scheduled()
    rates = set()
    for batch in private:
        private.step(batch)
        for schedule in schedules:
            schedule.step()
        rates.add(optimizer.param_groups[0]["lr"])
    assert private.finish().steps == STEPS and len(rates) > 1


AROUND = {
    "torch.inference_mode": torch.inference_mode,
    "torch.autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "torch.autograd.graph.saved_tensors_hooks": lambda: torch.autograd.graph.saved_tensors_hooks(quantised, lambda saved: saved),
    "Dispatching": lambda: Dispatching(),
    "Overriding": lambda: Overriding(),
}


def quantised(saved: torch.Tensor) -> torch.Tensor:
    """By the largest number of all records."""
    return (saved / saved.abs().max()).mul(127.0).round()


class Dispatching(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        return function(*given, **(named or {}))


class Overriding(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        return function(*given, **(named or {}))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_the_loop_is_named(begin: Begin, name: str) -> None:
    around, words = AROUND[name], rf"{name}: expected no.* around dpcli\.private and its steps"
    with around(), pytest.raises(InputError, match=words):
        begin()
    assert not Path("runs/own/state.pt").exists()
    private = begin()
    batch = next(private)
    with around(), pytest.raises(InputError, match=words):
        private.step(batch)
    private.backward(batch)  # nothing was lost
    with around(), pytest.raises(InputError, match=words):
        private.optimizer.step()
    private.optimizer.step()
    assert stepped(private, STEPS).finish().steps == STEPS


def test_what_inference_made(begin: Begin) -> None:
    """Records of it are as good as others; parameters are not."""
    with torch.inference_mode():
        model, data = model_of(), records()
    with pytest.raises(InputError, match=r"expected parameters made outside of torch\.inference_mode, found 0\.weight"):
        begin(model)
    assert stepped(begin(data=data), STEPS).finish().steps == STEPS


@pytest.mark.long
def test_half_precision_within_the_loss_and_no_gradients_around(begin: Begin) -> None:
    def loss(model: torch.nn.Module, batch: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss_of(model, batch)

    with torch.no_grad():
        private: dpcli.Private = begin(loss=loss)
        assert stepped(private, STEPS).finish().steps == STEPS


def test_a_default_device_is_no_matter(begin: Begin) -> None:
    with torch.device("cpu"):
        assert stepped(begin(), STEPS).finish().steps == STEPS
