"""More programs in the shapes of public tutorials: variants of those in `ordinary_programs`, and usual mistakes that mix records."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributions as D  # noqa: N812
from torch.autograd import Function
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import rnn

from tests.train.engine.ordinary_programs import (
    LLAMA,
    RECORDS,
    LeNet,
    Packed,
    Program,
    by_length,
    classify,
    hugging,
    hugging_classes,
    hugging_language,
    images,
    labels,
    lengthened,
    line,
    log_probability,
    lora,
    pairs_of_texts,
    preferences,
    preferred,
    regression,
    table,
    tagged,
    tokens,
    translate,
    triplets,
)

MIXES = "depend|record|example"
APART = "must be part of the example or public"

# Sequences.


class SortedByLength(Packed):
    """The longest first, as pack_padded_sequence wants it, and back in their order after it."""

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        lengths, order = lengths.sort(descending=True)
        packed = rnn.pack_padded_sequence(self.embedding(ids[order]), lengths.cpu(), batch_first=True)
        _, (hidden, _) = self.lstm(packed)
        return self.fc(torch.cat([hidden[-2], hidden[-1]], 1)[order.argsort()])


class ListOfSequences(Packed):
    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        rows = [self.embedding(row[:length]) for row, length in zip(ids, lengths.tolist(), strict=True)]
        _, (hidden, _) = self.lstm(rnn.pack_sequence(rows, enforce_sorted=False))
        return self.fc(torch.cat([hidden[-2], hidden[-1]], 1))


class PackedDropout(nn.Module):
    """Dropout of packed sequences, whose numbers are drawn for the steps of all records together."""

    def __init__(self, layers: int, mixes: bool = False) -> None:
        super().__init__()
        self.embedding, self.fc, self.mixes = nn.Embedding(20, 8), nn.Linear(6, 4), mixes
        self.lstm = nn.LSTM(8, 6, num_layers=layers, dropout=0.3 if layers > 1 else 0.0, batch_first=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        embedded = F.dropout(self.embedding(ids), 0.2)  # of each record
        packed = rnn.pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        if self.lstm.num_layers == 1:
            packed = packed._replace(data=F.dropout(packed.data, 0.3))
        last = self.lstm(packed)[1][0][-1]
        return self.fc(last - last.mean(0) if self.mixes else last)


class Cells(nn.Module):
    """A recurrent network that is written as a loop over cells."""

    def __init__(self, cell: type[nn.RNNCellBase], state: bool = True) -> None:
        super().__init__()
        self.embedding, self.cell, self.fc, self.state = nn.Embedding(20, 8), cell(8, 6), nn.Linear(6, 4), state  # type: ignore[call-arg]

    def forward(self, ids: Tensor) -> Tensor:
        embedded = self.embedding(ids)
        zeros = torch.zeros(ids.shape[0], 6)
        hidden: Any = ((zeros, zeros) if isinstance(self.cell, nn.LSTMCell) else zeros) if self.state else None
        for step in range(ids.shape[1]):
            hidden = self.cell(embedded[:, step], hidden)
        return self.fc(hidden[0] if isinstance(self.cell, nn.LSTMCell) else hidden)


class StackedCells(nn.Module):
    """Two LSTM cells, one on the other, with dropout between them, as the tutorial on sequence prediction has them."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 6), nn.LSTMCell(6, 6), nn.Linear(6, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        h, c, h2, c2 = (torch.zeros(x.size(0), 6) for _ in range(4))
        for x_t in x.split(1, dim=1):
            h, c = self.lstm1(x_t, (h, c))
            h2, c2 = self.lstm2(self.dropout(h), (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, 1)


def next_value(model: nn.Module, batch: Any) -> Tensor:
    series = batch[0]
    return F.mse_loss(model(series[:, :-1]), series[:, 1:], reduction="none").mean(1)


class SimpleRNN(nn.Module):
    def __init__(self, layers: int = 1, dropout: float = 0.0, kind: type[nn.RNNBase] = nn.RNN) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.rnn: Any = kind(8, 6, layers, dropout=dropout, batch_first=True)  # type: ignore[call-arg,arg-type]
        self.fc = nn.Linear(6, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.rnn(self.embedding(ids))[0][:, -1])


class ConvLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates, self.head = nn.Conv2d(1 + 4, 16, 3, padding=1), nn.Linear(4, 4)

    def forward(self, frames: Tensor) -> Tensor:
        h = c = frames.new_zeros(frames.size(0), 4, *frames.shape[-2:])
        for step in range(frames.size(1)):
            i, f, o, g = self.gates(torch.cat([frames[:, step], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h.mean((2, 3)))


def films() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 3, 1, 6, 6), labels()


class TemporalBlock(nn.Module):
    """Dilated causal convolutions with normed weights."""

    def __init__(self, old: bool) -> None:
        super().__init__()
        norm: Any = nn.utils.weight_norm if old else nn.utils.parametrizations.weight_norm
        self.conv1, self.conv2 = norm(nn.Conv1d(2, 4, 2, padding=2, dilation=2)), norm(nn.Conv1d(4, 4, 2, padding=4, dilation=4))
        self.downsample, self.fc, self.dropout = nn.Conv1d(2, 4, 1), nn.Linear(4, 4), nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        out = self.dropout(F.relu(self.conv1(x)[:, :, :-2]))
        out = self.dropout(F.relu(self.conv2(out)[:, :, :-4]))
        return self.fc(F.relu(out + self.downsample(x))[:, :, -1])


def series() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 2, 9), labels()


class LongConvolution(nn.Module):
    """A convolution as long as the series, by Fourier transforms of twice its length, as in state-space layers."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.fc = nn.Parameter(torch.randn(2, 9) * 0.1), nn.Linear(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[2]
        spectrum = torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(self.kernel, n=2 * length)
        return self.fc(torch.fft.irfft(spectrum, n=2 * length)[:, :, :length].relu().mean(2))


def padded(model: nn.Module, batch: Any) -> Tensor:
    """Padding and cropping whose amounts for the records are 0."""
    inputs, targets = batch
    inputs = F.pad(F.pad(inputs, (0, 0, 0, 1, 0, 0)), (0, 0, 0, -1, 0, 0))
    return classify(model, (inputs, targets))


def pruned() -> nn.Module:
    model = line(6, 4)
    nn.utils.prune.l1_unstructured(next(m for m in model.modules() if isinstance(m, nn.Linear)), "weight", amount=0.5)
    return model


class CRF(nn.Module):
    """A tagger with transitions between tags, and its partition function by the forward algorithm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.fc = nn.Embedding(20, 8), nn.LSTM(8, 6, batch_first=True), nn.Linear(6, 5)
        self.transitions = nn.Parameter(torch.randn(5, 5) * 0.1)

    def forward(self, ids: Tensor, tags: Tensor) -> Tensor:
        scores = self.fc(self.lstm(self.embedding(ids))[0])
        tags = tags.clamp(min=0)
        gold = scores.gather(2, tags[..., None]).squeeze(2).sum(1) + self.transitions[tags[:, :-1], tags[:, 1:]].sum(1)
        alpha = scores[:, 0]
        for step in range(1, ids.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + self.transitions + scores[:, step, None, :], 1)
        return torch.logsumexp(alpha, 1) - gold


def tag_paths(model: nn.Module, batch: Any) -> Tensor:
    return model(*batch)


class Decoder(nn.Module):
    """A translator that is sometimes taught by its own words."""

    def __init__(self, forced: Callable[[], Any]) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 8), nn.Embedding(20, 8)
        self.encoder, self.decoder, self.out = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
        self.forced = forced

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, hidden = self.encoder(self.source(source))
        word, outputs = target[:, :1], []
        for step in range(target.shape[1]):
            output, hidden = self.decoder(F.relu(self.target(word)), hidden)
            outputs.append(self.out(output))
            word = target[:, step : step + 1] if self.forced() else outputs[-1].argmax(-1).detach()
        return torch.cat(outputs, 1)


