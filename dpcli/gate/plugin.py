"""Registered here: the command gate and the policy file."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("certify", "ledger"),
    commands={
        "gate": ("dpcli.gate.commands.gate:command", "Stop a change that overspends: verdict by exit code."),
    },
    files={"policy": ("dpcli.gate.policy:KEYS", "dpcli.gate.policy:read_policy_bytes")},
)
