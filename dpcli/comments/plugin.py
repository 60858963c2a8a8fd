"""Registered here: the command comment."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("gate",),
    commands={
        "comment": ("dpcli.comments.commands.comment:command", "Tell a pull request what the gate says, in one comment."),
    },
)
