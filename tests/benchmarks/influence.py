"""By how much one example moves the sum that noise is added to, in units of C: above 1 the guarantee is void.

    python -m tests.benchmarks.influence [name ...]

Every model of the engine's tests under every clipping style, at random data and at one gradient far longer than the others, and the
setups that are known to go wrong elsewhere: ghost clipping with the model's own mean loss, soft prompts, adaptive clipping with a loss
that is a mean. "refused" is as good as a number: nothing is released.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from dpcli.errors import InputError
from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerLayer
from dpcli.train.engine.per_example import ClippedGradients
from tests.train.engine.models import (
    LABELS,
    LARGE,
    SMALL,
    WORDS,
    Configuration,
    Normed,
    adapted,
    gpt2,
    language,
    mlp,
    sequences,
    texts,
    vectors,
)
from tests.train.engine.oracle import distance

SIZE, DRAWS = 5, 3
NORM = 1e-3
CLIPS: tuple[Clip, ...] = (Flat(NORM), Automatic(NORM, NORM), PerLayer(NORM), Adaptive(NORM))


def influence(engine: ClippedGradients, batch: Any, size: int) -> float:
    """max over examples of |sum(B) - sum(B without x)| / C."""
    whole = engine(batch)
    found = []
    for row in range(size):
        rows = [other for other in range(size) if other != row]
        rest = engine(tree_map(lambda leaf: leaf[rows], batch))  # noqa: B023
        found.append(distance(whole.gradients, rest.gradients) / engine.clip.bound)
    return max(found)


def enlarged(batch: Any) -> Any:
    """The same with one example a thousand times as large, where inputs are numbers."""
    first = torch.ones(SIZE, dtype=torch.float64)
    first[0] = 1e3
    return tree_map(lambda leaf: leaf * first.view(-1, *[1] * (leaf.dim() - 1)) if leaf.is_floating_point() else leaf, batch)


Answer = tuple[float, str]


def answer(model: nn.Module, loss: Callable[[nn.Module, Any], torch.Tensor], draw: Callable[[int], Any], clip: Clip) -> Answer:
    """The influence, and it in words with the method; of a refusal 0, and its words."""
    try:
        engine = ClippedGradients(model, loss, copy.copy(clip))
        found = max(influence(engine, batch, SIZE) for _ in range(DRAWS) for batch in (draw(SIZE), enlarged(draw(SIZE))))
    except InputError as refusal:
        return 0.0, f"refused: {refusal}"
    return found, f"{found:.9f} by {engine.method.name}"


def supported(configuration: Configuration) -> Iterator[tuple[str, Answer]]:
    """One line per clipping style."""
    for clip in CLIPS:
        label = f"{configuration.name}, {type(clip).__name__}"
        yield label, answer(configuration.model(), configuration.loss, configuration.draw, clip)


class Pooled(nn.Module):
    """Some layer between two linear ones, over positions and the examples first, or second."""

    def __init__(self, body: nn.Module, width: int = 11, second: bool = False) -> None:
        super().__init__()
        self.first, self.body, self.head, self.second = nn.Linear(11, 11), body, nn.Linear(width, LABELS), second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        entering = torch.tanh(self.first(x))
        found = self.body(entering.transpose(0, 1) if self.second else entering)
        found = found[0] if isinstance(found, tuple) else found
        logits: torch.Tensor = self.head(found.mean(0 if self.second else 1))
        return logits


def encoder(first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(11, 1, 16, dropout=0.0, batch_first=first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def masked(model: nn.Module, batch: Any) -> torch.Tensor:
    ids = batch["input_ids"]
    logits = model(input_ids=ids, attention_mask=(ids.cumsum(1) >= 0).long()).logits
    return nn.functional.cross_entropy(logits[:, :-1].mT, ids[:, 1:], reduction="none").sum(1)


def volumes(size: int) -> Any:
    return torch.randn(size, 2, 4, 5, 4, dtype=torch.float64), torch.randint(0, LABELS, (size,))


def layer(name: str, body: Callable[[], nn.Module], width: int = 11, second: bool = False) -> Configuration:
    return Configuration(name, lambda: Pooled(body(), width, second), sequences)


LAYERS = [
    layer("Conv1d", lambda: nn.Conv1d(6, 4, 3, padding=1, padding_mode="circular")),
    layer("Conv1d, groups", lambda: nn.Conv1d(6, 4, 3, stride=2, dilation=2, groups=2, padding=2), 6),
    Configuration("Conv3d", lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.LazyLinear(LABELS)), volumes),
    layer("ConvTranspose1d", lambda: nn.ConvTranspose1d(6, 4, 3), 13),
    layer("PReLU", lambda: nn.PReLU()),
    layer("BatchNorm in evaluation mode", lambda: nn.Sequential(nn.BatchNorm1d(6), nn.PReLU(6))),
    layer("weight norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(11, 11))),
    layer("RMSNorm", lambda: nn.RMSNorm(11)),
    layer("RMSNorm by hand", lambda: Normed(11)),
    layer("RMSNorm by hand, steps first", lambda: Normed(11), second=True),
    layer("LSTM, two layers, both directions", lambda: nn.LSTM(11, 4, 2, batch_first=True, bidirectional=True), 8),
    layer("LSTM, steps first", lambda: nn.LSTM(11, 4), 4, True),
    layer("GRU, two layers, both directions", lambda: nn.GRU(11, 4, 2, batch_first=True, bidirectional=True), 8),
    layer("GRU, steps first", lambda: nn.GRU(11, 4), 4, True),
    layer("encoder", lambda: encoder(True)),
    layer("encoder, steps first", lambda: encoder(False), second=True),
    Configuration("Llama", llama, texts, loss=language),
    Configuration("Llama, mask", llama, texts, loss=masked),
]

LORA = {"form": "lora", "r": 2, "target_modules": ["c_attn"], "fan_in_fan_out": True, "init_lora_weights": False}


def without_dropout(model: nn.Module) -> nn.Module:
    """Else two sums differ by what was drawn."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def own_mean(model: nn.Module, batch: Any) -> torch.Tensor:
    """What `out.loss` of a language model is."""
    found: torch.Tensor = model(**batch, labels=batch["input_ids"]).loss
    return found


