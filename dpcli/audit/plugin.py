"""Registers the command `dpcli audit`, which attacks a program and tests its privacy claim, and the table [audit] of a pipeline file."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "audit": ("dpcli.audit.commands.audit:command", "Attack a program, and compare the result with its privacy claim."),
    },
    sections={
        "audit": "dpcli.audit.audit_settings:AuditSettings",
    },
)
