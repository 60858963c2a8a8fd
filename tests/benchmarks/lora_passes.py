"""One token of several adapters, one at a time and in one forward pass: OMP_NUM_THREADS=1 python -m tests.benchmarks.lora_passes, a minute.

CPU milliseconds for each adapter, the least of several rounds that take turns; and the largest difference of log-probabilities.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from dpcli.predict.models.transformer import Adapted, Transformer, Tuning
from dpcli.train.plan.settings_language import Lora

ROUNDS = 7
# name, layers, width, vocabulary, tokens of the context, adapters
CASES = (
    ("test", 1, 16, 256, 16, 8),
    ("small", 4, 128, 2_000, 32, 2),
    ("small", 4, 128, 2_000, 32, 8),
    ("small", 4, 128, 2_000, 32, 80),
    ("GPT-2", 12, 768, 50_257, 32, 3),
)


def main() -> None:
    torch.set_num_threads(1)
    sys.stdout.write(f"{'model':<8}{'adapters':>9}{'tokens':>8}{'alone':>10}{'together':>10}{'ratio':>8}{'difference':>12}\n")
    for name, layers, width, vocabulary, tokens, count in CASES:
        public = model(layers, width, vocabulary)
        members = [Adapted(public, weights(public, seed)) for seed in range(count)]
        context = list(range(tokens))
        alone, together = least(
            lambda members=members, context=context: np.concatenate([one.next_token([context]) for one in members]),  # type: ignore[misc]
            lambda members=members, context=context, public=public: public.together(members, context),  # type: ignore[misc]
        )
        found = public.together(members, context)
        assert found is not None
        apart = float(np.abs(found - np.concatenate([one.next_token([context]) for one in members])).max())
        times = f"{1e3 * alone / count:>10.3f}{1e3 * together / count:>10.3f}{alone / together:>8.2f}"
        sys.stdout.write(f"{name:<8}{count:>9}{tokens:>8}{times}{apart:>12.1e}\n")
        sys.stdout.flush()


def model(layers: int, width: int, vocabulary: int) -> Transformer:
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=layers, n_head=width // 16, n_embd=width, vocab_size=vocabulary, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    tuning = Tuning(Lora(rank=4, alpha=32.0, targets=("c_attn",)), 1e-3, 1, 1)
    return Transformer(GPT2LMHeadModel(config).eval(), vocabulary, 64, "it", tuning)


def weights(public: Transformer, seed: int) -> dict[str, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    shapes = {name: value.shape for name, value in public._fresh().named_parameters() if "lora_" in name}
    return {name: 0.05 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}


def least(*calls: Callable[[], object]) -> list[float]:
    """CPU seconds of each, side by side."""
    found = [math.inf] * len(calls)
    for call in calls:
        call()
    for _ in range(ROUNDS):
        for place, call in enumerate(calls):
            begun = time.process_time()
            call()
            found[place] = min(found[place], time.process_time() - begun)
    return found


if __name__ == "__main__":
    main()
