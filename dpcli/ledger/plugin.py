"""The ledger, its filters, its blocks and the schedule of planned runs."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# What a dataset in a ledger may be cut into.
BLOCKS: dict[str, str] = {
    "day": "dpcli.ledger.blocks.kinds:Days",
    "week": "dpcli.ledger.blocks.kinds:Weeks",
    "region": "dpcli.ledger.blocks.kinds:Regions",
    "hash": "dpcli.ledger.blocks.kinds:Hashes",
}

FILTERS: dict[str, str] = {
    "zcdp": "dpcli.ledger.filters.zcdp:ZcdpFilter",
    "rdp": "dpcli.ledger.filters.rdp:RdpFilter",
    "gdp": "dpcli.ledger.filters.gdp:GdpFilter",
    "approx-dp": "dpcli.ledger.filters.approx_dp:ApproxFilter",
    "advanced": "dpcli.ledger.filters.advanced:AdvancedFilter",
}

PLUGIN = Plugin(
    commands={
        "budget": ("dpcli.ledger.commands.group:command", "The ledger: what a dataset has spent, and what still fits."),
    },
    premised={**FILTERS, **{f"blocks by {by}": target for by, target in BLOCKS.items()}},
    lists={"filters": ("a privacy filter of a ledger", FILTERS)},
    files={"schedule": ("dpcli.ledger.planning.schedule_read:KEYS", "dpcli.ledger.planning.schedule_read:read_schedule_bytes")},
    displayed={
        "DatasetBudget": "dpcli.ledger.documents.ledger_balance:of_budget",
    },
)
