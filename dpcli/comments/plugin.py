"""The registration of the command comment."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("gate",),
    commands={"comment": ("dpcli.comments.commands.comment:command", "Keep the gate's verdict in one comment on a pull request.")},
)
