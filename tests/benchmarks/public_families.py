"""Public architectures of transformers at a size of toys: causal models, encoders that classify texts, networks that classify pictures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.train.engine.models import LABELS, WORDS, labels, language, texts

SIDE = 16  # of a picture
COMMON = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": WORDS,
    "max_position_embeddings": 16,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CAUSAL: dict[str, dict[str, Any]] = {
    "GPTNeo": {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "GPTJ": {"n_embd": 8, "n_layer": 2, "n_head": 2, "rotary_dim": 2, "n_positions": 16},
    "CodeGen": {"hidden_size": 16, "num_attention_heads": 4, "rotary_dim": 2, "n_positions": 16, "n_ctx": 16},
    "GPTBigCode": {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16},
    "Bloom": {"n_layer": 2, "n_head": 2},
    "Falcon": {"multi_query": True, "alibi": False},
    "Mpt": {"d_model": 8, "n_heads": 2, "n_layers": 2, "max_seq_len": 16},
    "Gemma2": {"num_key_value_heads": 1, "head_dim": 4},
    "Granite": {"num_key_value_heads": 1},
    "Olmo2": {"num_key_value_heads": 2},
    "Cohere": {"num_key_value_heads": 1},
    "Starcoder2": {"num_key_value_heads": 1},
    "SmolLM3": {"num_key_value_heads": 1, "no_rope_layers": [1, 0]},
    "Persimmon": {},
    "BioGpt": {},
    "CTRL": {"n_embd": 8, "n_layer": 2, "n_head": 2, "dff": 16, "n_positions": 16},
    "OpenAIGPT": {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16},
    "Mamba": {"state_size": 4, "time_step_rank": 2, "expand": 2},
    "Qwen2Moe": {"num_key_value_heads": 1, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "Bert": {},
    "Roberta": {"max_position_embeddings": 32},
    "DistilBert": {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16},
    "Albert": {"embedding_size": 6},
    "Electra": {"embedding_size": 6},
    "Ernie": {},
    "Deberta": {},
    "DebertaV2": {},
    "MPNet": {"max_position_embeddings": 32},
    "ConvBert": {"embedding_size": 6, "conv_kernel_size": 3},
    "FNet": {},
    "MegatronBert": {},
    "ModernBert": {"global_attn_every_n_layers": 2, "local_attention": 4},
    "Nystromformer": {"num_landmarks": 3, "segment_means_seq_len": 9},
    "SqueezeBert": {"embedding_size": 8, "q_groups": 1, "k_groups": 1, "v_groups": 1},
    "RemBert": {"input_embedding_size": 6, "output_embedding_size": 6},
    "T5": {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0},
    "Bart": {"d_model": 8, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
}
SIZES = {key: COMMON[key] for key in ("hidden_size", "num_attention_heads", "intermediate_size")}
PATCHES = {**SIZES, "image_size": SIDE, "patch_size": 8, "num_channels": 3, "num_hidden_layers": 2}
PICTURES: dict[str, dict[str, Any]] = {
    "ViT": PATCHES,
    "IJepa": PATCHES,
    "Beit": {**PATCHES, "use_relative_position_bias": True},
    "Data2VecVision": PATCHES,
    "Dinov2": PATCHES,
    "Swin": {"image_size": SIDE, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2},
    "Swinv2": {"image_size": SIDE, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2},
    "ConvNext": {"image_size": SIDE, "patch_size": 2, "hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2},
    "ConvNextV2": {"image_size": SIDE, "patch_size": 2, "hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2},
    "PoolFormer": {"hidden_sizes": [4, 4, 8, 8], "depths": [1, 1, 1, 1]},
    "FocalNet": {"image_size": SIDE, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "hidden_sizes": [8, 16]},
    "Hiera": {
        "image_size": [32, 32],
        "embed_dim": 8,
        "num_heads": [1, 2],
        "depths": [1, 1],
        "query_stride": [2, 2],
        "num_query_pool": 1,
    },
    "ResNet": {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1]},
    "RegNet": {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1], "groups_width": 2},
    "MobileNetV2": {"image_size": 32},
    "EfficientNet": {"image_size": 32},
    "MobileViT": {"image_size": 32},
}


def tiny(kind: str, name: str, settings: dict[str, Any], **common: Any) -> nn.Module:
    """As its configuration makes it. kind: of transformers' automatic classes."""
    import transformers

    config = getattr(transformers, f"{name}Config")(**{**common, **settings, "num_labels": LABELS})
    config._attn_implementation = config._experts_implementation = "eager"
    for key in [key for key in vars(config) if "dropout" in key or "drop_path" in key or key.endswith("_pdrop")]:
        setattr(config, key, 0.0 if not isinstance(getattr(config, key), list) else [0.0] * len(getattr(config, key)))
    return getattr(transformers, f"AutoModelFor{kind}").from_config(config)  # type: ignore[no-any-return]


def written(size: int) -> Any:
    """Texts, with a label each; a special word ends each of them."""
    found = torch.randint(3, WORDS, (size, 9))
    found[:, -1] = 2
    return found, labels(size)


def drawn(size: int) -> Any:
    return torch.randn(size, 3, 32, 32, dtype=torch.float64), labels(size)


def drawn_small(size: int) -> Any:
    return torch.randn(size, 3, SIDE, SIDE, dtype=torch.float64), labels(size)


def of_texts(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(input_ids=batch[0]).logits, batch[1], reduction="none")


def of_pictures(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(pixel_values=batch[0]).logits, batch[1], reduction="none")


def public() -> Iterator[tuple[str, Any, Any, Any]]:
    """A name, how it is built, its loss for each record, and how records are drawn."""
    for name, settings in CAUSAL.items():
        yield f"transformers {name}", partial(tiny, "CausalLM", name, settings, **COMMON), language, texts
    for name, settings in ENCODERS.items():
        yield f"transformers {name}, texts", partial(tiny, "SequenceClassification", name, settings, **COMMON), of_texts, written
    for name, settings in PICTURES.items():
        draw = drawn_small if settings.get("image_size") == SIDE else drawn
        yield f"transformers {name}, pictures", partial(tiny, "ImageClassification", name, settings), of_pictures, draw
