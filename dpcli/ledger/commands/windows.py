"""dpcli budget windows."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import dataset_option, delta_option, ledger_argument, opened, with_delta_told


@click.command(short_help="Which blocks still take a run.")
@ledger_argument
@click.argument("file")
@dataset_option
@delta_option
@click.option(
    "--within",
    "--window",
    "within",
    multiple=True,
    metavar="BLOCKS",
    help='The blocks to look at, as 2026-01-01..2026-01-28 or "last 28 days"; repeatable. Absent: all from the first to the last that was '
    "charged.",
)
@output_options("text", "total", "records")
def command(
    ledger: str,
    file: str,
    dataset: str | None,
    delta: float | None,
    within: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Say which windows of LEDGER still have room for one run of the pipeline FILE: all, the widest, the latest. Nothing is written.

    Exit code 1 where none that was looked at has. Blocks that were never charged are whole.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.blocks.room import block_room
    from dpcli.ledger.documents.ledger_blocks import windows

    with opened(ledger, dataset) as found:
        pipeline = load(file)
        answer = windows(found, block_room(found, pipeline, within, delta))
        return emit(with_delta_told(answer, found, pipeline, file, delta), format_, outputs)
