"""dpcli pmixed: a group, one file per subcommand."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("dpcli.predict.commands.pmixed_fit:command", "Fine-tune a model on each shard, and pay for all tokens."),
    "predict": ("dpcli.predict.commands.pmixed_predict:command", "A prompt in, text out; each token is counted."),
    "evaluate": ("dpcli.predict.commands.pmixed_evaluate:command", "Perplexity beside the public model and other ways of privacy."),
    "account": ("dpcli.predict.commands.pmixed_account:command", "What a file costs; or solve for its radius or tokens."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Text from language models on private shards, mixed with a public one.")
def command() -> None:
    """Answer prompts from an ensemble of language models, each fine-tuned without noise on a shard of private texts (PMixED).

    Each token is drawn from the average of a random subset of the models, each first brought within a radius of a public model; a mechanism
    of type pmixed in FILE states shards, rate, radius and tokens (steps), and [pmixed] says which models and data.

    Exit code 1: the budget, the ledger or the count of tokens says no. 2: input error. 4: ledger or count missing, locked or damaged.
    """
