"""Training programs in the shapes of public tutorials, some of which mix records. test_ordinary.py trains or refuses each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint

RECORDS = 12
Loss = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True, slots=True)
class Program:
    """A training program.

    model: makes the model.
    data: makes RECORDS records.
    loss: one loss per record.
    refused: what the refusal says, if the program mixes records; "" if it keeps them apart.
    """

    model: Callable[[], nn.Module]
    data: Callable[[], Any]
    loss: Loss
    refused: str = ""


def labels(classes: int = 4) -> Tensor:
    return torch.randint(0, classes, (RECORDS,))


def images(channels: int = 1, size: int = 8) -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, channels, size, size), labels()


def tokens(length: int = 6, words: int = 20) -> tuple[Tensor, Tensor]:
    return torch.randint(1, words, (RECORDS, length)), labels()


def table(width: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, width), labels()


def classify(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    return F.cross_entropy(model(inputs), targets, reduction="none")


# Images.


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(8 * 2 * 2, 16), nn.Linear(16, 4)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(self.dropout(F.relu(self.fc1(torch.flatten(x, 1)))))


class BasicBlock(nn.Module):
    def __init__(self, inward: int, outward: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.bn1, self.relu = norm(outward), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.bn2 = norm(outward)
        self.downsample = None
        if stride != 1 or inward != outward:
            self.downsample = nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), norm(outward))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


def resnet(norm: Callable[[int], nn.Module]) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), norm(4), nn.ReLU(inplace=True),
        BasicBlock(4, 4, 1, norm), BasicBlock(4, 8, 2, norm),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


def group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(2, channels)


def frozen_batch_norm() -> nn.Module:
    model = resnet(nn.BatchNorm2d)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
            module.requires_grad_(False)
    return model


class Dense(nn.Module):
    """DenseNet: each layer sees all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(1, 1 + 3 * i), nn.ReLU(), nn.Conv2d(1 + 3 * i, 3, 3, padding=1)) for i in range(3)
        )
        self.head = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return self.head(torch.cat(features, 1).mean((2, 3)))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.fc2(F.silu(self.fc1(scale))))


def mobilenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.Hardswish(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.GroupNorm(4, 8), nn.ReLU6(), SqueezeExcite(8),
        nn.Conv2d(8, 12, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 4),
    )  # fmt: skip


class DropPath(nn.Module):
    """Stochastic depth, per record."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        keep = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(0.8)
        return x * keep.div_(0.8)


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(dim, dim, 3, padding=1, groups=dim), nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.act, self.pwconv2 = nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        self.gamma, self.drop_path = nn.Parameter(1e-1 * torch.ones(dim)), DropPath()

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.gamma * self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        return shortcut + self.drop_path(x.permute(0, 3, 1, 2))


def convnext() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 2, 2), ConvNeXtBlock(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 4)
    )


class UNet(nn.Module):
    """Segmentation, with skip connections."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.fuse, self.out = nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(4, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = F.relu(self.down1(x))
        second = F.relu(self.down2(F.max_pool2d(first, 2)))
        x = torch.cat([F.interpolate(self.up(second), size=first.shape[-2:], mode="bilinear", align_corners=False), first], 1)
        return self.out(F.relu(self.fuse(x)))


def masks() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 1, 8, 8), torch.randint(0, 3, (RECORDS, 8, 8))