# Attention.


class MaskedAttention(nn.Module):
    """nn.MultiheadAttention with a causal mask, a mask of the padding, or weights that are used."""

    def __init__(self, weights: bool = False, batch_first: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.attention, self.fc = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=batch_first), nn.Linear(8, 4)
        self.weights, self.batch_first = weights, batch_first

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x if self.batch_first else x.transpose(0, 1)
        causal = torch.triu(torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool), diagonal=1)
        out, weights = self.attention(x, x, x, key_padding_mask=ids == 0, attn_mask=causal, need_weights=self.weights)
        out = out if self.batch_first else out.transpose(0, 1)
        if weights is not None:
            out = out + weights @ self.embedding(ids)
        return self.fc(out.mean(1))


class CrossAttention(nn.Module):
    """A few learnt queries look at a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.embedding = nn.Parameter(torch.randn(3, 8)), nn.Embedding(20, 8)
        self.attention, self.fc = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        queries = self.queries.unsqueeze(0).expand(ids.shape[0], -1, -1)
        return self.fc(self.attention(queries, x, x, need_weights=False)[0].mean(1))


class WholeTransformer(nn.Module):
    """nn.Transformer with its masks."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 8), nn.Embedding(20, 8)
        self.transformer, self.out = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True), nn.Linear(8, 20)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self.source(source) * math.sqrt(8),
            self.target(target) * math.sqrt(8),
            tgt_mask=causal,
            src_key_padding_mask=source == 1,
            memory_key_padding_mask=source == 1,
            tgt_is_causal=True,
        )
        return self.out(hidden)


