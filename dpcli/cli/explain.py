"""dpcli explain."""

from __future__ import annotations

import click


@click.command(short_help="What a rule, a term, an accountant or a mechanism means.")
@click.argument("name")
def command(name: str) -> None:
    """What NAME means.

    NAME is a rule (DP101), an accountant (rdp), a mechanism type (gaussian), a sampling scheme (poisson) or a term (adjacency).
    """
    from dpcli.glossary import explain

    click.echo(explain(name))
