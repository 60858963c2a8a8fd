"""The registration of the commands account, calibrate, calibrate-sigma and diff, and of the documents that a notebook shows of results.

base/registry.py reads PLUGIN. Targets are texts, so that `dpcli --help` imports no command, and its short help is repeated here.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "account": ("dpcli.analysis.commands.account:command", "Compute the cost of a pipeline, by every accountant."),
        "calibrate": (
            "dpcli.analysis.commands.calibrate:command",
            "Solve for steps, epochs, batch size, rate, radius, scale or noise.",
        ),
        "calibrate-sigma": (
            "dpcli.analysis.commands.calibrate_sigma:command",
            "Find the smallest noise multiplier for a target epsilon.",
        ),
        "diff": ("dpcli.analysis.commands.diff:command", "List the changes between two pipelines, with the cost of each."),
    },
    displayed={
        "Account": "dpcli.analysis.documents.python:account",
        "Calibration": "dpcli.analysis.documents.python:calibration",
        "Epsilons": "dpcli.analysis.documents.python:epsilons",
        "Pipeline": "dpcli.analysis.documents.python:pipeline",
        "": "dpcli.analysis.documents.python:line",  # for every other class
    },
)
