"""The commands import and export, and the name of the feature that they use."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("train",),
    commands={
        "export": (
            "dpcli.exchange.commands.exporting:command",
            "Write a pipeline, or a trained model, as another library keeps it.",
        ),
        "import": ("dpcli.exchange.commands.importing:command", "Convert another library's record to a pipeline file."),
    },
)