def pixelwise(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    return F.cross_entropy(model(inputs), targets, reduction="none").mean((1, 2))


def dice(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    probabilities = model(inputs).softmax(1)
    one_hot = F.one_hot(targets, 3).permute(0, 3, 1, 2).float()
    overlap = (probabilities * one_hot).flatten(1).sum(1)
    return 1 - (2 * overlap + 1) / (probabilities.flatten(1).sum(1) + one_hot.flatten(1).sum(1) + 1)


class Denoiser(nn.Module):
    """A diffusion model with an embedding of the time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.down, self.middle, self.up = nn.Conv2d(1, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        self.norm = nn.GroupNorm(2, 8)
        betas = torch.linspace(1e-4, 0.02, 100)
        self.register_buffer("alphas", torch.cumprod(1 - betas, 0))

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        frequencies = torch.exp(-math.log(10000) * torch.arange(4, device=x.device) / 4)
        angles = steps[:, None].float() * frequencies[None]
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        hidden = F.silu(self.down(x)) + embedded[:, :, None, None]
        return self.up(F.silu(self.norm(self.middle(hidden))))


def ddpm(model: Any, batch: Any) -> Tensor:
    (images_,) = batch
    steps = torch.randint(0, 100, (images_.shape[0],))
    noise = torch.randn_like(images_)
    alpha = model.alphas[steps].view(-1, 1, 1, 1)
    noisy = alpha.sqrt() * images_ + (1 - alpha).sqrt() * noise
    return F.mse_loss(model(noisy, steps), noise, reduction="none").mean((1, 2, 3))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 4, 4)
        self.cls, self.position = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8) * 0.02)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.encoder(x)[:, 0])


class MixerBlock(nn.Module):
    def __init__(self, patches: int, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(patches, 8), nn.GELU(), nn.Linear(8, patches))
        self.channel = nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.token(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch, self.blocks, self.head = (
            nn.Conv2d(1, 8, 4, 4),
            nn.Sequential(MixerBlock(4, 8), MixerBlock(4, 8)),
            nn.Linear(8, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.mean, self.log_variance = nn.Linear(64, 16), nn.Linear(16, 3), nn.Linear(16, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = F.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(z), mean, log_variance


def elbo(model: nn.Module, batch: Any) -> Tensor:
    x = batch[0].flatten(1).sigmoid()
    reconstruction, mean, log_variance = model(x)
    bce = F.binary_cross_entropy_with_logits(reconstruction, x, reduction="none").sum(1)
    return bce - 0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1)


def mixup(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    order = torch.randperm(inputs.shape[0])
    weight = 0.7
    output = model(weight * inputs + (1 - weight) * inputs[order])
    return weight * F.cross_entropy(output, targets, reduction="none") + (1 - weight) * F.cross_entropy(
        output, targets[order], reduction="none"
    )


def contrastive(model: nn.Module, batch: Any) -> Tensor:
    first, second = batch
    a, b = F.normalize(model(first), dim=1), F.normalize(model(second), dim=1)
    return F.cross_entropy(a @ b.T / 0.1, torch.arange(len(a)), reduction="none")


def focal(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    ce = F.cross_entropy(model(inputs), targets, reduction="none")
    return (1 - torch.exp(-ce)) ** 2 * ce


def smooth(model: nn.Module, batch: Any) -> Tensor:
    return nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)(model(batch[0]), batch[1])


class Distilled(nn.Module):
    """A student beside a teacher that does not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = LeNet(), LeNet()
        self.teacher.requires_grad_(False)
        self.teacher.eval()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            taught = self.teacher(x)
        return self.student(x), taught


def distil(model: nn.Module, batch: Any) -> Tensor:
    student, teacher = model(batch[0])
    soft = F.kl_div(F.log_softmax(student / 2, 1), F.softmax(teacher / 2, 1), reduction="none").sum(1) * 4
    return 0.5 * soft + 0.5 * F.cross_entropy(student, batch[1], reduction="none")


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.kind, self.size = nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8, 4), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        return self.kind(hidden), self.size(hidden).squeeze(-1)


def two_losses(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    kind, size = model(inputs)
    return F.cross_entropy(kind, targets, reduction="none") + 0.3 * F.smooth_l1_loss(size, targets.float(), reduction="none")


def spectral() -> nn.Module:
    return nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 4, 3)), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(144, 4)
    )


def frozen_spectral() -> nn.Module:
    model = spectral()
    model[0].parametrizations.weight[0].eval()
    return model


def old_spectral() -> nn.Module:
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 4))


def weight_normed() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 4))


def triplets() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(RECORDS, 1, 8, 8), torch.randn(RECORDS, 1, 8, 8), torch.randn(RECORDS, 1, 8, 8)


def triplet(model: nn.Module, batch: Any) -> Tensor:
    anchor, positive, negative = batch
    return F.triplet_margin_loss(model(anchor), model(positive), model(negative), reduction="none")


# Text.


class MeanOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = nn.EmbeddingBag(20, 8, mode="mean", padding_idx=0), nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.embedding(ids))


class TextCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv2d(1, 4, (k, 8)) for k in (2, 3, 4))
        self.dropout, self.fc = nn.Dropout(0.5), nn.Linear(12, 4)

    def forward(self, ids: Tensor) -> Tensor:
        embedded = self.embedding(ids).unsqueeze(1)
        convolved = [F.relu(conv(embedded)).squeeze(3) for conv in self.convs]
        pooled = [F.max_pool1d(c, c.shape[2]).squeeze(2) for c in convolved]
        return self.fc(self.dropout(torch.cat(pooled, 1)))


def lengthened() -> tuple[Tensor, Tensor, Tensor]:
    ids, targets = tokens()
    lengths = torch.randint(1, 7, (RECORDS,))
    return ids * (torch.arange(6) < lengths[:, None]), lengths, targets


class Packed(nn.Module):
    """An LSTM on packed sequences; what it has kept at the end of each."""

    def __init__(self, is_sorted: bool = False) -> None:
        super().__init__()
        self.embedding, self.is_sorted = nn.Embedding(20, 8, padding_idx=0), is_sorted
        self.lstm, self.fc = nn.LSTM(8, 6, batch_first=True, bidirectional=True), nn.Linear(12, 4)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = rnn.pack_padded_sequence(self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.fc(torch.cat([hidden[-2], hidden[-1]], 1))


class Unpacked(Packed):
    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = rnn.pack_padded_sequence(self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.fc(out.sum(1) / lengths[:, None])


def by_length(model: nn.Module, batch: Any) -> Tensor:
    ids, lengths, targets = batch
    return F.cross_entropy(model(ids, lengths), targets, reduction="none")


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.fc = (
            nn.Embedding(20, 8),
            nn.LSTM(8, 6, bidirectional=True, batch_first=True),
            nn.Linear(12, 5),
        )

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.lstm(self.embedding(ids))[0])


def tagged() -> tuple[Tensor, Tensor]:
    ids, _ = tokens()
    tags = torch.randint(0, 5, ids.shape)
    tags[torch.rand(ids.shape) < 0.3] = -100
    return ids, tags


def tagging(model: nn.Module, batch: Any) -> Tensor:
    ids, tags = batch
    losses = F.cross_entropy(model(ids).transpose(1, 2), tags, reduction="none", ignore_index=-100)
    return losses.sum(1) / (tags != -100).sum(1).clamp(min=1)


class CharRNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(20, 8), nn.GRU(8, 8, num_layers=2, dropout=0.1), nn.Linear(8, 20)
        self.out.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        state = torch.zeros(2, ids.shape[0], 8)
        hidden, _ = self.rnn(self.embed(ids.t()), state)
        return self.out(hidden).transpose(0, 1)


def next_word(model: nn.Module, batch: Any) -> Tensor:
    ids = batch[0]
    return F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:], reduction="none").mean(1)


class Translator(nn.Module):
    """An encoder and a decoder that attends to it, one step at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 8), nn.Embedding(20, 8)
        self.encoder, self.cell = nn.GRU(8, 8, batch_first=True), nn.GRUCell(16, 8)
        self.score, self.out = nn.Linear(16, 1), nn.Linear(8, 20)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, state = self.encoder(self.source(source))
        hidden, outputs = state[0], []
        for step in range(target.shape[1]):
            keys = torch.cat([memory, hidden[:, None].expand(-1, memory.shape[1], -1)], -1)
            weights = self.score(keys).softmax(1)
            context = (weights * memory).sum(1)
            hidden = self.cell(torch.cat([self.target(target[:, step]), context], -1), hidden)
            outputs.append(self.out(hidden))
        return torch.stack(outputs, 1)


def pairs_of_texts() -> tuple[Tensor, Tensor]:
    return tokens()[0], tokens(5)[0]


def translate(model: nn.Module, batch: Any) -> Tensor:
    source, target = batch
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), reduction="none").view(source.shape[0], -1).mean(1)


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lstm, self.out = nn.Conv1d(3, 8, 3, padding=1), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(F.relu(self.conv(x)).transpose(1, 2))[0]).log_softmax(-1)


def spoken() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(RECORDS, 3, 12), torch.randint(1, 6, (RECORDS, 4)), torch.randint(1, 5, (RECORDS,))


def ctc(model: nn.Module, batch: Any) -> Tensor:
    x, targets, lengths = batch
    scores = model(x).transpose(0, 1)
    frames = torch.full((x.shape[0],), scores.shape[0], dtype=torch.long)
    return F.ctc_loss(scores, targets, frames, lengths, reduction="none", zero_infinity=True)


class Encoder(nn.Module):
    """A transformer with a padding mask and fixed positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder, self.fc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(8, 4)
        angles = torch.arange(6)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        padding = ids == 0
        hidden = self.encoder(self.embedding(ids) * math.sqrt(8) + self.positions, src_key_padding_mask=padding)
        hidden = hidden.masked_fill(padding[..., None], 0.0)
        return self.fc(hidden.sum(1) / lengths[:, None])


