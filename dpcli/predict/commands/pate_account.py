"""dpcli pate account."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options, working


@click.command(short_help="What the labels cost, whatever the votes are and given the votes.")
@click.argument("file")
@output_options("table", "findings", "checks", "total")
def command(file: str, format_: str, outputs: tuple[str, ...]) -> int:
    """What the labels of FILE cost: the guarantee, which holds whatever the votes are, and what they cost given the votes.

    The second number tells how far the teachers agree, which is private: it is printed for the owner of the data and marked so, and stands
    in no statement. Reading votes needs neither torch nor scikit-learn.

    Exit code 1 where the file as it stands overspends its budget, though a session stops before that, 2 where a file is no file of votes,
    3 where nothing can be certified.
    """
    from dpcli.predict.documents.pate import accounted
    from dpcli.predict.pate.account import vote_account
    from dpcli.predict.pate.plan import plan_of

    with working():
        found = vote_account(plan_of(file))
    return emit(accounted(found), format_, outputs)
