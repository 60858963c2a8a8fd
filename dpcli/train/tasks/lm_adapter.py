"""A trained adapter in the form that PEFT reads: PeftModel.from_pretrained(base model, folder)."""

from __future__ import annotations

import os

import torch
from torch import nn

from dpcli.train.tasks.lm_library import library, quiet
from dpcli.train.tasks.lm_models import Prompted


def save_adapter(model: nn.Module, base: str, folder: str) -> bool:
    """Write adapter_config.json and adapter_model.safetensors to the folder; False, and nothing, for a model without an adapter.

    Args:
        base: where the frozen model came from, a folder or a name, as the file says.
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
    """As prompt tuning: the vectors stand before the text's embeddings there too."""
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
