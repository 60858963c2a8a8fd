"""The language models that training uses, for the tasks "causal-lm" and "soft-prompt" and for their trained models (train/trained).

The functions load models, add low-rank adapters (`lora`) and soft prompts (`Prompted`, trained vectors in front of each text), compute
logits, and save adapters in the format of PEFT. `path` is the path of the training file: relative names start from its folder, and messages
begin with it.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_language import Language, Lora
from dpcli.train.tasks.lm_library import library, load_pretrained, quiet
from dpcli.train.tasks.lm_texts import tokenizer_source
from dpcli.train.tasks.user_code import build_model, code_of

MOST_NAMED = 3  # largest number of missing weights that a message names; arbitrary

# Additional arguments of every call of a model of transformers. Its cache would only serve the generation of text.
FLAGS: dict[str, Any] = {"use_cache": False}


class Prompted(nn.Module):
    """A frozen language model with a soft prompt. A soft prompt consists of trained vectors that precede every text.

    Each example looks the vectors up separately, so that each example has a separate gradient. The initial vectors are embeddings of random
    tokens.

    Source: Lester et al. 2021, arXiv:2104.08691; Duan et al. 2023, arXiv:2305.15594, Section 4 (PromptDPSGD).
    """

    places: Tensor

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__()
        table: nn.Embedding = model.get_input_embeddings()  # type: ignore[operator]
        self.model = model.requires_grad_(False)
        self.prompt = nn.Embedding(count, table.embedding_dim, dtype=table.weight.dtype)
        self.register_buffer("places", torch.arange(count), persistent=False)
        with torch.no_grad():
            self.prompt.weight.copy_(table.weight[torch.randint(table.num_embeddings, (count,))])

    def forward(self, input_ids: Tensor) -> Any:
        """Return the logits at every position. The positions of the prompt come before those of the texts."""
        prompt = self.prompt(self.places.expand(input_ids.shape[0], -1))
        texts = self.model.get_input_embeddings()(input_ids)  # type: ignore[operator]
        return self.model(inputs_embeds=torch.cat([prompt, texts], 1), **FLAGS)


def language_model(train: Language, path: str, adapter: Lora | None = None) -> nn.Module:
    """Return the model that [train] names, without dropout. Only its trained parameters require a gradient.

    Args:
        adapter: Low-rank adapter to train; None to train all weights or a soft prompt.

    Raises:
        InputError: The model cannot be loaded, or does not fit the file.
    """
    model = _base_model(train, path)
    longest = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if longest is not None and train.context + (train.soft_prompt or 0) > longest:
        raise InputError(f"{path}: train.context: expected at most the model's {longest} tokens, including the prompt, found more")
    if adapter is not None:
        return lora(model, adapter, path).eval()
    if train.soft_prompt is None:
        return model
    if not hasattr(model, "get_input_embeddings"):
        raise InputError(f"{path}: train.soft_prompt: expected a model of transformers, found {type(model).__name__}")
    return Prompted(model, train.soft_prompt).eval()


def _base_model(train: Language, path: str) -> nn.Module:
    """Return the model that [train] names, before parameters are frozen or added."""
    if ":" not in train.model:
        return causal_model(train.model, path)
    return build_model(train.model, train.data, path).eval()


def causal_model(name: str, path: str, table: str = "train") -> nn.Module:
    """Return a causal language model of transformers in float32. Raises InputError if it cannot be loaded, or lacks weights.

    Args:
        name: Folder, or a name on the Hugging Face Hub, which the key `model` of the file's table `table` states.
    """
    load = library("transformers").AutoModelForCausalLM.from_pretrained
    loaded, report = load_pretrained(name, "model", path, partial(load, dtype=torch.float32, output_loading_info=True), table)
    if report["missing_keys"]:  # weights that the model needs and the files lack; transformers would draw them at random
        absent = ", ".join(sorted(report["missing_keys"])[:MOST_NAMED])
        raise InputError(f"{path}: {table}.model: expected the weights of a causal language model; {absent} have none")
    model: nn.Module = loaded
    return model.eval()


def lora(model: nn.Module, chosen: Lora, path: str, table: str = "train") -> nn.Module:
    """Return the model with low-rank matrices. Only these matrices are trained."""
    peft = library("peft")
    targets = None if chosen.targets is None else list(chosen.targets)
    try:
        with quiet():
            settings = peft.LoraConfig(r=chosen.rank, lora_alpha=chosen.alpha, target_modules=targets, lora_dropout=0.0)
            adapted: nn.Module = peft.get_peft_model(model, settings)
    except (ValueError, TypeError, AttributeError) as problem:
        raise InputError(f"{path}: {table}.lora.targets: expected names of layers that PEFT can adapt: {problem}") from None
    return adapted


def logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits at each token of `ids`, of shape (B, T, vocabulary). The shape of `ids` is (B, T), and -100 is padding.

    Texts are padded at their end. A causal model uses earlier tokens only, so padding changes no logit before it.
    """
    unpadded = ids.clamp_min(0).long()
    output = model(input_ids=unpadded, **FLAGS) if hasattr(model, "config") else model(unpadded)
    logits_: Tensor = getattr(output, "logits", output)
    return logits_