class DefaultEncoder(nn.Module):
    """nn.TransformerEncoder as it stands, sequences first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.encoder, self.fc = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.encoder(self.embedding(ids.t())).mean(0))


# Images.


class AttentionUNet(nn.Module):
    """A diffusion model with blocks of residuals, attention in the middle, and classes that are left out now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.classes = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8)), nn.Embedding(5, 8)
        self.inward, self.down = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.norm1, self.norm2, self.norm3 = nn.GroupNorm(2, 8), nn.GroupNorm(2, 8), nn.GroupNorm(2, 16)
        self.qkv, self.project = nn.Conv1d(8, 24, 1), nn.Conv1d(8, 8, 1)
        self.shift, self.out = nn.Linear(8, 16), nn.Conv2d(16, 1, 3, padding=1)
        betas = torch.linspace(1e-4, 0.02, 100)
        self.register_buffer("alphas", torch.cumprod(1 - betas, 0))

    def forward(self, x: Tensor, steps: Tensor, kinds: Tensor) -> Tensor:
        frequencies = torch.exp(-math.log(10000) * torch.arange(4, device=x.device) / 4)
        angles = steps[:, None].float() * frequencies[None]
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], -1)) + self.classes(kinds)
        first = self.inward(x)
        scale, shift = self.shift(F.silu(embedded))[:, :, None, None].chunk(2, 1)
        hidden = self.down(F.silu(self.norm1(first) * (1 + scale) + shift))
        b, c, h, w = hidden.shape
        q, k, v = self.qkv(self.norm2(hidden).view(b, c, h * w)).chunk(3, 1)
        weights = torch.einsum("bct,bcs->bts", q, k).div(math.sqrt(c)).softmax(-1)
        hidden = hidden + self.project(torch.einsum("bts,bcs->bct", weights, v)).view(b, c, h, w)
        return self.out(F.silu(self.norm3(torch.cat([F.interpolate(hidden, scale_factor=2, mode="nearest"), first], 1))))


def guided(model: Any, batch: Any) -> Tensor:
    pictures, kinds = batch
    steps = torch.randint(0, 100, (pictures.shape[0],), device=pictures.device).long()
    noise = torch.randn_like(pictures)
    kinds = torch.where(torch.rand(kinds.shape, device=kinds.device) < 0.1, torch.full_like(kinds, 4), kinds)
    alpha = model.alphas[steps][:, None, None, None]
    noisy = alpha.sqrt() * pictures + (1 - alpha).sqrt() * noise
    return F.smooth_l1_loss(model(noisy, steps, kinds), noise, reduction="none").flatten(1).mean(1)


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.place, self.net = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6)), LeNet()

    def forward(self, x: Tensor) -> Tensor:
        theta = self.place(x).view(-1, 2, 3) + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.size()), align_corners=False)
        return self.net(F.grid_sample(x, grid, align_corners=False))


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def sharpen(model: nn.Module, batch: Any) -> Tensor:
    (pictures,) = batch
    return F.l1_loss(model(F.avg_pool2d(pictures, 2)), pictures, reduction="none").mean((1, 2, 3))


class VQVAE(nn.Module):
    """A codebook, with gradients straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.codes = nn.Linear(64, 8), nn.Linear(8, 64), nn.Embedding(6, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(x).view(-1, 2, 4)
        nearest = torch.cdist(z.flatten(0, 1), self.codes.weight).argmin(-1)
        quantised = self.codes(nearest).view_as(z)
        penalty = F.mse_loss(quantised, z.detach(), reduction="none") + 0.25 * F.mse_loss(quantised.detach(), z, reduction="none")
        quantised = z + (quantised - z).detach()
        return self.decoder(quantised.flatten(1)), penalty.mean((1, 2))


def quantise(model: nn.Module, batch: Any) -> Tensor:
    x = batch[0].flatten(1)
    reconstruction, penalty = model(x)
    return F.mse_loss(reconstruction, x, reduction="none").mean(1) + penalty


def styled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ELU(), nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(144, 4)
    )


def old_fashioned() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.LocalResponseNorm(2),
        nn.RReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.AlphaDropout(0.1),
        nn.Linear(36, 4),
    )


def two_views(model: nn.Module, batch: Any) -> Tensor:
    """Mixup of two pictures of one record."""
    first, second, targets = batch
    share = torch.distributions.Beta(torch.tensor(0.4), torch.tensor(0.4)).sample((first.shape[0],))
    output = model(share.view(-1, 1, 1, 1) * first + (1 - share).view(-1, 1, 1, 1) * second)
    return share * F.cross_entropy(output, targets, reduction="none") + (1 - share) * F.cross_entropy(
        output, (targets + 1) % 4, reduction="none"
    )


def views() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(RECORDS, 1, 8, 8), torch.randn(RECORDS, 1, 8, 8), labels()


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic, self.generator = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)), nn.Linear(3, 6)
        self.generator.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.critic(x).squeeze(-1)


def wasserstein(model: Any, batch: Any) -> Tensor:
    """A critic's loss with a gradient penalty."""
    real = batch[0]
    fake = model.generator(torch.randn(real.size(0), 3))
    share = torch.rand(real.size(0), 1)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    slopes = torch.autograd.grad(model(between).sum(), between, create_graph=True)[0]
    return model(fake) - model(real) + 10 * (slopes.norm(2, dim=1) - 1) ** 2


