"""torch's attention and recurrent layers, run layer by layer: outputs, and gradients against one example at a time."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn

from dpcli.train.engine.book_keeping import BookKeeping, divide_parameters
from dpcli.train.engine.capture import Recorder
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.compound import layer_by_layer
from dpcli.train.engine.method import Unsuitable
from dpcli.train.engine.operands import Leaves
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.engine.sums import clipped_sums
from dpcli.train.isolation.synthetic_records import draws_like
from tests.train.engine.families import Attending, Running
from tests.train.engine.models import LABELS, classification, sequences
from tests.train.engine.oracle import clipped_sum, distance, gradients

CLIP = Flat(0.05)
CAUSAL = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)


def agrees(model: nn.Module) -> None:
    """Losses and sums, in batches of other sizes than those that it was learnt from."""
    method = BookKeeping.after_probe(model, classification, sequences(3))
    for size in (1, 5):
        batch = sequences(size)
        losses, _ = method.forward(batch, Recorder(method.example_dim, size))
        torch.testing.assert_close(losses, classification(model, batch), rtol=1e-12, atol=1e-12)
        sums = clipped_sums(method.parts(batch), CLIP, {name: p for name, p in model.named_parameters() if p.requires_grad})
        assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, size), CLIP)) <= 1e-9 * CLIP.bound
    assert not any("forward" in vars(module) or module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_first": False, "bias": False, "own": True},
        {"sources": 2, "padded": "numbers", "call": {"need_weights": True, "average_attn_weights": False}},
        {"sources": 3, "batch_first": False, "padded": "marks"},
        {"call": {"need_weights": False, "attn_mask": CAUSAL, "is_causal": True}},
        {"call": {"need_weights": True, "attn_mask": CAUSAL}, "padded": "numbers"},
        {"call": {"need_weights": True, "attn_mask": CAUSAL < 0.0}, "padded": "marks"},
        {"call": {"need_weights": True}, "own": True, "padded": "numbers"},
    ],
    ids=lambda settings: ", ".join(settings) or "plain",
)
def test_attention(settings: Any) -> None:
    model = Attending(**settings).double()
    model.body.out_proj.weight.requires_grad_(settings != {})
    agrees(model)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_first": True},
        {"bias": False, "begun": True},
        {"bidirectional": True, "num_layers": 2, "begun": True, "batch_first": True},
        {"num_layers": 2, "again": True},
    ],
    ids=lambda settings: ", ".join(settings),
)
def test_recurrent_layers(kind: Any, settings: Any) -> None:
    model = Running(kind, **settings).double()
    model.body.weight_ih_l0.requires_grad_("again" not in settings)
    model.body.weight_hh_l0.requires_grad_("begun" not in settings)
    agrees(model)


class OfCells(nn.Module):
    """A cell that runs over a sequence, from a state or from none."""

    def __init__(self, kind: Any, begun: bool, **settings: Any) -> None:
        super().__init__()
        self.body, self.begun, self.head = kind(11, 4, **settings), begun, nn.Linear(4, LABELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.sin(x[:, 0, :4])
        state: Any = ((start, start.cos()) if isinstance(self.body, nn.LSTMCell) else start) if self.begun else None
        for step in range(x.shape[1]):
            state = self.body(x[:, step], state)
        return self.head(state[0] * state[1] if isinstance(self.body, nn.LSTMCell) else state)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_recurrent_cells(kind: Any, begun: bool, bias: bool) -> None:
    model = OfCells(kind, begun, bias=bias).double()
    model.body.weight_hh.requires_grad_(not (begun and bias))
    agrees(model)
    if kind is nn.RNNCell:
        agrees(OfCells(kind, begun, bias=bias, nonlinearity="relu").double())


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("size", [1, 6])
def test_dropout_between_layers_is_drawn_as_torch_draws_it(kind: Any, size: int) -> None:
    """In the same order and shape: so the check of a record alone, which runs torch's own layers, replays the numbers."""
    model = Running(kind, num_layers=3, dropout=0.5, bidirectional=True, batch_first=True).double()
    method = BookKeeping(model, classification, divide_parameters(model), Leaves([]))
    batch, ways = sequences(size), []
    for losses in (
        lambda: classification(model, batch),
        lambda: method.forward(batch, Recorder(lambda call, inputs: 0 if inputs.dim() == 2 else 1, size))[0],
    ):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            ways.append(losses())
    torch.testing.assert_close(*ways, rtol=1e-12, atol=1e-12)
    program = ClippedGradients(model, classification, CLIP)
    program.rehearse(draws_like(sequences(12)))
    assert program.method.name == "book-keeping" and program.program is not None and program.program.random
    for _ in range(4):
        count = random.randint(2, 12)
        program.checked_sums(sequences(count), random.randrange(count))


class Own(nn.LSTM):
    """Another class, whatever it does."""


OTHERS = {
    "a subclass": lambda: Own(11, 4),
    "a changed forward": lambda: patched(nn.LSTM(11, 4)),
    "projections": lambda: nn.LSTM(11, 4, proj_size=2),
    "another last layer": lambda: replaced(nn.MultiheadAttention(8, 2)),
    "something beside the keys": lambda: nn.MultiheadAttention(8, 2, add_bias_kv=True),
    "three weights": lambda: nn.MultiheadAttention(8, 2, kdim=4),
}


def patched(module: nn.Module) -> nn.Module:
    module.forward = lambda x: x  # type: ignore[method-assign]
    return module


def replaced(module: nn.MultiheadAttention) -> nn.Module:
    module.out_proj = type("Doubled", (nn.Linear,), {})(8, 8)
    return module


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_quite_torch_is_not_written_out(name: str) -> None:
    assert not divide_parameters(OTHERS[name]()).compounds


def test_forms_of_input_that_have_no_examples_are_refused() -> None:
    for module, given in (
        (nn.LSTM(11, 4), torch.randn(6, 11)),
        (nn.LSTM(11, 4), nn.utils.rnn.pack_sequence([torch.randn(6, 11), torch.randn(5, 11)])),
        (nn.MultiheadAttention(8, 2), torch.randn(6, 8)),
    ):
        given = (given,) * (3 if isinstance(module, nn.MultiheadAttention) else 1)
        with (
            layer_by_layer(divide_parameters(module).compounds, Recorder(lambda call, inputs: 1, 4)),
            pytest.raises(Unsuitable, match="expected seq"),
        ):
            module(*given)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda kind: kind.__name__)
def test_dropout_that_torch_hides_on_other_devices_is_not_written_out(kind: Any) -> None:
    """Also where it is set after the division."""
    assert not divide_parameters(kind(11, 4, num_layers=2, dropout=0.5, device="meta")).compounds
    module = kind(11, 4, num_layers=2, device="meta")
    compounds = divide_parameters(module).compounds
    module.dropout = 0.5
    recorder = Recorder(lambda call, inputs: 1, 3)
    with layer_by_layer(compounds, recorder), pytest.raises(Unsuitable, match="dropout between its layers"):
        module(torch.randn(6, 3, 11, device="meta"))
