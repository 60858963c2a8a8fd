"""Registers the table [federated] of federated learning, and the checks of its cost."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger", "train"),
    sections={
        "federated": "dpcli.federated.federated_settings:Federated",
    },
    judged_in_file={
        "federated": "dpcli.federated.judged:judge_rounds",
    },
    judged_solved={
        "federated": "dpcli.federated.judged:judge_solved",
    },
)