class Reverse(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


class Domains(nn.Module):
    """Adversarial adaptation, by a gradient that is turned round."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.kind, self.domain = nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8, 4), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        return self.kind(hidden), self.domain(Reverse.apply(hidden))


def adapt(model: nn.Module, batch: Any) -> Tensor:
    kind, domain = model(batch[0])
    return F.cross_entropy(kind, batch[1], reduction="none") + F.cross_entropy(domain, batch[1] % 2, reduction="none")


class ArcFace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.weight = LeNet(), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        cosine = F.linear(F.normalize(self.body(x)), F.normalize(self.weight))
        turned = torch.cos(torch.acos(cosine.clamp(-0.999, 0.999)) + 0.3)
        return 8.0 * torch.where(F.one_hot(targets, 4).bool(), turned, cosine)


def arcface(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(*batch), batch[1], reduction="none")


class Centres(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.centres = LeNet(), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def centred(model: Any, batch: Any) -> Tensor:
    output = model(batch[0])
    return F.cross_entropy(output, batch[1], reduction="none") + 0.1 * (output - model.centres[batch[1]]).square().sum(1)


class Detector(nn.Module):
    """Boxes on a grid, one anchor per cell."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 5, 3, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def boxes() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(RECORDS, 1, 8, 8), torch.rand(RECORDS, 3, 4), torch.rand(RECORDS, 3) < 0.6


def detect(model: nn.Module, batch: Any) -> Tensor:
    pictures, places, present = batch
    out = model(pictures).permute(0, 2, 3, 1)
    cell = (places[..., :2] * 2).long().clamp(max=1)
    rows = torch.arange(out.shape[0])[:, None]
    chosen = out[rows, cell[..., 1], cell[..., 0]]
    wanted = torch.zeros_like(out[..., 0]).index_put((rows.expand_as(present), cell[..., 1], cell[..., 0]), present.float())
    found = F.binary_cross_entropy_with_logits(out[..., 0], wanted.clamp(max=1), reduction="none").mean((1, 2))
    return found + ((chosen[..., 1:] - places) ** 2 * present[..., None]).sum((1, 2)) / present.sum(1).clamp(min=1)


# What learns to learn, and teachers.


def maml(model: nn.Module, batch: Any) -> Tensor:
    """A task is a record: two steps on its support, and the loss on its query."""
    losses = []
    for x, y, query, target in zip(*batch, strict=True):
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
            slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: weight - 0.1 * slope for (name, weight), slope in zip(fast.items(), slopes, strict=True)}
        losses.append(F.mse_loss(torch.func.functional_call(model, fast, (query,)), target))
    return torch.stack(losses)


def maml_mapped(model: nn.Module, batch: Any) -> Tensor:
    """The same by torch.func."""
    weights = dict(model.named_parameters())

    def of_task(x: Tensor, y: Tensor, query: Tensor, target: Tensor) -> Tensor:
        def inner(fast: dict[str, Tensor]) -> Tensor:
            return F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)

        slopes = torch.func.grad(inner)(weights)
        fast = {name: weight - 0.1 * slopes[name] for name, weight in weights.items()}
        return F.mse_loss(torch.func.functional_call(model, fast, (query,)), target)

    return torch.func.vmap(of_task)(*batch)


def tasks() -> tuple[Tensor, ...]:
    return tuple(torch.randn(RECORDS, 5, 1) for _ in range(4))


def prototypes(model: nn.Module, batch: Any) -> Tensor:
    """A record is an episode: its support and its queries."""
    support, query = batch
    b, ways, shots = support.shape[:3]
    centres = model(support.reshape(b * ways * shots, -1)).view(b, ways, shots, -1).mean(2)
    embedded = model(query.reshape(b * ways, -1)).view(b, ways, -1)
    distances = torch.cdist(embedded, centres)
    targets = torch.arange(ways).expand(b, ways)
    return F.cross_entropy(-distances.flatten(0, 1), targets.flatten(), reduction="none").view(b, ways).mean(1)


def few_shots() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 3, 2, 6), torch.randn(RECORDS, 3, 6)


