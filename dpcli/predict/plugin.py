"""Registers private prediction: the commands pate, pmixed, prompt and generate, their tables and aggregators."""

from __future__ import annotations

from dpcli.base.plugin import Plugin

# Types of mechanisms that aggregate votes of teachers: what each does with the votes of a query.
AGGREGATORS: dict[str, str] = {
    "gnmax": "dpcli.predict.aggregators:GnMax",
    "confident-gnmax": "dpcli.predict.aggregators:ConfidentGnMax",
    "lnmax": "dpcli.predict.aggregators:LnMax",
}

# Types of mechanism by which a token is drawn from clipped logits.
DECODING = frozenset({"private-decoding"})

PLUGIN = Plugin(
    names=("audit", "disclosure", "ledger", "train"),
    commands={
        "generate": ("dpcli.predict.commands.sessions:generate", "Write private texts, token by token."),
        "pate": ("dpcli.predict.commands.pate:command", "Labels by the noisy votes of teachers, and a student (PATE)."),
        "pmixed": (
            "dpcli.predict.commands.pmixed:command",
            "Text from language models on private shards, mixed with a public one.",
        ),
        "prompt": (
            "dpcli.predict.commands.sessions:prompt",
            "Make a prompt of private demonstrations, by noisy votes (PromptPATE).",
        ),
    },
    sections={
        "pate": "dpcli.predict.pate.pate_plan:Pate",
        "pmixed": "dpcli.predict.pmixed.pmixed_plan:Pmixed",
        "prompt": "dpcli.predict.prompt.prompt_plan:Prompt",
        "generate": "dpcli.predict.decode.generate_plan:Generate",
    },
    judged_in_file={
        "pmixed": "dpcli.predict.pmixed.pmixed_plan:judge_mode",
    },
)
