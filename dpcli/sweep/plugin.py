"""The features that this folder registers (dpcli/base/plugin.py): the command `dpcli sweep` and the table [sweep] of a pipeline file.

It needs the folders in `names`. A reader of pipeline files calls the function in `judged_in_file` if the file has the table.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger", "train"),
    commands={"sweep": ("dpcli.sweep.commands.sweep:command", "Train on a grid of settings, and compare accuracy with epsilon.")},
    sections={"sweep": "dpcli.sweep.sweep_settings:Sweep"},
    judged_in_file={"sweep": "dpcli.sweep.setting:judge_values"},
)