class CausalSelfAttention(nn.Module):
    def __init__(self, dropout: float, dim: int = 8, heads: int = 2, length: int = 8) -> None:
        super().__init__()
        self.c_attn, self.c_proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()  # noqa: N806
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class GPT(nn.Module):
    def __init__(self, recompute: str = "", dropout: float = 0.1) -> None:
        super().__init__()
        self.wte, self.wpe, self.recompute = nn.Embedding(20, 8), nn.Embedding(8, 8), recompute
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(8), CausalSelfAttention(dropout), nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.ln_f, self.lm_head = nn.LayerNorm(8), nn.Linear(8, 20, bias=False)
        self.wte.weight = self.lm_head.weight

    def block(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(0, ids.size(1), dtype=torch.long))
        x = checkpoint(self.block, x, use_reentrant=self.recompute == "reentrant") if self.recompute else self.block(x)
        return self.lm_head(self.ln_f(x))


class Experts(nn.Module):
    """A sparse mixture of experts, as Mixtral has it: an expert runs on the words that chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gate = nn.Embedding(20, 8), nn.Linear(8, 3, bias=False)
        self.experts, self.fc = (
            nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)) for _ in range(3)),
            nn.Linear(8, 4),
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        flat = x.view(-1, x.shape[-1])
        weights, chosen = torch.topk(self.gate(flat).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        mask = F.one_hot(chosen, 3).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            place, word = torch.where(mask[number])
            out.index_add_(0, word, expert(flat[word]) * weights[word, place, None])
        return self.fc(out.view_as(x).mean(1))


class SoftExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 3), nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        return (self.gate(x).softmax(-1).unsqueeze(-1) * outputs).sum(1)


def preferences() -> tuple[Tensor, Tensor]:
    return tokens()[0], tokens()[0]


class Reward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = GPT(dropout=0.0), nn.Linear(20, 1)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.body(ids)[:, -1]).squeeze(-1)


def preferred(model: nn.Module, batch: Any) -> Tensor:
    chosen, rejected = batch
    both = model(torch.cat([chosen, rejected]))
    good, bad = both.chunk(2)
    return -F.logsigmoid(good - bad)


class WithReference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.policy, self.reference = GPT(), GPT(dropout=0.0)
        self.reference.requires_grad_(False)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            old = self.reference(ids)
        return self.policy(ids), old


def log_probability(logits: Tensor, ids: Tensor) -> Tensor:
    return logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(-1).sum(1)


def dpo(model: nn.Module, batch: Any) -> Tensor:
    chosen, rejected = batch
    (new_good, old_good), (new_bad, old_bad) = model(chosen), model(rejected)
    ratio = (log_probability(new_good, chosen) - log_probability(new_bad, rejected)) - (
        log_probability(old_good, chosen) - log_probability(old_bad, rejected)
    )
    return -F.logsigmoid(0.1 * ratio)


class LoRALinear(nn.Module):
    """Low rank beside a base in eight bits."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        weight = torch.randn(outward, inward) * 0.3
        self.register_buffer("scale", weight.abs().amax(1, keepdim=True) / 127)
        self.register_buffer("quantised", (weight / self.scale).round().to(torch.int8))
        self.lora_A, self.lora_B = nn.Linear(inward, 2, bias=False), nn.Linear(2, outward, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.quantised.to(x.dtype) * self.scale) + 2.0 * self.lora_B(self.lora_A(x))


