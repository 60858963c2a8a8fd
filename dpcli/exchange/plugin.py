"""The features that this folder registers (dpcli/base/plugin.py): the commands import and export.

The folder needs the folder train, because `dpcli export hugging-face` writes a trained model.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("train",),
    commands={
        "export": (
            "dpcli.exchange.commands.exporting:command",
            "Convert a pipeline, or a trained model, to the format of another library.",
        ),
        "import": ("dpcli.exchange.commands.importing:command", "Convert another library's record to a pipeline file."),
    },
)
