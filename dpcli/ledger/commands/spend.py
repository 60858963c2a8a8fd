"""dpcli budget spend."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import charging, opened, with_delta_told


@click.command(short_help="Charge a run that is made at once.")
@charging(click.option("--once", is_flag=True, help="Refuse (exit code 4) a key that was charged before."))
def command(
    ledger: str,
    file: str,
    key: str,
    dataset: str | None,
    delta: float | None,
    why: str,
    window: tuple[str, ...],
    anchor: str | None,
    once: bool,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Charge one run of the pipeline FILE to LEDGER, before its noise is drawn.

    When the command returns 0 the charge is on disk. Where it does not fit nothing is written, and the exit code is 1.

    A key that was charged before is not charged again: the exit code is 0, as after a connection that broke, and standard error says that
    this is no new run. A script that draws noise next asks with --once. The file's [budget] is not looked at, here or under a key that was
    charged before: `dpcli gate` judges it.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.documents.ledger_answers import receipt
    from dpcli.ledger.ledger import Receipt, first_time

    pipeline = load(file)
    with opened(ledger, dataset, anchor) as found:

        def ask() -> Receipt:
            made = found.spend(pipeline, key, delta, why, window)
            return first_time(made, key) if once else made

        return emit(with_delta_told(receipt(found, ask), found, pipeline, file, delta), format_, outputs)