class Byol(nn.Module):
    """A network that predicts what its slower copy says about another view."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.predictor, self.target = line(6, 4), nn.Linear(4, 4), line(6, 4)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            slow = self.target(x + 0.1 * torch.randn_like(x))
        return self.predictor(self.online(x + 0.1 * torch.randn_like(x))), slow


def byol(model: nn.Module, batch: Any) -> Tensor:
    fast, slow = model(batch[0])
    return 2 - 2 * F.cosine_similarity(fast, slow.detach(), dim=-1)


def q_learning(model: Any, batch: Any) -> Tensor:
    states, actions, rewards, following = batch
    value = model.online(states).gather(1, actions[:, None]).squeeze(1)
    with torch.no_grad():
        best = rewards + 0.9 * model.target(following).max(1).values
    return F.smooth_l1_loss(value, best, reduction="none")


def transitions() -> tuple[Tensor, ...]:
    return torch.randn(RECORDS, 6), labels(), torch.randn(RECORDS), torch.randn(RECORDS, 6)


# Graphs, ratings, words.


class MessagePassing(nn.Module):
    """A graph per record, as a list of its edges."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update, self.fc = nn.Linear(10, 8), nn.GRUCell(8, 5), nn.Linear(5, 4)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        sources, targets = edges.unbind(-1)
        index = sources[..., None].expand(-1, -1, nodes.shape[-1])
        pair = torch.cat([nodes.gather(1, index), nodes.gather(1, targets[..., None].expand_as(index))], -1)
        messages = F.relu(self.message(pair))
        gathered = torch.zeros(*nodes.shape[:2], 8).scatter_add(1, targets[..., None].expand(-1, -1, 8), messages)
        hidden = self.update(gathered.flatten(0, 1), nodes.flatten(0, 1)).view_as(nodes)
        return self.fc(hidden.mean(1))


class DisjointGraphs(nn.Module):
    """All graphs of a batch as one graph of many parts, as PyTorch Geometric has them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.fc = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        count, size = nodes.shape[:2]
        flat = nodes.reshape(count * size, -1)
        shifted = (edges + size * torch.arange(count)[:, None, None]).reshape(-1, 2)
        owner = torch.arange(count).repeat_interleave(size)
        for conv in (self.conv1, self.conv2):
            x = conv(flat)
            flat = F.relu(torch.zeros_like(x).index_add_(0, shifted[:, 1], x[shifted[:, 0]]))
        pooled = torch.zeros(count, flat.shape[-1]).index_add_(0, owner, flat) / size
        return self.fc(pooled)


def edge_lists() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(RECORDS, 7, 5), torch.randint(0, 7, (RECORDS, 9, 2)), labels()


def of_edges(model: nn.Module, batch: Any) -> Tensor:
    nodes, edges, targets = batch
    return F.cross_entropy(model(nodes, edges), targets, reduction="none")


class WeightedBags(nn.Module):
    """Several categories per record, with weights, as offsets into one list."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag, self.fc, self.weighted = nn.EmbeddingBag(20, 4, mode=mode), nn.Linear(4, 4), mode == "sum"

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        offsets = torch.arange(0, ids.numel(), ids.shape[1])
        return self.fc(self.bag(ids.flatten(), offsets, weights.flatten() if self.weighted else None))


def weighted_ids() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randint(0, 20, (RECORDS, 3)), torch.rand(RECORDS, 3), labels()


class SkipGram(nn.Module):
    """word2vec with negative samples that are drawn for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Embedding(20, 6), nn.Embedding(20, 6)

    def forward(self, centre: Tensor, context: Tensor) -> Tensor:
        negatives = torch.randint(0, 20, (centre.shape[0], 4))
        vector = self.inward(centre)
        good = (vector * self.outward(context)).sum(1)
        bad = torch.bmm(self.outward(negatives), vector[:, :, None]).squeeze(2)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1))


def words() -> tuple[Tensor, Tensor]:
    return torch.randint(0, 20, (RECORDS,)), torch.randint(0, 20, (RECORDS,))


def skip_gram(model: nn.Module, batch: Any) -> Tensor:
    return model(*batch)


def bayesian_ranking(model: Any, batch: Any) -> Tensor:
    """Of an item that was bought and one that is drawn."""
    user, item = batch
    other = torch.randint_like(item, 20)
    users = model.inward(user)
    return -F.logsigmoid((users * (model.outward(item) - model.outward(other))).sum(1))


class Gumbel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(F.gumbel_softmax(self.encoder(x).view(-1, 2, 3), tau=0.7, hard=True).flatten(1))


class FrozenBase(nn.Module):
    """A head on a recurrent network that does not learn, with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = nn.GRU(1, 6, 2, dropout=0.5, batch_first=True), nn.Linear(6, 4)
        self.base.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x[..., None])[0][:, -1])


class DroppedReward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(-1)


def two_tables() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 6), torch.randn(RECORDS, 6)


class RewardOfMaps(nn.Module):
    """A reward from attention and its weights, which dropout changes: four heads of each of two copies of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(14, 1)
        self.attention = nn.MultiheadAttention(8, 4, dropout=0.5, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        out, weights = self.attention(x, x, x, need_weights=True)
        return self.head(torch.cat([out.mean(1), weights.mean(1)], 1)).squeeze(-1)


def of_triplets(model: nn.Module, batch: Any) -> Tensor:
    """Anchor, positive and negative in one batch."""
    anchor, positive, negative = model(torch.cat([*batch, batch[0].flip(1)])).chunk(3)
    return F.relu((anchor - positive).abs() - (anchor - negative).abs() + 1.0)


class ColoursInAnyOrder(nn.Module):
    """An augmentation: one random order of the colours for all images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x[:, torch.randperm(3)]
        return self.fc(F.relu(self.conv(x)).mean((2, 3)))


