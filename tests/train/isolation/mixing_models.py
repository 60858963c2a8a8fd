"""Models and losses that mix records, each in its own way, and others that only seem to."""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from numpy.random import default_rng
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

RECORDS, WIDTH, LABELS = 40, 11, 5
Batch = tuple[Tensor, Tensor]


def data() -> Any:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(RECORDS, WIDTH, generator=generator), torch.arange(RECORDS) % LABELS


def loss(model: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


class Net(nn.Module):
    """A small network behind something that is done to its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, 8), nn.Linear(8, LABELS)

    def done(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(self.done(x))))


CACHE: dict[str, Tensor] = {}
KEPT: list[Tensor] = []


def running() -> Callable[[Tensor], Tensor]:
    """A mean in a closure."""
    mean: list[Tensor] = []

    def centred(x: Tensor) -> Tensor:
        if not mean:
            mean.append(x.detach().mean(0))
        return x - mean[0]

    return centred


CENTRED = running()


def halved(x: Tensor) -> Tensor:
    if x.abs().max() > 10.0:
        return x / x.abs().max()
    return x


def first_seen(x: Tensor) -> Tensor:
    if "mean" not in CACHE:
        CACHE["mean"] = x.detach().mean(0)
    return x - CACHE["mean"]


def previous(x: Tensor) -> Tensor:
    KEPT.append(x.detach().clone())
    return x - 0.1 * KEPT[0].mean() if len(KEPT) > 1 else x


@functools.cache
def table(width: int) -> dict[str, Tensor]:
    return {}


def cached(x: Tensor) -> Tensor:
    found = table(x.shape[1])
    found.setdefault("mean", x.detach().mean(0))
    return x - found["mean"]


def in_a_thread(x: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(x - x.mean(0)))
    thread.start()
    thread.join()
    return found[0]


def swallowed(x: Tensor) -> Tensor:
    try:
        return x - x.mean(0)
    except Exception:
        return x


def partly(x: Tensor) -> Tensor:
    found = torch.zeros_like(x)
    found[1:] = 0.1 * x[:-1]
    return x + found


def carried(x: Tensor) -> Tensor:
    """Each record begins where the one before has ended."""
    state, rows = torch.zeros(WIDTH), []
    for row in x:
        state = row + 0.1 * state
        rows.append(state)
    return torch.stack(rows)


def routed(x: Tensor, most: int | None = None) -> Tensor:
    """Records go to one of two places, at most so many to each."""
    made = torch.zeros_like(x)
    for sign in (-1, 1):
        chosen = (x[:, 0].sign() == sign).nonzero()[:most, 0]
        made[chosen] = sign * x[chosen]
    return made


COUNT = itertools.count()
DONE: dict[str, Callable[[Tensor], Tensor]] = {
    "peak_above_a_threshold": halved,
    "peak_by_where": lambda x: torch.where(x.abs().max() > 10.0, x / x.abs().max(), x),
    "half_precision_mean": lambda x: x - x.half().mean(0).to(x),
    "first_batch_in_a_global": first_seen,
    "first_batch_in_a_closure": lambda x: CENTRED(x),
    "first_batch_in_a_functools_cache": cached,
    "list_of_batches": previous,
    "mixup_now_and_then": lambda x: 0.5 * x + 0.5 * x.flip(0) if torch.rand(()) < 0.2 else x,
    "mixup_by_where": lambda x: torch.where(torch.rand(()) < 0.2, 0.5 * x + 0.5 * x.flip(0), x),
    "mixup_by_python": lambda x: 0.5 * x + 0.5 * x.flip(0) if random.random() < 0.02 else x,
    "branch_on_the_size": lambda x: x - x.mean(0) if x.shape[0] >= 8 else x,
    "branch_on_len": lambda x: x - x.mean(0) if len(x) >= 8 else x,
    "branch_on_size_one": lambda x: x if x.shape[0] == 1 else x - x.mean(0),
    "over_the_size": lambda x: x / x.shape[0],
    "over_len": lambda x: x * 3.0 / len(x),
    "cumulative_sum": lambda x: x + 0.01 * x.cumsum(0),
    "sorted": lambda x: x.sort(0).values,
    "rank": lambda x: x + 0.01 * x.argsort(0).to(x),
    "einsum": lambda x: torch.einsum("bi,ci->bc", x, x).softmax(1) @ x,
    "attention_over_records": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    "unique": lambda x: x + 0.1 * torch.unique(x[:, 0]).numel(),
    "permuted": lambda x: x + 0.1 * x[torch.randperm(x.shape[0])],
    "permuted_by_len": lambda x: x + 0.1 * x[torch.randperm(len(x))],
    "paired_by_chance": lambda x: x + 0.1 * x[torch.randint(0, len(x), (len(x),))],
    "carried": carried,
    "the_record_before": lambda x: torch.stack([x[row] - 0.1 * x[row - 1] for row in range(len(x))]),
    "experts_with_a_capacity": lambda x: routed(x, 1 + len(x) // 4),
    "rolled": lambda x: x + 0.1 * x.roll(1, 0),
    "groups_of_eight": lambda x: torch.cat([part - part.mean(0) for part in x.split(8)]),
    "shifted_in_place": partly,
    "rare_record": lambda x: 2.0 * x if (x[:, 0] == 7.0).any() else x,
    "rare_record_by_where": lambda x: torch.where((x[:, 0] == 7.0).any(), 2.0 * x, x),
    "rare_magnitude": lambda x: x - x.mean(0) if float(x.sum()) > 1e5 else x,
    "first_record": lambda x: x - 0.1 * x[0],
    "normalised_over_records": lambda x: functional.normalize(x, dim=0),
    "softmax_over_records": lambda x: x.softmax(0),
    "batch_norm_by_hand": lambda x: functional.batch_norm(x, None, None, training=True),
    "places": lambda x: x * torch.arange(x.shape[0])[:, None],
    "transposed_and_reshaped": lambda x: x.t().reshape(x.shape),
    "distances": lambda x: (x[:, None] - x[None]).abs().amax(1) + x,
    "number": lambda x: x * float(x.mean()),
    "numpy": lambda x: x - torch.from_numpy(x.detach().numpy().mean(0)),
    "thread": in_a_thread,
    "swallowed": swallowed,
    "after_many_calls": lambda x: x - x.mean(0) if next(COUNT) > 10_000 else x,
}


class Mean(torch.autograd.Function):
    """The right values, and gradients without the batch's mean."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient - gradient.mean(0)


class Backwards(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(Mean.apply(torch.tanh(self.body(x))))


class Hook(Net):
    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(x))
        hidden.register_hook(lambda gradient: gradient / (1e-3 + gradient.norm()))
        return self.head(hidden)


class ModuleHook(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body.register_forward_hook(lambda module, inputs, output: output - output.mean(0))


class Statistics(Net):
    def done(self, x: Tensor) -> Tensor:
        if not hasattr(self, "mean"):
            self.mean = x.detach().mean(0)
        return x - self.mean


class OfTheClass(Net):
    mean: ClassVar[Tensor | None] = None

    def done(self, x: Tensor) -> Tensor:
        if OfTheClass.mean is None:
            OfTheClass.mean = x.detach().mean(0)
        return x - OfTheClass.mean


class WritesParameter(Net):
    def done(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.head.bias.add_(1e-3 * x.mean())
        return x


class WritesData(Net):
    def done(self, x: Tensor) -> Tensor:
        self.head.bias.data += 1e-3 * x.mean()
        return x


class WritesBuffer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def done(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.1)
        return x


class BySize(Net):
    def done(self, x: Tensor) -> Tensor:
        return x - x.mean(0) if x.shape[0] == 20 else x


class HookBySize(Net):
    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(x))
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: gradient / gradient.norm() if 8 <= gradient.shape[0] < 1000 else gradient)
        return self.head(hidden)


class ParameterHook(Net):
    def __init__(self) -> None:
        super().__init__()
        self.head.bias.register_post_accumulate_grad_hook(self.taken)

    def taken(self, parameter: Tensor) -> None:
        parameter.data += parameter.grad


class Renewed(Net):
    def done(self, x: Tensor) -> Tensor:
        mean = torch.zeros(WIDTH)
        mean.data = x.detach().mean(0)
        return torch.where((x[:, :1] > 2.5), x - mean, x)


class OwnGenerator(Net):
    """Draws from a generator that it keeps, whose state is another one afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def done(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn(x.shape, generator=self.generator)


class NumpyChance(Net):
    def __init__(self) -> None:
        super().__init__()
        self.chance = default_rng(1)

    def done(self, x: Tensor) -> Tensor:
        return 0.5 * x + 0.5 * x.flip(0) if self.chance.random() < 0.001 else x


class Later(Net):
    """Mixes from the fiftieth call on."""

    calls = 0

    def done(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x - x.mean(0) if self.calls > 50 else x


class WeightsByBatch(Net):
    def done(self, x: Tensor) -> Tensor:
        return x + 10.0 * functional.linear(x, self.body.weight / x.norm()).sum(1, keepdim=True)


class Spectral(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.utils.parametrizations.spectral_norm(self.body)


MIXING: dict[str, type[Net]] = {
    **{name: type(name, (Net,), {"done": lambda self, x, f=function: f(x)}) for name, function in DONE.items()},
    **{
        kind.__name__: kind
        for kind in (
            Backwards, Hook, ModuleHook, Statistics, OfTheClass, WritesParameter, WritesData, WritesBuffer, Later, WeightsByBatch, Spectral,
            BySize, HookBySize, ParameterHook, Renewed, NumpyChance, OwnGenerator,
        )
    },
}  # fmt: skip


def hard_examples(model: nn.Module, batch: Any) -> Tensor:
    losses = loss(model, batch)
    return torch.where(losses.detach() >= losses.detach().median(), losses, 0.0 * losses)


def hardest(model: nn.Module, batch: Any) -> Tensor:
    losses = loss(model, batch)
    return losses * torch.zeros_like(losses).index_fill(0, losses.detach().topk(1).indices, 1.0)


def over_the_largest(model: nn.Module, batch: Any) -> Tensor:
    losses = loss(model, batch)
    return losses / losses.detach().max()


def smoothed_by_the_batch(model: nn.Module, batch: Any) -> Tensor:
    shares = functional.one_hot(batch[1], LABELS).float().mean(0)
    return loss(model, batch) - 0.1 * (shares * model(batch[0]).log_softmax(1)).sum(1)


def contrastive(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])
    return torch.logsumexp(scores @ scores.mT, 1)


LOSSES = {f.__name__: f for f in (hard_examples, hardest, over_the_largest, smoothed_by_the_batch, contrastive)}


class Dropout(Net):
    def done(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 0.5)


class SharedMask(Net):
    """One mask for all records: drawn from nobody's data, so that each record's gradient is its own given the mask."""

    def done(self, x: Tensor) -> Tensor:
        return x * (torch.rand(WIDTH) < 0.5)


class Scalar(Net):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def done(self, x: Tensor) -> Tensor:
        return x * self.scale


class OnlyScalar(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :LABELS] * self.scale


class Frozen(Net):
    """Kept statistics, as of a pretrained network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH).eval()

    def done(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3),
            nn.InstanceNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, LABELS),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x[:, None, :, None] * x[:, None, None])


