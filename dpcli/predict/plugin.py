"""The registration of private prediction: the commands pate, pmixed, prompt and generate, their tables and aggregators.

These commands release what models made from private data *predict* (labels, tokens, texts), and never the models. They share the sessions,
counts, shards and processes in this folder; pate/, pmixed/, prompt/ and decode/ (the command generate) hold the rest.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# Type of mechanism -> class that answers a query from the votes of teachers.
AGGREGATORS: dict[str, str] = {
    "gnmax": "dpcli.predict.aggregators:GnMax",
    "confident-gnmax": "dpcli.predict.aggregators:ConfidentGnMax",
    "lnmax": "dpcli.predict.aggregators:LnMax",
}

# Types of mechanisms that draw a token from clipped logits, for the command generate.
DECODING = frozenset({"private-decoding"})

PLUGIN = Plugin(
    names=("audit", "disclosure", "ledger", "train"),  # the folders of dpcli that this one imports; without them it is left out
    commands={
        "generate": ("dpcli.predict.commands.sessions:generate", "Write synthetic texts from private texts, token by token."),
        "pate": ("dpcli.predict.commands.pate:command", "Label public data by noisy votes, and train a student (PATE)."),
        "pmixed": (
            "dpcli.predict.commands.pmixed:command",
            "Text from models of private shards, mixed with a public model.",
        ),
        "prompt": (
            "dpcli.predict.commands.sessions:prompt",
            "Make a prompt from private demonstrations, by noisy votes (PromptPATE).",
        ),
    },
    sections={
        "pate": "dpcli.predict.pate.pate_plan:Pate",
        "pmixed": "dpcli.predict.pmixed.pmixed_plan:Pmixed",
        "prompt": "dpcli.predict.prompt.prompt_plan:Prompt",
        "generate": "dpcli.predict.decode.generate_plan:Generate",
    },
    # Checks of a table against the rest of the file.
    judged_in_file={
        "pmixed": "dpcli.predict.pmixed.pmixed_plan:judge_mode",
    },
)