def mean(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def mean_in_disguise(model: nn.Module, batch: Any) -> torch.Tensor:
    """Of the right shape, and each example's share of a mean."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none") / len(batch[1])


def notorious() -> Iterator[tuple[str, Answer]]:
    """What goes wrong elsewhere."""
    yield "gpt2 tied, the model's own mean loss", answer(gpt2(True).double().eval(), own_mean, texts, Flat(NORM))
    for label, settings in {"soft prompt": {"form": "prompt", "num_virtual_tokens": 7}, "lora": LORA}.items():
        model = without_dropout(adapted(**settings).double().train())
        yield f"gpt2 {label} by peft, training mode", answer(model, language, texts, Flat(NORM))
    yield "mlp, Adaptive, nn.CrossEntropyLoss()", answer(mlp().double(), mean, vectors, Adaptive(NORM))
    yield "mlp, Adaptive, a mean in disguise", answer(mlp().double(), mean_in_disguise, vectors, Adaptive(NORM))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    print(f"{'configuration':42} influence / C")  # noqa: T201
    most, names = 0.0, sys.argv[1:]
    chosen = [one for one in (*SMALL, *LARGE, *LAYERS) if not names or one.name in names]
    for label, (found, words) in chain(*map(supported, chosen), () if names else notorious()):
        print(f"{label:42} {words}", flush=True)  # noqa: T201
        most = max(most, found)
    sys.exit(f"expected an influence of at most C, found {most!r} of it" if most > 1.0 + 1e-6 else 0)


if __name__ == "__main__":
    main()
