"""Small models, each with a loss and random batches (`Configuration`), with which the tests of the engine run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, LABELS = 23, 5


def classification(model: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def language(model: nn.Module, batch: Any) -> Tensor:
    output = model(input_ids=batch["input_ids"])
    logits = getattr(output, "logits", output)[:, -batch["input_ids"].shape[1] :]
    return functional.cross_entropy(logits[:, :-1].mT, batch["input_ids"][:, 1:], reduction="none").sum(1)


def labels(size: int) -> Tensor:
    return torch.randint(0, LABELS, (size,))


def images(size: int) -> Any:
    return torch.randn(size, 2, 9, 8, dtype=torch.float64), labels(size)


def vectors(size: int) -> Any:
    return torch.randn(size, 11, dtype=torch.float64), labels(size)


def sequences(size: int) -> Any:
    return torch.randn(size, 6, 11, dtype=torch.float64), labels(size)


def words(size: int) -> Any:
    return torch.randint(0, WORDS, (size, 7)), labels(size)


def texts(size: int) -> Any:
    return {"input_ids": torch.randint(0, WORDS, (size, 9))}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(11, 8), nn.ReLU(inplace=True), nn.Linear(8, LABELS))


def dropout_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(11, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, LABELS))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.GroupNorm(3, 6),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 4, (3, 2), stride=(2, 1), dilation=(1, 2), groups=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 3, 3, padding="same", padding_mode="circular", bias=False),
        nn.Flatten(),
        nn.LazyLinear(LABELS),
    )


class Bag(nn.Module):
    """The mean of embedded words, normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 6, padding_idx=3)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, LABELS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.table(ids)).mean(1))


class Sequence(nn.Module):
    """Linear layers over positions, one of them used twice, root-mean-square normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared, self.head = nn.Linear(11, 40), nn.Linear(40, 40), nn.Linear(40, LABELS)
        self.norm = nn.RMSNorm(40)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(self.first(x))
        return self.head(self.norm(self.shared(torch.tanh(self.shared(x)))).mean(1))


class Prompted(nn.Module):
    """A frozen model over embedded words behind a trainable prompt that is computed once for all examples."""

    def __init__(self) -> None:
        super().__init__()
        self.prompt, self.table = nn.Embedding(3, 6), nn.Embedding(WORDS, 6).requires_grad_(False)
        self.body, self.head = nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, LABELS).requires_grad_(False)

    def forward(self, ids: Tensor) -> Tensor:
        prompt = self.prompt(torch.arange(3)[None]).repeat(ids.shape[0], 1, 1)
        hidden = torch.cat([prompt, self.table(ids)], 1)
        return self.head(torch.tanh(self.body(hidden).cumsum(1)).square().mean(1))


class Positions(nn.Module):
    """Word and position embeddings, the latter looked up once for all examples, in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places, self.head = nn.Embedding(WORDS, 6), nn.Embedding(7, 6), nn.Linear(6, LABELS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(ids) + self.places(torch.arange(ids.shape[1]))).mean(1))


class Tied(nn.Module):
    """An embedding whose table is also the head's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.middle = nn.Embedding(WORDS, 6), nn.Linear(6, 6)
        self.head = nn.Linear(6, WORDS, bias=False)
        self.head.weight = self.table.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.middle(self.table(input_ids))))


class Functional(nn.Module):
    """A weight used both by its module and by hand: hooks see only half of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(11, 11), nn.Linear(11, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.first(x)) + functional.linear(x, self.first.weight))


class Idle(nn.Module):
    """A layer that runs and one that does not, neither part of the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.idle, self.head = nn.Linear(11, 5), nn.Linear(11, 5), nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        self.idle(x)
        return self.body(x)


class Scaled(nn.Module):
    """A parameter of the model itself, in no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(11)), nn.Linear(11, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(x * self.scale))


class Recurrent(nn.Module):
    """A recurrent layer from torch: fused, so that neither hooks nor vmap reach into it."""

    def __init__(self, kind: Callable[..., nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.body, self.head = kind(11, 4, batch_first=True), nn.Linear(4, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])


class Packed(nn.Module):
    """A recurrent layer on packed sequences, whose batch cannot be told from their places."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(11, 4, batch_first=True), nn.Linear(4, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.full((len(x),), x.shape[1])
        return self.head(self.body(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[1][-1])


class Attention(nn.Module):
    """torch's own attention, whose output layer's forward is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.MultiheadAttention(11, 1, batch_first=True), nn.Linear(11, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x, x, x, need_weights=False)[0].mean(1))


def gpt2(tied: bool) -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="language models need transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=8, vocab_size=WORDS, n_positions=16, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=1
    )
    return transformers.GPT2LMHeadModel(config)  # type: ignore[no-any-return]


def adapted(**settings: Any) -> nn.Module:
    peft = pytest.importorskip("peft", reason="adapters need peft")
    kinds = {"lora": peft.LoraConfig, "prompt": peft.PromptTuningConfig}
    config = kinds[settings.pop("form")](task_type="CAUSAL_LM", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # between peft and transformers
        return peft.get_peft_model(gpt2(True), config)  # type: ignore[no-any-return]


def lora() -> nn.Module:
    return adapted(form="lora", r=2, target_modules=["c_attn"], fan_in_fan_out=True)


def soft_prompt() -> nn.Module:
    return adapted(form="prompt", num_virtual_tokens=3)


@dataclass(frozen=True)
class Configuration:
    """A model, its loss and data, and the method that the engine is to choose."""

    name: str
    build: Callable[[], nn.Module]
    draw: Callable[[int], Any]
    method: str = "book-keeping"
    loss: Callable[[nn.Module, Any], Tensor] = classification

    def model(self) -> nn.Module:
        """Return the model in double precision, with initialised lazy layers and without dropout."""
        model = self.build().double().eval()
        with torch.no_grad():
            self.loss(model, self.draw(2))
        return model


SMALL = [
    Configuration("mlp", mlp, vectors),
    Configuration("cnn", cnn, images),
    Configuration("bag", Bag, words),
    Configuration("sequence", Sequence, sequences),
    Configuration("positions", Positions, words),
    Configuration("tied", Tied, texts, loss=language),
    Configuration("functional", Functional, vectors, "vmap"),
    Configuration("scaled", Scaled, vectors),
    Configuration("attention", Attention, sequences),
    Configuration("recurrent", Recurrent, sequences),
    Configuration("elman", lambda: Recurrent(nn.RNN), sequences),
    Configuration("looped", Packed, sequences, "loop"),
    Configuration("prompted", Prompted, words),
]
LARGE = [
    Configuration("gpt2 tied", lambda: gpt2(True), texts, loss=language),
    Configuration("gpt2 untied", lambda: gpt2(False), texts, loss=language),
    Configuration("gpt2 lora", lora, texts, loss=language),
    Configuration("gpt2 soft prompt", soft_prompt, texts, loss=language),
]
