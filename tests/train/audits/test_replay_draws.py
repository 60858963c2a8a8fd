"""In a replay (train/replay/record_draws.py), a record draws the same numbers whatever the other records, the order and the method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.train.engine.vectorised import Looped, Vectorised
from dpcli.train.replay.record_draws import OwnDraws
from tests.cases import require_each

RECORDS, LENGTH, WIDTH = 12, 6, 4
LSTM = nn.LSTM(WIDTH, 3, num_layers=2, dropout=0.5)

WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: functional.dropout(x, 0.5),
    "alpha dropout": lambda x: functional.alpha_dropout(x, 0.5, training=True),
    "channels": lambda x: functional.dropout1d(x, 0.5),
    "noise like": lambda x: x + torch.randn_like(x),
    "noise of a size": lambda x: x + torch.randn(x.shape),
    "a number each": lambda x: x * torch.rand(x.shape[0], 1, 1),
    "a time each": lambda x: x * torch.randint(0, 1000, (x.shape[0],))[:, None, None],
    "a coin for all": lambda x: x * torch.rand(()),
    "a vector for all": lambda x: x * torch.rand(x.shape[-1]),
    "in place": lambda x: x + torch.empty_like(x).uniform_(),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)) * x,
    "normal": lambda x: torch.normal(x, 1.0),
    "poisson": lambda x: torch.poisson(x.exp()) * x,
    "rrelu": lambda x: functional.rrelu(x, training=True),
    "gumbel": lambda x: functional.gumbel_softmax(x),
    "multinomial": lambda x: torch.multinomial(x[:, 0].exp(), 2)[:, :, None] * x[:, :2],
    "positions first": lambda x: functional.dropout(x.transpose(0, 1), 0.5).transpose(0, 1),
    "recurrent": lambda x: LSTM(x.transpose(0, 1))[0].transpose(0, 1),
    "rows of a record": lambda x: functional.dropout(x.flatten(0, 1), 0.5).view(x.shape),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "its own generator": lambda x: x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0)),
}
NOT_MAPPED = {"recurrent", "its own generator", "rrelu"}  # vmap itself refuses them
OF_ALL = {"a coin for all", "a vector for all"}  # under vmap nothing is: each record has one of its own


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def losses(way: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda model, x: way(model(x)).flatten(1).square().sum(1)


def data() -> Tensor:
    return torch.randn(RECORDS, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


def drawn(name: str, cuts: list[list[int]], step: int = 1) -> dict[int, float]:
    """The loss of each record, taken in these batches one after the other; the first batches only show how shapes follow sizes."""
    draws = OwnDraws(5)
    draws.step = step
    loss, model = draws.loss(losses(WAYS[name])), Weighted()
    with draws:
        for few in ([0, 1, 2], [0]):
            loss(model, data()[few])
        return {row: value for rows in cuts for row, value in zip(rows, loss(model, data()[rows]).tolist(), strict=True)}


EVERYBODY = list(range(RECORDS))


CUTS = {
    "without one": [[row for row in EVERYBODY if row != 5]],
    "backwards": [EVERYBODY[::-1]],
    "in parts": [EVERYBODY[:4], EVERYBODY[4:5], EVERYBODY[5:]],
    "as many as positions": [EVERYBODY[:LENGTH], EVERYBODY[LENGTH:]],
    "as many as columns": [EVERYBODY[:WIDTH], EVERYBODY[WIDTH:]],
    "alone": [[row] for row in EVERYBODY],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WAYS)
def test_a_record_draws_the_same_in_any_batch_and_anew_in_another_step(name: str) -> None:
    whole = drawn(name, [EVERYBODY])

    def the_same(cut: str) -> None:
        found = drawn(name, CUTS[cut])
        assert found == pytest.approx({row: whole[row] for row in found}, rel=1e-5)

    require_each(CUTS, the_same)
    assert drawn(name, [EVERYBODY], step=2) != whole


def test_every_method_gives_a_record_the_same() -> None:
    def the_same(name: str) -> None:
        found = []
        for method in (Looped, Vectorised):
            draws = OwnDraws(5)
            loss = draws.loss(losses(WAYS[name]))
            with draws:
                for few in ([0, 1, 2], [0]):
                    loss(Weighted(), data()[few])
                parts = list(method(Weighted(), loss).parts(data()))
            found.append(torch.cat([part["weight"].rows() for part, _ in parts]))
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)

    require_each([name for name in WAYS if name not in NOT_MAPPED | OF_ALL], the_same)


def test_records_do_not_share_draws() -> None:
    draws = OwnDraws(5)
    with draws:
        noise = draws.loss(lambda model, x: torch.randn(len(x)))(Weighted(), data())
    assert len(set(noise.tolist())) == RECORDS


def test_an_order_of_the_batch_is_no_records_own() -> None:
    """Rolled through the batch, records meet: without one the others meet others."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return (model(x) + x[torch.randperm(len(x))]).flatten(1).square().sum(1)

    with OwnDraws(5) as draws:
        whole = draws.loss(loss)(Weighted(), data())
        assert not torch.allclose(draws.loss(loss)(Weighted(), data()[:-1]), whole[:-1])


def test_nobody_elses_random_numbers_are_touched() -> None:
    before = torch.get_rng_state()
    with OwnDraws(5) as draws:
        draws.loss(losses(WAYS["dropout"]))(Weighted(), data())
    assert torch.equal(before, torch.get_rng_state())


def test_numbers_that_are_not_torchs_are_refused() -> None:
    with pytest.raises(InputError, match="by torch alone"):
        OwnDraws(5).loss(lambda model, x: model(x).sum((1, 2)) * np.random.rand(len(x))[0])(Weighted(), data())
