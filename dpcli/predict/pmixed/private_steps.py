"""One adapter trained by DP-SGD: what a language model could learn at the same epsilon without an ensemble.

The run is dpcli train's own, from a file that is made here, in a folder that is thrown away.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

from dpcli.document.document import json_text
from dpcli.predict.models.transformer import Transformer
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.settings import COLUMNS, PLAIN_TEXT

STEPS, BATCHES = 120, 40  # and how many batches the data are worth: chosen beforehand, and not looked for
LEARNING_RATE, NORM = 2e-3, 0.5
ADAPTER = os.path.join("adapter", "adapter_model.safetensors")


def privately_trained(plan: PmixedPlan, model: Transformer, count: int, per_unit: int, epsilon: float, delta: float) -> bytes:
    """What the model has learnt, as `Transformer.tuned` takes it.

    Args:
        count: of texts. per_unit: most texts of one unit that are used.

    Raises InputError where dpcli train cannot do it.
    """
    from safetensors.torch import load_file, save

    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.training_run import train

    with tempfile.TemporaryDirectory() as folder:
        train(plan_of(plan.path, _file(plan, count, per_unit, epsilon, delta, folder).encode()).on_rows(plan.rows))
        weights = load_file(os.path.join(folder, ADAPTER))
    named = {name.replace(".lora_A.weight", ".lora_A.default.weight"): value for name, value in weights.items()}
    return save({name.replace(".lora_B.weight", ".lora_B.default.weight"): value for name, value in named.items()})


def _file(plan: PmixedPlan, count: int, per_unit: int, epsilon: float, delta: float, folder: str) -> str:
    """A file for dpcli train, over the same texts and adapter."""
    settings, privacy = plan.settings, plan.pipeline.privacy
    assert settings.lora is not None
    lora = {"rank": settings.lora.rank, "alpha": settings.lora.alpha}
    trained = {
        "task": "causal-lm",
        "data": settings.data,
        "model": settings.model,
        "context": settings.context,
        "optimizer": "adam",
        "learning_rate": LEARNING_RATE,
        "schedule": "linear",
        "device": settings.device,
        "output": folder,
        "tokenizer": settings.tokenizer,
        "units": settings.units,
        "records_per_unit": per_unit if settings.units is not None else None,
        "text": settings.text if COLUMNS.reads(settings) else None,
        "record": settings.record if PLAIN_TEXT.reads(settings) else None,
    }
    size = max(1, count // per_unit)
    protected = {"adjacency": privacy.adjacency.value, "unit": "example", "dataset_size": size, "delta": delta}
    targets = "" if settings.lora.targets is None else f", targets = {json_text(list(settings.lora.targets))}"
    return "\n".join(
        [
            "format = 1",
            *_table("privacy", protected),
            *_table("budget", {"epsilon": epsilon}),
            "[[mechanism]]",
            'name = "steps"',
            'type = "gaussian"',
            'noise_multiplier = "calibrate"',
            f"steps = {STEPS}",
            f'sampling = {{ scheme = "poisson", batch_size = {max(1, size // BATCHES)} }}',
            *_table("train", {name: value for name, value in trained.items() if value is not None}),
            f"lora = {{ rank = {lora['rank']}, alpha = {lora['alpha']!r}{targets} }}",
            f"clipping = {{ norm = {NORM} }}",
        ]
    )


def _table(name: str, keys: Mapping[str, object]) -> list[str]:
    return [f"[{name}]", *(f"{key} = {json_text(value)}" for key, value in keys.items())]
