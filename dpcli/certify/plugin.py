"""Registers `dpcli certify`, which proves a headline in ball arithmetic."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(commands={"certify": ("dpcli.certify.commands.certify:command", "Prove an epsilon, and check a proof.")})