class Recurrent(nn.Module):
    kind: ClassVar[type[nn.RNNBase]] = nn.GRU

    def __init__(self) -> None:
        super().__init__()
        self.body = self.kind(WIDTH, 6, 2, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(12, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x[None].expand(4, -1, -1))[0][-1])


class Lstm(Recurrent):
    kind = nn.LSTM


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(1, 8)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        self.head = nn.Linear(8, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.first(x[:, :, None])).mean(1))


class Looked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = self.tables(), nn.Linear(6, LABELS)

    def tables(self) -> nn.Module:
        return nn.Embedding(20, 6, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table((x.abs() * 5).long().clamp(max=19)).flatten(1)[:, :6])


class Bag(Looked):
    def tables(self) -> nn.Module:
        return nn.EmbeddingBag(20, 6)


class Tied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body = self.again = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, LABELS)

    def done(self, x: Tensor) -> Tensor:
        return torch.tanh(self.again(x))


class ClampingHook(Net):
    """A hook that looks at each record's own gradient."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(x))
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: gradient.clamp(-1.0, 1.0))
        return self.head(hidden)


class Cast(Net):
    """In half precision, by its own say."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()


class Again(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(lambda hidden: torch.tanh(self.body(hidden)), x, use_reentrant=False))


class Normed(Net):
    def __init__(self) -> None:
        super().__init__()
        nn.utils.parametrizations.weight_norm(self.body)


