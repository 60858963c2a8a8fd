"""The features that this folder registers (dpcli/base/plugin.py): the command lint. The rules are listed in catalogue.py."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "lint": ("dpcli.lint.commands.lint:command", "Check files against the catalogue of known failures."),
    },
)
