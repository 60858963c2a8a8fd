"""By how much one example moves the sum that noise is added to, in units of C: above 1 the guarantee is void.

    python -m tests.benchmarks.influence

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

from dpcli.base.errors import InputError
from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerLayer
from dpcli.train.engine.per_example import ClippedGradients
from tests.train.engine.models import LARGE, SMALL, Configuration, adapted, gpt2, language, mlp, texts, vectors
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
    most = 0.0
    for label, (found, words) in chain(*map(supported, (*SMALL, *LARGE)), notorious()):
        print(f"{label:42} {words}", flush=True)  # noqa: T201
        most = max(most, found)
    sys.exit(f"expected an influence of at most C, found {most!r} of it" if most > 1.0 + 1e-6 else 0)


if __name__ == "__main__":
    main()