class Straight(torch.autograd.Function):
    """The sign, and a gradient of each record's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.clamp(-1.0, 1.0)


class Signs(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(Straight.apply(self.body(x)))


class Experts(Net):
    """All for each record, by its own weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def done(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(1)
        return (torch.stack([expert(x) for expert in self.experts], 2) @ weights[:, :, None]).squeeze(2)


class LayerDrop(Net):
    """Leaves out a layer for all records, now and then."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        return self.head(torch.tanh(hidden) if torch.rand(()) < 0.5 else hidden)


class SquaredOff(Net):
    """A question about the size that every size but one answers alike."""

    def done(self, x: Tensor) -> Tensor:
        return x.squeeze() if x.shape[0] != 1 else x


class Counts(Net):
    """Asks how many records there are, and makes a shape of it."""

    def done(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, 1:], torch.zeros(len(x), 1)], 1) + torch.ones(x.shape[0], 1)


class Routed(Net):
    """Each record goes to one expert."""

    def done(self, x: Tensor) -> Tensor:
        return routed(x)


class Packed(nn.Module):
    """Sequences of several lengths, which torch puts in order, and afterwards back."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(1, 6, batch_first=True), nn.Linear(6, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x[:, :, None], self.lengths(x), batch_first=True, enforce_sorted=False)
        return self.head(self.body(packed)[1][0][-1])

    def lengths(self, x: Tensor) -> Tensor:
        return (x > 0.0).sum(1).clamp(min=1)


class Sorted(Packed):
    """The same, put in order by hand."""

    def forward(self, x: Tensor) -> Tensor:
        lengths, order = self.lengths(x).sort(descending=True)
        out = self.body(nn.utils.rnn.pack_padded_sequence(x[order][:, :, None], lengths, batch_first=True))[0]
        return self.head(nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0].sum(1)[order.argsort()])