def quantised() -> nn.Module:
    return nn.Sequential(LoRALinear(6, 8), nn.ReLU(), LoRALinear(8, 4))


# Tables, ratings, graphs.


class Categories(nn.Module):
    def __init__(self, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(n, 3) for n in (5, 7))
        self.layers = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), norm(16), nn.Dropout(0.1), nn.Linear(16, 4))

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        embedded = [embed(categories[:, i]) for i, embed in enumerate(self.embeds)]
        return self.layers(torch.cat([*embedded, numbers], 1))


def mixed_table() -> tuple[Tensor, Tensor, Tensor]:
    return torch.stack([torch.randint(0, 5, (RECORDS,)), torch.randint(0, 7, (RECORDS,))], 1), torch.randn(RECORDS, 4), labels()


def by_category(model: nn.Module, batch: Any) -> Tensor:
    categories, numbers, targets = batch
    return F.cross_entropy(model(categories, numbers), targets, reduction="none")


class DLRM(nn.Module):
    """Embedding bags with offsets, a bottom network, and products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, 4, mode="sum") for n in (5, 7))
        self.bottom, self.top = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(7, 4)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        offsets = torch.arange(categories.shape[0])
        vectors = [self.bottom(numbers), *(bag(categories[:, i], offsets) for i, bag in enumerate(self.bags))]
        stacked = torch.stack(vectors, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(3, 3, offset=-1)
        return self.top(torch.cat([vectors[0], products[:, rows, columns]], 1))


class WideAndDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = nn.Embedding(12, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        shifted = categories + torch.tensor([0, 5])
        return self.wide(shifted).sum(1) + self.deep(numbers)


class FactorisationMachine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.factors = nn.Linear(6, 1), nn.Parameter(torch.randn(6, 3) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        square_of_sum, sum_of_square = (x @ self.factors) ** 2, (x**2) @ (self.factors**2)
        return self.linear(x).squeeze(1) + 0.5 * (square_of_sum - sum_of_square).sum(1)


class Ratings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(9, 4), nn.Embedding(11, 4)
        self.user_bias, self.item_bias, self.bias = nn.Embedding(9, 1), nn.Embedding(11, 1), nn.Parameter(torch.zeros(1))

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        dot = (self.users(user) * self.items(item)).sum(1)
        return dot + self.user_bias(user).squeeze() + self.item_bias(item).squeeze() + self.bias


def rated() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randint(0, 9, (RECORDS,)), torch.randint(0, 11, (RECORDS,)), torch.rand(RECORDS) * 5


def rating(model: nn.Module, batch: Any) -> Tensor:
    user, item, score = batch
    return F.mse_loss(model(user, item), score, reduction="none")


def regression() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 6), torch.rand(RECORDS) * 3


def binary(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    return F.binary_cross_entropy_with_logits(model(inputs).squeeze(-1), (targets > 1).float(), reduction="none")


def poisson(model: nn.Module, batch: Any) -> Tensor:
    return F.poisson_nll_loss(model(batch[0]).squeeze(-1), batch[1].round(), reduction="none")


def pinball(model: nn.Module, batch: Any) -> Tensor:
    levels = torch.tensor([0.1, 0.5, 0.9])
    errors = batch[1][:, None] - model(batch[0])
    return torch.maximum(levels * errors, (levels - 1) * errors).sum(1)


def cox(model: nn.Module, batch: Any) -> Tensor:
    inputs, times = batch
    risk = model(inputs).squeeze(-1)
    order = times.argsort(descending=True)
    return -(risk[order] - torch.logcumsumexp(risk[order], 0))


def area_under_curve(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    scores = model(inputs).squeeze(-1)
    differences = scores[:, None] - scores[None, :]
    return F.softplus(-differences * (targets[:, None] > targets[None, :])).mean(1)


def standardised(model: nn.Module, batch: Any) -> Tensor:
    """A policy gradient with advantages that are standardised over the batch."""
    states, rewards = batch
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    return -model(states).log_softmax(-1)[:, 0] * advantages


def clipped_policy(model: nn.Module, batch: Any) -> Tensor:
    states, actions, old, advantages = batch
    ratio = (model(states).log_softmax(-1).gather(1, actions[:, None]).squeeze(1) - old).exp()
    return -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


def episodes() -> tuple[Tensor, ...]:
    return torch.randn(RECORDS, 6), labels(), torch.full((RECORDS,), -1.4), torch.randn(RECORDS)


class GCN(nn.Module):
    """One dense graph per record."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.fc = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        edges = edges + torch.eye(edges.shape[-1])
        degree = edges.sum(-1).pow(-0.5)
        normalised = degree[:, :, None] * edges * degree[:, None, :]
        hidden = F.relu(normalised @ self.conv1(nodes))
        return self.fc(F.relu(normalised @ self.conv2(hidden)).mean(1))


