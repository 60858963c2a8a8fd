"""The registration of `dpcli report`, which writes a disclosure statement (statement.py)."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "report": (
            "dpcli.disclosure.commands.report:command",
            "Write the disclosure statement, with every item that a reader needs.",
        ),
    },
)
