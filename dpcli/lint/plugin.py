"""The plugin record of this folder: the command lint."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "lint": ("dpcli.lint.commands.lint:command", "Check files against the catalogue of known failures."),
    },
)
