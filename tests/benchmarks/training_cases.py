"""What training is timed on: models with a batch each, the same for every way of doing a step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = dict[str, Tensor]  # what the model takes, and "targets"
RECORDS = 10_000  # of the data set whose epochs are timed


@dataclass(frozen=True, slots=True)
class Case:
    """A model in training mode, without dropout, and a way to draw so many examples."""

    name: str
    batch: int
    build: Callable[[], nn.Module]
    draw: Callable[[int], Batch]

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, ..., classes)."""
        output = model(**{name: value for name, value in batch.items() if name != "targets"})
        found: Tensor = getattr(output, "logits", output)
        return found


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """What training without privacy minimises."""
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def example_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The same for each example: the mean over its positions."""
    losses = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction="none")
    return losses.view(targets.shape[0], -1).mean(1)


def mlp(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.Tanh(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(8, 32),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32 * 14 * 14, 10),
    )


def gpt2(tied: bool, layers: int = 4, width: int = 256, words: int = 5000) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=layers,
        n_head=width // 64,
        n_embd=width,
        vocab_size=words,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=tied,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=1,
    )
    return GPT2LMHeadModel(config)  # type: ignore[no-any-return]


def lora(dora: bool = False) -> nn.Module:
    from peft import LoraConfig

    return adapted(LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["c_attn"], fan_in_fan_out=True, use_dora=dora))


def ia3() -> nn.Module:
    from peft import IA3Config

    return adapted(
        IA3Config(
            task_type="CAUSAL_LM", target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True
        )
    )


def adapted(config: Any) -> nn.Module:
    """GPT-2 small with adapters."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_peft_model(gpt2(True, 12, 768, 50257), config)  # type: ignore[no-any-return]


class Reader(nn.Module):
    """A recurrent layer over a sequence, of torch's class or a peer's."""

    def __init__(self, kind: Callable[..., nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.body, self.head = kind(64, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, input: Tensor) -> Tensor:
        found: Tensor = self.head(self.body(input)[0][:, -1])
        return found


class Encoder(nn.Module):
    """torch's transformer layers as they come: steps first."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList(nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0) for _ in range(2))
        self.head = nn.Linear(128, 10)

    def forward(self, input: Tensor) -> Tensor:
        values = input.transpose(0, 1)
        for layer in self.body:
            values = layer(values)
        found: Tensor = self.head(values.mean(0))
        return found


def waves() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(16, 64, 5, padding=2),
        nn.GroupNorm(8, 64),
        nn.ReLU(),
        nn.Conv1d(64, 64, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 64, 10),
    )


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=4, hidden_size=256, intermediate_size=688, num_attention_heads=4, vocab_size=5000, use_cache=False
    )
    return LlamaForCausalLM(config)  # type: ignore[no-any-return]


def llama_lora() -> nn.Module:
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return get_peft_model(llama(), LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["q_proj", "v_proj"]))  # type: ignore[arg-type]


class Patches(nn.Module):
    """A small vision transformer of the library transformers, as it is fine-tuned."""

    def __init__(self) -> None:
        from transformers import ViTConfig, ViTForImageClassification

        super().__init__()
        config = ViTConfig(
            num_hidden_layers=4,
            hidden_size=128,
            intermediate_size=256,
            num_attention_heads=4,
            image_size=32,
            patch_size=4,
            num_labels=10,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.body = ViTForImageClassification(config)

    def forward(self, input: Tensor) -> Tensor:
        found: Tensor = self.body(pixel_values=input).logits
        return found


def pictures(shape: tuple[int, ...]) -> Callable[[int], Batch]:
    return lambda size: {"input": torch.randn(size, *shape), "targets": torch.randint(0, 10, (size,))}


def texts(positions: int, words: int) -> Callable[[int], Batch]:
    """Positions are passed for each example: a model that looks them up once for all has peers stumble."""

    def draw(size: int) -> Batch:
        ids = torch.randint(0, words, (size, positions + 1))
        places = torch.arange(positions).expand(size, -1).contiguous()
        return {"input_ids": ids[:, :-1].contiguous(), "position_ids": places, "targets": ids[:, 1:].contiguous()}

    return draw


def masked(positions: int, words: int) -> Callable[[int], Batch]:
    """Texts with a mask, all of whose places count."""

    def draw(size: int) -> Batch:
        return {**texts(positions, words)(size), "attention_mask": torch.ones(size, positions, dtype=torch.long)}

    return draw


# The smallest first, so that the first lines come soon.
CASES = {
    case.name: case
    for case in (
        Case("mlp, small", 256, lambda: mlp(64, 64, 10), pictures((64,))),
        Case("mlp", 256, lambda: mlp(784, 256, 256, 10), pictures((784,))),
        Case("mlp, batch 1024", 1024, lambda: mlp(784, 256, 256, 10), pictures((784,))),
        Case("cnn", 64, cnn, pictures((1, 28, 28))),
        Case("conv1d", 64, waves, pictures((16, 128))),
        Case("lstm", 64, Reader, pictures((32, 64))),
        Case("gru", 64, lambda: Reader(nn.GRU), pictures((32, 64))),
        Case("encoder", 32, Encoder, pictures((32, 128))),
        Case("vit", 32, Patches, pictures((3, 32, 32))),
        Case("llama, lora", 8, llama_lora, masked(64, 5000)),
        Case("gpt2, batch 8", 8, lambda: gpt2(True), texts(64, 5000)),
        Case("gpt2", 16, lambda: gpt2(True), texts(64, 5000)),
        Case("gpt2, untied", 16, lambda: gpt2(False), texts(64, 5000)),
        Case("llama", 16, llama, masked(64, 5000)),
        Case("small lora, 8", 8, lora, texts(32, 50257)),
        Case("small lora, 16", 16, lora, texts(32, 50257)),
        Case("small dora, 8", 8, lambda: lora(dora=True), texts(32, 50257)),
        Case("small ia3, 8", 8, ia3, texts(32, 50257)),
    )
}
