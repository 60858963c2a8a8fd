"""dpcli budget verify."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.picture import progress
from dpcli.ledger.commands.options import dataset_option, ledger_argument, opened


@click.command(short_help="Check the chain, its guards, every cost, and an anchor.")
@ledger_argument
@dataset_option
@click.option("--anchor", metavar="PATH", help="What dpcli budget anchor wrote: the chain must still contain it.")
@output_options("text", "records")
def command(ledger: str, dataset: str | None, anchor: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Check LEDGER from end to end: the database, the definitions that guard the entries, the hash chain, whether each entry was allowed
    where it stands, the totals that were noted beside the entries, and every cost, computed again by this version under the ledger's own
    unit, adjacency and dataset_size. It reads everything, which nothing else does, and holds none of it.

    Exit code 0: all is well. 1: a cost is larger than what was charged, or a run was stated under other terms than the ledger's.
    4: damaged, changed, or restored from a backup.
    """
    from dpcli.ledger.documents.ledger_entries import verified
    from dpcli.ledger.verify import read_anchor, verify

    with opened(ledger, dataset) as found, progress() as said:
        result = verify(found, read_anchor(anchor) if anchor else None, said)
        return emit(verified(found, result), format_, outputs)
