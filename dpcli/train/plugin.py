"""The registration of private training: its commands, its table [train], and the tasks and clipping styles of that table.

dpcli finds this file by its name and loads a target "package.module:object" only when it is needed, so that no command imports torch
without need. A *task* is a kind of training, such as classification, and a *clipping style* a way to bound the gradient of one record. A
new task needs a line in TASKS, and a new clipping style a line in STYLES. base/plugin.py explains the fields of a Plugin.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# Classes of the tasks of [train], by the value of its key `task`. The fields of a class are the keys that the task reads.
TASKS: dict[str, str] = {
    "classification": "dpcli.train.plan.settings_classification:Classification",
    "causal-lm": "dpcli.train.plan.settings_language:CausalLm",
    "soft-prompt": "dpcli.train.plan.settings_language:SoftPrompt",
    "custom": "dpcli.train.plan.settings_custom:Custom",
    "loop": "dpcli.train.plan.settings_custom:Loop",
}

# Classes of the clipping styles, by the value of the key `style` of [train.clipping].
STYLES: dict[str, str] = {
    "flat": "dpcli.train.plan.clipping:FlatClipping",
    "automatic": "dpcli.train.plan.clipping:AutomaticClipping",
    "per-layer": "dpcli.train.plan.clipping:PerLayerClipping",
    "per-group": "dpcli.train.plan.clipping:PerGroupClipping",
    "adaptive": "dpcli.train.plan.clipping:AdaptiveClipping",
}

PLUGIN = Plugin(
    names=("audit", "disclosure", "ledger"),
    commands={
        "attest": (
            "dpcli.train.commands.trained:attest",
            "Attest the guarantee of a training run's model, or verify an attestation.",
        ),
        "evaluate": ("dpcli.train.commands.trained:evaluate", "Measure the metric of a training run's model."),
        "predict": ("dpcli.train.commands.trained:predict", "Print labels or text from a training run's model."),
        "train": ("dpcli.train.commands.train:command", "Train a model privately, as a file declares it."),
    },
    sections={
        "train": "dpcli.train.plan.settings:Train",
    },
    judged_in_file={
        "train": "dpcli.train.plan.stages:judge_entries",
    },
    words={"task": TASKS, "style": STYLES},
    displayed={
        "PrivateResult": "dpcli.train.documents.training:of_result",
    },
    left_by_run="dpcli.train.run.outcome:left_by_run",
    replayed="dpcli.train.replay.program:replays",
)
