"""The registration of `dpcli plot`, and of the function that draws each kind of chart from a `Question` (epsilons.py)."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    commands={
        "plot": ("dpcli.plots.commands.plot:command", "Draw epsilon, delta or an attacker's errors, in a terminal or to a file.")
    },
    plots={
        "epsilon-steps": "dpcli.plots.epsilon_steps:chart",
        "epsilon-sigma": "dpcli.plots.epsilon_sigma:chart",
        "delta-epsilon": "dpcli.plots.delta_epsilon:chart",
        "trade-off": "dpcli.plots.trade_off_curve:chart",
        "rdp": "dpcli.plots.renyi_divergence:chart",
        "accountants": "dpcli.plots.accountants:chart",
    },
)
