"""The registration of `dpcli comment`. It judges files as the gate does, so it needs the folder gate."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("gate",),
    commands={"comment": ("dpcli.comments.commands.comment:command", "Keep the gate's verdict in one comment on a pull request.")},
)
