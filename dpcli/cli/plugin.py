"""Registered here: the commands that belong to no feature."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "completion": ("dpcli.cli.completion:command", "Shell completion for bash, zsh or fish."),
        "init": ("dpcli.cli.init:command", "Write a pipeline file or a CI recipe."),
        "schema": ("dpcli.cli.schema:command", "The JSON Schema of the pipeline, policy or schedule file, for editors."),
    },
)
