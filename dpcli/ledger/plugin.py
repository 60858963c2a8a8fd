"""Registers `dpcli budget`, the ledger of privacy budgets, with its filters, kinds of blocks and schedule of planned runs."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# What a dataset in a ledger may be cut into.
BLOCKS: dict[str, str] = {
    "day": "dpcli.ledger.blocks.block_kinds:Days",
    "week": "dpcli.ledger.blocks.block_kinds:Weeks",
    "region": "dpcli.ledger.blocks.block_kinds:Regions",
    "hash": "dpcli.ledger.blocks.block_kinds:Hashes",
}

FILTERS: dict[str, str] = {
    "zcdp": "dpcli.ledger.filters.currencies:ZcdpFilter",
    "rdp": "dpcli.ledger.filters.currencies:RdpFilter",
    "gdp": "dpcli.ledger.filters.currencies:GdpFilter",
    "approx-dp": "dpcli.ledger.filters.currencies:ApproxFilter",
    "advanced": "dpcli.ledger.filters.currencies:AdvancedFilter",
}

# The subcommands of dpcli budget, with their short help.
SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "init": ("dpcli.ledger.commands.opening:init", "Open the ledger of a dataset; its terms are fixed for good."),
    "show": ("dpcli.ledger.commands.reading:show", "What is spent, by whom, and what still fits."),
    "spend": ("dpcli.ledger.commands.spending:spend", "Charge a run that is made at once."),
    "reserve": ("dpcli.ledger.commands.spending:reserve", "Charge a long run before it starts."),
    "start": ("dpcli.ledger.commands.spending:start", "Note that a reserved run is about to draw noise."),
    "commit": ("dpcli.ledger.commands.spending:commit", "Note that a reserved run has ended."),
    "void": ("dpcli.ledger.commands.spending:void", "Give back a reservation before any noise was drawn."),
    "amend": ("dpcli.ledger.commands.governing:amend", "Change the cap, with a reason and an approver."),
    "quota": ("dpcli.ledger.commands.governing:quota", "Limit what a person or a team may charge."),
    "approve": ("dpcli.ledger.commands.governing:approve", "Approve what another person proposed."),
    "refuse": ("dpcli.ledger.commands.governing:refuse", "Refuse what was proposed, or withdraw it."),
    "windows": ("dpcli.ledger.commands.reading:windows", "Which blocks still take a run."),
    "plan": ("dpcli.ledger.commands.reading:plan", "Which runs of a schedule fit, before the first is made."),
    "overview": ("dpcli.ledger.commands.reading:overview", "All datasets of ledgers in one table, the fullest first."),
    "retire": ("dpcli.ledger.commands.governing:retire", "Close blocks for good."),
    "upgrade": ("dpcli.ledger.commands.opening:upgrade", "Make a ledger's definitions again as this version has them."),
    "import": ("dpcli.ledger.commands.opening:history", "Charge what was spent before there was a ledger."),
    "copy": ("dpcli.ledger.commands.opening:copy", "Move datasets to another ledger, their chains as they are."),
    "log": ("dpcli.ledger.commands.reading:log", "Every entry, in order."),
    "verify": ("dpcli.ledger.commands.reading:verify", "Check the chain, its guards, every cost, and an anchor."),
    "anchor": ("dpcli.ledger.commands.reading:anchor", "Print the head of the chain, to be kept elsewhere."),
    "export": ("dpcli.ledger.commands.reading:export", "All entries as json, csv or markdown."),
}

PLUGIN = Plugin(
    commands={"budget": ("dpcli.ledger.commands.budget:command", "The ledger: what a dataset has spent, and what still fits.")},
    premised={**FILTERS, **{f"blocks by {by}": target for by, target in BLOCKS.items()}},
    lists={"filters": ("a privacy filter of a ledger", FILTERS)},
    files={"schedule": ("dpcli.ledger.planning.schedule:KEYS", "dpcli.ledger.planning.schedule:read_schedule_bytes")},
    displayed={"DatasetBudget": "dpcli.ledger.documents.ledger_balance:of_budget"},
)
