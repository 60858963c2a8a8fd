"""dpcli budget export."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import opened, reading


@click.command(short_help="All entries as json, csv or markdown.")
@reading("json", "records", kept=True)
def command(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Print every entry of LEDGER in full.

    json and jsonl carry the canonical text of each entry and its hash, so that anybody can check the chain without dpcli: each hash is the
    SHA-256 of the text, and each text names the hash before it.
    """
    from dpcli.ledger.documents.ledger_entries import export

    with opened(ledger, dataset) as found:
        return emit(export(found), format_, outputs)
