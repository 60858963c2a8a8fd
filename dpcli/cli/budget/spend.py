"""dpcli budget spend."""

from __future__ import annotations

import click

from dpcli.cli.budget.options import charging, opened
from dpcli.cli.options import emit


@click.command(short_help="Charge a run that is made at once.")
@charging()
def command(
    ledger: str,
    file: str,
    key: str,
    dataset: str | None,
    delta: float | None,
    why: str,
    window: tuple[str, ...],
    anchor: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Charge one run of the pipeline FILE to LEDGER, before its noise is drawn.

    When the command returns 0 the charge is on disk. Where it does not fit nothing is written, and the exit code is 1.
    """
    from dpcli.pipeline.read import load
    from dpcli.present.ledger_answers import receipt

    pipeline = load(file)
    with opened(ledger, dataset, anchor) as found:
        return emit(receipt(found, lambda: found.spend(pipeline, key, delta, why, window)), format_, outputs)
