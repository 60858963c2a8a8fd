"""What this machine has."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger",),
    commands={
        "doctor": ("dpcli.doctor.commands.doctor:command", "Whether this machine has what dpcli needs."),
        "version": ("dpcli.doctor.commands.version:command", "Versions of dpcli and of what it computes with."),
    },
)
