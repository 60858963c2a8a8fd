"""Tensors that the user's program reads besides parameters, buffers and records are named; tensors that it makes itself are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.train.isolation.kept_state import constant_tensors

WEIGHTS, BANK, SHIFT = torch.rand(3), torch.randn(40, 5), np.ones((5,), np.float32)


class Net(nn.Module):
    """With a buffer, a tensor that is none, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.drop, self.lstm = nn.Linear(5, 3), nn.Dropout(0.5), nn.LSTM(5, 5)
        self.register_buffer("scale", torch.ones(5))
        self.kept, self.alias = torch.ones(5), self.scale[:]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(self.drop(self.lstm(inputs[None])[0][0] * self.scale))


def plain(model: nn.Module, batch: Any) -> Tensor:
    inputs, labels = batch
    return functional.cross_entropy(model(inputs), labels, reduction="none")


def weighted(model: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1], weight=WEIGHTS, reduction="none")


def near(model: nn.Module, batch: Any) -> Tensor:
    return plain(model, batch) + torch.cdist(batch[0], BANK[:7]).amin(1)


def shifted(model: nn.Module, batch: Any) -> Tensor:
    return plain(model, (batch[0] - torch.from_numpy(SHIFT), batch[1]))


def attribute(model: Any, batch: Any) -> Tensor:
    return plain(model, (batch[0] * model.kept, batch[1]))


def closed(made: Tensor) -> Callable[..., Tensor]:
    return lambda model, batch: plain(model, (batch[0] - made, batch[1]))


def written(model: nn.Module, batch: Any) -> Tensor:
    return plain(model, (batch[0] - torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), batch[1]))


def own(model: Any, batch: Any) -> Tensor:
    """Numbers, parameters past autograd, and what is made on the way."""
    inputs, labels = batch
    noise = torch.zeros(5) + torch.arange(5) * 0.5 + torch.tensor(2.0) + model.scale.clone() + model.alias
    return plain(model, (inputs * noise, labels)) + 1e-3 * model.body.weight.data.square().sum() * labels.new_ones(len(labels))


NAMED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "class weights": (weighted, "test_constants.WEIGHTS of shape (3)"),
    "a bank of records": (near, "test_constants.BANK of shape (40, 5)"),
    "an array": (shifted, "of shape (5)"),
    "an attribute": (attribute, "model: kept of shape (5)"),
    "a closure": (closed(torch.randn(5)), "made of shape (5)"),
    "written down": (written, "a tensor read at test_constants.py, line"),
}


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 5), torch.tensor([0, 2])


@pytest.mark.parametrize("what", NAMED)
def test_a_captured_tensor_is_named(what: str) -> None:
    loss, said = NAMED[what]
    (found,) = constant_tensors(Net(), loss, batch())
    assert said in found


@pytest.mark.parametrize("loss", [plain, own])
def test_what_a_program_makes_itself_is_none(loss: Callable[..., Tensor]) -> None:
    assert constant_tensors(Net(), loss, batch()) == ()


RECORDS = torch.randn(9, 5)
ARRAY = np.random.default_rng().normal(size=(9, 5))


class Holding(Net):
    def __init__(self, *, is_buffer: bool) -> None:
        super().__init__()
        if is_buffer:
            self.register_buffer("bank", RECORDS)
        else:
            self.bank = nn.Parameter(RECORDS)


def smoothed(bank: Callable[[], Any]) -> Callable[..., Tensor]:
    return lambda model, batch: plain(model, batch) + torch.cdist(batch[0], torch.as_tensor(bank()).float()).amin(1)


def by_default(model: nn.Module, batch: Any, columns: Tensor = RECORDS[:, :2]) -> Tensor:
    return plain(model, batch) + torch.cdist(batch[0][:, :2], columns).amin(1)


READS_RECORDS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor], Callable[[], Any]]] = {
    "the tensor": (Net, smoothed(lambda: RECORDS), lambda: RECORDS),
    "its rows": (Net, smoothed(lambda: RECORDS[3:]), lambda: RECORDS),
    "its columns": (Net, by_default, lambda: RECORDS),
    "an array": (Net, smoothed(lambda: ARRAY), lambda: torch.as_tensor(ARRAY)),
    "a buffer": (lambda: Holding(is_buffer=True), plain, lambda: RECORDS),
    "a parameter": (lambda: Holding(is_buffer=False), plain, lambda: RECORDS),
}


@pytest.mark.parametrize("what", READS_RECORDS)
def test_private_records_outside_of_the_batch_are_refused(what: str) -> None:
    model, loss, records = READS_RECORDS[what]
    with pytest.raises(InputError, match="data: expected records that the program reads from its batch alone, found them in"):
        constant_tensors(model(), loss, batch(), (torch.ones(9, 5), records(), torch.arange(9) % 3))


PRIVATE, PUBLIC = torch.randn(20, 5).split([9, 11])  # rows of one table
OF_COLUMNS = torch.from_numpy(np.asfortranarray(np.random.default_rng().normal(size=(18, 5)))).float()  # as a table of pandas
LATER, OTHERS = OF_COLUMNS[9:], OF_COLUMNS[1::2]
ONES, PLACES = torch.ones(9), torch.arange(5.0)[None]
JAGGED = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
NO_RECORDS: dict[str, tuple[Callable[..., Tensor], Tensor]] = {
    "later rows": (smoothed(lambda: PUBLIC), PRIVATE),
    "later rows, stored by columns": (smoothed(lambda: LATER), OF_COLUMNS[:9]),
    "later rows, taken by the loss": (smoothed(lambda: OF_COLUMNS[9:]), OF_COLUMNS[:9]),
    "every other row": (smoothed(lambda: OTHERS), OF_COLUMNS[::2]),
    "as many ones": (lambda model, batch: plain(model, batch) * ONES.mean(), torch.ones(9)),
    "what all records share": (smoothed(lambda: PLACES), PLACES.expand(9, 5)),
    "none": (smoothed(lambda: PRIVATE), PRIVATE[:0]),
    "texts of several lengths": (lambda model, batch: plain(model, batch) + 0 * JAGGED.values().mean(), PRIVATE),
}


@pytest.mark.parametrize("what", NO_RECORDS)
def test_what_only_resembles_the_records_is_taken(what: str) -> None:
    loss, records = NO_RECORDS[what]
    assert len(constant_tensors(Net(), loss, batch(), (records,))) <= 1
