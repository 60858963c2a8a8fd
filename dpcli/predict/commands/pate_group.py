"""dpcli pate: a group, one file per subcommand."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("dpcli.predict.commands.pate_fit:command", "Train the teachers, each on its shard, and keep their votes."),
    "label": ("dpcli.predict.commands.pate_label:command", "Answer the queries with noise, and leave labels and a statement."),
    "student": ("dpcli.predict.commands.pate_student:command", "Learn from the labels, and measure on public data."),
    "account": ("dpcli.predict.commands.pate_account:command", "What the labels cost, whatever the votes are and given the votes."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Labels by the noisy votes of teachers, and a student (PATE).")
def command() -> None:
    """Label public data by the noisy votes of teachers that were trained on disjoint shards of private data (PATE).

    The [[mechanism]] entry of FILE says how much noise the votes get and how many queries are put: gnmax, confident-gnmax or lnmax. Its
    [pate] table says where the votes come from and what learns from the labels.
    """
