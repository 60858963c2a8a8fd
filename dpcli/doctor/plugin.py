"""The features that this folder registers (dpcli/base/plugin.py): the commands doctor and version. They need the folder ledger."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger",),
    commands={
        "doctor": ("dpcli.doctor.commands.doctor:command", "Check that this machine has what dpcli needs."),
        "version": ("dpcli.doctor.commands.doctor:version", "Print the versions of dpcli and of its packages."),
    },
)
