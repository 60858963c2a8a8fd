"""The features that this folder registers (dpcli/base/plugin.py): the command gate and the policy file. It needs the folder ledger."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger",),
    commands={
        "gate": ("dpcli.gate.commands.gate:command", "Judge pipelines against caps and their earlier cost."),
    },
    files={"policy": ("dpcli.gate.policy:KEYS", "dpcli.gate.policy:read_policy_bytes")},
)
