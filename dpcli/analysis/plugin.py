"""Registered here: the commands account, calibrate, calibrate-sigma and diff, and how a notebook shows their results."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "account": ("dpcli.analysis.commands.account:command", "What a pipeline costs, by every accountant."),
        "calibrate": (
            "dpcli.analysis.commands.calibrate:command",
            "Solve for steps, epochs, batch size, rate, radius, scale or noise.",
        ),
        "calibrate-sigma": (
            "dpcli.analysis.commands.calibrate_sigma:command",
            "The smallest noise multiplier for a target epsilon.",
        ),
        "diff": ("dpcli.analysis.commands.diff:command", "What changed between two pipelines, and what each change costs."),
    },
    displayed={
        "Account": "dpcli.analysis.documents.python:account",
        "Calibration": "dpcli.analysis.documents.python:calibration",
        "Epsilons": "dpcli.analysis.documents.python:epsilons",
        "Pipeline": "dpcli.analysis.documents.python:pipeline",
        "": "dpcli.analysis.documents.python:line",
    },
)
