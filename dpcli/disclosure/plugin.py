"""Registers `dpcli report`, which writes a disclosure statement, and its table [disclosure]."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "report": ("dpcli.disclosure.commands.report:command", "The disclosure statement: every item a reader must be told."),
    },
)