@torch.no_grad()
def vocabulary(model: nn.Module, path: str) -> int:
    """Return the number of tokens in the model's vocabulary. Raises InputError if the model does not return logits for each token."""
    try:
        scores = logits(model, torch.zeros(1, 2, dtype=torch.int32))
        rows, places, width = scores.shape
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as problem:
        raise InputError(f"{path}: train.model: expected logits (B, T, vocabulary) from ids (B, T) ({problem})") from None
    if rows != 1 or places < 2:
        raise InputError(f"{path}: train.model: expected logits (B, T, vocabulary) from ids (B, T), found {tuple(scores.shape)}")
    return width


def facts(train: Language, vocabulary_size: int, path: str) -> dict[str, Any]:
    """Return the facts about a language model: tokenizer, vocabulary, context, and the digest of the code of the user's own model."""
    return {
        "tokenizer": tokenizer_source(train),
        "vocabulary": vocabulary_size,
        "context": train.context,
        **code_of(train.model, path),
    }


def save_adapter(model: nn.Module, base: str, folder: str) -> bool:
    """Write the adapter of a model to the folder in the format of PEFT. Return False, and write nothing, if the model has no adapter.

    The files are adapter_config.json and adapter_model.safetensors.

    Args:
        base: Folder or name of the frozen model, as in the training file.
    """
    if isinstance(model, Prompted):
        _save_prompt(model, base, folder)
        return True
    settings = getattr(model, "peft_config", None)
    if settings is None:
        return False
    settings["default"].base_model_name_or_path = base
    with quiet():
        model.save_pretrained(folder, save_embedding_layers=False)  # type: ignore[operator]
    return True


def _save_prompt(model: Prompted, base: str, folder: str) -> None:
    """Save the vectors in PEFT's format of prompt tuning. PEFT also puts them before the embeddings of the text."""
    from safetensors.torch import save_file

    peft, vectors = library("peft"), model.prompt.weight.detach().cpu().contiguous()
    config = getattr(model.model, "config", None)
    settings = peft.PromptTuningConfig(
        task_type="CAUSAL_LM",
        num_virtual_tokens=vectors.shape[0],
        token_dim=vectors.shape[1],
        num_transformer_submodules=1,
        num_layers=getattr(config, "num_hidden_layers", None),
        num_attention_heads=getattr(config, "num_attention_heads", None),
        base_model_name_or_path=base,
        inference_mode=True,
    )
    os.makedirs(folder, exist_ok=True)
    settings.save_pretrained(folder)
    save_file({"prompt_embeddings": torch.clone(vectors)}, os.path.join(folder, "adapter_model.safetensors"))
