"""The rule of torch's multi-head attention against autograd on one example at a time."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the train extra")
from torch import Tensor, nn  # noqa: E402

from dpcli.train.engine.book_keeping import BookKeeping  # noqa: E402
from dpcli.train.engine.clip import Flat  # noqa: E402
from dpcli.train.engine.sums import clipped  # noqa: E402
from tests.train.engine.models import LABELS, classification, sequences  # noqa: E402
from tests.train.engine.oracle import clipped_sum, distance, gradients  # noqa: E402

CLIP = Flat(0.05)
CAUSAL = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)


class Attending(nn.Module):
    """Of a sequence to itself, to another one, or to keys and values that differ; the first steps first, or the examples."""

    def __init__(self, sources: int = 1, padded: bool = False, weights: bool = False, call: Any = None, **settings: Any) -> None:
        super().__init__()
        self.sources, self.padded, self.weights, self.call = sources, padded, weights, call or {"need_weights": weights}
        self.entries = nn.ModuleList(nn.Linear(11, 8) for _ in range(sources))
        self.body = nn.MultiheadAttention(8, 2, **{"batch_first": True, **settings})
        self.head = nn.Linear(8, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        ends = [torch.tanh(entry(x)) for entry in self.entries]
        ends = ends if self.body.batch_first else [one.transpose(0, 1) for one in ends]
        three = [ends[0]] * 3 if self.sources == 1 else [ends[0], ends[-1], ends[1]]
        padding = torch.where(x[:, :, 0] > 0.9, -1e3, 0.0).to(x) if self.padded else None
        found, weights = self.body(*three, key_padding_mask=padding, **self.call)
        logits = self.head(found.mean(1 if self.body.batch_first else 0))
        return logits + weights.square().sum((1, 2))[:, None] * torch.arange(LABELS) if self.weights else logits


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_first": False, "bias": False},
        {"sources": 2, "padded": True},
        {"sources": 3, "batch_first": False},
        {"call": {"need_weights": False, "attn_mask": CAUSAL, "is_causal": True}},
        {"call": {"need_weights": True, "attn_mask": CAUSAL}, "padded": True},
        {"call": {"need_weights": True, "attn_mask": CAUSAL < 0.0}},
        {"weights": True},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
    ],
    ids=lambda settings: ", ".join(settings) or "plain",
)
def test_attention(settings: Any) -> None:
    model = Attending(**settings).double()
    model.body.in_proj_weight.requires_grad_(settings != {})
    method = BookKeeping.learnt(model, classification, sequences(4))
    for size in (1, 5):
        batch = sequences(size)
        sums = clipped(method.parts(batch), CLIP, {name: p for name, p in model.named_parameters() if p.requires_grad})
        assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, size), CLIP)) <= 1e-9 * CLIP.bound