def graphs() -> tuple[Tensor, Tensor, Tensor]:
    edges = (torch.rand(RECORDS, 7, 7) < 0.4).float()
    return torch.randn(RECORDS, 7, 5), torch.maximum(edges, edges.transpose(1, 2)), labels()


def of_graphs(model: nn.Module, batch: Any) -> Tensor:
    nodes, edges, targets = batch
    return F.cross_entropy(model(nodes, edges), targets, reduction="none")


class DeepSets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phi, self.rho = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 4)

    def forward(self, points: Tensor, mask: Tensor) -> Tensor:
        return self.rho((self.phi(points) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


class PointNet(nn.Module):
    """With a learnt rotation, and the largest of all points."""

    def __init__(self) -> None:
        super().__init__()
        self.rotation, self.conv, self.fc = nn.Linear(3, 9), nn.Conv1d(3, 16, 1), nn.Linear(16, 4)

    def forward(self, points: Tensor, mask: Tensor) -> Tensor:
        turned = self.rotation(points.mean(1)).view(-1, 3, 3) + torch.eye(3)
        hidden = F.relu(self.conv(torch.bmm(points, turned).transpose(1, 2)))
        return self.fc(hidden.amax(2))


def clouds() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(RECORDS, 6, 3), (torch.rand(RECORDS, 6) < 0.8).float(), labels()


# Densities and equations.


class MixtureDensity(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.pi, self.mu, self.sigma = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.tanh(self.body(x))
        return self.pi(hidden).log_softmax(-1), self.mu(hidden), F.softplus(self.sigma(hidden)) + 1e-3


def density(model: nn.Module, batch: Any) -> Tensor:
    log_pi, mu, sigma = model(batch[0])
    return -torch.logsumexp(log_pi + torch.distributions.Normal(mu, sigma, validate_args=False).log_prob(batch[1][:, None]), -1)


class Coupling(nn.Module):
    """RealNVP."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        log_det = x.new_zeros(x.shape[0])
        for net in self.nets:
            first, second = x.chunk(2, 1)
            scale, shift = net(first).chunk(2, 1)
            x = torch.cat([second * torch.tanh(scale).exp() + shift, first], 1)
            log_det = log_det + torch.tanh(scale).sum(1)
        return 0.5 * (x**2).sum(1) - log_det


def likelihood(model: nn.Module, batch: Any) -> Tensor:
    return model(batch[0])


class NeuralODE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.field, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            middle = x + 0.125 * self.field(x)
            x = x + 0.25 * self.field(middle)
        return self.head(x)


class HyperNetwork(nn.Module):
    """A network that writes another one's weights, for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = nn.Linear(2, 4 * 4 + 4)

    def forward(self, x: Tensor) -> Tensor:
        written = self.writer(x[:, :2])
        weight, bias = written[:, :16].view(-1, 4, 4), written[:, 16:]
        return torch.baddbmm(bias[:, :, None], weight, x[:, 2:, None]).squeeze(-1)


def physics(model: nn.Module, batch: Any) -> Tensor:
    """A differential equation: its residual needs the gradient at the input."""
    points = batch[0].clone().requires_grad_(True)
    value = model(points).squeeze(-1)
    (slope,) = torch.autograd.grad(value.sum(), points, create_graph=True)
    return (slope[:, 0] + value) ** 2


def line(width: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out))


def scripted() -> nn.Module:
    return torch.jit.script(line(6, 4))


def hugging(name: str, **settings: Any) -> Callable[[], nn.Module]:
    """A small model of a family, without weights from elsewhere."""

    def make() -> nn.Module:
        transformers = pytest.importorskip("transformers", reason="transformers is not installed")
        family, _, task = name.partition("For")
        config = getattr(transformers, f"{family}Config")(**settings)
        return getattr(transformers, f"{family}For{task}" if task else f"{family}LMHeadModel")(config)

    return make


def hugging_language(model: Any, batch: Any) -> Tensor:
    ids = batch[0]
    logits = model(input_ids=ids, use_cache=False).logits
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none").mean(1)


def hugging_classes(model: Any, batch: Any) -> Tensor:
    ids, targets = batch
    return F.cross_entropy(model(input_ids=ids, attention_mask=(ids != 0).long()).logits, targets, reduction="none")


def hugging_masked(model: Any, batch: Any) -> Tensor:
    ids = batch[0]
    hidden = torch.rand(ids.shape) < 0.3
    logits = model(input_ids=ids.masked_fill(hidden, 3)).logits
    losses = F.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
    return (losses * hidden).sum(1) / hidden.sum(1).clamp(min=1)


def hugging_pairs(model: Any, batch: Any) -> Tensor:
    source, target = batch
    logits = model(input_ids=source, decoder_input_ids=target[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.transpose(1, 2), target[:, 1:], reduction="none").mean(1)


def hugging_speech(model: Any, batch: Any) -> Tensor:
    features, target = batch
    logits = model(input_features=features, decoder_input_ids=target[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.transpose(1, 2), target[:, 1:], reduction="none").mean(1)


def hugging_images(model: Any, batch: Any) -> Tensor:
    return F.cross_entropy(model(pixel_values=batch[0]).logits, batch[1], reduction="none")


def recorded() -> tuple[Tensor, Tensor]:
    return torch.randn(RECORDS, 8, 20), tokens()[0]


LLAMA = {
    "vocab_size": 20,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16,
}


def lora(name: str, targets: list[str], **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        peft = pytest.importorskip("peft", reason="peft is not installed")
        return peft.get_peft_model(hugging(name, **settings)(), peft.LoraConfig(r=2, target_modules=targets, lora_dropout=0.05))

    return make


P = Program
PROGRAMS: dict[str, Program] = {
    "LeNet": P(LeNet, images, classify),
    "ResNet with GroupNorm": P(lambda: resnet(group_norm), images, classify),
    "ResNet with frozen BatchNorm": P(frozen_batch_norm, images, classify),
    "ResNet with BatchNorm": P(lambda: resnet(nn.BatchNorm2d), images, classify, "BatchNorm"),
    "DenseNet": P(Dense, images, classify),
    "MobileNet": P(mobilenet, images, classify),
    "ConvNeXt with stochastic depth": P(convnext, images, classify),
    "U-Net by pixels": P(UNet, masks, pixelwise),
    "U-Net by Dice": P(UNet, masks, dice),
    "diffusion": P(Denoiser, lambda: images()[:1], ddpm),
    "ViT": P(ViT, images, classify),
    "MLP-Mixer": P(Mixer, images, classify),
    "VAE": P(VAE, images, elbo),
    "mixup": P(LeNet, images, mixup, "depend|record|example"),
    "in-batch negatives": P(LeNet, lambda: triplets()[:2], contrastive, "must be part of the example or public"),
    "focal loss": P(LeNet, images, focal),
    "label smoothing": P(LeNet, images, smooth),
    "distillation": P(Distilled, images, distil),
    "two tasks": P(TwoHeads, table, two_losses),
    "spectral norm": P(spectral, images, classify, r"power iteration.*freeze it: \.eval\(\)"),
    "spectral norm, frozen": P(frozen_spectral, images, classify),
    "spectral norm, the older one": P(old_spectral, table, classify, r"power iteration.*freeze it: \.eval\(\)"),
    "weight norm": P(weight_normed, table, classify),
    "triplets": P(LeNet, triplets, triplet),
    "a bag of words": P(MeanOfWords, tokens, classify),
    "TextCNN": P(TextCNN, tokens, classify),
    "packed LSTM": P(Packed, lengthened, by_length),
    "packed LSTM, padded again": P(Unpacked, lengthened, by_length),
    "tagger": P(Tagger, tagged, tagging),
    "character RNN, tied": P(CharRNN, tokens, next_word),
    "translator with attention": P(Translator, pairs_of_texts, translate),
    "speech with CTC": P(Speech, spoken, ctc),
    "transformer with padding": P(Encoder, lengthened, by_length),
    "nanoGPT": P(GPT, tokens, next_word),
    "nanoGPT, checkpointed": P(lambda: GPT("other"), tokens, next_word),
    "nanoGPT, checkpointed re-entrantly": P(lambda: GPT("reentrant"), tokens, next_word),
    "sparse experts": P(Experts, tokens, classify),
    "soft experts": P(SoftExperts, table, classify),
    "reward model": P(Reward, preferences, preferred),
    "DPO": P(WithReference, preferences, dpo),
    "LoRA on eight bits": P(quantised, table, classify),
    "categories and numbers": P(Categories, mixed_table, by_category),
    "categories and numbers, BatchNorm": P(lambda: Categories(nn.BatchNorm1d), mixed_table, by_category, "BatchNorm"),
    "DLRM": P(DLRM, mixed_table, by_category),
    "wide and deep": P(WideAndDeep, mixed_table, by_category),
    "factorisation machine": P(FactorisationMachine, regression, poisson),
    "ratings": P(Ratings, rated, rating),
    "logistic regression": P(lambda: nn.Linear(6, 1), table, binary),
    "Poisson regression": P(lambda: nn.Linear(6, 1), regression, poisson),
    "quantile regression": P(lambda: line(6, 3), regression, pinball),
    "Cox regression": P(lambda: nn.Linear(6, 1), regression, cox, "depend|record|example"),
    "area under the curve": P(lambda: nn.Linear(6, 1), table, area_under_curve, "depend|record|example"),
    "policy gradient, standardised": P(lambda: line(6, 4), regression, standardised, "depend|record|example"),
    "clipped policy": P(lambda: line(6, 4), episodes, clipped_policy),
    "graphs": P(GCN, graphs, of_graphs),
    "sets": P(DeepSets, clouds, of_graphs),
    "PointNet": P(PointNet, clouds, of_graphs),
    "mixture density": P(MixtureDensity, regression, density),
    "RealNVP": P(Coupling, table, likelihood),
    "neural ODE": P(NeuralODE, table, classify),
    "hypernetwork": P(HyperNetwork, table, classify),
    "differential equation": P(lambda: line(6, 1), table, physics),
    "TorchScript": P(scripted, table, classify, "use the module from which it was compiled"),
    "GPT-2": P(hugging("GPT2", vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=2), tokens, hugging_language),
    "Llama": P(hugging("LlamaForCausalLM", **LLAMA), tokens, hugging_language),
    "Llama with LoRA": P(lora("LlamaForCausalLM", ["q_proj", "v_proj"], **LLAMA), tokens, hugging_language),
    "Mixtral": P(hugging("MixtralForCausalLM", num_local_experts=3, **LLAMA), tokens, hugging_language),
    "BERT": P(
        hugging(
            "BertForSequenceClassification",
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            num_labels=4,
        ),
        tokens,
        hugging_classes,
    ),
    "DistilBERT, masked": P(
        hugging("DistilBertForMaskedLM", vocab_size=20, dim=8, n_layers=1, n_heads=2, hidden_dim=16), tokens, hugging_masked
    ),
    "T5": P(
        hugging(
            "T5ForConditionalGeneration",
            vocab_size=20,
            d_model=8,
            d_kv=4,
            d_ff=16,
            num_layers=1,
            num_heads=2,
            decoder_start_token_id=0,
        ),
        pairs_of_texts,
        hugging_pairs,
    ),
    "Whisper": P(
        hugging(
            "WhisperForConditionalGeneration",
            vocab_size=20,
            num_mel_bins=8,
            d_model=8,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            max_source_positions=10,
            max_target_positions=8,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        ),
        recorded,
        hugging_speech,
    ),
    "ViT of transformers": P(
        hugging(
            "ViTForImageClassification",
            image_size=8,
            patch_size=4,
            num_channels=1,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            num_labels=4,
        ),
        images,
        hugging_images,
    ),
}
