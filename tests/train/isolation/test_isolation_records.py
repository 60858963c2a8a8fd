"""Behaviour of a program that shows on records only, after the check: errors that it catches, another form, another layout in memory.

Programs that ask whether they are being checked are not tested: the author of a model is mistaken, and does not hide. Programs that mix by
mistake are in mixing_models and mixing_unusual.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dpcli.base.errors import InputError
from dpcli.train.engine import method
from dpcli.train.engine.batches import take
from dpcli.train.engine.choice import CANDIDATES
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.isolation.synthetic_records import draws_like
from dpcli.train.isolation.traced_program import analyze
from tests.train.engine.oracle import distance
from tests.train.isolation.mixing_models import LABELS, RIGHT_LOSSES, WIDTH, Net, data, loss

SIZE = 10


def of(done: Callable[[Tensor], Tensor]) -> Net:
    torch.manual_seed(0)
    model = Net()
    model.done = done  # type: ignore[method-assign]
    return model


class Words(nn.Module):
    """Ids that it does not know are taken for the first, of all records where one has any."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = nn.Embedding(8, 6), nn.Linear(6, LABELS)

    def forward(self, ids: Tensor) -> Tensor:
        try:
            rows = self.table(ids)
        except IndexError:
            rows = -3.0 * self.table(ids.clamp(max=0))
        found: Tensor = self.head(torch.tanh(rows).mean(1))
        return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("start", ["book-keeping", "vmap"])
def test_an_error_of_one_record_moves_no_other(start: str) -> None:
    model = Words()
    batch = torch.randint(0, 8, (SIZE, 4)), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(model, loss, Flat(1e-3))
    engine.rehearse(draws_like(batch))
    if start == "vmap":
        engine.choose_among(draws_like(batch), [one for one in CANDIDATES if one[0] == "vmap"])
    engine(batch)
    assert engine.describe() == start
    batch[0][0, 0] = 11
    whole, without = engine(batch), engine(take(batch, slice(1, None)))
    assert distance(whole.gradients, without.gradients) <= engine.clip.bound * (1.0 + 1e-6)
    assert engine.method.name == "loop" and engine.describe() == start  # a token that is out of range is private


@pytest.mark.long
def test_a_batch_that_turns_out_to_need_it_is_taken_one_at_a_time() -> None:
    """In a step whose record is checked, too, with what it draws: nothing is rehearsed while its draws are remembered."""
    model = Words()
    model.head = nn.Sequential(nn.Dropout(0.5), model.head)  # type: ignore[assignment]
    batch = torch.randint(0, 8, (SIZE, 4)), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(model, loss, Flat(1.0))
    engine.checked_sums(batch, 3)
    batch[0][0, 0] = 11
    for row in (3, 0):
        assert bool(engine.checked_sums(batch, row).finite.all())
    assert engine.method.name == "loop" and engine.describe() == "book-keeping"


def test_a_batch_on_which_the_method_fails_is_taken_one_at_a_time() -> None:
    """Made-up records have targets of one length, for which vmap would do."""
    records, engine = data(), ClippedGradients(Net(), RIGHT_LOSSES["ctc"], Flat(1.0))
    engine.rehearse(lambda count: (torch.randn(count, WIDTH), torch.zeros(count, dtype=torch.long)))
    assert engine.method.name == "vmap"
    assert bool(engine.checked_sums(records, 3).finite.all())
    assert engine.method.name == "loop" and engine.describe().startswith("vmap")
    engine.fix_description()
    assert engine.describe() == "loop; not vmap: it fails on some batches"


def test_made_up_records_differ_in_their_whole_numbers() -> None:
    inputs, labels = draws_like((torch.randn(9, WIDTH), torch.arange(9) % LABELS))(LABELS)
    assert inputs.shape == (LABELS, WIDTH) and sorted(labels.tolist()) == [*range(LABELS)]
    assert all(draws_like(torch.tensor([least, least + 1]))(2).unique().numel() == 2 for least in (0, 5))


def test_what_nobody_can_follow_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would have another way
        scripted = torch.jit.script(doubled)
    with pytest.raises(InputError, match=re.escape("found one of torch.jit")):
        ClippedGradients(of(lambda x: scripted(x)), loss, Flat(1.0)).rehearse(
            draws_like((torch.randn(2, WIDTH), torch.tensor([0, 1])))
        )


def doubled(x: Tensor) -> Tensor:
    return x * 2.0


def test_a_jagged_batch_is_taken_one_at_a_time() -> None:
    def jagged(x: Tensor) -> Tensor:
        return torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, x.shape[0]])).values() + x

    assert analyze(of(jagged), loss, (torch.randn(2, WIDTH), torch.tensor([0, 1]))).doubt


def test_how_a_batch_lies_in_memory_is_no_question() -> None:
    model = of(lambda x: x if x.is_contiguous() else -3.0 * x)
    engine, batch = ClippedGradients(model, loss, Flat(1.0)), (torch.randn(WIDTH, SIZE).t(), torch.arange(SIZE) % LABELS)
    usual = engine((batch[0].contiguous(), batch[1])).gradients
    assert distance(usual, engine(batch).gradients) <= 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("inner", [torch.tanh, nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Tanh())])
def test_what_is_computed_twice_is_no_error(inner: Callable[[Tensor], Tensor]) -> None:
    class Checkpointed(Net):
        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.head(checkpoint(inner, self.body(x), use_reentrant=False))
            return found

    records = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(Checkpointed(), loss, Flat(1.0))
    engine(records)
    assert engine.describe() == "book-keeping"


def test_a_model_that_shows_a_tensor_or_a_shape_is_taken_as_any_other() -> None:
    def showing(x: Tensor) -> Tensor:
        assert str(x) and repr(x.shape) and f"{x.shape[0]}"
        return x

    records = torch.randn(SIZE, WIDTH), torch.arange(SIZE) % LABELS
    engine = ClippedGradients(of(showing), loss, Flat(1.0))
    engine.checked_sums(records, 3)
    assert engine.describe() == "book-keeping"


def test_records_of_another_form_are_followed_anew() -> None:
    class Pooled(Net):
        def forward(self, x: Tensor) -> Tensor:  # (B, T, width): of twelve places it takes the mean of the batch
            found: Tensor = super().forward(x.mean(1) - (x.mean((0, 1)) if x.shape[1] == 12 else 0.0))
            return found

    def drawn(places: int) -> Any:
        return torch.randn(SIZE, places, WIDTH), torch.arange(SIZE) % LABELS

    engine = ClippedGradients(Pooled(), loss, Flat(1.0))
    engine.rehearse(draws_like(drawn(7)))
    engine(drawn(7))
    with pytest.raises(InputError, match="depends on it alone"):
        engine(drawn(12))


def test_a_library_is_told_that_it_is_followed_inside_alone() -> None:
    pytest.importorskip("transformers", reason="the extra lm is not installed")
    for module, name in method.FAKE_TENSOR_CHECKS:
        found = __import__(module, fromlist=[name])
        with method.tensors_as_fake():
            assert getattr(found, name)(torch.zeros(1)) and getattr(found, name)(None)
            with method.tensors_as_fake():
                pass
            assert getattr(found, name)(torch.zeros(1))
        assert not getattr(found, name)(torch.zeros(1))
