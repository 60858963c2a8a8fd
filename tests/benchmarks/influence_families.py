"""The influence table over layers and families: by how much one example moves the sum, in units of C, or the words of a refusal.

    python -m tests.benchmarks.influence_families [part of a name ...]

Every layer that has a rule, in the forms that it is used in, parameters that stand alone, models of transformers, adapters of peft.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.train.engine.clip import Flat
from tests.benchmarks.influence import NORM, answer, without_dropout
from tests.benchmarks.public_families import public
from tests.train.engine.families import PLACES, Attending, Running, Standing
from tests.train.engine.models import LABELS, WORDS, classification, images, labels, language, sequences, texts

Row = tuple[str, Callable[[], nn.Module], Callable[[nn.Module, Any], Tensor], Callable[[int], Any]]
CAUSAL = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)


class Around(nn.Module):
    """A body between a linear layer and another, both of which are learnt too."""

    def __init__(self, body: nn.Module, turned: bool = False) -> None:
        super().__init__()
        self.first, self.body, self.head, self.turned = nn.Linear(11, 12), body, nn.LazyLinear(LABELS), turned

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        found: Tensor = self.body(hidden.transpose(0, 1) if self.turned else hidden)
        found = found.transpose(0, 1) if self.turned else found
        logits: Tensor = self.head(found.mean(1))
        return logits


class Planes(nn.Module):
    """The same on images of any number of dimensions."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, nn.LazyLinear(LABELS)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.body(x)).flatten(1))
        return logits


def cubes(size: int) -> Any:
    return torch.randn(size, 2, 5, 4, 4, dtype=torch.float64), labels(size)


def places(size: int) -> Any:
    return torch.randn(size, 2, 9, dtype=torch.float64), labels(size)


def plane(kind: str, settings: dict[str, Any], kept: bool = False) -> nn.Module:
    body: nn.Module = getattr(nn, kind)(**settings)
    return Planes(body.eval() if kept else body)


def turned(kind: str, settings: dict[str, Any], steps_first: bool) -> nn.Module:
    return Around(getattr(nn, kind)(**settings), steps_first)


def convolutions() -> Iterator[Row]:
    size = {"in_channels": 2, "out_channels": 4, "kernel_size": 2}
    forms: list[dict[str, Any]] = [{}, {"stride": 2, "padding": 1}, {"groups": 2, "bias": False}, {"dilation": 2, "padding": 2}]
    for depth, draw in ((1, places), (2, images), (3, cubes)):
        for kind, last in (
            (f"Conv{depth}d", {"padding": "same", "padding_mode": "circular"}),
            (f"ConvTranspose{depth}d", {"stride": 2, "output_padding": 1}),
        ):
            for form in (*forms, last):
                yield f"{kind} {form}", partial(plane, kind, {**size, **form}), classification, draw
        yield f"BatchNorm{depth}d, kept", partial(plane, f"BatchNorm{depth}d", {"num_features": 2}, True), classification, draw
    others = {"GroupNorm": {"num_groups": 2, "num_channels": 2}, "InstanceNorm2d": {"num_features": 2, "affine": True}, "PReLU": {}}
    for kind, settings in others.items():
        yield kind, partial(plane, kind, settings), classification, images


def recurrent() -> Iterator[Row]:
    forms: list[dict[str, Any]] = [
        {"batch_first": True},
        {"bias": False},
        {"num_layers": 2, "bidirectional": True},
        {"num_layers": 2},
    ]
    for kind, form, way in product((nn.LSTM, nn.GRU), forms, ({}, {"begun": True}, {"again": True})):
        yield f"{kind.__name__} {form} {way}", partial(Running, kind, **form, **way), classification, sequences


def attention() -> Iterator[Row]:
    masks = {"none": None, "numbers": CAUSAL, "marks": CAUSAL < 0}
    for first, weights, padded, mask in product((True, False), (True, False), ("", "numbers", "marks"), masks):
        call = {"need_weights": weights, "attn_mask": masks[mask]}
        name = f"attention, batch_first {first}, weights {weights}, padding {padded or 'none'}, mask {mask}"
        yield name, partial(Attending, padded=padded, call=call, batch_first=first), classification, sequences
    for first, before in product((True, False), (True, False)):
        settings = {"d_model": 12, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0, "batch_first": first, "norm_first": before}
        name = f"TransformerEncoderLayer, batch_first {first}, norm_first {before}"
        yield name, partial(turned, "TransformerEncoderLayer", settings, not first), classification, sequences


def positionwise() -> Iterator[Row]:
    kinds = {
        "LayerNorm": {"normalized_shape": 12},
        "RMSNorm": {"normalized_shape": 12},
        "Linear": {"in_features": 12, "out_features": 7},
    }
    for kind, first in product(kinds, (True, False)):
        yield f"{kind}, steps first {first}", partial(turned, kind, kinds[kind], first), classification, sequences
    for name, (body, shapes) in PLACES.items():
        yield f"parameters: {name}", partial(Standing, body, *shapes), classification, sequences