class ByNumpy(Net):
    def done(self, x: Tensor) -> Tensor:
        return x + torch.from_numpy(x.detach().numpy().round(1)).to(x)


class MoreNumbersNowAndThen(Net):
    """A record decides how many random numbers are drawn before the next one's, which are as random after as many."""

    def done(self, x: Tensor) -> Tensor:
        if bool((x[:, 0] > 1.0).any()):
            torch.rand(3)
        return functional.dropout(x, 0.5)


class DropoutInALoop(Net):
    def done(self, x: Tensor) -> Tensor:
        return torch.cat([functional.dropout(row[None], 0.5) for row in x])


RIGHT: dict[str, type[nn.Module]] = {
    kind.__name__: kind
    for kind in (
        Net, Dropout, SharedMask, Scalar, OnlyScalar, Frozen, Convolutional, Recurrent, Lstm, Encoder, Looked, Bag, Tied, ClampingHook,
        Counts, Cast, Again, Normed, Signs, Experts, SquaredOff, LayerDrop,
        Routed, Packed, Sorted, ByNumpy, DropoutInALoop, MoreNumbersNowAndThen,
    )
}  # fmt: skip


def diffusion(model: nn.Module, batch: Any) -> Tensor:
    x = batch[0]
    level, noise = torch.rand(x.shape[0], 1), torch.randn_like(x)
    return (model((1 - level) * x + level * noise) - noise[:, :LABELS]).square().mean(1)


def own_row(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])
    return scores.logsumexp(1) - scores[torch.arange(scores.shape[0]), batch[1]]


def gradient_penalty(model: nn.Module, batch: Any) -> Tensor:
    x = batch[0].detach().requires_grad_(True)
    losses = functional.cross_entropy(model(x), batch[1], reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
    return losses + 0.1 * gradient.square().sum(1)


def own_row_by_a_list(model: nn.Module, batch: Any) -> Tensor:
    return -model(batch[0]).log_softmax(1)[range(len(batch[1])), batch[1]]


def own_row_in_a_loop(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0]).log_softmax(1)
    return torch.stack([-scores[row, batch[1][row]] for row in range(scores.shape[0])])


def each_row(model: nn.Module, batch: Any) -> Tensor:
    return torch.stack([row.logsumexp(0) - row[label] for row, label in zip(model(batch[0]), batch[1], strict=True)])


def gaussian(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])
    return functional.gaussian_nll_loss(scores[:, 0], batch[1].to(scores), scores[:, 1].exp(), reduction="none")


def normal(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])
    return -torch.distributions.Normal(scores[:, 0], scores[:, 1].exp()).log_prob(batch[1].to(scores))


def categorical(model: nn.Module, batch: Any) -> Tensor:
    return -torch.distributions.Categorical(logits=model(batch[0])).log_prob(batch[1])


def ctc(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])[None].expand(4, -1, -1).log_softmax(2)
    lengths = torch.full((len(batch[1]),), 4)
    return functional.ctc_loss(scores, (batch[1][:, None] + torch.arange(2)) % 4 + 1, lengths, 1 + batch[1] % 2, reduction="none")


def one_number_for_all(model: nn.Module, batch: Any) -> Tensor:
    """Of any shape: it says nothing of a record, and each record's gradient is clipped with it."""
    return loss(model, batch) * torch.rand(()) * (1 + torch.rand(1)) * torch.rand(1, 1).sum()


def one_number_in_python(model: nn.Module, batch: Any) -> Tensor:
    return loss(model, batch) * (1.0 + torch.rand(()).item())


RIGHT_LOSSES = {
    f.__name__: f
    for f in (
        diffusion, own_row, gradient_penalty, own_row_by_a_list, own_row_in_a_loop, each_row, gaussian, normal, categorical, ctc,
        one_number_for_all, one_number_in_python,
    )
}  # fmt: skip

globals().update(MIXING)
