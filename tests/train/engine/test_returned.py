"""Copies that a rehearsal tried are no longer held by the process."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from dpcli.train.engine import per_example
from dpcli.train.engine.clip import Flat
from dpcli.train.isolation.synthetic_records import draws_like


def test_a_rehearsal_gives_back_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(per_example, "return_memory", lambda: given.append(engine.choice is not None))

    def loss(model: nn.Module, batch: Any) -> Any:
        return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

    engine = per_example.ClippedGradients(nn.Linear(3, 2), loss, Flat(1.0))
    engine.rehearse(draws_like((torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))))
    assert given == [True]


def test_another_c_library_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    per_example.return_memory()

    def none(name: object) -> object:
        raise OSError("no such library")

    for library in (none, lambda name: object()):
        monkeypatch.setattr(ctypes, "CDLL", library)
        per_example.return_memory()
