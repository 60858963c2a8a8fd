"""An example draws the same random numbers alone and in any batch (train/engine/draws.py)."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.train.engine.choice import fixed_seed
from dpcli.train.engine.draws import (
    MOST_EQUAL_DRAWS,
    RECORD_PARTS,
    RecordPart,
    adjacent,
    recorded_draws,
    replayed_draws,
    same_draws,
    strided,
)
from tests.cases import require_each

LSTM = nn.LSTM(4, 3, num_layers=2, dropout=0.5)

WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: functional.dropout(x, 0.5),
    "dropout in place": lambda x: functional.dropout(x.clone(), 0.5, inplace=True),
    "alpha dropout": lambda x: functional.alpha_dropout(x, 0.5, training=True),
    "channels": lambda x: functional.dropout1d(x, 0.5),
    "noise like": lambda x: x + torch.randn_like(x),
    "noise": lambda x: x + torch.randn(x.shape),
    "one number each": lambda x: x * torch.rand(x.shape[0], 1, 1),
    "steps": lambda x: x * torch.randint(0, 1000, (x.shape[0], 1, 1)),
    "drawn in place": lambda x: x + torch.empty_like(x).uniform_(),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "normal": lambda x: torch.normal(x, 1.0),
    "rrelu": lambda x: functional.rrelu(x, training=True),
    "gumbel": lambda x: functional.gumbel_softmax(x),
    "multinomial": lambda x: torch.multinomial(x[:, 0].exp(), 2),
    "positions first": lambda x: LSTM(x.transpose(0, 1))[0].transpose(0, 1),
    "flattened": lambda x: functional.dropout(x.flatten(0, 1), 0.5).view(x.shape),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
}


def batch(size: int) -> Tensor:
    return torch.randn(size, 6, 4)


def test_a_record_is_given_again_what_it_drew() -> None:
    def check(name: str) -> None:
        x = batch(5)
        for row in (0, 3):
            with recorded_draws(row, 5) as kept:
                whole = WAYS[name](x)
            with replayed_draws(kept):
                alone = WAYS[name](x[row : row + 1])
            torch.testing.assert_close(alone, whole[row : row + 1])

    require_each(WAYS, check)


SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    "one number": lambda x: x * torch.rand(()),
    "of another length": lambda x: x * torch.rand(4),
    "as long as the batch": lambda x: x.mean(2) + torch.rand(6),
    "a multiple": lambda x: x.repeat(1, 1, 3) * torch.rand(12),
    "a mask of features": lambda x: x.repeat(1, 1, 3) * (torch.rand(12) < 0.5),
    "weights": lambda x: x @ functional.dropout(torch.ones(4, 12), 0.5),
    "places": lambda x: x + functional.dropout(torch.ones(6, 4), 0.5),
    "and each its own": lambda x: functional.dropout(x + torch.randn(6, 4), 0.5) * torch.rand(6, 1) * torch.rand(len(x), 6, 1),
    "after the records": lambda x: x.transpose(0, 1) * torch.rand(6, len(x), 1),
}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 12])
def test_what_all_records_share_is_the_same_for_one_that_is_taken_alone(size: int) -> None:
    """Also where it is as long as there are records, or a multiple of that."""

    def check(name: str) -> None:
        x = batch(size)
        for row in range(size):
            with recorded_draws(row, size) as kept:
                whole = SHARED[name](x)
            after = torch.random.get_rng_state()
            with replayed_draws(kept):
                alone = SHARED[name](x[row : row + 1])
            assert torch.equal(after, torch.random.get_rng_state())  # or the next step would be given some of these again
            dim = 1 if name == "after the records" else 0
            torch.testing.assert_close(alone, whole.narrow(dim, row, 1))

    require_each(SHARED, check)


def beside(x: Tensor) -> Tensor:
    """Return a batch in which each record is followed by its double."""
    return torch.stack([x, 2.0 * x], 1).flatten(0, 1)


# Several draws for each record: of records that stand in two copies one after the other, or beside each other.
COPIES: dict[str, tuple[RecordPart, Callable[[Tensor], Tensor]]] = {
    "one after the other": (strided, lambda x: torch.stack(functional.dropout(torch.cat([x, 2.0 * x]), 0.5).chunk(2), 1)),
    "two beside each other in each of two copies": (
        RECORD_PARTS[2],
        lambda x: functional.dropout(torch.cat([beside(x), beside(3.0 * x)]), 0.5).unflatten(0, (2, -1, 2)).transpose(0, 1),
    ),
    "two beside each other in each of three copies": (
        RECORD_PARTS[3],
        lambda x: (
            functional.dropout(torch.cat([beside(x), beside(3.0 * x), beside(5.0 * x)]), 0.5)
            .unflatten(0, (3, -1, 2))
            .transpose(0, 1)
        ),
    ),
    "beside each other": (
        adjacent,
        lambda x: functional.dropout(beside(x), 0.5).unflatten(0, (-1, 2)),
    ),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_record_of_two_copies_draws_the_same_alone(way: str) -> None:
    part, drawn = COPIES[way]
    for size in (2, 5, 7):
        x, row = batch(size), random.randrange(size)
        with recorded_draws(row, size) as kept:
            whole = drawn(x)
        agreeing = []
        for tried in RECORD_PARTS:
            with replayed_draws(kept, tried):
                agreeing += [tried] * torch.equal(drawn(x[row : row + 1]), whole[row : row + 1])
        assert part in agreeing and len(agreeing) < len(RECORD_PARTS), (size, row, agreeing)
        with same_draws(size, 3, part):
            together = drawn(x)
        with same_draws(1, 3, part):
            torch.testing.assert_close(drawn(x[row : row + 1]), together[row : row + 1])


def test_a_record_draws_the_same_alone_in_a_loop_and_where_all_share_it() -> None:
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        **WAYS,
        "a loop": lambda x: torch.cat([functional.dropout(row[None], 0.5) for row in x]),
        "one number": lambda x: x * torch.rand(()),
        "one number of another shape": lambda x: x * torch.rand(1) * torch.rand(1, 1),
    }

    def check(name: str) -> None:
        x = batch(5)
        with same_draws(5, 3):
            whole = ways[name](x)
        with same_draws(1, 3):
            torch.testing.assert_close(ways[name](x[2:3]), whole[2:3])
        with same_draws(5, 4):
            assert not torch.equal(ways[name](x), whole)

    require_each(ways, check)


def test_a_permutation_of_the_records_is_refused() -> None:
    refused = pytest.raises(InputError, match=r"found randperm over the records at test_draws\.py, line \d+")
    with same_draws(5, 3, refuses_orders=True), refused:
        torch.randperm(5)
    with same_draws(5, 3, refuses_orders=True):
        assert sorted(torch.randperm(6).tolist()) == [*range(6)]
    with same_draws(5, 3):  # five of anything else
        assert sorted(torch.randperm(5).tolist()) == [*range(5)]


def test_a_draw_that_is_repeated_until_it_is_liked_ends() -> None:
    with same_draws(1, 3):
        first = torch.rand(())
        assert any(torch.rand(()) != first for _ in range(MOST_EQUAL_DRAWS))


def test_a_draw_seeds_only_the_devices_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of the others torch would keep the seed and the stack, formatted: a hundred times as dear as the draw, and for good."""

    def kept() -> list[str]:
        raise AssertionError("a seed is kept for a device that is not in use")

    monkeypatch.setattr(traceback, "format_stack", kept)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    with fixed_seed(model), same_draws(3, 5):
        first = functional.dropout(torch.ones(3, 4), 0.5)
    torch.rand(7)
    with fixed_seed(model), same_draws(3, 5):
        assert torch.equal(functional.dropout(torch.ones(3, 4), 0.5), first)


