"""The rules of LSTM and GRU against autograd on one example at a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="training needs the train extra")
from torch import Tensor, nn  # noqa: E402

from dpcli.train.engine.book_keeping import BookKeeping  # noqa: E402
from dpcli.train.engine.clip import Flat  # noqa: E402
from dpcli.train.engine.layers import Unsuitable  # noqa: E402
from dpcli.train.engine.sums import clipped  # noqa: E402
from tests.train.engine.models import LABELS, classification, labels  # noqa: E402
from tests.train.engine.oracle import clipped_sum, distance, gradients  # noqa: E402

CLIP = Flat(0.05)


class Recurrent(nn.Module):
    """Begins with states or without; ends with the outputs, with the last states, or with both."""

    def __init__(self, body: nn.RNNBase, begins: bool, ends: str) -> None:
        super().__init__()
        self.first, self.body, self.begins, self.ends = nn.Linear(3, 3), body, begins, ends
        self.directions = 2 if body.bidirectional else 1
        self.head = nn.Linear(body.hidden_size * self.directions, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        entering = torch.tanh(self.first(x))
        start = entering[:, :1, :1].transpose(0, 1).repeat(self.body.num_layers * self.directions, 1, self.body.hidden_size)
        given = (start, start.sin()) if isinstance(self.body, nn.LSTM) else start
        turned = entering if self.body.batch_first else entering.transpose(0, 1)
        outputs, states = self.body(turned, given) if self.begins else self.body(turned)
        pooled = outputs.square().mean(1 if self.body.batch_first else 0)
        if self.ends == "outputs":
            return self.head(pooled)
        last = torch.cat([states] if torch.is_tensor(states) else list(states))
        ending = torch.cat([last.sum(0)] * self.directions, 1)
        return self.head(ending if self.ends == "states" else pooled + ending)


@given(
    st.sampled_from([nn.LSTM, nn.GRU]),
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 2)),
    st.tuples(*[st.booleans()] * 4),
    st.sampled_from(["outputs", "states", "both"]),
    st.integers(0, 2**32),
)
def test_recurrent(kind: Any, sizes: tuple[int, int, int], flags: tuple[bool, ...], ends: str, seed: int) -> None:
    torch.manual_seed(seed)
    (steps, hidden, count), (begins, first, bias, both) = sizes, flags
    body = kind(3, hidden, count, bias, first, bidirectional=both)
    model = Recurrent(body, begins, ends).double()
    method = BookKeeping.learnt(model, classification, (torch.randn(3, steps, 3, dtype=torch.float64), labels(3)))
    assert method.name == "book-keeping"
    for size in (1, 4):
        batch = torch.randn(size, steps, 3, dtype=torch.float64), labels(size)
        sums = clipped(method.parts(batch), CLIP, dict(model.named_parameters()))
        assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, size), CLIP)) <= 1e-9 * CLIP.bound


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (nn.LSTM(3, 4, 2, dropout=0.5, batch_first=True), "dropout and projections have no rule"),
        (nn.LSTM(3, 4, proj_size=2, batch_first=True), "dropout and projections have no rule"),
    ],
)
def test_recurrent_layers_without_a_rule(body: nn.RNNBase, message: str) -> None:
    model = Recurrent(body, False, "outputs").double()
    model.head = nn.Linear(body.proj_size or 4, LABELS).double()
    batch = torch.randn(3, 5, 3, dtype=torch.float64), labels(3)
    with pytest.raises(Unsuitable, match=message):
        BookKeeping.learnt(model, classification, batch)


def test_a_part_of_the_weights_alone() -> None:
    model = Recurrent(nn.LSTM(3, 4, 2), True, "both").double()
    model.body.weight_ih_l0.requires_grad_(False)
    model.body.bias_hh_l1.requires_grad_(False)
    batch = torch.randn(5, 4, 3, dtype=torch.float64), labels(5)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sums = clipped(BookKeeping.learnt(model, classification, batch).parts(batch), CLIP, parameters)
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 5), CLIP)) <= 1e-9 * CLIP.bound