def tiny(name: str, **settings: Any) -> nn.Module:
    import transformers

    common = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": WORDS}
    more = {"max_position_embeddings": 16, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = getattr(transformers, f"{name}Config")(**{**common, **more, **settings})
    config._attn_implementation = config._experts_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-any-return, no-untyped-call]


def masked(size: int) -> Any:
    return {**texts(size), "attention_mask": torch.ones(size, 9, dtype=torch.long)}


def language_masked(model: nn.Module, batch: Any) -> Tensor:
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return nn.functional.cross_entropy(logits[:, :-1].mT, batch["input_ids"][:, 1:], reduction="none").sum(1)


FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {"num_key_value_heads": 1},
    "Mistral": {"num_key_value_heads": 1},
    "Qwen2": {"num_key_value_heads": 1},
    "Qwen3": {"num_key_value_heads": 1, "head_dim": 4},
    "Gemma": {"num_key_value_heads": 1, "head_dim": 4},
    "Phi": {},
    "Phi3": {"num_key_value_heads": 2},
    "GPTNeoX": {},
    "OPT": {"ffn_dim": 16, "word_embed_proj_dim": 8, "dropout": 0.0},
    "Olmo": {"num_key_value_heads": 2},
    "StableLm": {"num_key_value_heads": 2},
    "Bert": {"is_decoder": True},
    "Roberta": {"is_decoder": True, "max_position_embeddings": 32},
    "Mixtral": {"num_key_value_heads": 1, "num_local_experts": 2},
}


def models() -> Iterator[Row]:
    for name, settings in FAMILIES.items():
        yield f"transformers {name}", partial(tiny, name, **settings), language, texts
        if name in ("Llama", "Mistral", "Gemma"):
            yield f"transformers {name}, mask", partial(tiny, name, **settings), language_masked, masked


ADAPTERS: dict[str, dict[str, Any]] = {
    "LoraConfig": {"r": 2, "init_lora_weights": False},
    "LoraConfig dora": {"r": 2, "use_dora": True},
    "IA3Config": {"feedforward_modules": []},
    "PromptTuningConfig": {"num_virtual_tokens": 3},
    "PrefixTuningConfig": {"num_virtual_tokens": 3},
    "LoHaConfig": {"r": 2},
    "LoKrConfig": {"r": 2},
    "VeraConfig": {"r": 2},
    "LNTuningConfig": {},
}


def adapted(name: str) -> nn.Module:
    import peft

    where = {} if name.startswith(("P", "LN")) else {"target_modules": ["q_proj", "v_proj"]}
    config = getattr(peft, name.partition(" ")[0])(task_type="CAUSAL_LM", **where, **ADAPTERS[name])
    return peft.get_peft_model(tiny("Llama", num_key_value_heads=2), config)  # type: ignore[no-any-return]


def adapters() -> Iterator[Row]:
    for name in ADAPTERS:
        yield f"peft {name}", partial(adapted, name), language, texts


def narrow(model: nn.Module, batch: Any) -> Tensor:
    return classification(model, (batch[0].bfloat16(), batch[1]))


def half() -> Iterator[Row]:
    """In bfloat16, whose sums are in single precision."""
    encoder = {"d_model": 12, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0, "batch_first": True}
    yield "bfloat16 Linear", partial(turned, "Linear", {"in_features": 12, "out_features": 7}, False), narrow, sequences
    yield "bfloat16 LSTM", partial(Running, nn.LSTM, batch_first=True), narrow, sequences
    yield "bfloat16 encoder", partial(turned, "TransformerEncoderLayer", encoder, False), narrow, sequences
    yield "bfloat16 Llama", partial(tiny, "Llama", num_key_value_heads=1), language, texts


def made(name: str, build: Callable[[], nn.Module], draw: Callable[[int], Any], loss: Any) -> nn.Module:
    kind = torch.bfloat16 if name.startswith("bfloat16") else torch.float64
    model = without_dropout(build()).to(kind)
    model = model if "kept" in name else model.train()
    with torch.no_grad():
        loss(model, draw(2))
    return model


def main(wanted: list[str]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    most, count, refused, unbuilt = 0.0, 0, 0, 0
    for rows in (convolutions, recurrent, attention, positionwise, half, models, adapters, public):
        for name, build, loss, draw in rows():
            if wanted and not any(part in name for part in wanted):
                continue
            try:
                found, words = answer(made(name, build, draw, loss), loss, draw, Flat(NORM))
            except Exception as problem:
                found, words = 0.0, f"not built: {type(problem).__name__}: {str(problem)[:100]}"
            most, count = max(most, found), count + 1
            refused, unbuilt = refused + words.startswith("refused"), unbuilt + words.startswith("not built")
            print(f"{name:80} {words[:200]}", flush=True)  # noqa: T201
    print(f"{count} configurations, {refused} refused, {unbuilt} not built, at most {most:.9f} of C")  # noqa: T201
    sys.exit(f"expected an influence of at most C, found {most!r} of it" if most > 1.0 + 1e-6 else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
