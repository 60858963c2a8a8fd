"""The features that this folder registers (dpcli/base/plugin.py): the commands that belong to no feature."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "completion": ("dpcli.cli.completion:command", "Print the completion script for bash, zsh or fish."),
        "init": ("dpcli.cli.init:command", "Write a pipeline file or a CI recipe."),
        "schema": ("dpcli.cli.schema:command", "Print the JSON Schema of the pipeline, policy or schedule file, for editors."),
    },
)