def of_pairs_in_turn(model: nn.Module, batch: Any) -> Tensor:
    """Both of a pair stand beside each other."""
    both = model(torch.stack(batch, 1).flatten(0, 1)).view(-1, 2)
    return -F.logsigmoid(both[:, 0] - both[:, 1])


def likelihood_under(of_parameter: Callable[[Tensor], Any]) -> Callable[[nn.Module, Any], Tensor]:
    """Of a distribution that checks what it is given, as torch's do unless they are told not to."""
    return lambda model, batch: -of_parameter(model(batch[0]).squeeze(-1)).log_prob(batch[1])


def counts() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 6), torch.randint(0, 5, (RECORDS,)).float()


def yes_or_no() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 6), torch.randint(0, 2, (RECORDS,)).float()


def shares() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 6), torch.rand(RECORDS)


def soft_targets(model: nn.Module, batch: Any) -> Tensor:
    return F.binary_cross_entropy(model(batch[0]).squeeze(-1).sigmoid(), batch[1], reduction="none")


def of_logarithms(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0].abs().log()).squeeze(-1), batch[1].log(), reduction="none")


def reinforce(model: nn.Module, batch: Any) -> Tensor:
    policy = torch.distributions.Categorical(logits=model(batch[0]))
    return -policy.log_prob(policy.sample()) * batch[1]


