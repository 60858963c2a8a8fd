"""What other libraries keep, read and written."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("train",),
    commands={
        "export": (
            "dpcli.exchange.commands.exporting_group:command",
            "Write a pipeline, or a trained model, as another library keeps it.",
        ),
        "import": ("dpcli.exchange.commands.importing_group:command", "Make a pipeline file of what others keep."),
    },
)
