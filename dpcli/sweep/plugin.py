"""Registers `dpcli sweep`, which trains on a grid of settings, and its table [sweep]."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger", "train"),
    commands={
        "sweep": ("dpcli.sweep.commands.sweep:command", "Accuracy against epsilon: a grid of training runs."),
    },
    sections={
        "sweep": "dpcli.sweep.sweep_settings:Sweep",
    },
    judged_in_file={
        "sweep": "dpcli.sweep.setting:judge_values",
    },
)