def bilinear() -> nn.Module:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = nn.Bilinear(3, 3, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.pair(x[:, :3], x[:, 3:])

    return Pair()


class Siren(nn.Module):
    """Waves, with positions in frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(24, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        angles = x[..., None] * 2.0 ** torch.arange(2)
        return self.second(torch.sin(30 * self.first(torch.cat([angles.sin(), angles.cos()], -1).flatten(1)))).squeeze(-1)


def squares(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch[0]) - batch[1]) ** 2


# Preferences by one model with an adapter that is switched off.


def with_adapter() -> Callable[[], nn.Module]:
    return lora("LlamaForCausalLM", ["q_proj", "v_proj"], **LLAMA)


def dpo_with_adapter(model: Any, batch: Any) -> Tensor:
    both = torch.cat(batch)
    new = log_probability(model(input_ids=both, use_cache=False).logits, both)
    with torch.no_grad(), model.disable_adapter():
        old = log_probability(model(input_ids=both, use_cache=False).logits, both)
    good, bad = (new - old).chunk(2)
    return -F.logsigmoid(0.1 * (good - bad))


def tags_of_words(model: Any, batch: Any) -> Tensor:
    ids, tags = batch
    losses = F.cross_entropy(model(input_ids=ids).logits.transpose(1, 2), tags, reduction="none", ignore_index=-100)
    return losses.sum(1) / (tags != -100).sum(1).clamp(min=1)


def answers(model: Any, batch: Any) -> Tensor:
    ids, start = batch
    out = model(input_ids=ids)
    return F.cross_entropy(out.start_logits, start, reduction="none") + F.cross_entropy(out.end_logits, start, reduction="none")


SMALL = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


# Matrices of one record, and what a library has.


class CausalSums(nn.Module):
    """Linear attention: each place weighs the places before it."""

    def __init__(self, triangle: Callable[[Tensor], Tensor] = torch.tril) -> None:
        super().__init__()
        self.words, self.parts, self.head, self.triangle = nn.Embedding(20, 6), nn.Linear(6, 18), nn.Linear(6, 4), triangle

    def forward(self, ids: Tensor) -> Tensor:
        queries, keys, values = self.parts(self.words(ids)).chunk(3, -1)
        return self.head((self.triangle(queries @ keys.transpose(1, 2)) @ values).mean(1))


class KeepsWeights(CausalSums):
    """The weights of the last batch are kept, to be looked at."""

    def forward(self, ids: Tensor) -> Tensor:
        self.kept = self.words(ids)
        return super().forward(ids)


def earlier_records(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(torch.tril(model(batch[0])), batch[1], reduction="none")


def of_places(model: nn.Module, batch: Any) -> Tensor:
    logits = model(batch[0])
    return F.mse_loss(logits, torch.zeros_like(logits), reduction="none")


@torch.library.custom_op("dpcli_tests::waves", mutates_args=())
def waves(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().cpu().numpy().copy()).sin()


@waves.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


waves.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def of_waves(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(waves(model(batch[0])), batch[1], reduction="none")


# How records are mixed by mistake.


def infonce(model: nn.Module, batch: Any) -> Tensor:
    """SimCLR."""
    features = F.normalize(model(torch.cat(batch[:2])), dim=1)
    similarity = features @ features.T / 0.1
    similarity = similarity.masked_fill(torch.eye(len(similarity), dtype=torch.bool), -1e9)
    count = len(batch[0])
    return F.cross_entropy(similarity, (torch.arange(2 * count) + count) % (2 * count), reduction="none").view(2, -1).mean(0)


def barlow(model: nn.Module, batch: Any) -> Tensor:
    a, b = ((z - z.mean(0)) / z.std(0) for z in map(model, batch[:2]))
    c = a.T @ b / len(a)
    return (c - torch.eye(4)).square().sum().expand(len(a))


def hardest(model: nn.Module, batch: Any) -> Tensor:
    """Triplets of the hardest in the batch."""
    features, targets = model(batch[0]), batch[1]
    distances = torch.cdist(features, features)
    same = targets[:, None] == targets[None]
    return F.relu(distances.masked_fill(~same, -1e9).amax(1) - distances.masked_fill(same, 1e9).amin(1) + 0.3)


def mined(model: nn.Module, batch: Any) -> Tensor:
    """Only the hardest half of the batch counts."""
    losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
    return losses * (losses >= losses.median())


def balanced(model: nn.Module, batch: Any) -> Tensor:
    counts = torch.bincount(batch[1], minlength=4)
    return F.cross_entropy(model(batch[0]), batch[1], weight=1.0 / counts.clamp(min=1), reduction="none")


def mean(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def its_own_loss(model: Any, batch: Any) -> Tensor:
    return model(input_ids=batch[0], labels=batch[0]).loss


def traced() -> nn.Module:
    return torch.jit.trace(line(6, 4), torch.randn(2, 6))


def compiled() -> nn.Module:
    return torch.compile(line(6, 4))  # type: ignore[return-value]


def rarely() -> bool:
    return bool(torch.rand(()) < 0.5)


P = Program
GPT2 = {"vocab_size": 20, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
VARIANTS: dict[str, Program] = {
    "packed LSTM, sorted by the model": P(SortedByLength, lengthened, by_length),
    "packed LSTM, of a list": P(ListOfSequences, lengthened, by_length),
    "packed LSTM, dropout between its layers": P(lambda: PackedDropout(2), lengthened, by_length),
    "packed LSTM, dropout of its inputs": P(lambda: PackedDropout(1), lengthened, by_length),
    "packed LSTM, dropout between its layers, centred": P(lambda: PackedDropout(2, True), lengthened, by_length, APART),
    "packed LSTM, dropout of its inputs, centred": P(lambda: PackedDropout(1, True), lengthened, by_length, APART),
    "GRU cells": P(lambda: Cells(nn.GRUCell), tokens, classify),
    "LSTM cells": P(lambda: Cells(nn.LSTMCell), tokens, classify),
    "RNN cells": P(lambda: Cells(nn.RNNCell), tokens, classify),
    "GRU cells without a state": P(lambda: Cells(nn.GRUCell, False), tokens, classify),
    "LSTM cells, stacked": P(StackedCells, lambda: (torch.randn(RECORDS, 8),), next_value),
    "RNN": P(SimpleRNN, tokens, classify),
    "GRU with dropout": P(lambda: SimpleRNN(2, 0.3, nn.GRU), tokens, classify),
    "LSTM with dropout": P(lambda: SimpleRNN(2, 0.3, nn.LSTM), tokens, classify),
    "RNN with dropout": P(lambda: SimpleRNN(2, 0.3, nn.RNN), tokens, classify),
    "ConvLSTM": P(ConvLSTM, films, classify),
    "temporal convolutions": P(lambda: TemporalBlock(False), series, classify),
    "temporal convolutions, the older weight norm": P(
        lambda: TemporalBlock(True), series, classify, r"use torch\.nn\.utils\.parametrizations\.weight_norm"
    ),
    "long convolution by Fourier transforms": P(LongConvolution, series, classify),
    "padding of places, not of records": P(lambda: TemporalBlock(False), series, padded),
    "pruned": P(pruned, table, classify, r"use torch\.nn\.utils\.parametrize, with the mask as a buffer"),
    "conditional random field": P(CRF, tagged, tag_paths),
    "translator that teaches itself by chance": P(lambda: Decoder(rarely), pairs_of_texts, translate),
    "attention with masks": P(MaskedAttention, lengthened, by_length),
    "attention with masks and weights": P(lambda: MaskedAttention(True), lengthened, by_length),
    "attention, sequences first": P(lambda: MaskedAttention(False, False), lengthened, by_length),
    "attention of learnt queries": P(CrossAttention, tokens, classify),
    "nn.Transformer": P(WholeTransformer, pairs_of_texts, translate),
    "nn.TransformerEncoder as it stands": P(DefaultEncoder, tokens, classify),
    "diffusion with attention": P(AttentionUNet, images, guided),
    "spatial transformer": P(SpatialTransformer, images, classify),
    "super-resolution": P(SuperResolution, lambda: images()[:1], sharpen),
    "VQ-VAE": P(VQVAE, images, quantise),
    "InstanceNorm": P(styled, images, classify),
    "local response norm": P(old_fashioned, images, classify),
    "mixup of two views": P(LeNet, views, two_views),
    "Wasserstein critic": P(Critic, table, wasserstein),
    "gradient reversal": P(Domains, table, adapt),
    "ArcFace": P(ArcFace, images, arcface),
    "center loss": P(Centres, images, centred),
    "detection": P(Detector, boxes, detect),
    "MAML": P(lambda: line(1, 1), tasks, maml),
    "MAML by torch.func": P(lambda: line(1, 1), tasks, maml_mapped),
    "prototypes": P(lambda: line(6, 4), few_shots, prototypes),
    "BYOL": P(Byol, table, byol),
    "Q-learning": P(Byol, transitions, q_learning),
    "messages along edges": P(MessagePassing, edge_lists, of_edges),
    "graphs in one": P(DisjointGraphs, edge_lists, of_edges),
    "weighted bags": P(lambda: WeightedBags("sum"), weighted_ids, of_edges),
    "bags of means": P(lambda: WeightedBags("mean"), weighted_ids, of_edges),
    "skip-gram": P(SkipGram, words, skip_gram),
    "Bayesian ranking": P(SkipGram, words, bayesian_ranking),
    "Gumbel softmax": P(Gumbel, table, classify),
    "a frozen GRU with dropout": P(FrozenBase, table, classify),
    "pairs in one batch, with dropout": P(DroppedReward, two_tables, preferred),
    "pairs in one batch, with dropped attention": P(RewardOfMaps, preferences, preferred),
    "triplets in one batch, with dropped attention": P(RewardOfMaps, preferences, of_triplets),
    "colours in a random order": P(ColoursInAnyOrder, lambda: images(3), classify),
    "pairs in turn, with dropout": P(DroppedReward, two_tables, of_pairs_in_turn),
    "normal likelihood": P(lambda: line(6, 1), regression, likelihood_under(lambda mean: D.Normal(mean, 1.0))),
    "log-normal likelihood": P(lambda: line(6, 1), regression, likelihood_under(lambda mean: D.LogNormal(mean, 1.0))),
    "beta likelihood": P(lambda: line(6, 1), shares, likelihood_under(lambda share: D.Beta(share.exp(), 2.0))),
    "Poisson likelihood": P(lambda: line(6, 1), counts, likelihood_under(lambda rate: D.Poisson(rate.exp()))),
    "Bernoulli likelihood": P(lambda: line(6, 1), yes_or_no, likelihood_under(lambda logit: D.Bernoulli(logits=logit))),
    "soft targets": P(lambda: line(6, 1), shares, soft_targets),
    "logarithms of what is positive": P(lambda: line(6, 1), shares, of_logarithms),
    "REINFORCE": P(lambda: line(6, 4), regression, reinforce),
    "bilinear": P(bilinear, table, classify),
    "waves": P(Siren, regression, squares),
    "GPT-2 with LoRA": P(lora("GPT2", ["c_attn"], **GPT2), tokens, hugging_language),
    "DPO, the adapter off": P(with_adapter(), preferences, dpo_with_adapter),
    "RoBERTa, tags": P(
        hugging("RobertaForTokenClassification", num_labels=5, max_position_embeddings=16, **SMALL), tagged, tags_of_words
    ),
    "BERT, answers": P(hugging("BertForQuestionAnswering", **SMALL), tokens, answers),
    "BERT with LoRA": P(lora("BertForSequenceClassification", ["query", "value"], num_labels=4, **SMALL), tokens, hugging_classes),
    "Qwen": P(hugging("Qwen2ForCausalLM", **LLAMA), tokens, hugging_language),
    "Mamba": P(
        hugging("MambaForCausalLM", vocab_size=20, hidden_size=8, num_hidden_layers=1, state_size=4), tokens, hugging_language
    ),
    "linear attention": P(CausalSums, tokens, classify),
    "linear attention, backwards": P(lambda: CausalSums(torch.triu), tokens, classify),
    "earlier records": P(lambda: line(6, 4), table, earlier_records, MIXES),
    "an operator of torch.library": P(lambda: line(6, 4), table, of_waves),
    "what a forward keeps": P(KeepsWeights, tokens, classify, "return what a forward computes, and do not store it"),
    "a loss for each number": P(
        lambda: line(6, 4), table, of_places, r"found shape \(B, 4\); sum or average over all dimensions but the first"
    ),
    "SimCLR": P(LeNet, triplets, infonce, APART),
    "Barlow twins": P(LeNet, triplets, barlow, MIXES),
    "the hardest triplets": P(LeNet, images, hardest, MIXES),
    "the hardest half": P(LeNet, images, mined, MIXES),
    "weights by the batch's classes": P(LeNet, images, balanced, MIXES),
    "a mean over the batch": P(LeNet, images, mean, 'use reduction="none"'),
    "the model's own loss": P(
        hugging("GPT2", **GPT2), tokens, its_own_loss, "on the logits where the model returns a loss of its own"
    ),
    "TorchScript by a trace": P(traced, table, classify, "use the module from which it was compiled"),
    "compiled": P(compiled, table, classify),
}
