"""Tiny language models, and [train] tables that fine-tune them in each supported way."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="language models need the lm extra")
if importlib.util.find_spec("peft") is None:  # it takes longer to import than all else, and few tests need it
    pytest.skip("adapters need the lm extra", allow_module_level=True)
from torch import nn  # noqa: E402

from dpcli.base.lazy import load  # noqa: E402
from dpcli.train.plan.clipping import FlatClipping  # noqa: E402
from dpcli.train.plan.settings_language import Lora  # noqa: E402
from dpcli.train.plugin import TASKS  # noqa: E402

OWN = """
import numpy, torch, transformers

def gpt2():
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=256, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)

def llama():
    config = transformers.LlamaConfig(
        num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=24, vocab_size=256, max_position_embeddings=32
    )
    return transformers.LlamaForCausalLM(config)

def narrow():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=50, n_positions=32))

def bag():
    return torch.nn.Sequential(torch.nn.Embedding(256, 6), torch.nn.Linear(6, 256))

def wrong():
    return torch.nn.Flatten()

def texts():
    return [f"text number {i} of some" for i in range(40)]

def arrays():
    return numpy.arange(60).reshape(6, 10)

def owned():
    return texts(), [i // 2 for i in range(40)]

def labelled():
    return ["a good one", "a bad one"] * 20, [1, "negative"] * 20
"""

WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "lora": {"lora": Lora(2, targets=("c_attn",))},
    "prompt": {"soft_prompt": 3},
}


def table(task: str = "causal-lm", **settings: Any) -> Any:
    """Return a [train] table of a task on text with a byte tokenizer."""
    chosen: dict[str, Any] = {"data": "own_language:texts", "model": "own_language:gpt2", "tokenizer": "bytes"}
    chosen |= {"clipping": FlatClipping(norm=0.01), "learning_rate": 0.1, "context": 16, **settings}
    return load(TASKS[task])(**chosen)


def awake(model: nn.Module) -> nn.Module:
    """Return the model in double precision and without zero weights. LoRA's second matrix starts at zero, which would hide gradients."""
    with torch.no_grad():
        for parameter in model.double().parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


FILE = """
format = 1
name = "tiny"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 40
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "adam"
type = "gaussian"
noise_multiplier = 1.0
steps = 3
sampling = {{ scheme = "poisson", batch_size = 10 }}
[train]
task = "{task}"
data = "own_language:{data}"
model = "own_language:gpt2"
tokenizer = "bytes"
context = 20
learning_rate = 0.01
optimizer = "adam"
clipping = {{ norm = 0.1 }}
{more}
"""
HELD = 'public = "held-out"\n'
