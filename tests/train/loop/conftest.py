"""A small training loop of a user: a file, a model, records, and a fixture that makes the loop private."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dpcli
from dpcli.train.engine import per_example
from dpcli.train.isolation.rehearsal import check_isolation

COUNT, STEPS, BATCH = 60, 4, 20.0

FILE = f"""
format = 1
name = "own"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = {COUNT}
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "steps"
type = "gaussian"
noise_multiplier = 2.0
steps = {STEPS}
sampling = {{ scheme = "poisson", batch_size = {int(BATCH)} }}
[train]
task = "loop"
clipping = {{ norm = 0.5 }}
checkpoint_every = 2
"""
UNSAMPLED = FILE.replace('scheme = "poisson", batch_size = 20', 'scheme = "none"')


def loss_of(model: nn.Module, batch: Any) -> Tensor:
    inputs, labels = batch
    return functional.cross_entropy(model(inputs), labels, reduction="none")


def model_of(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def records(count: int = COUNT) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(COUNT, 5)[:count], torch.randint(0, 3, (COUNT,))[:count]


_followed: dict[object, Any] = {}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with own.toml the working directory, and cache the isolation of equal models and losses, which other tests check."""

    def once(model: nn.Module, loss: Any, draw: Any) -> Any:
        written = loss.__closure__ and [cell.cell_contents for cell in loss.__closure__]
        key = repr(model), model.training, repr(written)
        if key not in _followed:
            _followed[key] = check_isolation(model, loss, draw)
        return _followed[key]

    monkeypatch.setattr(per_example, "check_isolation", once)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(FILE)
    return tmp_path


Begin = Callable[..., "dpcli.Private"]


@pytest.fixture
def begin() -> Begin:
    """Return a function that begins a run of the small loop. Its arguments replace parts of the loop."""

    def begun(
        model: nn.Module | None = None, data: Any = None, text: str = FILE, lr: float = 1.0, loss: Any = loss_of, **named: Any
    ) -> dpcli.Private:
        Path("own.toml").write_text(text)
        chosen = model_of() if model is None else model
        optimizer = named.pop("optimizer", None) or torch.optim.SGD(chosen.parameters(), lr=lr)
        return dpcli.private(chosen, optimizer, loss, records() if data is None else data, pipeline="own.toml", **named)

    return begun


def stepped(private: dpcli.Private, steps: int = 1) -> dpcli.Private:
    for batch in private:
        private.step(batch)
        if private.taken == steps:
            break
    return private


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten().double() for value in model.parameters()])
