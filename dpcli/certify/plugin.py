"""Registers `dpcli certify`, which proves the epsilon of a pipeline in ball arithmetic and writes the proof as a certificate."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(commands={"certify": ("dpcli.certify.commands.certify:command", "Prove an epsilon, and check a proof.")})
