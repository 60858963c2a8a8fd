"""The features that this folder registers (dpcli/base/plugin.py): the commands explain and man. They need the folders in `names`."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("audit", "disclosure", "gate", "ledger", "release"),
    commands={
        "explain": ("dpcli.explain.commands.explain:command", "Explain a pipeline's guarantee, a rule or a term."),
        "man": ("dpcli.explain.commands.man:command", "Write the manual pages."),
    },
)