# Tensors of five records in other layouts than a batch has by itself. Dropout on a CPU draws into new memory of the same layout, in place.
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "records first": lambda: torch.ones(5, 8),
    "after a transpose": lambda: torch.ones(6, 5, 8).transpose(0, 1),
    "one position": lambda: torch.ones(1, 5, 8).transpose(0, 1),
    "channels last": lambda: torch.ones(5, 4, 3).transpose(1, 2),
    "two copies": lambda: torch.ones(10, 4),
    "two heads in each of three copies": lambda: torch.ones(30, 4, 4),
    "as long as the batch": lambda: torch.ones(20, 5, 5),
    "nothing": lambda: torch.ones(5, 0, 4),
}


@pytest.mark.parametrize("part", RECORD_PARTS)
def test_any_layout_of_any_part_may_be_drawn_into(part: RecordPart) -> None:
    def check(name: str) -> None:
        value = LAYOUTS[name]()
        alone = value[:, :1] if value.shape[0] != 5 and value.shape[1] == 5 else value[: value.shape[0] // 5]
        for draw in (lambda x: functional.dropout(x, 0.5), torch.rand_like, lambda x: torch.rand(x.shape)):
            for size, drawn_for in ((5, value), (1, alone)):
                with same_draws(size, 3, part):
                    assert draw(drawn_for).shape == drawn_for.shape
            with recorded_draws(2, 5) as kept:
                draw(value)
            with replayed_draws(kept, part):
                assert draw(alone).shape == alone.shape

    require_each(LAYOUTS, check)


def test_copies_as_long_as_the_batch_are_replayed() -> None:
    """A dimension of positions may be as long as that of the records."""
    for size in range(3, 9):
        x, part = torch.randn(size, 6, 6), RECORD_PARTS[2]

        def two_copies_of_two_heads(x: Tensor) -> Tensor:
            return functional.dropout(torch.cat([beside(x), beside(3.0 * x)]), 0.5).unflatten(0, (2, -1, 2)).transpose(0, 1)

        with recorded_draws(1, size) as kept:
            whole = two_copies_of_two_heads(x)
        with replayed_draws(kept, part):
            assert torch.equal(two_copies_of_two_heads(x[1:2]), whole[1:2]), size
