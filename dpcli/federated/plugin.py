"""The registration of the table [federated] of federated learning, and of the checks of its cost (dpcli/base/plugin.py)."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    names=("ledger", "train"),
    sections={"federated": "dpcli.federated.federated_settings:Federated"},
    judged_in_file={"federated": "dpcli.federated.round_checks:check_rounds"},
    judged_solved={"federated": "dpcli.federated.round_checks:check_solved_rounds"},
)
