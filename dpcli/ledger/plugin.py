"""Registers `dpcli budget`, the ledger of privacy budgets, with its filters, kinds of blocks and schedule of planned runs.

dpcli/ledger/__init__.py explains the words. dpcli/base/plugin.py explains how a folder registers its features.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# The kinds of blocks into which the dataset of a ledger can be cut.
BLOCKS: dict[str, str] = {
    "day": "dpcli.ledger.blocks.block_kinds:Days",
    "week": "dpcli.ledger.blocks.block_kinds:Weeks",
    "region": "dpcli.ledger.blocks.block_kinds:Regions",
    "hash": "dpcli.ledger.blocks.block_kinds:Hashes",
}

POLICIES = ("fcfs", "unlock", "dpack")  # the orders of runs in dpcli budget plan; the first is the order of the days
# Two limits of blocks, the parts of a dataset with caps of their own (blocks/family.py). Neither makes a number false.
MOST_IN_WINDOW = 2000  # largest number of blocks of one run, which limits the size of an entry and the time of a charge
MOST_BLOCKS = 10**6  # limit of the blocks of one unit, and of the number of blocks by hash

# The privacy filters, which add up runs even if they were chosen from earlier outputs, by the name that --filter takes.
FILTERS: dict[str, str] = {
    "zcdp": "dpcli.ledger.filters.currencies:ZcdpFilter",
    "rdp": "dpcli.ledger.filters.currencies:RdpFilter",
    "gdp": "dpcli.ledger.filters.currencies:GdpFilter",
    "approx-dp": "dpcli.ledger.filters.currencies:ApproxFilter",
    "advanced": "dpcli.ledger.filters.currencies:AdvancedFilter",
}

# The subcommands of dpcli budget, with their short help.
SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "init": ("dpcli.ledger.commands.opening:init", "Open the ledger of a dataset. Its terms cannot be changed later."),
    "show": ("dpcli.ledger.commands.reading:show", "Show what is spent, by whom, and what still fits."),
    "spend": ("dpcli.ledger.commands.spending:spend", "Charge a run that is made at once."),
    "reserve": ("dpcli.ledger.commands.spending:reserve", "Charge a long run before it starts."),
    "start": ("dpcli.ledger.commands.spending:start", "Record that a reserved run is about to draw noise."),
    "commit": ("dpcli.ledger.commands.spending:commit", "Record that a reserved run has ended."),
    "void": ("dpcli.ledger.commands.spending:void", "Cancel a reservation before any noise was drawn."),
    "amend": ("dpcli.ledger.commands.governing:amend", "Change the cap, with a reason and an approver."),
    "quota": ("dpcli.ledger.commands.governing:quota", "Limit what a person or a team may charge."),
    "rate": ("dpcli.ledger.commands.governing:rate", "Limit the entries without a cost of each login and day."),
    "approve": ("dpcli.ledger.commands.governing:approve", "Approve another person's proposal."),
    "refuse": ("dpcli.ledger.commands.governing:refuse", "Refuse a proposal, or withdraw your own."),
    "windows": ("dpcli.ledger.commands.reading:windows", "Show the blocks in which a run still fits."),
    "plan": ("dpcli.ledger.commands.reading:plan", "Show which runs of a schedule fit, before the first is made."),
    "overview": ("dpcli.ledger.commands.reading:overview", "Show all datasets of ledgers in one table, the fullest first."),
    "retire": ("dpcli.ledger.commands.governing:retire", "Close blocks permanently."),
    "upgrade": ("dpcli.ledger.commands.opening:upgrade", "Renew the definitions that guard the entries of a ledger."),
    "import": ("dpcli.ledger.commands.opening:history", "Charge the runs that were made before the ledger was opened."),
    "copy": ("dpcli.ledger.commands.opening:copy", "Move datasets to another ledger, with their chains unchanged."),
    "log": ("dpcli.ledger.commands.reading:log", "Print every entry, in order."),
    "verify": ("dpcli.ledger.commands.reading:verify", "Check the chain, its guards, every cost, and an anchor."),
    "acknowledge": ("dpcli.ledger.commands.governing:acknowledge", "Answer a finding of verify, with a reason."),
    "correct": ("dpcli.ledger.commands.governing:correct", "Charge what is missing from a wrong price."),
    "anchor": ("dpcli.ledger.commands.reading:anchor", "Print the head of the chain, to be stored outside the ledger."),
    "export": ("dpcli.ledger.commands.reading:export", "Print all entries as json, csv or markdown."),
}

PLUGIN = Plugin(
    commands={"budget": ("dpcli.ledger.commands.budget:command", "Keep a ledger of what a dataset has spent and has left.")},
    premised={**FILTERS, **{f"blocks by {by}": target for by, target in BLOCKS.items()}},
    lists={"filters": ("a privacy filter of a ledger", FILTERS)},
    files={"schedule": ("dpcli.ledger.planning.schedule:KEYS", "dpcli.ledger.planning.schedule:read_schedule_bytes")},
    displayed={"DatasetBudget": "dpcli.ledger.documents.ledger_balance:of_budget"},
)
