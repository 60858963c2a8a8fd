"""Registers the command `dpcli sweep`, which trains on a grid of settings, and the table [sweep] of a pipeline file."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger", "train"),
    commands={"sweep": ("dpcli.sweep.commands.sweep:command", "Train on a grid of settings, and compare accuracy with epsilon.")},
    sections={"sweep": "dpcli.sweep.sweep_settings:Sweep"},
    judged_in_file={"sweep": "dpcli.sweep.setting:judge_values"},
)
