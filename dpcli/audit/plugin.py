"""Registers `dpcli audit`, which attacks a program and tests its privacy claim, and its table [audit]."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "audit": ("dpcli.audit.commands.audit:command", "Put a program to the test: what an attack proves against its claim."),
    },
    sections={
        "audit": "dpcli.audit.audit_settings:AuditSettings",
    },
)
