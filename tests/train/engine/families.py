"""Models for tests of compounds (layers that run as several) and of operands (parameters that a forward uses without a layer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.train.engine.models import LABELS


class Attending(nn.Module):
    """Of a sequence to itself, to another one, or to keys and values that differ; the first steps first, or the examples."""

    def __init__(self, sources: int = 1, padded: str = "", own: bool = False, call: Any = None, **settings: Any) -> None:
        super().__init__()
        self.sources, self.padded, self.own, self.call = sources, padded, own, call or {"need_weights": False}
        self.entries = nn.ModuleList(nn.Linear(11, 8) for _ in range(sources))
        self.body = nn.MultiheadAttention(8, 2, **{"batch_first": True, **settings})
        self.head = nn.Linear(8, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        ends = [torch.tanh(entry(x)) for entry in self.entries]
        ends = ends if self.body.batch_first else [one.transpose(0, 1) for one in ends]
        three = [ends[0]] * 3 if self.sources == 1 else [ends[0], ends[-1], ends[1]]
        far = x[:, :, 0] > 0.9
        padding = {"": None, "numbers": torch.where(far, -3.0, 0.0).to(x), "marks": far & (torch.arange(6) > 0)}[self.padded]
        masks = {"attn_mask": torch.stack([x @ x.mT, x @ x.mT / 2], 1).flatten(0, 1)} if self.own else {}
        found, weights = self.body(*three, key_padding_mask=padding, **self.call, **masks)
        logits = self.head(found.mean(1 if self.body.batch_first else 0))
        return logits if weights is None else logits + weights.square().flatten(1).sum(1)[:, None] * torch.arange(LABELS)


class Running(nn.Module):
    """A recurrent layer that begins with a state, or runs again from where it ended; all that comes out counts."""

    def __init__(self, kind: Any, begun: bool = False, again: bool = False, **settings: Any) -> None:
        super().__init__()
        self.body, self.begun, self.again = kind(11, 4, **settings), begun, again
        self.head = nn.Linear(4 * (1 + self.body.bidirectional), LABELS)

    def forward(self, x: Tensor) -> Tensor:
        values = x if self.body.batch_first else x.transpose(0, 1)
        start = torch.sin(x[None, :, 0, :4]).expand(self.body.num_layers * (1 + self.body.bidirectional), -1, -1)
        start = (start, start.cos()) if isinstance(self.body, nn.LSTM) else start
        found, last = self.body(values, start) if self.begun else self.body(values)
        found, last = self.body(values, last) if self.again else (found, last)
        ends = last if isinstance(last, Tensor) else last[0] * last[1]
        logits = self.head(found.mean(1 if self.body.batch_first else 0))
        return logits + ends.square().sum((0, 2))[:, None] * torch.arange(LABELS)


Forward = Callable[["Standing", Tensor], Tensor]


class Standing(nn.Module):
    """Parameters `a` and `b` of some shape between two linear layers, and what is done with them."""

    def __init__(self, body: Forward, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.first, self.body, self.head = nn.Linear(11, 11), body, nn.Linear(11, LABELS)
        for name, shape in zip("ab", shapes, strict=False):
            self.register_parameter(name, nn.Parameter(torch.rand(shape) + 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self, torch.tanh(self.first(x))).mean(1))


def normed(h: Tensor) -> Tensor:
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)


PLACES: dict[str, tuple[Forward, tuple[tuple[int, ...], ...]]] = {
    "added": (lambda m, h: torch.add(h, m.a, alpha=-0.5) + m.b, ((6, 11), ())),
    "subtracted": (lambda m, h: torch.sub(m.b - h, m.a, alpha=2.5), ((1, 6, 1), (11,))),
    "multiplied": (lambda m, h: h * m.a * m.b, ((11,), ())),
    "divided": (lambda m, h: h / m.a + m.b / (h.square() + 1), ((6, 1), (11,))),
    "before all": (lambda m, h: torch.cat([m.a.expand(len(h), -1, -1), m.b.repeat(len(h), 2, 1), h], 1), ((1, 3, 11), (1, 1, 11))),
    "normalised by hand": (lambda m, h: m.a * normed(h.float()).to(h) + (normed(h) * (1.0 + m.b.float())).to(h), ((11,), (11,))),
    "made of both": (lambda m, h: h * (m.a * m.b.exp()).cumsum(0) + m.a, ((11,), (11,))),
    "looked up": (lambda m, h: h + m.a[torch.tensor([0, 2, 2, 1, 0, 1])] * functional.softplus(m.b)[:, None], ((3, 11), (6,))),
    "in place": (lambda m, h: ((h * m.a).add_(1).relu_() * m.b).view(-1, 66).tanh_().view(-1, 6, 11), ((11,), (6, 11))),
    "again and again": (lambda m, h: torch.sin(torch.sin(h * m.a) * m.a + m.a) * m.a.norm(), ((11,),)),
    "steps first": (lambda m, h: (h.transpose(0, 1) * m.a + m.b).transpose(0, 1), ((11,), (6, 1, 11))),
    "leaking": (lambda m, h: functional.prelu(h, m.a), ((6,),)),
    "a penalty": (lambda m, h: (h * m.a) + m.a.square().sum(), ((11,),)),
    "unused": (lambda m, h: h * m.a.detach(), ((11,), (11,))),
}
